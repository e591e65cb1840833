//! DaemonSets, their update strategy and their status.

use std::sync::Arc;
use std::time::Duration;

use super::config::{ConfigObject, StoredConfig};
use super::config_map::ConfigCopies;
use super::int_or_percent::IntOrPercent;
use super::labels::LabelSelector;
use super::names::{DaemonSetKey, ResourceVersion, Uid};
use super::problem::Problem;
use super::rollout::{
    ContainerAmounts, MayOverride, Order, Overrides, PolicySource, RolloutCondition, RolloutPolicy,
};
use super::scheduling::Placement;

/// The annotation of a DaemonSet that pauses its rollout with the value `true` (G6).
pub const PAUSED_ANNOTATION: &str = "everynode.dev/paused";

/// The annotation of a DaemonSet that ends all of its back-offs when its value changes: what has
/// failed is tried again at once (C24, C72).
pub const RETRY_ANNOTATION: &str = "everynode.dev/retry";

/// The annotation of a DaemonSet that names the attempt whose template was replaced by the base, as
/// [`RolloutRecord::attempt`](super::RolloutRecord::attempt) does. It is written with the template,
/// so that a failed template which comes again is not fought (G20).
pub const ROLLED_BACK_ANNOTATION: &str = "everynode.dev/rolled-back";

/// A DaemonSet of apps/v1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSet {
    /// Namespace and name.
    pub key: DaemonSetKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
    /// `metadata.generation`: grows with every change of `spec`.
    pub generation: i64,
    /// True if `metadata.deletionTimestamp` is set: nothing is planned (C32).
    pub terminating: bool,
    /// `spec.selector`. `None` if it is malformed: a [`Problem`] reports why, and nothing is
    /// planned (C4).
    pub selector: Option<LabelSelector>,
    /// `spec.template`.
    pub template: Template,
    /// The annotation `deprecated.daemonset.template.generation` (C30, C45).
    pub template_generation: Option<i64>,
    /// True if [`PAUSED_ANNOTATION`] pauses the rollout (G6).
    pub paused: bool,
    /// The policy that guards its rollouts (G4).
    pub policy: PolicySource,
    /// The copies of ConfigMaps that the target is to have, if its policy wants any and they are
    /// known; `None` if those of its newest revision count (G58).
    pub copies: Option<Arc<ConfigCopies>>,
    /// The order in the annotation [`ORDER_ANNOTATION`](super::ORDER_ANNOTATION) (G10).
    pub order: Option<Box<Order>>,
    /// The annotation [`RETRY_ANNOTATION`].
    pub retry: Option<Arc<str>>,
    /// The annotation [`ROLLED_BACK_ANNOTATION`]: the attempt that was rolled back last (G20).
    pub rolled_back: Option<Arc<str>>,
    /// `spec.updateStrategy`; [`strategy`](Self::strategy) is what is followed.
    pub update_strategy: UpdateStrategy,
    /// `spec.minReadySeconds`: how long a pod must be ready to be available (C54).
    pub min_ready_seconds: u32,
    /// `spec.revisionHistoryLimit`: maximum number of old revisions that are kept (C44).
    pub revision_history_limit: u32,
    /// `status`.
    pub status: Status,
    /// The malformed fields of the object (C4).
    pub problems: Vec<Problem>,
}

impl DaemonSet {
    /// The DaemonSet with an invalid policy in place of one whose overrides cannot be used with its
    /// template (G57).
    #[must_use]
    pub fn with_usable_overrides(self, may: MayOverride) -> Self {
        let Some(policy) = self.policy.valid() else { return self };
        let overrides = policy.stated_overrides();
        let policy = match overrides.and_then(|it| it.problem(&self.template.amounts, may)) {
            Some(problem) => PolicySource::Invalid(problem.into()),
            None => match may {
                MayOverride::Running if overrides.is_some() => {
                    let policy = RolloutPolicy::clone(policy);
                    let has_overrides_of_running = true;
                    PolicySource::Valid(RolloutPolicy { has_overrides_of_running, ..policy }.into())
                }
                MayOverride::Running | MayOverride::AllButImage | MayOverride::All => return self,
            },
        };
        Self { policy, ..self }
    }

    /// The overrides that running pods get in place, where another controller makes the pods (G57).
    pub(crate) fn overrides_of_running(&self) -> Option<&Arc<Overrides>> {
        let policy = self.policy.valid().filter(|policy| policy.has_overrides_of_running)?;
        policy.stated_overrides()
    }

    /// True if running pods get these overrides, and lose others: no policy, or one with a mistake,
    /// changes none (G57).
    pub(crate) fn may_change_overrides(&self) -> bool {
        !self.is_rolled_out_by_others() && self.policy.valid().is_some()
    }

    /// The update strategy that is followed. A policy guards `OnDelete` as well (G18).
    pub fn strategy(&self) -> UpdateStrategy {
        match (self.update_strategy, self.policy.valid()) {
            (UpdateStrategy::OnDelete, Some(policy)) => UpdateStrategy::RollingUpdate {
                max_unavailable: policy.max_unavailable.unwrap_or(IntOrPercent::Int(1)),
                max_surge: IntOrPercent::Int(0),
            },
            (strategy, _) => strategy,
        }
    }

    /// The budget of a rolling update if `desired` nodes should run a pod: that of the strategy, or
    /// that of the policy if it is smaller (C51, G5).
    pub fn budget(&self, desired: usize) -> Option<Budget> {
        let budget = self.strategy().budget(desired)?;
        let max = self.policy.valid().and_then(|policy| policy.max_unavailable);
        Some(match (max.map(|max| max.resolve(desired)), budget) {
            (None, budget) => budget,
            (Some(max), Budget::Unavailable(nodes)) => Budget::Unavailable(nodes.min(max)),
            (Some(max), Budget::Surge(nodes)) => Budget::Surge(nodes.min(max)),
        })
    }

    /// True if a policy guards its rollouts, or the annotation pauses them (G2).
    pub const fn is_guarded(&self) -> bool {
        self.paused || !matches!(self.policy, PolicySource::None)
    }

    /// True if something is to guard its rollouts beside the built-in controller, which rolls them
    /// out by itself because of the update strategy (G18).
    pub fn is_rolled_out_by_others(&self) -> bool {
        self.update_strategy != UpdateStrategy::OnDelete
    }

    /// True if the rollout is paused, by annotation or by policy (G6).
    pub fn is_paused(&self) -> bool {
        self.paused || self.policy.valid().is_some_and(|policy| policy.paused)
    }
}

/// A pod template, reduced to what decisions read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The template as text in canonical form: keys are sorted, and nulls, `creationTimestamp` and
    /// meaningless empty objects are left out. Equal texts mean equal templates (C41).
    pub canonical: Arc<str>,
    /// The nodes that the template allows, with the default tolerations (C14).
    pub placement: Arc<Placement>,
    /// `spec.terminationGracePeriodSeconds`.
    pub termination_grace_period: Duration,
    /// Its configuration that is stored elsewhere, if it names any (G53).
    pub config: Option<Arc<StoredConfig>>,
    /// Identifies the parts that cannot change in a running pod: equal ones are equal (G56). `None`
    /// if that is not known.
    pub fixed_parts: Option<u64>,
    /// The amounts of its containers' resources, as far as overrides are compared with them: those
    /// of a DaemonSet.
    pub amounts: Arc<[ContainerAmounts]>,
}

/// The default of `spec.terminationGracePeriodSeconds`.
const TERMINATION_GRACE_PERIOD_DEFAULT: Duration = Duration::from_secs(30);

impl Template {
    /// A template of this canonical text. `placement` is what the template itself contains; this
    /// function adds the default tolerations (C14). The termination grace period is the default.
    pub fn new(canonical: impl Into<Arc<str>>, placement: Placement) -> Self {
        let placement = Arc::new(placement.with_default_tolerations());
        Self {
            canonical: canonical.into(),
            placement,
            termination_grace_period: TERMINATION_GRACE_PERIOD_DEFAULT,
            config: None,
            fixed_parts: None,
            amounts: Arc::default(),
        }
    }

    /// The template with this identification of the parts that cannot change in a running pod.
    #[must_use]
    pub const fn with_fixed_parts(mut self, fixed_parts: u64) -> Self {
        self.fixed_parts = Some(fixed_parts);
        self
    }

    /// The template with these amounts of resources.
    #[must_use]
    pub fn with_amounts(self, amounts: Vec<ContainerAmounts>) -> Self {
        Self { amounts: amounts.into(), ..self }
    }

    /// True if a running pod of this template can be changed to one of the other (G56).
    pub fn changes_in_place_to(&self, other: &Self) -> bool {
        self.fixed_parts.is_some() && self.fixed_parts == other.fixed_parts
    }

    /// The template with this configuration that is stored elsewhere.
    #[must_use]
    pub fn with_config(self, config: Option<Arc<StoredConfig>>) -> Self {
        Self { config, ..self }
    }

    /// The configuration of this template that going back to `base` does not restore (G53).
    pub fn unrestored_by(&self, base: &Self) -> Vec<ConfigObject> {
        match (&self.config, &base.config) {
            (Some(own), Some(base)) => own.changed_since(base),
            _ => Vec::new(),
        }
    }

    /// The template with this `spec.terminationGracePeriodSeconds`, if it has one.
    #[must_use]
    pub const fn with_termination_grace_period(mut self, seconds: Option<u64>) -> Self {
        if let Some(seconds) = seconds {
            self.termination_grace_period = Duration::from_secs(seconds);
        }
        self
    }
}

/// `spec.updateStrategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateStrategy {
    /// Pods of older revisions stay until somebody deletes them (C50).
    OnDelete,
    /// Pods of older revisions are replaced within a budget.
    RollingUpdate {
        /// Maximum number of desired nodes without an available pod (C52).
        max_unavailable: IntOrPercent,
        /// Maximum number of nodes with a second pod (C53).
        max_surge: IntOrPercent,
    },
    /// The field is malformed: a [`Problem`] reports why, and no pod is replaced for its revision
    /// (C4).
    Malformed,
}

/// Maximum number of nodes that a rolling update may work on at the same time (C51).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// Maximum number of nodes without an available pod (C52).
    Unavailable(usize),
    /// Maximum number of nodes that have a new pod beside an available old one (C53).
    Surge(usize),
}

impl Budget {
    /// The number of nodes, of either kind of budget.
    pub const fn nodes(self) -> usize {
        match self {
            Self::Unavailable(nodes) | Self::Surge(nodes) => nodes,
        }
    }
}

impl UpdateStrategy {
    /// True if a node may have two pods during an update (C26). The answer does not depend on the
    /// number of nodes: otherwise a new node could change how the pods of all others are assessed.
    /// Upstream: `AllowsSurge`.
    pub fn surges(self) -> bool {
        match self {
            Self::OnDelete | Self::Malformed => false,
            Self::RollingUpdate { max_surge, .. } => max_surge.resolve(1) > 0,
        }
    }

    /// The budget of the rolling update if `desired` nodes should run a pod; `None` if the strategy
    /// updates nothing. If no node is desired, a percentage is zero, so a strategy that
    /// [surges](Self::surges) has a budget of unavailable pods. Upstream:
    /// `updatedDesiredNodeCounts` (C51).
    pub fn budget(self, desired: usize) -> Option<Budget> {
        let Self::RollingUpdate { max_unavailable, max_surge } = self else { return None };
        let budget = match (max_surge.resolve(desired), max_unavailable.resolve(desired)) {
            (0, 0) => Budget::Unavailable(desired.min(1)),
            (0, max_unavailable) => Budget::Unavailable(max_unavailable),
            (max_surge, _) => Budget::Surge(max_surge),
        };
        Some(budget)
    }
}

/// `status` of a DaemonSet. Of its conditions, which other controllers may write, it has only the
/// one of this controller (C70, G21).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The newest generation that the controller has acted on (C56).
    pub observed_generation: i64,
    /// Number of hash collisions so far; it is hashed with the template (C43).
    pub collision_count: Option<i32>,
    /// Number of nodes that should run a pod.
    pub desired_number_scheduled: u32,
    /// Number of nodes that should run a pod and have one.
    pub current_number_scheduled: u32,
    /// Number of nodes that should not run a pod and have one.
    pub number_misscheduled: u32,
    /// Number of nodes that should run a pod and have a ready one.
    pub number_ready: u32,
    /// Number of nodes that should run a pod and have an available one.
    pub number_available: u32,
    /// Number of nodes that should run a pod and have no available one.
    pub number_unavailable: u32,
    /// Number of nodes that should run a pod and have one of the current revision.
    pub updated_number_scheduled: u32,
    /// The conditions `Progressing` and `Stalled` of a guarded or paused rollout; `None` if there
    /// are none (G21).
    pub rollout: Option<RolloutCondition>,
}
