//! The end of a rollout, as the status reports it.

use everynode_core::api::Status;

/// The state of a rollout by the DaemonSet's status: finished, or what is missing first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// No controller has observed the latest spec yet.
    Unobserved,
    /// Fewer pods are available than desired.
    Unavailable,
    /// Enough pods are available, but some of them are of an older revision.
    Outdated,
    /// Every desired pod is available and of the current revision.
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
}
