//! Conditions in the status of nodes and pods.

use everynode_core::api::Timestamp;
use everynode_k8s::convert::timestamp;
use serde::Deserialize;

/// One condition, as the API server writes it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) message: Option<String>,
    last_transition_time: Option<String>,
}

impl Condition {
    /// The time of the last change of `status`; `None` if the condition has no valid time.
    pub(super) fn since(&self) -> Option<Timestamp> {
        timestamp(self.last_transition_time.as_deref()?)
    }
}
