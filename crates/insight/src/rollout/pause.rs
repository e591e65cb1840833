//! The pause of a rollout.

use everynode_core::api::{DaemonSet, RolloutCondition};
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
        let stated = daemon_set.status.rollout.as_ref();
        match (daemon_set.is_paused(), stated.is_some_and(RolloutCondition::states_pause)) {
            (false, _) => Self::No,
            (true, false) => Self::Requested,
            (true, true) => Self::Yes,
        }
    }
}
