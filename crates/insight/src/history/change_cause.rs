//! Which revision the annotation `kubernetes.io/change-cause` of a DaemonSet belongs to. The
//! controller copies it to a revision that it creates: people who set it after the change, as
//! kubectl's documentation tells them, set it too late for that.

use std::collections::BTreeMap;

use everynode_core::api::Timestamp;
use everynode_k8s::convert::timestamp;
use serde::Deserialize;
use serde_json::Value;

/// The annotation that says why a template was changed.
pub(super) const CHANGE_CAUSE_ANNOTATION: &str = "kubernetes.io/change-cause";

/// The annotation of a DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeCause {
    /// Its text.
    pub(super) text: String,
    /// When it was set, as far as `managedFields` tells.
    set_at: Option<Timestamp>,
}

/// An entry of `metadata.managedFields`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manager {
    time: Option<String>,
    #[serde(default)]
    fields_v1: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    annotations: Option<BTreeMap<String, String>>,
    managed_fields: Option<Vec<Manager>>,
}

impl ChangeCause {
    /// The annotation in the metadata of a DaemonSet; `None` if it has none.
    pub fn of(metadata: &Value) -> Option<Self> {
        let Metadata { annotations, managed_fields } =
            Metadata::deserialize(metadata).unwrap_or_default();
        let text = annotations?.remove(CHANGE_CAUSE_ANNOTATION)?;
        let field = format!("f:{CHANGE_CAUSE_ANNOTATION}");
        let sets = |it: &&Manager| !it.fields_v1["f:metadata"]["f:annotations"][&field].is_null();
        let set_at = last(managed_fields.iter().flatten().filter(sets));
        Some(Self { text, set_at })
    }

    /// Returns whether it was set after the template came.
    pub(super) fn is_later(&self, template_at: Option<Timestamp>) -> bool {
        self.set_at.zip(template_at).is_some_and(|(set_at, template_at)| set_at >= template_at)
    }
}

/// The last time that one of the managers has written.
pub(super) fn last<'a>(managers: impl Iterator<Item = &'a Manager>) -> Option<Timestamp> {
    managers.filter_map(|manager| timestamp(manager.time.as_deref()?)).max()
}

/// The cause that people have written into the template itself.
pub(super) fn of_template(template: &Value) -> Option<String> {
    template["metadata"]["annotations"][CHANGE_CAUSE_ANNOTATION].as_str().map(str::to_owned)
}
