//! The deletion of an object that still exists.

use everynode_core::api::Timestamp;
use everynode_k8s::convert::timestamp;
use serde::Deserialize;

/// The deletion of an object that still exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// `metadata.deletionTimestamp`: when the object should be gone. For a pod that is the end of
    /// its grace period.
    pub due_at: Option<Timestamp>,
    /// `metadata.finalizers`, without which the object would be gone.
    pub finalizers: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireObject {
    metadata: WireMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireMetadata {
    deletion_timestamp: Option<String>,
    finalizers: Option<Vec<String>>,
}

impl Deletion {
    /// The deletion of the object in `json`; `None` if nobody deletes it.
    pub(super) fn of(json: &[u8]) -> Option<Self> {
        let WireObject { metadata } = serde_json::from_slice(json).unwrap_or_default();
        let due_at = metadata.deletion_timestamp?;
        Some(Self {
            due_at: timestamp(&due_at),
            finalizers: metadata.finalizers.unwrap_or_default(),
        })
    }
}
