//! The condition `Progressing` of a DaemonSet.

use std::sync::Arc;

use crate::api::Timestamp;

/// What the condition `Progressing` states of a guarded or paused rollout (G21).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutCondition {
    /// `reason`.
    pub reason: RolloutReason,
    /// `message`.
    pub message: Arc<str>,
    /// `lastTransitionTime`, in whole seconds of the wall clock.
    pub since: Timestamp,
}

/// The reasons of the condition `Progressing` (G21).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutReason {
    /// The rollout is paused (G6).
    Paused,
    /// The policy is invalid, or was deleted before the rollout was complete (G7).
    InvalidPolicy,
    /// The built-in controller rolls out by itself, because the update strategy is not `OnDelete`
    /// (G18).
    NotGuarded,
    /// The nodes of a wave get the new template.
    Updating,
    /// The bake time of a wave is not over.
    Baking,
    /// The bake time of a wave is over, and a check has not passed since (G5).
    AwaitingChecks,
    /// A wave must be approved.
    AwaitingApproval,
    /// No pod is replaced, and no wave begins, before a window of the policy opens.
    OutsideWindow,
    /// Nodes go back to the base after a failure.
    RollingBack,
    /// The rollout has failed, and nothing is left to do.
    Failed,
    /// All nodes have the template.
    Complete,
}

impl RolloutReason {
    /// All reasons.
    pub const ALL: [Self; 11] = [
        Self::Paused,
        Self::InvalidPolicy,
        Self::NotGuarded,
        Self::Updating,
        Self::Baking,
        Self::AwaitingChecks,
        Self::AwaitingApproval,
        Self::OutsideWindow,
        Self::RollingBack,
        Self::Failed,
        Self::Complete,
    ];

    /// The `reason` of the condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Paused => "Paused",
            Self::InvalidPolicy => "InvalidPolicy",
            Self::NotGuarded => "NotGuarded",
            Self::Updating => "Updating",
            Self::Baking => "Baking",
            Self::AwaitingChecks => "AwaitingChecks",
            Self::AwaitingApproval => "AwaitingApproval",
            Self::OutsideWindow => "OutsideWindow",
            Self::RollingBack => "RollingBack",
            Self::Failed => "Failed",
            Self::Complete => "Complete",
        }
    }

    /// The `status` of the condition: `Unknown` while nothing happens here until somebody acts or a
    /// window opens, as Deployments have it while they are paused.
    pub const fn status(self) -> &'static str {
        match self {
            Self::Updating
            | Self::Baking
            | Self::AwaitingChecks
            | Self::RollingBack
            | Self::Complete => "True",
            Self::Paused | Self::NotGuarded | Self::AwaitingApproval | Self::OutsideWindow => {
                "Unknown"
            }
            Self::InvalidPolicy | Self::Failed => "False",
        }
    }

    /// Whether the condition `Stalled` is true as well, at which kstatus, and so Flux, looks first.
    pub const fn is_stalled(self) -> bool {
        match self {
            Self::InvalidPolicy | Self::RollingBack | Self::Failed => true,
            Self::Paused
            | Self::NotGuarded
            | Self::Updating
            | Self::Baking
            | Self::AwaitingChecks
            | Self::AwaitingApproval
            | Self::OutsideWindow
            | Self::Complete => false,
        }
    }
}
