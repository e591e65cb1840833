//! ControllerRevisions.

use everynode_sandbox::json::Value;

use super::metadata::Metadata;
use super::placement::Placement;
use super::record::Record;
use super::template::reduced;

/// A ControllerRevision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) struct Revision {
    pub metadata: Metadata,
    pub number: i64,
    /// The stored template, [reduced] to its meaning.
    pub template: Value,
    pub placement: Placement,
    pub record: Option<Record>,
}

impl Revision {
    pub(in crate::checker) fn parse(object: &Value) -> Self {
        let template = stored_template(object);
        Self {
            metadata: Metadata::parse(object),
            number: object["revision"].as_i64().unwrap_or_default(),
            placement: Placement::parse(&template),
            record: Record::parse(&object["metadata"]["annotations"]),
            template,
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
