//! Which nodes get a new template now: those whose *wave* is open (G5, G11, G12, G17).
//!
//! A step of the policy divides its nodes into groups. At a [`Position`], each group up to that
//! position has a size: that many of its nodes are open. A node that is open stays open unless it
//! is held, so only a new position and a group that grows open nodes: first those that have the
//! target, then those with a failed or superseded revision, then ready nodes with an available pod,
//! then the others.

mod completion;
mod count;
mod group;
mod opening;
mod standing;
mod state;
mod steps;
mod target;

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bitflags::bitflags;

use crate::api::{
    Labels, Node, NodeName, Now, Position, RolloutPhase, RolloutPolicy, RolloutRecord, RolloutStep,
    Timestamp, Wait,
};
use crate::memo::Memo;
use crate::node::{NodeState, PodView, SetAside, Slot, Wave};
use crate::node_table::{NodeId, NodeTable};

use super::images::PullProgress;
use super::input::RolloutInput;

pub(super) use count::WaveCount;
pub use group::StateCounts;
use group::{Class, Counted, Group, Member, add, tolerated};
pub(crate) use opening::Rank;
pub use standing::{NodeStanding, WaveStanding};
use state::{Holding, NodeHistory, UPDATING};
pub(super) use state::{Judgement, LONG_START, failing_pull_limit};
pub(crate) use state::{Of, Shown};
use steps::Steps;
pub use target::Target;

bitflags! {
    /// News of the nodes of a rollout.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct News: u8 {
        /// The rollout was done with a node.
        const PROGRESS = 1;
        /// A node has become available at another time.
        const AVAILABILITY = 1 << 1;
    }
}

/// The nodes of a guarded rollout, by group.
#[derive(Debug)]
pub(crate) struct Waves {
    /// The steps of the policy, and the groups that they make.
    pub(super) steps: Steps,
    target: Target,
    /// An attempt that began later than this is known from its beginning: since when the nodes are
    /// followed, by the wall clock, in whole seconds.
    followed_since: Timestamp,
    /// The attempt to roll it out; `None` before it began.
    attempt: Option<Attempt>,
    /// `None` while nothing is open but the nodes that have the target.
    position: Option<Position>,
    /// Indexed by node number.
    nodes: Vec<NodeWaves>,
    /// All nodes.
    all: Group,
    /// The nodes that have a pod of the target which is not available, by the time since when.
    starting: BTreeSet<(Timestamp, NodeId)>,
    /// News of nodes, until [`Waves::take`].
    news: News,
    /// True if a group may have fewer open nodes than its size.
    must_fill: bool,
    /// The waves, counted for a position. A node that comes, goes or changes its class invalidates
    /// it.
    count: Memo<Position, WaveCount>,
    /// Why there are too many waves, if there are.
    excess: Memo<(), Option<Arc<str>>>,
}

/// An attempt to roll the target out.
#[derive(Clone, Debug)]
struct Attempt {
    /// When it began, by its record.
    stated: Timestamp,
    /// The same by the steady clock, as it was seen first: later the wall clock may be set.
    began: Timestamp,
    /// The nodes that were deleted after they had failed, or were lost.
    gone: Vec<Gone>,
}

/// A node that was deleted after it had failed, or was lost.
#[derive(Clone, Debug)]
struct Gone {
    name: NodeName,
    state: NodeState,
    /// True if the rollout had begun on it once it was complete.
    is_late: bool,
}

/// A node, and its part in the waves.
#[derive(Clone, Copy, Debug, Default)]
struct NodeWaves {
    /// The number of its class.
    class: usize,
    wave: Wave,
    holding: Holding,
    state: NodeState,
    history: NodeHistory,
}

impl Waves {
    /// Waves without nodes, none of which is open.
    pub(crate) fn new(policy: Arc<RolloutPolicy>, target: Target) -> Self {
        Self {
            steps: Steps::new(policy),
            target,
            followed_since: Timestamp::default(),
            attempt: None,
            position: None,
            nodes: Vec::new(),
            all: Group::default(),
            starting: BTreeSet::new(),
            news: News::empty(),
            must_fill: false,
            count: Memo::default(),
            excess: Memo::default(),
        }
    }

    /// True if they are those of these steps and this target.
    pub(crate) fn are_for(&self, policy: &RolloutPolicy, target: &Target) -> bool {
        self.steps.policy.steps == policy.steps && self.target == *target
    }

    /// Continues with the nodes of earlier waves, as far as they were seen. On others a rollout may
    /// have been at work. Returns whether these had the same target.
    pub(crate) fn continue_from(
        &mut self,
        earlier: Option<&Self>,
        input: &RolloutInput<'_>,
    ) -> bool {
        let taken_since = input.taken_since();
        let is_same_target = earlier.is_some_and(|earlier| earlier.target == self.target);
        // The labels still tell which pods have the target before this one.
        let target = input.revisions().current.map(|target| target.pod_hash());
        let is_target = |pod: &PodView| input.labels.hash(pod.labels) == target.as_ref();
        // Then the rollout was done with the nodes that had the target.
        let target = input.revisions().current;
        let record = target.and_then(|target| target.record.stored());
        let baking = record.filter(|record| record.phase == RolloutPhase::Baking);
        let updated_at = baking.map(|record| record.since);
        for index in 0..self.nodes.len() {
            let has_target = input.slots.get(index).is_some_and(|it| it.pods.are_all(is_target));
            self.change(NodeId::from_index(index), |node| {
                node.history = match earlier.and_then(|it| Some(it.nodes.get(index)?.history)) {
                    None => {
                        let slot = input.slots.get(index);
                        NodeHistory::unknown(slot, taken_since, updated_at.filter(|_| has_target))
                    }
                    Some(history) if is_same_target => history,
                    Some(history) => history.of_another_target(has_target),
                };
            });
        }
        let now = input.now.wall_seconds();
        self.followed_since = earlier.map_or(now, |earlier| earlier.followed_since);
        let earlier = earlier.filter(|_| is_same_target);
        self.attempt = earlier.and_then(|earlier| earlier.attempt.clone());
        is_same_target
    }

    /// Applies a policy with the same steps: only which nodes are held may be another question.
    pub(crate) fn set_policy(&mut self, policy: Arc<RolloutPolicy>, nodes: &NodeTable) {
        self.steps.policy = policy;
        self.apply_nodes(nodes);
    }

    /// Applies the labels of all nodes.
    pub(crate) fn apply_nodes(&mut self, nodes: &NodeTable) {
        for (id, node) in nodes.iter() {
            self.apply_node(id, &node.name, Some(&node.labels));
        }
    }

    /// Records that no attempt has begun yet: the next one is known from its beginning, even if
    /// that is in this second.
    pub(crate) fn await_attempt(&mut self, now: Now) {
        let before = now.wall_seconds() - Duration::from_secs(1);
        self.followed_since = self.followed_since.min(before);
    }

    /// Records when the attempt of a record began. Another one measures all times and counts all
    /// restarts anew; returns whether it does. Nodes without an available pod are not blamed for
    /// it once somebody has promoted a failed rollout in full. One whose record is lost, cannot be
    /// read, or waits to begin again, is known until the next one begins.
    pub(crate) fn set_attempt(&mut self, record: &RolloutRecord, now: Now) -> bool {
        let stated = record.began;
        let known = self.attempt.as_ref().map(|attempt| attempt.stated);
        if known == Some(stated) {
            return false;
        }
        // One that began since may follow another, whose record could not be read.
        let is_another = known.is_some() || stated > self.followed_since;
        let is_retry = record.course.begins_with_retry();
        if is_another {
            for node in &mut self.nodes {
                node.history.begin_attempt(is_retry);
                if record.is_promoted_in_full() {
                    node.history.forgive();
                }
            }
            self.restart_clocks(now.steady);
        }
        let began = now.to_steady(stated).min(now.steady);
        self.attempt = Some(Attempt { stated, began, gone: Vec::new() });
        is_another
    }

    /// When the attempt began, by the steady clock.
    pub(super) fn began(&self) -> Option<Timestamp> {
        self.attempt.as_ref().map(|attempt| attempt.began)
    }

    pub(crate) const fn target(&self) -> &Target {
        &self.target
    }

    pub(crate) const fn policy(&self) -> &Arc<RolloutPolicy> {
        &self.steps.policy
    }

    pub(crate) const fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    /// Moves on to a position that lies behind the current one.
    pub(crate) fn advance(&mut self, position: Position) {
        self.must_fill = true;
        self.position = Some(position);
    }

    /// Applies the labels of a node; `None` if it was deleted.
    pub(crate) fn apply_node(&mut self, id: NodeId, name: &NodeName, labels: Option<&Labels>) {
        let Some(labels) = labels else {
            // A replaced machine still counts as failed.
            let state = self.state(id);
            let counts = matches!(state, NodeState::Failed | NodeState::SetAside(SetAside::Lost));
            let is_late = self.nodes.get(id.index()).is_some_and(|node| node.history.is_late());
            if let Some(attempt) = self.attempt.as_mut().filter(|_| counts) {
                attempt.gone.push(Gone { name: name.clone(), state, is_late });
            }
            return self.change(id, |node| *node = NodeWaves::default());
        };
        let class = self.steps.class(labels);
        // An empty selector would hold all nodes.
        let hold = &self.steps.policy.hold;
        let is_held = !hold.is_empty() && hold.matches(labels);
        // A wave that has room opens the node again; those that have the target come first.
        self.must_fill |= !is_held && self.wave(id) == Wave::Held;
        self.change(id, |node| {
            // An open node stays one of its wave (G11).
            if !node.is_open() {
                node.class = class;
            }
            node.wave = match node.wave {
                Wave::Open | Wave::HeldTooLate if is_held && node.history.has_lost_old_pod() => {
                    Wave::HeldTooLate
                }
                // Another node takes its place in the wave, unless the rollout has begun on it:
                // with both, the wave would be too large once the node is no longer held.
                _ if is_held => Wave::Held,
                Wave::Held => Wave::Closed,
                Wave::HeldTooLate => Wave::Open,
                Wave::Closed | Wave::Open => node.wave,
            };
        });
    }

    /// The state of the node's wave.
    pub(crate) fn wave(&self, id: NodeId) -> Wave {
        self.nodes.get(id.index()).map_or(Wave::Closed, |node| node.wave)
    }

    /// Measures anew how long nodes are without an available pod, and forgets which have failed.
    pub(crate) fn restart_clocks(&mut self, now: Timestamp) {
        for index in 0..self.nodes.len() {
            self.change(NodeId::from_index(index), |node| {
                node.history.restart(now);
                if node.state == NodeState::Failed {
                    node.state = UPDATING;
                }
            });
        }
    }

    /// Records what the watch shows of a pod of the node.
    pub(crate) fn record(&mut self, id: NodeId, shown: Shown) {
        self.node_mut(id).history.record(shown);
    }

    /// Applies a node's assessment; the node is `None` if it was deleted. Returns when its state
    /// may change by itself.
    pub(crate) fn apply_slot(
        &mut self,
        id: NodeId,
        node: Option<(&Node, Option<PullProgress>)>,
        slot: &Slot,
        judgement: &Judgement,
        input: &RolloutInput<'_>,
    ) -> Option<Timestamp> {
        let mut changes_at = None;
        let mut has_progressed = false;
        let is_last = self.position == Some(Position::AllNodes);
        self.change(id, |known| match node {
            None => (known.holding, known.state) = Default::default(),
            Some((node, images)) => {
                known.holding = Holding::new(node, slot, known.history.had_pod(), input);
                if known.holding == Holding::Unaffected {
                    (known.history, known.state) = (known.history.left_out(), NodeState::default());
                    return;
                }
                // In the wave of all nodes, one that comes with a pod is about to be opened.
                let wave = match known.wave {
                    Wave::Closed if is_last && known.holding == Holding::Target => Wave::Open,
                    wave => wave,
                };
                let history = &mut known.history;
                (known.state, changes_at) =
                    history.apply(known.state, slot, (node, wave, images), judgement, input);
                if known.wave == Wave::HeldTooLate && !history.has_begun() {
                    known.wave = Wave::Held;
                }
                has_progressed = history.record_progress(known.state);
            }
        });
        if has_progressed {
            self.news.insert(News::PROGRESS);
        }
        changes_at
    }

    /// True if there is such news since that was last asked.
    pub(super) fn take(&mut self, news: News) -> bool {
        let is_there = self.news.contains(news);
        self.news.remove(news);
        is_there
    }

    /// The nodes that have had no available pod of the target since then or longer, the longest
    /// first.
    pub(crate) fn starting_since(&self, time: Timestamp) -> impl Iterator<Item = NodeId> {
        let since = self.starting.iter().take_while(move |(since, _)| *since <= time);
        let is_updating =
            |id: &NodeId| matches!(self.state(*id), NodeState::Updating { .. } | NodeState::Failed);
        since.map(|(_, id)| *id).filter(is_updating)
    }

    /// The state of a node.
    pub(crate) fn state(&self, id: NodeId) -> NodeState {
        self.nodes.get(id.index()).map(|node| node.state).unwrap_or_default()
    }

    /// The nodes in this state.
    pub(crate) fn nodes_in(&self, state: NodeState) -> impl Iterator<Item = NodeId> {
        let nodes = (0..).map(NodeId::from_index).zip(&self.nodes);
        nodes.filter(move |(_, node)| node.state == state).map(|(id, _)| id)
    }

    /// True if an earlier controller may have begun the rollout on the node, so that it has no pod.
    pub(crate) fn may_have_begun(&self, id: NodeId, node: &Node) -> bool {
        let known = self.nodes.get(id.index());
        let began = self.attempt.as_ref().map(|attempt| attempt.stated);
        let began = began.filter(|began| *began <= self.followed_since);
        known.is_some_and(|known| known.history.may_have_begun(node, began))
    }

    /// The numbers of all nodes by their state.
    pub(crate) fn states(&self) -> StateCounts {
        let mut states = self.all.open;
        states.waiting += self.all.members - states.total();
        *states.count(NodeState::SetAside(SetAside::Held)) += self.all.held;
        states
    }

    /// The number of nodes that are not done: they have failed, or are set aside.
    pub(crate) fn lacking(&self) -> usize {
        let states = self.states();
        states.total() - states.done
    }

    /// Changes a node, and the counts of its groups.
    fn change(&mut self, id: NodeId, change: impl FnOnce(&mut NodeWaves)) {
        let node = self.node_mut(id);
        let before = *node;
        change(node);
        let after = *node;
        let (was_starting, is_starting) =
            (before.history.starting_since(), after.history.starting_since());
        if was_starting != is_starting {
            was_starting.map(|since| self.starting.remove(&(since, id)));
            is_starting.map(|since| self.starting.insert((since, id)));
        }
        if before.history.available_since() != after.history.available_since() {
            self.news.insert(News::AVAILABILITY);
        }
        let (was_counted, is_counted) = (before.counted(), after.counted());
        if (before.class, was_counted) != (after.class, is_counted) {
            self.count(before.class, was_counted, false);
            self.count(after.class, is_counted, true);
        }
        let [was_member, is_member] = [was_counted, is_counted].map(|it| it.map(|it| it.member));
        if (before.class, was_member) != (after.class, is_member) {
            self.steps.classes[before.class].remove(id, was_member);
            self.steps.classes[after.class].add(id, is_member);
        }
        let counts = |member| matches!(member, Some(Member::Open | Member::Closed));
        if (before.class, counts(was_member)) != (after.class, counts(is_member)) {
            self.must_fill = true;
            self.count.invalidate();
            self.excess.invalidate();
        }
    }

    /// The next wave in which something is to be done or awaited. One may have been done because
    /// the built-in controller has removed its pods, which needs permission.
    pub(crate) fn next(&self, position: &Position) -> Position {
        let mut next = self.steps.after(position);
        let waits = |step: Option<&RolloutStep>| step.is_none_or(|step| !step.wait.is_nothing());
        let is_skipped = |at: &Position| {
            !waits(self.policy().step(at))
                && self.is_complete(at)
                && self.forbidden_removals(at).is_none()
        };
        while is_skipped(&next) {
            next = self.steps.after(&next);
        }
        next
    }

    /// Why the policy cannot be followed because it makes too many waves, if that is so.
    pub(crate) const fn excess(&self) -> Option<&Arc<str>> {
        self.excess.last().as_ref()
    }

    /// Determines whether there are too many waves, if nodes came or went.
    pub(crate) fn refresh_excess(&mut self) {
        if !self.excess.is_known() {
            self.excess.set((), self.steps.find_excess());
        }
    }

    /// The waves at a position, as [`recount`](Self::recount) has counted them.
    pub(crate) fn counted(&self, position: &Position) -> Option<WaveCount> {
        self.count.get(position).copied()
    }

    /// Counts the waves at a position, unless that is known. It visits all groups.
    pub(crate) fn recount(&mut self, position: &Position) {
        if self.counted(position).is_none() {
            self.count.set(position.clone(), self.steps.count_at(position));
        }
    }

    /// The counts of the group at a position.
    pub(crate) fn group(&self, position: &Position) -> &Group {
        static EMPTY: LazyLock<Group> = LazyLock::new(Group::default);
        match position {
            Position::AllNodes => &self.all,
            Position::Wave(wave) => {
                self.steps.number(wave).map_or(&EMPTY, |number| &self.steps.groups[number])
            }
        }
    }

    /// When the last node of the group at a position became available that has not joined, without
    /// as many as may be disturbed. If all have joined, when the first did.
    pub(crate) fn bakes_since(&self, position: &Position) -> Option<Timestamp> {
        let nodes = || self.open_nodes(position).map(|(_, node)| node.history);
        let stayed = nodes().filter(|history| !history.has_joined());
        let mut times: Vec<Timestamp> = stayed.filter_map(|it| it.available_since()).collect();
        let Some(last) = times.len().checked_sub(1) else {
            return nodes().filter_map(|it| it.available_since()).min();
        };
        let last = last - tolerated(times.len());
        Some(*times.select_nth_unstable(last).1)
    }

    /// The open nodes of the group at a position that have a pod of the target.
    pub(crate) fn nodes_with_target(&self, position: &Position) -> impl Iterator<Item = NodeId> {
        let open = self.open_nodes(position);
        open.filter(|(_, node)| node.holding == Holding::Target).map(|(id, _)| id)
    }

    /// True if a node of the group at a position is done with a pod of the target.
    pub(crate) fn has_tried(&self, position: &Position) -> bool {
        let is_done = |id: NodeId| self.state(id) == NodeState::Done;
        self.group(position).open.done > 0 && self.nodes_with_target(position).any(is_done)
    }

    /// The conditions for going on from a position; `None` if there are none. By default the last
    /// step waits for its own nodes only: if there are no others, that is enough.
    pub(crate) fn wait(&self, position: &Position) -> Option<Wait> {
        let wait = Some(self.steps.policy.wait(position)).filter(|wait| !wait.is_nothing())?;
        let is_of_other_nodes =
            *position == Position::AllNodes && self.steps.policy.finally.is_none();
        let known = self.counted(position).map(|count| count.has_others);
        let has_others = || known.unwrap_or_else(|| self.steps.has_other_nodes());
        (!is_of_other_nodes || has_others()).then_some(wait)
    }

    fn open_nodes(&self, position: &Position) -> impl Iterator<Item = (NodeId, &NodeWaves)> {
        let number = match position {
            Position::AllNodes => None,
            Position::Wave(wave) => Some(self.steps.number(wave)),
        };
        let is_in = move |node: &NodeWaves| match number {
            None => true,
            Some(number) => {
                number.is_some_and(|number| self.steps.classes[node.class].is_of(number))
            }
        };
        let nodes = (0..).map(NodeId::from_index).zip(&self.nodes);
        nodes.filter(move |(_, node)| node.is_open() && is_in(node))
    }

    /// Adds a node of a class to the counts of its groups, or removes it.
    fn count(&mut self, class: usize, counted: Option<Counted>, is_added: bool) {
        match counted {
            None => {}
            Some(Counted { member: Member::Held, .. }) => {
                for number in &self.steps.classes[class].groups {
                    add(&mut self.steps.groups[*number].held, is_added);
                }
                add(&mut self.all.held, is_added);
            }
            Some(counted) => {
                for number in &self.steps.classes[class].groups {
                    self.steps.groups[*number].count(counted, is_added);
                }
                self.all.count(counted, is_added);
            }
        }
    }

    fn node_mut(&mut self, id: NodeId) -> &mut NodeWaves {
        if self.nodes.len() <= id.index() {
            self.nodes.resize_with(id.index() + 1, NodeWaves::default);
        }
        &mut self.nodes[id.index()]
    }
}

impl NodeWaves {
    /// True if the node is open. One that is held is so since the rollout began on it.
    fn is_open(&self) -> bool {
        match self.wave {
            Wave::Held => self.history.has_begun() || self.holding == Holding::Target,
            Wave::Open | Wave::HeldTooLate => true,
            Wave::Closed => false,
        }
    }

    /// How it counts. A node that is open counts, too, if the target has emptied it: otherwise a
    /// template that fits no node would empty one after the other.
    fn counted(&self) -> Option<Counted> {
        let member = match self.wave {
            _ if self.is_open() => Member::Open,
            _ if !self.holding.is_member() => return None,
            Wave::Held => Member::Held,
            Wave::Open | Wave::Closed | Wave::HeldTooLate => Member::Closed,
        };
        let is_late = self.history.is_late();
        Some(Counted { member, holding: self.holding, state: self.state, is_late })
    }
}
