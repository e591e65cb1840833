//! The deletion of an object that still exists.

use std::time::Duration;

use everynode_core::api::Timestamp;
use everynode_k8s::convert::timestamp;
use serde::Deserialize;

/// The deletion of an object that still exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// `metadata.deletionTimestamp`: when the object should be gone. For a pod that is the end of
    /// its grace period.
    pub due_at: Option<Timestamp>,
    /// When somebody has deleted it, as far as the object says.
    pub since: Option<Timestamp>,
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
    deletion_grace_period_seconds: Option<i64>,
    finalizers: Option<Vec<String>>,
}

impl Deletion {
    /// The deletion of the object in `json`; `None` if nobody deletes it.
    pub(super) fn of(json: &[u8]) -> Option<Self> {
        let WireObject { metadata } = serde_json::from_slice(json).unwrap_or_default();
        let due_at = metadata.deletion_timestamp?;
        let due_at = timestamp(&due_at);
        let grace = metadata.deletion_grace_period_seconds.unwrap_or_default();
        let grace = Duration::from_secs(u64::try_from(grace).unwrap_or_default());
        Some(Self {
            due_at,
            since: due_at.map(|at| at - grace),
            finalizers: metadata.finalizers.unwrap_or_default(),
        })
    }
}
