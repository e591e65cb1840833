//! The nodes of a group of waves: their numbers by their state (G31), and those that may be opened.

use std::collections::BTreeSet;
use std::fmt;

use crate::api::PULLING;
use crate::node::{NodeState, SetAside};
use crate::node_table::NodeId;

use super::state::Holding;

/// Counts of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    pub members: usize,
    /// Nodes that are held, and no members.
    pub held: usize,
    /// Members that are open, by their state.
    pub open: StateCounts,
    /// Members on which nothing is left to do for the target, open or not.
    pub updated: usize,
    /// Members that have a pod of the target.
    pub on_target: usize,
    /// Members that have a pod of the target, and are not open (G17).
    pub on_target_but_closed: usize,
    /// Members that have failed, open or not (G34).
    pub failed: usize,
    /// Members that are lost, open or not (G33).
    pub lost: usize,
    /// Members that lose their pod to the target's placement (G42).
    pub removed: usize,
    /// Members on which the rollout has begun, and that are down or leaving since.
    pub absent: usize,
    /// Open members that the rollout was done with before, and is not now.
    pub disturbed: usize,
    /// Those of them that are down or leaving.
    pub disturbed_absent: usize,
    /// Members that have no pod, and have failed, are lost, or were done before.
    pub without_pod: usize,
    /// Members on which the rollout began once it was complete (G40).
    pub late: LateCounts,
    /// Members on which the rollout has yet to begin, and of which an earlier attempt has taken the
    /// pod: they use the budget (G14).
    pub taken: usize,
    /// Members of which somebody is asked who has not agreed yet (G54).
    pub unanswered: usize,
    /// Members that pull images, or wait for their turn, and are not overdue (G55).
    pub pulling_in_time: usize,
    /// Open members that have lost their pod to the target's placement (G42).
    pub emptied: usize,
    /// Open members without a pod, on which neither the target nor the base may run.
    pub barred: usize,
    /// Members that keep their pod of the target going back (G41).
    pub kept: usize,
}

/// Counts of late nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LateCounts {
    pub failed: usize,
    pub lost: usize,
}

/// Numbers of nodes by their state (G31).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateCounts {
    /// Nodes on which the rollout has yet to begin.
    pub waiting: usize,
    /// Nodes of which somebody is asked whether their old pod may go.
    pub asked: usize,
    /// Nodes that pull the images of the target, or wait for their turn.
    pub pulling: usize,
    /// Nodes on which it has begun.
    pub updating: usize,
    /// Nodes on which nothing is left to do.
    pub done: usize,
    /// Nodes that are blamed.
    pub failed: usize,
    /// Nodes that are set aside, in the order of [`SetAside::ALL`].
    pub set_aside: [usize; SetAside::ALL.len()],
}

impl StateCounts {
    /// The number of all nodes.
    pub fn total(&self) -> usize {
        self.left() + self.passed()
    }

    /// The nodes that a wave does not wait for.
    pub fn passed(&self) -> usize {
        self.done + self.failed + self.set_aside.iter().sum::<usize>()
    }

    /// The nodes that a wave waits for.
    pub const fn left(&self) -> usize {
        self.waiting + self.asked + self.pulling + self.updating
    }

    /// The reasons for which nodes are set aside, each with their number.
    pub fn reasons(&self) -> impl Iterator<Item = (SetAside, usize)> {
        SetAside::ALL.into_iter().zip(self.set_aside).filter(|(_, nodes)| *nodes > 0)
    }

    /// The number of states at the beginning of [`named`](Self::named) that every rollout goes
    /// through.
    pub const COMMON: usize = 4;

    /// The numbers with the names of the states, and of the reasons for which nodes are set aside.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let states = [
            ("waiting", self.waiting),
            ("updating", self.updating),
            ("done", self.done),
            ("failed", self.failed),
        ];
        debug_assert_eq!(states.len(), Self::COMMON);
        states
            .into_iter()
            .chain([("asked", self.asked), ("pulling", self.pulling)])
            .chain(SetAside::ALL.map(SetAside::as_str).into_iter().zip(self.set_aside))
    }

    /// The nodes on which the target was tried.
    pub const fn tried(&self) -> usize {
        self.done + self.failed
    }

    pub(super) fn count(&mut self, state: NodeState) -> &mut usize {
        match state {
            NodeState::Waiting { .. } => &mut self.waiting,
            NodeState::Asked { .. } => &mut self.asked,
            NodeState::Pulling { .. } => &mut self.pulling,
            NodeState::Updating { .. } => &mut self.updating,
            NodeState::Done => &mut self.done,
            NodeState::Failed => &mut self.failed,
            NodeState::SetAside(why) => &mut self.set_aside[why as usize],
        }
    }
}

impl fmt::Display for StateCounts {
    /// The numbers in words, such as `12 of 40 nodes done, 3 set aside: 2 down, 1 lost`. What waits
    /// is the rest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { done, asked, pulling, updating, failed, .. } = self;
        write!(f, "{done} of {} nodes done", self.total())?;
        let reasons: Vec<_> = self.reasons().collect();
        let aside: usize = reasons.iter().map(|(_, nodes)| nodes).sum();
        let parts = [
            (*pulling, PULLING),
            (*asked, "asked"),
            (*updating, "updating"),
            (*failed, "failed"),
            (aside, "set aside"),
        ];
        for (nodes, state) in parts.into_iter().filter(|(nodes, _)| *nodes > 0) {
            write!(f, ", {nodes} {state}")?;
        }
        for (index, (why, nodes)) in reasons.iter().enumerate() {
            let separator = if index == 0 { ":" } else { "," };
            write!(f, "{separator} {nodes} {}", why.as_str())?;
        }
        Ok(())
    }
}

/// The nodes that are in the same groups, without those that are held.
#[derive(Debug)]
pub(super) struct Class {
    /// The numbers of the groups.
    pub groups: Vec<usize>,
    /// The number of the nodes that are open.
    open: usize,
    /// The others.
    pub closed: BTreeSet<NodeId>,
}

/// The parts of a node that counts depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub member: Member,
    pub holding: Holding,
    pub state: NodeState,
    /// True if the rollout began on it once it was complete.
    pub is_late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member {
    Open,
    Closed,
    /// The policy excludes it, and the rollout has not begun on it.
    Held,
}

impl Class {
    /// Without nodes.
    pub(super) const fn new(groups: Vec<usize>) -> Self {
        Self { groups, open: 0, closed: BTreeSet::new() }
    }

    /// True if its nodes are in the group with this number.
    pub(super) fn is_of(&self, group: usize) -> bool {
        self.groups.contains(&group)
    }

    /// True if it has no node.
    pub(super) fn is_empty(&self) -> bool {
        self.open == 0 && self.closed.is_empty()
    }

    pub(super) fn add(&mut self, id: NodeId, member: Option<Member>) {
        match member {
            Some(Member::Open) => self.open += 1,
            Some(Member::Closed) => {
                self.closed.insert(id);
            }
            Some(Member::Held) | None => {}
        }
    }

    pub(super) fn remove(&mut self, id: NodeId, member: Option<Member>) {
        match member {
            Some(Member::Open) => self.open -= 1,
            Some(Member::Closed) => {
                self.closed.remove(&id);
            }
            Some(Member::Held) | None => {}
        }
    }
}

impl Group {
    /// True if a node that is up has never had an available pod of the target.
    pub(super) const fn has_nodes_left(&self) -> bool {
        self.open.left() > self.absent + self.disturbed - self.disturbed_absent
    }

    pub(super) fn count(&mut self, counted: Counted, is_added: bool) {
        let Counted { member, holding, state, is_late } = counted;
        let is_done = state == NodeState::Done;
        let is_absent = matches!(
            state,
            NodeState::Updating { is_absent: true, .. }
                | NodeState::SetAside(SetAside::Down | SetAside::Leaving | SetAside::Lost)
        );
        let (is_updated, has_target) = match holding {
            Holding::Nothing | Holding::Barred | Holding::NothingOfTarget | Holding::Unaffected => {
                (true, false)
            }
            Holding::Outdated | Holding::Missing | Holding::Removed => (is_done, false),
            // Nothing is left to do on a node that is down with its pod of the target.
            Holding::Target => (is_done || is_absent, true),
        };
        let is_open = member == Member::Open;
        let is_lost = state == NodeState::SetAside(SetAside::Lost);
        let is_kept = matches!(state, NodeState::SetAside(SetAside::Held | SetAside::Tainted));
        if is_open {
            add(self.open.count(state), is_added);
        }
        let had_target =
            matches!(state, NodeState::Failed | NodeState::Updating { was_passed: true, .. });
        let has_none = !matches!(holding, Holding::Target | Holding::Outdated);
        let is_disturbed = is_open && matches!(state, NodeState::Updating { was_passed: true, .. });
        let counts = [
            (&mut self.members, true),
            (&mut self.updated, is_updated),
            (&mut self.on_target, has_target),
            (&mut self.on_target_but_closed, has_target && !is_open),
            (&mut self.failed, state == NodeState::Failed),
            (&mut self.lost, is_lost),
            (&mut self.removed, holding == Holding::Removed),
            (&mut self.absent, matches!(state, NodeState::Updating { is_absent: true, .. })),
            (&mut self.disturbed, is_disturbed),
            (
                &mut self.disturbed_absent,
                is_disturbed && matches!(state, NodeState::Updating { is_absent: true, .. }),
            ),
            (&mut self.unanswered, state == NodeState::Asked { is_agreed: false }),
            (
                &mut self.pulling_in_time,
                matches!(state, NodeState::Pulling { is_overdue: false, .. }),
            ),
            (&mut self.kept, has_target && is_kept),
            (&mut self.emptied, is_open && holding == Holding::Nothing && is_done),
            (&mut self.barred, is_open && holding == Holding::Barred && is_kept),
            (&mut self.taken, state.is_taken()),
            (&mut self.without_pod, has_none && (had_target || is_lost)),
            (&mut self.late.failed, is_late && state == NodeState::Failed),
            (&mut self.late.lost, is_late && is_lost),
        ];
        for (count, counts) in counts {
            match is_added {
                true => *count += usize::from(counts),
                false => *count -= usize::from(counts),
            }
        }
    }
}

/// Counts one more node, or one less.
pub(super) const fn add(count: &mut usize, is_added: bool) {
    match is_added {
        true => *count += 1,
        false => *count -= 1,
    }
}

/// Maximum number of a wave's nodes that do not hold it up while they are unavailable, because the
/// rollout was done with them before: of many nodes some always are (G39).
pub(super) const fn tolerated(nodes: usize) -> usize {
    nodes / 10
}
