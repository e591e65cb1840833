//! Which nodes get a new template now: those whose *wave* is open (G5, G11, G12, G17).
//!
//! A step of the policy divides its nodes into groups. At a [`Position`], each group up to that
//! position has a size: that many of its nodes are open. A node that is open stays open unless it
//! is held, so only a new position and a group that grows open nodes: first those that have the
//! target, then those with a failed or superseded revision, then ready nodes with an available pod,
//! then the others.

mod awaited;
mod count;
mod group;
mod opening;
mod standing;
mod state;
mod target;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, LazyLock};

use crate::api::{
    GroupValue, IntOrPercent, Labels, Node, NodeName, Now, Position, RolloutPolicy, RolloutRecord,
    RolloutStep, Timestamp, Wait, WaveName, WavePosition,
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
pub(crate) use target::Target;

/// The nodes of a guarded rollout, by group.
#[derive(Debug)]
pub(crate) struct Waves {
    policy: Arc<RolloutPolicy>,
    target: Target,
    /// The attempt to roll it out; `None` before it began.
    attempt: Option<Attempt>,
    /// `None` while nothing is open but the nodes that have the target.
    position: Option<Position>,
    /// Indexed by node number.
    nodes: Vec<NodeWaves>,
    /// The groups of each step.
    steps: Vec<StepGroups>,
    groups: Vec<Group>,
    /// The nodes by their groups. The first class has those of no group.
    classes: Vec<Class>,
    /// The numbers of the classes.
    class_numbers: BTreeMap<Vec<usize>, usize>,
    /// All nodes that are not held.
    all: Group,
    /// The number of nodes that are.
    held: usize,
    /// The nodes that have a pod of the target which is not available, by the time since when.
    starting: BTreeSet<(Timestamp, NodeId)>,
    /// True if the rollout was done with a node since that was last asked.
    has_progressed: bool,
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
    /// The nodes that were deleted after they had failed, or were lost, with these states.
    gone: Vec<(NodeName, NodeState)>,
}

/// The numbers of a step's groups.
#[derive(Clone, Debug, Default)]
struct StepGroups {
    /// Those of its waves.
    groups: BTreeMap<GroupValue, usize>,
    /// The nodes with each value of its `each`: they have a size of their own in each wave.
    parts: BTreeMap<GroupValue, usize>,
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
        let steps = vec![StepGroups::default(); policy.steps.len()];
        Self {
            policy,
            target,
            attempt: None,
            position: None,
            nodes: Vec::new(),
            steps,
            groups: Vec::new(),
            classes: vec![Class::new(Vec::new())],
            class_numbers: BTreeMap::from([(Vec::new(), 0)]),
            all: Group::default(),
            held: 0,
            starting: BTreeSet::new(),
            has_progressed: false,
            must_fill: false,
            count: Memo::default(),
            excess: Memo::default(),
        }
    }

    /// True if they are those of these steps and this target.
    pub(crate) fn are_for(&self, policy: &RolloutPolicy, target: &Target) -> bool {
        self.policy.steps == policy.steps && self.target == *target
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
        for index in 0..self.nodes.len() {
            let has_target = input.slots.get(index).is_some_and(|it| it.pods.are_all(is_target));
            self.change(NodeId::from_index(index), |node| {
                node.history = match earlier.and_then(|it| Some(it.nodes.get(index)?.history)) {
                    None => NodeHistory::unknown(input.slots.get(index), taken_since),
                    Some(history) if is_same_target => history,
                    Some(history) => history.of_another_target(has_target),
                };
            });
        }
        let earlier = earlier.filter(|_| is_same_target);
        self.attempt = earlier.and_then(|earlier| earlier.attempt.clone());
        is_same_target
    }

    /// Applies a policy with the same steps: only which nodes are held may be another question.
    pub(crate) fn set_policy(&mut self, policy: Arc<RolloutPolicy>, nodes: &NodeTable) {
        self.policy = policy;
        self.apply_nodes(nodes);
    }

    /// Applies the labels of all nodes.
    pub(crate) fn apply_nodes(&mut self, nodes: &NodeTable) {
        for (id, node) in nodes.iter() {
            self.apply_node(id, &node.name, Some(&node.labels));
        }
    }

    /// Records when the attempt of a record began. Another one measures all times and counts all
    /// restarts anew; returns whether it does. Nodes without an available pod are not blamed for
    /// it once somebody has promoted a failed rollout in full.
    pub(crate) fn set_attempt(&mut self, record: Option<&RolloutRecord>, now: Now) -> bool {
        let stated = record.map(|record| record.began);
        let known = self.attempt.as_ref().map(|attempt| attempt.stated);
        if stated == known {
            return false;
        }
        let is_another = known.is_some();
        if is_another {
            let is_promoted = record.is_some_and(RolloutRecord::is_promoted_in_full);
            for node in &mut self.nodes {
                node.history.forget_restarts();
                if is_promoted {
                    node.history.forgive();
                }
            }
            self.restart_clocks(now.steady);
        }
        self.attempt = stated.map(|stated| Attempt {
            stated,
            began: now.to_steady(stated).min(now.steady),
            gone: Vec::new(),
        });
        is_another
    }

    /// When the attempt began, by the steady clock.
    pub(super) fn began(&self) -> Option<Timestamp> {
        self.attempt.as_ref().map(|attempt| attempt.began)
    }

    pub(crate) const fn policy(&self) -> &Arc<RolloutPolicy> {
        &self.policy
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
            // Whoever replaces broken machines must not hide what a template does to them.
            let state = self.state(id);
            let counts = matches!(state, NodeState::Failed | NodeState::SetAside(SetAside::Lost));
            if let Some(attempt) = self.attempt.as_mut().filter(|_| counts) {
                attempt.gone.push((name.clone(), state));
            }
            return self.change(id, |node| *node = NodeWaves::default());
        };
        let class = self.class(labels);
        // An empty selector would hold all nodes.
        let hold = &self.policy.hold;
        let is_held = !hold.is_empty() && hold.matches(labels);
        // A wave that has room opens the node again; those that have the target come first.
        self.must_fill |= !is_held && self.wave(id) == Wave::Held;
        self.change(id, |node| {
            node.class = class;
            node.wave = match node.wave {
                // Another node takes its place in the wave, unless the rollout has begun on it:
                // with both, the wave would be too large once the node is no longer held.
                _ if is_held => Wave::Held,
                Wave::Held => Wave::Closed,
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

    /// Records that the watch shows the deletion of a node's pod that this controller has deleted,
    /// or that the pod is being changed in place.
    pub(crate) fn record_loss(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(id.index());
        node.into_iter().for_each(|node| node.history.record_loss());
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
        self.change(id, |known| match node {
            None => (known.holding, known.state) = Default::default(),
            Some((node, images)) => {
                known.holding = Holding::new(node, slot, known.history.had_pod(), input);
                if known.holding == Holding::Unaffected {
                    (known.history, known.state) = (known.history.left_out(), NodeState::default());
                    return;
                }
                let (wave, history) = (known.wave, &mut known.history);
                (known.state, changes_at) =
                    history.apply(known.state, slot, (node, wave, images), judgement, input);
                has_progressed = history.record_progress(known.state);
            }
        });
        self.has_progressed |= has_progressed;
        changes_at
    }

    /// True if the rollout was done with a node since that was last asked.
    pub(crate) const fn take_progress(&mut self) -> bool {
        std::mem::replace(&mut self.has_progressed, false)
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
        let attempt = self.attempt.as_ref().map(|attempt| attempt.stated);
        known.is_some_and(|known| known.history.may_have_begun(node, attempt))
    }

    /// The numbers of all nodes by their state.
    pub(crate) fn states(&self) -> StateCounts {
        let mut states = self.all.open;
        states.waiting += self.all.members - states.total();
        *states.count(NodeState::SetAside(SetAside::Held)) += self.held;
        states
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
        let (was_counted, is_counted) = (before.counted(), after.counted());
        if (before.class, was_counted) != (after.class, is_counted) {
            self.count(before.class, was_counted, false);
            self.count(after.class, is_counted, true);
        }
        let [was_member, is_member] = [was_counted, is_counted].map(|it| it.map(|it| it.member));
        if (before.class, was_member) != (after.class, is_member) {
            self.classes[before.class].remove(id, was_member);
            self.classes[after.class].add(id, is_member);
        }
        let counts = |member| matches!(member, Some(Member::Open | Member::Closed));
        if (before.class, counts(was_member)) != (after.class, counts(is_member)) {
            self.must_fill = true;
            self.count.invalidate();
            self.excess.invalidate();
        }
    }

    /// True if the wave at this position has passed: each of its nodes is done, has failed or is
    /// set aside, and the target was tried (G39, G40).
    pub(crate) fn is_complete(&self, position: &Position) -> bool {
        let group = self.group(position);
        self.is_passed(position, group) && !self.lacks_trial(position, group)
    }

    /// True if nothing but nodes that went down, or leave, after the rollout was done with them
    /// keeps the wave at this position from being complete.
    pub(crate) fn lacks_only_absent(&self, position: &Position) -> bool {
        let Group { open, disturbed_absent, .. } = self.group(position);
        *disturbed_absent > 0 && open.left() == *disturbed_absent
    }

    /// True if each node of the wave at this position, whose group is `group`, is done, has failed
    /// or is set aside.
    pub(super) fn is_passed(&self, position: &Position, group: &Group) -> bool {
        let Group { open, disturbed, disturbed_absent, .. } = group;
        let left = open.left();
        // Once the rollout is complete, nobody judges nodes that are up; their time tells.
        let are_judged = self.policy.failure.is_some_and(|rule| rule.ready_within.is_some());
        let excused = match position {
            Position::AllNodes if are_judged => *disturbed_absent,
            Position::AllNodes | Position::Wave(_) => *disturbed,
        };
        let may_pass = left == 0 || left == excused && left <= tolerated(open.total());
        may_pass && open.total() >= self.size(position, group)
    }

    /// True if a node that is up still lacks the revision, which is complete: it never had an
    /// available pod of it (G37).
    pub(crate) fn has_nodes_left(&self) -> bool {
        self.all.has_nodes_left() || self.lacks_trial(&Position::AllNodes, &self.all)
    }

    /// True if the wave at this position, whose group is `group`, has nodes, and has tried none;
    /// that of all nodes, whether none is done.
    pub(super) fn lacks_trial(&self, position: &Position, group: &Group) -> bool {
        let open = &group.open;
        let (has_nodes, tried) = match position {
            // A rollout is never complete without a node that is done (G40).
            Position::AllNodes => (open.total() + self.held > 0, open.done),
            Position::Wave(_) => (open.total() > 0, open.tried()),
        };
        has_nodes && tried == 0
    }

    /// True if more nodes have failed than the policy tolerates (G15).
    pub(crate) fn has_failed_nodes(&self) -> bool {
        let gone = self.gone_in(NodeState::Failed).count();
        let (failed, on_target) = (self.all.failed + gone, self.all.on_target + gone);
        let rule = self.policy.failure.as_ref();
        rule.is_some_and(|rule| failed > rule.max_nodes.resolve_floor(on_target))
    }

    /// The nodes that were in this state when they were deleted in this attempt.
    pub(crate) fn gone_in(&self, state: NodeState) -> impl Iterator<Item = &NodeName> {
        let gone = self.attempt.iter().flat_map(|attempt| &attempt.gone);
        gone.filter(move |(_, was)| *was == state).map(|(name, _)| name)
    }

    /// True if more nodes have failed since the rollout was complete than the policy tolerates
    /// (G40).
    pub(crate) fn has_late_failures(&self) -> bool {
        let rule = self.policy.failure.as_ref();
        rule.is_some_and(|rule| self.all.late > rule.max_nodes.resolve_floor(self.all.on_target))
    }

    /// True if more nodes are lost than the policy tolerates: by default one, or a tenth of those
    /// that have the target (G15).
    pub(crate) fn has_lost_nodes(&self) -> bool {
        let Some(rule) = &self.policy.failure else { return false };
        let gone = self.gone_in(NodeState::SetAside(SetAside::Lost)).count();
        let max = |max: IntOrPercent| max.resolve_floor(self.all.on_target + gone);
        let lost = self.all.lost + gone;
        lost > rule.max_lost.map_or_else(|| max(IntOrPercent::Percent(10)).max(1), max)
    }

    /// How many pods the target's placement removes, if these are more than the policy allows
    /// (G42).
    pub(crate) fn too_many_removals(&self) -> Option<usize> {
        let allowed = self.policy.failure.map_or(IntOrPercent::Int(0), |rule| rule.max_removed);
        let removed = self.all.removed;
        (removed > allowed.resolve_floor(self.all.members)).then_some(removed)
    }

    /// The same, if the wave at this position removes one: they are its last nodes.
    pub(crate) fn forbidden_removals(&self, position: &Position) -> Option<usize> {
        let removes = |(group, size): (&Group, usize)| size > group.members - group.removed;
        self.too_many_removals().filter(|_| self.sizes(position).any(removes))
    }

    /// The next wave in which something is to be done or awaited.
    pub(crate) fn next(&self, position: &Position) -> Position {
        let mut next = self.after(position);
        while self.step(&next).is_some_and(|step| step.wait.is_nothing()) && self.is_complete(&next)
        {
            next = self.after(&next);
        }
        next
    }

    /// The counts of the group at a position.
    pub(crate) fn group(&self, position: &Position) -> &Group {
        static EMPTY: LazyLock<Group> = LazyLock::new(Group::default);
        match position {
            Position::AllNodes => &self.all,
            Position::Wave(wave) => self.number(wave).map_or(&EMPTY, |number| &self.groups[number]),
        }
    }

    /// When the last node of the group at a position became available that has not joined, without
    /// as many as may be disturbed.
    pub(crate) fn bakes_since(&self, position: &Position) -> Option<Timestamp> {
        let times = self.open_nodes(position).filter_map(|(_, node)| node.history.bakes_since());
        let mut times: Vec<Timestamp> = times.collect();
        let last = times.len().checked_sub(1)? - tolerated(times.len());
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
        let wait = Some(self.policy.wait(position)).filter(|wait| !wait.is_nothing())?;
        let is_of_other_nodes = *position == Position::AllNodes && self.policy.finally.is_none();
        let known = self.counted(position).map(|count| count.has_others);
        let has_others = || known.unwrap_or_else(|| self.has_other_nodes());
        (!is_of_other_nodes || has_others()).then_some(wait)
    }

    fn open_nodes(&self, position: &Position) -> impl Iterator<Item = (NodeId, &NodeWaves)> {
        let number = match position {
            Position::AllNodes => None,
            Position::Wave(wave) => Some(self.number(wave)),
        };
        let is_in = move |node: &NodeWaves| match number {
            None => true,
            Some(number) => number.is_some_and(|number| self.classes[node.class].is_of(number)),
        };
        let nodes = (0..).map(NodeId::from_index).zip(&self.nodes);
        nodes.filter(move |(_, node)| node.is_open() && is_in(node))
    }

    /// The first wave.
    pub(crate) fn first(&self) -> Position {
        self.first_of_step(0)
    }

    /// The wave after this one.
    pub(crate) fn after(&self, position: &Position) -> Position {
        let Position::Wave(wave) = position else { return Position::AllNodes };
        let Some(step) = self.policy.steps.get(wave.step) else { return Position::AllNodes };
        if wave.size + 1 < step.up_to.len() {
            return Position::Wave(WavePosition { size: wave.size + 1, ..wave.clone() });
        }
        let behind = (Bound::Excluded(&wave.group), Bound::Unbounded);
        let behind = self.steps[wave.step].groups.range::<GroupValue, _>(behind);
        match self.with_nodes(behind).next() {
            Some(group) => {
                Position::Wave(WavePosition { step: wave.step, group: group.clone(), size: 0 })
            }
            None => self.first_of_step(wave.step + 1),
        }
    }

    /// The step of a position.
    pub(crate) fn step(&self, position: &Position) -> Option<&RolloutStep> {
        self.policy.step(position)
    }

    /// The name of the wave at a position.
    pub(crate) fn name(&self, position: &Position) -> Option<WaveName> {
        self.policy.wave_name(position)
    }

    fn first_of_step(&self, step: usize) -> Position {
        if step >= self.policy.steps.len() {
            return Position::AllNodes;
        }
        let group = self.groups_of_step(step).next().cloned().unwrap_or(GroupValue::Unlabelled);
        Position::Wave(WavePosition { step, group, size: 0 })
    }

    /// The values of the step's groups that have nodes, in their order.
    fn groups_of_step(&self, step: usize) -> impl Iterator<Item = &GroupValue> {
        self.with_nodes(self.steps.get(step).into_iter().flat_map(|step| &step.groups))
    }

    /// The values of those groups that have nodes.
    fn with_nodes<'a>(
        &'a self,
        groups: impl Iterator<Item = (&'a GroupValue, &'a usize)>,
    ) -> impl Iterator<Item = &'a GroupValue> {
        let with_nodes = groups.filter(|(_, number)| self.groups[**number].members > 0);
        with_nodes.map(|(value, _)| value)
    }

    /// The number of the group of a wave.
    fn number(&self, wave: &WavePosition) -> Option<usize> {
        self.steps.get(wave.step)?.groups.get(&wave.group).copied()
    }

    /// The number of the class of nodes with these labels.
    fn class(&mut self, labels: &Labels) -> usize {
        let groups = self.group_numbers(labels);
        if let Some(number) = self.class_numbers.get(&groups) {
            return *number;
        }
        self.classes.push(Class::new(groups.clone()));
        let number = self.classes.len() - 1;
        self.class_numbers.insert(groups, number);
        number
    }

    /// The numbers of the groups of nodes with these labels: one for each step that has them, and
    /// one for each `each`.
    fn group_numbers(&mut self, labels: &Labels) -> Vec<usize> {
        let Self { policy, steps, groups, .. } = self;
        let mut number = |of: &mut BTreeMap<GroupValue, usize>, value| {
            *of.entry(value).or_insert_with(|| {
                groups.push(Group::default());
                groups.len() - 1
            })
        };
        let mut numbers = Vec::new();
        let steps = policy.steps.iter().zip(steps);
        for (step, of_step) in steps.filter(|(step, _)| step.nodes.matches(labels)) {
            numbers.push(number(&mut of_step.groups, value(step.by.as_ref(), labels)));
            if let Some(each) = &step.each {
                numbers.push(number(&mut of_step.parts, value(Some(each), labels)));
            }
        }
        numbers
    }

    /// Adds a node of a class to the counts of its groups, or removes it.
    fn count(&mut self, class: usize, counted: Option<Counted>, is_added: bool) {
        match counted {
            None => {}
            Some(Counted { member: Member::Held, .. }) => add(&mut self.held, is_added),
            Some(counted) => {
                for number in &self.classes[class].groups {
                    self.groups[*number].count(counted, is_added);
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
            Wave::Held => self.history.has_begun(),
            Wave::Open => true,
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
            Wave::Open | Wave::Closed => Member::Closed,
        };
        let is_late = self.history.is_late();
        Some(Counted { member, holding: self.holding, state: self.state, is_late })
    }
}

/// The value of the label with this key.
fn value(key: Option<&Arc<str>>, labels: &Labels) -> GroupValue {
    let value = key.and_then(|key| labels.get(key));
    value.map_or(GroupValue::Unlabelled, |value| GroupValue::Value(value.clone()))
}
