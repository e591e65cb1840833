//! The differences between two pod templates of a DaemonSet, field by field.

use everynode_core::api::DaemonSetKey;
use everynode_k8s::canonical::canonical;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::forecast::{Change, template_changes};
use crate::history::RevisionEntry;

/// The differences between two pod templates of a DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevisionDiff {
    /// The DaemonSet's namespace.
    pub namespace: String,
    /// The DaemonSet's name.
    pub name: String,
    /// The revision of the old template.
    pub from: RevisionReference,
    /// The revision of the new template; `null` if it is the DaemonSet's current template and no
    /// revision stores it yet.
    pub to: Option<RevisionReference>,
    /// The fields whose meaning differs; empty if the templates mean the same.
    pub changes: Vec<Change>,
}

/// A revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevisionReference {
    /// The revision's number.
    pub revision: i64,
    /// The name of the ControllerRevision.
    pub name: String,
}

impl RevisionDiff {
    /// Compares the templates by meaning (C41).
    pub fn new(
        key: &DaemonSetKey,
        (from, before): (&RevisionEntry, &Value),
        (to, after): (Option<&RevisionEntry>, &Value),
    ) -> Self {
        let [before, after] = [before, after].map(|template| -> Value {
            serde_json::from_str(&canonical(template)).expect("the canonical form is JSON")
        });
        Self {
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            from: RevisionReference::of(from),
            to: to.map(RevisionReference::of),
            changes: template_changes(&before, &after),
        }
    }
}

impl RevisionReference {
    fn of(entry: &RevisionEntry) -> Self {
        Self { revision: entry.revision, name: entry.name.clone() }
    }
}
