//! The parts of a DaemonSet's state that only hold values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::{PodName, Problem, Replacement, RevisionHash, Timestamp, Uid};
use crate::backoff::{Backoff, Delay};
use crate::daemon_set::index::{Groups, NodeCounts, PendingNames, RetryOrder, WorkSets};
use crate::memo::Memo;
use crate::node::PodView;
use crate::node_table::NodeId;

use super::refresh::TargetKey;

/// The questions whether pods may be replaced (G54).
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// The annotations of pods that somebody is asked about, or has agreed to replace.
    pub replacements: BTreeMap<Uid, Replacement>,
    /// Why nobody could be asked about the last of them.
    pub refusal: Option<Arc<str>>,
    /// How often in a row a new pod could not be marked.
    pub failed_marks: u32,
}

/// The state of the target in the revision history.
#[derive(Debug, Default)]
pub(super) struct StoredTarget {
    /// True if a revision stores the current template, even one that another DaemonSet owns.
    pub is_stored: Memo<TargetKey, bool>,
    /// The hash of the current revision, if nothing is to be repaired of the history.
    pub repaired: Memo<TargetKey, Option<RevisionHash>>,
}

/// Pods that are in no slot.
#[derive(Debug, Default)]
pub(super) struct OtherPods {
    /// Pods that neither run on a node nor are pinned to one.
    pub unplaced: BTreeMap<Uid, PodView>,
    /// Owned pods that the selector does not match any more (C21).
    pub releases: BTreeMap<PodName, Uid>,
    /// Pods of a former DaemonSet that have yet to end, by node (C36).
    pub former: BTreeMap<NodeId, BTreeMap<Uid, PodName>>,
}

/// The slots that are assessed next.
#[derive(Debug, Default)]
pub(super) struct Assessing {
    /// Slots that the next plan assesses.
    pub marked: Vec<NodeId>,
    /// When assessments expire: a pod becomes available, a back-off ends. An outdated entry costs
    /// one assessment and changes nothing.
    pub timers: BTreeSet<(Timestamp, NodeId)>,
    /// The number of assessments so far.
    pub count: u64,
    /// How far the wall clock was ahead of the steady one at the last plan.
    pub wall_ahead_ms: i64,
}

/// The assessments of all slots, as counts and sets, and what is known of attempts to create pods:
/// the order in which nodes are tried, and names that may be taken.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub counts: NodeCounts,
    pub work_sets: WorkSets,
    pub retry_order: RetryOrder,
    /// Counts and sets of each group of nodes that the policy limits.
    pub groups: Option<Box<Groups>>,
    pub pending_names: PendingNames,
}

/// The delays of nodes, and those of all creations.
#[derive(Debug)]
pub(super) struct Backoffs {
    /// When pods that have ended are deleted (C24).
    pub ended_pods: Backoff,
    /// When pods are created again on nodes where other clients delete them (C23).
    pub lost_pods: Backoff,
    pub creations: CreationLimits,
}

/// Reports that are due, those that are given once, and the status.
#[derive(Debug)]
pub(super) struct Reports {
    /// Reported by the next plan.
    pub problems: Vec<Problem>,
    pub was_selecting_all_reported: bool,
    /// True if it was reported that the built-in controller rolls out by itself: a strategy that
    /// changes again and again is reported once (G18).
    pub was_not_guarded_reported: bool,
    /// The text of an order without effect, of which no record can tell (G43).
    pub reported_order: Option<Arc<str>>,
    pub status: StatusWrites,
}

/// Earlier writes of the status.
#[derive(Debug, Default)]
pub(super) struct StatusWrites {
    pub is_in_flight: bool,
    pub last_at: Option<Timestamp>,
}

/// The reasons for which no pods are created for a while (C28).
#[derive(Debug, Default)]
pub(super) struct CreationLimits {
    /// Set while the namespace is terminating, when creations would be refused again.
    pub not_before: Option<Timestamp>,
    /// The delay after admission has changed a created pod.
    pub delay: Option<Delay>,
    /// Why the last pod could not be created.
    pub refusal: Option<Arc<str>>,
}
