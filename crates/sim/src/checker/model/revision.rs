//! ControllerRevisions.

use everynode_core::api::TEMPLATE_GENERATION_ANNOTATION;
use everynode_sandbox::json::Value;

use super::config_map::{stated_copies, with_copies};
use super::metadata::Metadata;
use super::placement::Placement;
use super::record::{Phase, Record};
use super::template::reduced;
use crate::statement::Copies;

/// A ControllerRevision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) struct Revision {
    pub metadata: Metadata,
    pub number: i64,
    /// The annotation with the template generation (C41).
    pub template_generation: Option<i64>,
    /// The stored template with its copies of ConfigMaps, [reduced] to its meaning.
    pub template: Value,
    /// The same without them.
    pub own_template: Value,
    /// The copies (G58).
    pub copies: Copies,
    pub placement: Placement,
    pub record: Option<Record>,
    /// True if it has a record that cannot be read (G44).
    pub has_unreadable_record: bool,
}

impl Revision {
    /// True if anything is known of a rollout of it.
    pub(in crate::checker) const fn has_record(&self) -> bool {
        self.record.is_some() || self.has_unreadable_record
    }

    /// True if it has a record, of which this holds.
    pub(in crate::checker) fn is_recorded(&self, holds: impl FnOnce(&Record) -> bool) -> bool {
        self.record.as_ref().is_some_and(holds)
    }

    /// True if it is recorded as complete.
    pub(in crate::checker) fn is_complete(&self) -> bool {
        self.is_recorded(|record| record.phase == Phase::Complete)
    }

    pub(in crate::checker) fn parse(object: &Value) -> Self {
        let copies = stated_copies(&object["metadata"]["annotations"]);
        let own_template = stored_template(object);
        let template = with_copies(&own_template, &copies);
        let (annotations, uid) = (&object["metadata"]["annotations"], &object["metadata"]["uid"]);
        let record = Record::parse(annotations, uid.as_str().unwrap_or_default());
        let generation = &annotations[TEMPLATE_GENERATION_ANNOTATION];
        Self {
            template_generation: generation.as_str().and_then(|text| text.parse().ok()),
            metadata: Metadata::parse(object),
            has_unreadable_record: record.is_err(),
            record: record.unwrap_or_default(),
            number: object["revision"].as_i64().unwrap_or_default(),
            placement: Placement::parse(&template),
            template,
            own_template,
            copies,
        }
    }
}

/// The template in the data of a revision (C40), reduced to its meaning. Null if there is none.
fn stored_template(object: &Value) -> Value {
    let mut template = object["data"]["spec"]["template"].clone();
    if let Some(members) = template.as_object_mut() {
        members.remove("$patch");
    }
    reduced(&template)
}
