//! The condition `Progressing` of a DaemonSet.

use std::sync::Arc;

use crate::api::Timestamp;

use super::statement::PAUSES_ROLLOUT;

/// The condition `Progressing` of a guarded or paused rollout (G21).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutCondition {
    /// `reason`.
    pub reason: RolloutReason,
    /// `message`.
    pub message: Arc<str>,
    /// `lastTransitionTime`, in whole seconds of the wall clock.
    pub since: Timestamp,
}

impl RolloutCondition {
    /// True if it states that the rollout is paused: by its reason, or beside a graver one by its
    /// message.
    pub fn states_pause(&self) -> bool {
        self.reason == RolloutReason::Paused || self.message.contains(PAUSES_ROLLOUT)
    }
}

/// The reasons of the condition `Progressing` (G21).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutReason {
    /// The rollout is paused (G6), and nothing graver is true of it.
    Paused,
    /// The policy is invalid, or was deleted before the rollout was complete (G7).
    InvalidPolicy,
    /// The record of the rollout cannot be read (G44).
    InvalidRecord,
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
    /// All nodes of a wave are set aside, so that the template was not tried (G39).
    WaveNotTried,
    /// The template's placement would remove more pods than the policy allows (G42).
    RemovesNodes,
    /// Going back would not restore the template's configuration, as the policy requires (G53).
    MutableConfig,
    /// The ConfigMaps of the template cannot be copied, as the policy wants it (G58).
    ConfigNotReady,
    /// The template differs in more than pods can be changed in, and the policy lets nothing else
    /// happen (G56).
    NotInPlace,
    /// The rollout was done with no node for too long (G47).
    ProgressDeadlineExceeded,
    /// Nodes go back to the base after a failure.
    RollingBack,
    /// The rollout has failed, and nothing is left to do.
    Failed,
    /// All nodes have the template.
    Complete,
    /// The rollout is complete, and so many nodes failed that got the template later that no
    /// further one gets it (G40).
    LateNodesFail,
}

impl RolloutReason {
    /// All reasons.
    pub const ALL: [Self; 19] = [
        Self::Paused,
        Self::InvalidPolicy,
        Self::InvalidRecord,
        Self::NotGuarded,
        Self::Updating,
        Self::Baking,
        Self::AwaitingChecks,
        Self::AwaitingApproval,
        Self::OutsideWindow,
        Self::WaveNotTried,
        Self::RemovesNodes,
        Self::MutableConfig,
        Self::ConfigNotReady,
        Self::NotInPlace,
        Self::ProgressDeadlineExceeded,
        Self::RollingBack,
        Self::Failed,
        Self::Complete,
        Self::LateNodesFail,
    ];

    /// The `reason` of the condition, and its class.
    const fn row(self) -> (&'static str, ReasonClass) {
        match self {
            Self::Paused => ("Paused", ReasonClass::NotGuarded),
            Self::InvalidPolicy => ("InvalidPolicy", ReasonClass::Invalid),
            Self::InvalidRecord => ("InvalidRecord", ReasonClass::Invalid),
            Self::NotGuarded => ("NotGuarded", ReasonClass::NotGuarded),
            Self::Updating => ("Updating", ReasonClass::WaitsForNodes),
            Self::Baking => ("Baking", ReasonClass::WaitsForTime),
            Self::AwaitingChecks => ("AwaitingChecks", ReasonClass::WaitsForChecks),
            Self::AwaitingApproval => ("AwaitingApproval", ReasonClass::WaitsForApproval),
            Self::OutsideWindow => ("OutsideWindow", ReasonClass::WaitsForWindow),
            Self::WaveNotTried => ("WaveNotTried", ReasonClass::WaitsForNodes),
            Self::RemovesNodes => ("RemovesNodes", ReasonClass::WaitsForPerson),
            Self::MutableConfig => ("MutableConfig", ReasonClass::WaitsForPerson),
            Self::ConfigNotReady => ("ConfigNotReady", ReasonClass::WaitsForPerson),
            Self::NotInPlace => ("NotInPlace", ReasonClass::WaitsForPerson),
            Self::ProgressDeadlineExceeded => ("ProgressDeadlineExceeded", ReasonClass::Stuck),
            Self::RollingBack => ("RollingBack", ReasonClass::RollsBack),
            Self::Failed => ("Failed", ReasonClass::Failed),
            Self::Complete => ("Complete", ReasonClass::Complete),
            Self::LateNodesFail => ("LateNodesFail", ReasonClass::Failed),
        }
    }

    /// The `reason` of the condition.
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    /// The class, by which commands distinguish reasons.
    pub const fn class(self) -> ReasonClass {
        self.row().1
    }

    /// The `status` of the condition: `Unknown` while nothing happens here until somebody acts or a
    /// window opens, as Deployments have it while they are paused.
    pub const fn status(self) -> &'static str {
        match self.class() {
            ReasonClass::WaitsForNodes
            | ReasonClass::WaitsForTime
            | ReasonClass::WaitsForChecks
            | ReasonClass::RollsBack
            | ReasonClass::Complete => "True",
            ReasonClass::NotGuarded
            | ReasonClass::WaitsForApproval
            | ReasonClass::WaitsForPerson
            | ReasonClass::WaitsForWindow => "Unknown",
            ReasonClass::Invalid | ReasonClass::Failed | ReasonClass::Stuck => "False",
        }
    }

    /// True if the condition `Stalled` is true as well, at which kstatus, and so Flux, looks first.
    pub const fn is_stalled(self) -> bool {
        matches!(
            self.class(),
            ReasonClass::WaitsForPerson
                | ReasonClass::Stuck
                | ReasonClass::RollsBack
                | ReasonClass::Invalid
                | ReasonClass::Failed
        )
    }

    /// True if only the message says what nodes wait for: there may be no pods that show it.
    pub const fn explains_wait(self) -> bool {
        matches!(self, Self::WaveNotTried)
    }
}

/// The classes of reasons, by what the rollout waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasonClass {
    /// No policy is acted on: a pause needs none, and an update strategy may exclude all.
    NotGuarded,
    /// Nodes get the new template.
    WaitsForNodes,
    /// Nodes get the new template, and none was done for too long.
    Stuck,
    /// A wave is updated, and its bake time has to end.
    WaitsForTime,
    /// A wave is updated, and its checks have to pass.
    WaitsForChecks,
    /// A window has to open.
    WaitsForWindow,
    /// A wave is updated, and a person has to approve it.
    WaitsForApproval,
    /// The template is not what the policy wants, and a person has to decide.
    WaitsForPerson,
    /// Nodes go back after a failure.
    RollsBack,
    /// Nothing happens before a person corrects the policy or the record.
    Invalid,
    /// Nodes or checks have failed, and nothing happens before a person acts.
    Failed,
    /// Nothing is left to do.
    Complete,
}

impl ReasonClass {
    /// True if a policy guards the rollout (G18).
    pub const fn is_guarded(self) -> bool {
        !matches!(self, Self::NotGuarded)
    }

    /// True if the rollout is not over although all pods may be updated and available: the last
    /// wave bakes, or must be approved.
    pub const fn is_under_way(self) -> bool {
        self.is_guarded() && !matches!(self, Self::Invalid | Self::Failed | Self::Complete)
    }

    /// True if the rollout does not go on before a person acts.
    pub const fn awaits_person(self) -> bool {
        matches!(self, Self::WaitsForApproval | Self::WaitsForPerson | Self::Invalid | Self::Failed)
    }

    /// True if all nodes of the wave had the new template when this was stated.
    pub const fn is_of_updated_wave(self) -> bool {
        matches!(
            self,
            Self::WaitsForTime
                | Self::WaitsForChecks
                | Self::WaitsForApproval
                | Self::WaitsForPerson
        )
    }

    /// True if a guarded rollout replaces no old pod at present.
    pub const fn keeps_old_pods(self) -> bool {
        self.is_guarded() && !matches!(self, Self::WaitsForNodes | Self::Stuck | Self::Complete)
    }
}
