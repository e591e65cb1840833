//! Settings that all DaemonSets share.

use std::time::Duration;

use crate::api::{DaemonSet, MayOverride, PolicySource, Problem, RecordState, Revision, Status};
use crate::plan::ScheduleBy;

/// Which part of the work of a DaemonSet controller is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// All of it: this is the cluster's DaemonSet controller, and policies guard its rollouts.
    #[default]
    Controller,
    /// All of it but guarded rollouts, like the built-in controller: policies, pauses, orders and
    /// records have no effect.
    Unguarded,
    /// Only guarded rollouts of DaemonSets with the strategy `OnDelete`, and overrides of running
    /// pods (G57): the built-in controller does all else (G18).
    Beside {
        /// True if a failed rollout goes back to the base by a change of the DaemonSet's template
        /// (G20).
        rolls_back: bool,
    },
}

/// The duties of this installation toward a DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Duties {
    pub pods: PodDuty,
    pub status: StatusDuty,
    pub roll_back: RollBackDuty,
}

/// Which pods are created and deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodDuty {
    /// All: the pods, and the revisions from which they are made.
    All,
    /// Pods of older revisions are deleted, and running ones get the resources of their overrides;
    /// another controller does the rest (G18, G57).
    DeleteOutdated,
}

/// The part of the status that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusDuty {
    Whole,
    /// The conditions of a guarded rollout; another controller counts (G20).
    Conditions,
}

/// How a failed rollout goes back to the base (G15, G20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RollBackDuty {
    ReplacePods,
    RestoreTemplate,
    Nothing,
}

impl Mode {
    pub(crate) const fn duties(self) -> Duties {
        match self {
            Self::Controller | Self::Unguarded => Duties {
                pods: PodDuty::All,
                status: StatusDuty::Whole,
                roll_back: RollBackDuty::ReplacePods,
            },
            Self::Beside { rolls_back } => Duties {
                pods: PodDuty::DeleteOutdated,
                status: StatusDuty::Conditions,
                roll_back: if rolls_back {
                    RollBackDuty::RestoreTemplate
                } else {
                    RollBackDuty::Nothing
                },
            },
        }
    }

    /// True if another controller creates the pods and the revisions.
    pub const fn is_beside(self) -> bool {
        match self {
            Self::Beside { .. } => true,
            Self::Controller | Self::Unguarded => false,
        }
    }

    /// The DaemonSet without what has no effect in this mode.
    fn visible_daemon_set(self, daemon_set: DaemonSet) -> DaemonSet {
        if self != Self::Unguarded {
            return daemon_set;
        }
        let is_of_guard =
            |problem: &Problem| matches!(problem, Problem::Paused { .. } | Problem::Order { .. });
        let problems = daemon_set.problems.into_iter().filter(|problem| !is_of_guard(problem));
        DaemonSet {
            paused: false,
            policy: PolicySource::None,
            order: None,
            problems: problems.collect(),
            // The conditions belong to another controller.
            status: Status { rollout: None, ..daemon_set.status },
            ..daemon_set
        }
    }

    /// The revision without what has no effect in this mode.
    pub(crate) fn visible_revision(self, revision: Revision) -> Revision {
        match self {
            Self::Unguarded => Revision { record: RecordState::None, ..revision },
            Self::Controller => revision,
            Self::Beside { .. } => Revision { overrides: None, ..revision },
        }
    }
}

/// Settings that all DaemonSets share.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Which part of the work is done.
    pub mode: Mode,
    /// Maximum number of pods that one sync creates, and maximum number that it deletes (C28).
    pub burst_replicas: usize,
    /// Which component binds created pods to their nodes (C31).
    pub schedule_by: ScheduleBy,
    /// Minimum time between two writes of a status in which only counts changed. Those of a
    /// DaemonSet that is rolled out are written at once (C70, C80).
    pub status_interval: Duration,
    /// The treatment of nodes whose kubelet does not answer, without a policy.
    pub unreachable_nodes: UnreachableNodes,
    /// By which times nodes of a guarded rollout are judged.
    pub clocks: Clocks,
    /// The fields that overrides of policies may set. Beside a controller that makes the pods, they
    /// are overrides of running pods (G57).
    pub may_override: MayOverride,
}

/// The treatment of nodes whose kubelet does not answer, in rolling updates without a policy (C58).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnreachableNodes {
    /// They leave such a node alone, unless they have begun there before.
    #[default]
    Skip,
    /// They wait for it, as upstream: it uses the budget, and its pod is deleted first.
    Wait,
}

/// Since when a node is as it was when it was first seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clocks {
    /// Since it was first seen: a controller goes by what it has observed itself (G33, G34).
    #[default]
    Observed,
    /// Since the times that its objects state: whoever looks once sees what a controller that has
    /// watched the node concludes.
    Stated,
}

impl Config {
    /// The DaemonSet without what has no effect in this mode. A policy whose overrides cannot be
    /// used with its template is invalid (G57).
    pub(crate) fn visible_daemon_set(&self, daemon_set: DaemonSet) -> DaemonSet {
        let daemon_set = self.mode.visible_daemon_set(daemon_set);
        let policy = daemon_set.policy.valid();
        let has_snapshots = policy.is_some_and(|policy| policy.snapshots().is_some());
        if self.mode.is_beside() && has_snapshots {
            let problem = "config.configMaps: copies are not possible beside the built-in \
                           controller, which makes all pods of the template";
            return DaemonSet { policy: PolicySource::Invalid(problem.into()), ..daemon_set };
        }
        daemon_set.with_usable_overrides(self.may_override())
    }

    pub(crate) const fn may_override(&self) -> MayOverride {
        match self.mode {
            Mode::Beside { .. } => MayOverride::Running,
            Mode::Controller | Mode::Unguarded => self.may_override,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mode: Mode::Controller,
            burst_replicas: 250,
            schedule_by: ScheduleBy::Scheduler,
            status_interval: Duration::ZERO,
            unreachable_nodes: UnreachableNodes::Skip,
            clocks: Clocks::Observed,
            may_override: MayOverride::AllButImage,
        }
    }
}
