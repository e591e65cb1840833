//! The end of a rollout: as the status reports it, and without the nodes that are set aside.

use std::collections::BTreeSet;

use everynode_core::api::Status;

use super::held_up::HeldUpPod;

/// The state of a rollout by the DaemonSet's status: finished, or what is missing first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// No controller has observed the latest spec yet.
    Unobserved,
    /// Fewer pods are available than desired.
    Unavailable,
    /// Enough pods are available, but some of them are of an older revision.
    Outdated,
    /// Every desired pod is available and of the current revision, except on nodes that are set
    /// aside.
    Complete,
}

impl Completion {
    /// Evaluates the status of a DaemonSet whose `metadata.generation` is `generation`.
    pub const fn of(generation: i64, status: &Status) -> Self {
        let desired = status.desired_number_scheduled;
        if status.observed_generation < generation {
            Self::Unobserved
        } else if status.number_available < desired {
            Self::Unavailable
        } else if status.updated_number_scheduled < desired {
            Self::Outdated
        } else {
            Self::Complete
        }
    }

    /// The state if nothing waits for the nodes of `held_up` that are set aside. `is_tried` is true
    /// if some node has an available pod of the current revision: before, nothing is known of it.
    pub(super) fn without_set_aside(
        self,
        status: &Status,
        held_up: &[HeldUpPod],
        is_tried: bool,
    ) -> Self {
        let mut desired = held_up.iter().filter(|held_up| held_up.desired);
        let nodes: BTreeSet<_> = desired.clone().filter_map(|it| it.node.as_ref()).collect();
        let done = status.updated_number_scheduled.min(status.number_available);
        // The status may count a node of which nothing was read yet.
        let are_all = status.desired_number_scheduled.saturating_sub(done) as usize <= nodes.len();
        match self {
            Self::Unavailable | Self::Outdated
                if is_tried && are_all && desired.all(|held_up| held_up.set_aside.is_some()) =>
            {
                Self::Complete
            }
            Self::Unobserved | Self::Unavailable | Self::Outdated | Self::Complete => self,
        }
    }
}
