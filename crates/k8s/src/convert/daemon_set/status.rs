//! The status of a DaemonSet, with the condition of a guarded or paused rollout.

use everynode_core::api::{RolloutCondition, RolloutReason, Status};
use serde::Deserialize;

use crate::convert::wire::timestamp;
use crate::patch::PROGRESSING;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireStatus {
    observed_generation: i64,
    collision_count: Option<i32>,
    desired_number_scheduled: u32,
    current_number_scheduled: u32,
    number_misscheduled: u32,
    number_ready: u32,
    number_available: u32,
    number_unavailable: u32,
    updated_number_scheduled: u32,
    conditions: Option<Vec<WireCondition>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireCondition {
    r#type: String,
    reason: Option<String>,
    message: Option<String>,
    last_transition_time: Option<String>,
}

impl WireStatus {
    pub(super) fn convert(self) -> Status {
        Status {
            observed_generation: self.observed_generation,
            collision_count: self.collision_count,
            desired_number_scheduled: self.desired_number_scheduled,
            current_number_scheduled: self.current_number_scheduled,
            number_misscheduled: self.number_misscheduled,
            number_ready: self.number_ready,
            number_available: self.number_available,
            number_unavailable: self.number_unavailable,
            updated_number_scheduled: self.updated_number_scheduled,
            rollout: self.conditions.iter().flatten().find_map(WireCondition::rollout),
        }
    }
}

impl WireCondition {
    /// The condition of a guarded or paused rollout. One of another controller, or
    /// without a valid time, is replaced.
    fn rollout(&self) -> Option<RolloutCondition> {
        let is_reason = |reason: &RolloutReason| Some(reason.as_str()) == self.reason.as_deref();
        let reason = RolloutReason::ALL.into_iter().find(is_reason)?;
        let since = self.last_transition_time.as_ref().filter(|_| self.r#type == PROGRESSING)?;
        Some(RolloutCondition {
            reason,
            message: self.message.as_deref().unwrap_or_default().into(),
            since: timestamp(since)?,
        })
    }
}
