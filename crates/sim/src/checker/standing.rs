//! How nodes take part in a guarded rollout, as far as that is known (G31, G33), and what limits
//! the memory of the replica that plans it.

use std::collections::BTreeSet;

use everynode_core::plan::{NewChange, Outcome, Write};

use crate::feeds::Feeds;
use crate::view::{View, WriteOutcome};

/// What limits the memory of a replica.
pub(super) struct Memory {
    pub feeds: Feeds,
    /// The pods that the replica has deleted, or begun to change, as it knows.
    begun: BTreeSet<Begun>,
    /// Those of which it does not know whether it has.
    maybe_begun: BTreeSet<Begun>,
}

/// The UID of a pod on which a rollout has begun, and the hash to which it is changed in place
/// unless it is deleted.
type Begun = (String, Option<String>);

impl Memory {
    /// The memory of a replica that makes a plan.
    pub(super) fn of(view: &View) -> Self {
        let mut memory = Self::at_rest(view.feeds);
        for WriteOutcome { result, .. } in &view.outcomes {
            match (&result.write, &result.outcome) {
                (Write::DeletePod(pod), Outcome::Written { .. } | Outcome::Gone) => {
                    memory.begun.insert((pod.uid.to_string(), None));
                }
                (Write::ChangePod(NewChange { pod, hash, .. }), Outcome::Written { .. }) => {
                    memory.begun.insert((pod.uid.to_string(), Some(hash.to_string())));
                }
                (Write::DeletePod(pod), Outcome::Unknown { .. }) => {
                    memory.maybe_begun.insert((pod.uid.to_string(), None));
                }
                // Some of its requests may have taken effect.
                (
                    Write::ChangePod(NewChange { pod, hash, .. }),
                    Outcome::Unknown { .. } | Outcome::Failed { .. },
                ) => {
                    memory.maybe_begun.insert((pod.uid.to_string(), Some(hash.to_string())));
                }
                _ => {}
            }
        }
        memory
    }

    /// Whether the replica has deleted a pod, or begun to change it to a revision with one of these
    /// hashes.
    pub(super) fn has_begun(&self, pod: &str, hashes: &BTreeSet<&str>) -> bool {
        contains(&self.begun, pod, hashes)
    }

    /// Whether it may have.
    pub(super) fn may_have_begun(&self, pod: &str, hashes: &BTreeSet<&str>) -> bool {
        contains(&self.maybe_begun, pod, hashes)
    }

    /// The memory of a replica that has begun nothing for long.
    pub(super) const fn at_rest(feeds: Feeds) -> Self {
        Self { feeds, begun: BTreeSet::new(), maybe_begun: BTreeSet::new() }
    }
}

fn contains(all: &BTreeSet<Begun>, pod: &str, hashes: &BTreeSet<&str>) -> bool {
    all.iter().any(|(uid, to)| uid == pod && to.as_deref().is_none_or(|to| hashes.contains(to)))
}

/// A state of a node (G31).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NodeState {
    Waiting,
    Updating,
    Done,
    Failed,
    SetAside,
}

/// The states that a node may be in; none unless a policy guards a rollout that goes forward.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeStates(pub BTreeSet<NodeState>);

/// An answer that may depend on what a replica remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answer {
    #[default]
    No,
    Maybe,
    Yes,
}

/// How a node takes part in a guarded rollout.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    pub states: NodeStates,
    /// Whether the rollout may have been done with it before (G39).
    pub may_have_been_done: bool,
    /// Whether the replica may take it for one that has joined (G33).
    pub may_have_joined: bool,
    /// Whether the rollout began on it after it was complete, and the node may have failed since
    /// (G40).
    pub may_have_failed_late: bool,
    /// Whether it surely has.
    pub has_surely_failed_late: bool,
    /// Whether the node is lost (G33).
    pub is_lost: Answer,
    /// Whether its old pod became unavailable after the attempt began (G14).
    pub has_outage: Answer,
    /// Whether the target must not run on it, although the node has kept what it is (G42).
    pub is_excluded: Answer,
}

impl NodeStates {
    /// Whether the node is in this state, whatever the replica remembers.
    pub(super) fn surely(&self, state: NodeState) -> bool {
        self.0.len() == 1 && self.may_be(state)
    }

    /// Whether some memory allows this state.
    pub(super) fn may_be(&self, state: NodeState) -> bool {
        self.0.contains(&state)
    }

    /// Whether the node surely does not hold up its wave (G39).
    pub(super) fn has_surely_passed(&self) -> bool {
        !self.may_be(NodeState::Waiting) && !self.may_be(NodeState::Updating)
    }

    /// Whether it may not.
    pub(super) fn may_have_passed(&self) -> bool {
        self.may_have_tried() || self.may_be(NodeState::SetAside)
    }

    /// Whether the rollout may have tried something on the node: it is done, or has failed (G39).
    pub(super) fn may_have_tried(&self) -> bool {
        self.may_be(NodeState::Done) || self.may_be(NodeState::Failed)
    }

    /// Whether it surely has.
    pub(super) fn has_surely_tried(&self) -> bool {
        self.has_surely_passed() && !self.may_be(NodeState::SetAside)
    }

    /// Whether nothing is known of the node: no policy guards a rollout that goes forward.
    pub(super) fn is_unguarded(&self) -> bool {
        self.0.is_empty()
    }
}

impl<const N: usize> From<[NodeState; N]> for NodeStates {
    fn from(states: [NodeState; N]) -> Self {
        Self(states.into())
    }
}
