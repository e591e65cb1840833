//! DaemonSets, their update strategy and status.

use std::fmt;
use std::sync::Arc;

use super::labels::LabelSelector;
use super::names::{DaemonSetKey, ResourceVersion, Uid};
use super::problem::Problem;
use super::scheduling::Placement;

/// A DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSet {
    pub key: DaemonSetKey,
    pub uid: Uid,
    pub resource_version: ResourceVersion,
    pub generation: i64,
    /// Whether there is a `metadata.deletionTimestamp` (C32).
    pub terminating: bool,
    /// `None` if it did not parse; a [`Problem`] says why, and nothing is done (C4).
    pub selector: Option<LabelSelector>,
    pub template: Template,
    /// The annotation `deprecated.daemonset.template.generation` (C30, C45).
    pub template_generation: Option<i64>,
    pub update_strategy: UpdateStrategy,
    pub min_ready_seconds: u32,
    pub revision_history_limit: u32,
    pub status: Status,
    /// What the conversion could not make sense of.
    pub problems: Vec<Problem>,
}

/// A pod template: opaque text whose equality is equality of meaning (C41), and what placement reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Keys sorted; nulls, `creationTimestamp` and meaningless empty objects dropped.
    pub canonical: Arc<str>,
    /// With the default tolerations of C14.
    pub placement: Placement,
}

impl Template {
    /// Takes the placement as the template spells it, and adds the default tolerations (C14).
    pub fn new(canonical: impl Into<Arc<str>>, placement: Placement) -> Self {
        Self { canonical: canonical.into(), placement: placement.with_default_tolerations() }
    }
}

/// `spec.updateStrategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateStrategy {
    OnDelete,
    RollingUpdate {
        max_unavailable: IntOrPercent,
        max_surge: IntOrPercent,
    },
    /// It did not parse; a [`Problem`] says why. No pod is replaced for its revision.
    Malformed,
}

/// How many nodes a rolling update may work on at the same time (C51).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// The pod of so many nodes may be unavailable (C52).
    Unavailable(usize),
    /// So many nodes may have a new pod beside an available old one (C53).
    Surge(usize),
}

impl Budget {
    pub const fn nodes(self) -> usize {
        match self {
            Self::Unavailable(nodes) | Self::Surge(nodes) => nodes,
        }
    }
}

impl UpdateStrategy {
    /// Whether a node may have two pods for a while. It does not depend on the number of nodes, so that
    /// what a node's pods are to each other does not change with it. Upstream: `AllowsSurge`.
    pub fn surges(self) -> bool {
        match self {
            Self::OnDelete | Self::Malformed => false,
            Self::RollingUpdate { max_surge, .. } => max_surge.of(1) > 0,
        }
    }

    /// What the rolling update may do when `desired` nodes should run a pod (C51); `None` if there is no rolling update.
    /// A strategy that [surges](Self::surges) has no surge budget where its percentage comes to nothing: with no
    /// desired pod. Upstream: `updatedDesiredNodeCounts`.
    pub fn budget(self, desired: usize) -> Option<Budget> {
        let Self::RollingUpdate { max_unavailable, max_surge } = self else { return None };
        let budget = match (max_surge.of(desired), max_unavailable.of(desired)) {
            (0, 0) => Budget::Unavailable(desired.min(1)),
            (0, max_unavailable) => Budget::Unavailable(max_unavailable),
            (max_surge, _) => Budget::Surge(max_surge),
        };
        Some(budget)
    }
}

/// An absolute number or a percentage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOrPercent {
    Int(u32),
    Percent(u32),
}

impl IntOrPercent {
    /// What it comes to of `total`, rounded up (C51).
    pub fn of(self, total: usize) -> usize {
        match self {
            Self::Int(number) => number as usize,
            Self::Percent(percent) => (total * percent as usize).div_ceil(100),
        }
    }
}

impl fmt::Display for IntOrPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// `status` of a DaemonSet (C70), without its conditions, which belong to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub observed_generation: i64,
    pub collision_count: Option<i32>,
    pub desired_number_scheduled: u32,
    pub current_number_scheduled: u32,
    pub number_misscheduled: u32,
    pub number_ready: u32,
    pub number_available: u32,
    pub number_unavailable: u32,
    pub updated_number_scheduled: u32,
}
