//! The pause of a rollout.

use everynode_core::api::{DaemonSet, RolloutReason};
use schemars::JsonSchema;
use serde::Serialize;

/// Whether a rollout is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Pause {
    /// It is not.
    No,
    /// The annotation says so, but no controller has stated in the status that it acts on it. The
    /// built-in controller ignores the annotation.
    Requested,
    /// It is, and the controller has stated so.
    Yes,
}

impl Pause {
    /// The pause of the rollout of this DaemonSet.
    pub fn of(daemon_set: &DaemonSet) -> Self {
        let stated = daemon_set.status.rollout.as_ref().map(|rollout| rollout.reason);
        match (daemon_set.is_paused(), stated == Some(RolloutReason::Paused)) {
            (false, _) => Self::No,
            (true, false) => Self::Requested,
            (true, true) => Self::Yes,
        }
    }
}
