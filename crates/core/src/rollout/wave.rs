//! Which nodes get a new template now: those whose *wave* is open (G5, G11, G12, G17).
//!
//! A step of the policy divides its nodes into groups. At a [`Position`], each group up to that
//! position has a size: that many of its nodes are open. A node that is open stays open unless it
//! is held, so only a new position and a group that grows open nodes: first those that have the
//! target, then those with a failed or superseded revision, then ready nodes with an available pod,
//! then the others.

mod count;
mod status;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::api::{
    GroupValue, Labels, NodeName, Position, RolloutPolicy, RolloutStep, Timestamp, WaveName,
    WavePosition,
};
use crate::memo::Memo;
use crate::node::Wave;
use crate::node_table::NodeId;

pub(super) use count::WaveCount;
use status::{Holding, NodeStatus};

/// The nodes of a guarded rollout, by group.
#[derive(Debug)]
pub(crate) struct Waves {
    policy: Arc<RolloutPolicy>,
    /// The canonical text of the target.
    template: Arc<str>,
    /// `None` while nothing is open but the nodes that have the target.
    position: Option<Position>,
    /// Indexed by node number.
    nodes: Vec<NodeWaves>,
    numbers: BTreeMap<(usize, GroupValue), usize>,
    groups: Vec<Group>,
    /// All nodes that are not held.
    all: Group,
    /// Whether a group may have fewer open nodes than its size.
    must_fill: bool,
    /// The waves, counted for a position. A node that comes, goes or changes invalidates it.
    count: Memo<Position, WaveCount>,
}

/// A node, and the groups that it is part of.
#[derive(Clone, Debug, Default)]
struct NodeWaves {
    /// The numbers of its groups, one for each step that has the node.
    groups: Vec<usize>,
    wave: Wave,
    status: NodeStatus,
    /// Since when the node is without an available pod, while it is.
    starting_since: Option<Timestamp>,
}

/// A node that is not open, as a candidate of a wave. Smaller ones come first (G12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// It has a failed or superseded revision, which a fix replaces first.
    BadRevision,
    /// It is ready, and has an available pod. A pod may stay ready on a node that is down, where a
    /// canary would try nothing.
    Healthy,
    Other,
}

/// Counts of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    pub members: usize,
    /// Members that are open.
    pub open: usize,
    /// Open members on which nothing is left to do.
    pub done: usize,
    /// Open members that a wave does not wait for: they are done, or have failed.
    pub passed: usize,
    /// Members on which nothing is left to do for the target, open or not.
    pub updated: usize,
    /// Members that have a pod of the target.
    pub on_target: usize,
    /// Members that have a pod of the target, and are not open (G17).
    pub on_target_but_closed: usize,
    /// Members that have failed (G15).
    pub failed: usize,
}

impl Waves {
    /// Waves without nodes, none of which is open.
    pub(crate) fn new(policy: Arc<RolloutPolicy>, template: Arc<str>) -> Self {
        Self {
            policy,
            template,
            position: None,
            nodes: Vec::new(),
            numbers: BTreeMap::new(),
            groups: Vec::new(),
            all: Group::default(),
            must_fill: false,
            count: Memo::default(),
        }
    }

    /// Whether they are those of this policy and this template.
    pub(crate) fn are_for(&self, policy: &RolloutPolicy, template: &str) -> bool {
        *self.policy == *policy && *self.template == *template
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
    pub(crate) fn apply_node(&mut self, id: NodeId, labels: Option<&Labels>) {
        let mut node = std::mem::take(self.node_mut(id));
        self.count(&node, false);
        self.must_fill = true;
        self.count.invalidate();
        if let Some(labels) = labels {
            node.groups = self.group_numbers(labels);
            // An empty selector would hold all nodes.
            let hold = &self.policy.hold;
            let is_held = !hold.is_empty() && hold.matches(labels);
            node.wave = match node.wave {
                // Another node takes its place in the wave: with both, the wave would be too large
                // once the node is no longer held.
                _ if is_held => Wave::Held,
                Wave::Held => Wave::Closed,
                Wave::Closed | Wave::Open => node.wave,
            };
            self.count(&node, true);
            *self.node_mut(id) = node;
        }
    }

    /// Whether the node's wave is open.
    pub(crate) fn wave(&self, id: NodeId) -> Wave {
        self.nodes.get(id.index()).map_or(Wave::Closed, |node| node.wave)
    }

    /// Whether [`fill`](Self::fill) may open nodes.
    pub(crate) const fn must_fill(&self) -> bool {
        self.must_fill && self.position.is_some()
    }

    /// Records whether a node is without an available pod now; returns since when it has been.
    fn starting_since(
        &mut self,
        id: NodeId,
        is_starting: bool,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let since = &mut self.node_mut(id).starting_since;
        *since = is_starting.then(|| since.unwrap_or(now));
        *since
    }

    /// Measures anew how long nodes are without an available pod, and forgets which have failed.
    pub(crate) fn restart_clocks(&mut self, now: Timestamp) {
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            node.starting_since = node.starting_since.map(|_| now);
            let status = NodeStatus { has_failed: false, ..node.status };
            self.apply_status(NodeId::from_index(index), status);
        }
    }

    /// Whether the node's pod ended as failed, and no pod has been available there since.
    fn has_failed(&self, id: NodeId) -> bool {
        self.nodes.get(id.index()).is_some_and(|node| node.status.has_failed)
    }

    /// Applies what a node's assessment says.
    fn apply_status(&mut self, id: NodeId, status: NodeStatus) {
        let node = self.node_mut(id);
        if node.status == status {
            return;
        }
        let mut node = std::mem::take(node);
        self.count(&node, false);
        let is_changed = node.status.is_member() != status.is_member();
        self.must_fill |= is_changed;
        if is_changed {
            self.count.invalidate();
        }
        node.status = status;
        self.count(&node, true);
        *self.node_mut(id) = node;
    }

    /// Opens nodes until each group up to the position has its size, and returns them. `rank`
    /// orders the candidates, which come in the order of their names within a rank.
    pub(crate) fn fill(
        &mut self,
        names: impl Fn(NodeId) -> NodeName,
        rank: impl Fn(NodeId) -> Rank,
    ) -> Vec<NodeId> {
        if !std::mem::take(&mut self.must_fill) {
            return Vec::new();
        }
        let Some(position) = self.position.clone() else { return Vec::new() };
        let mut opened = Vec::new();
        if position == Position::AllNodes {
            opened.extend(self.candidates(|_| true));
            opened.iter().for_each(|id| self.open(*id));
            return opened;
        }
        let sizes = self.numbers.iter().map(|((step, value), number)| {
            let members = self.groups[*number].members;
            (*number, self.size_at(&position, *step, value, members))
        });
        let short = sizes.filter(|(number, size)| self.groups[*number].open < *size);
        for (number, size) in short.collect::<Vec<_>>() {
            // A node that was just opened may be one of this group, too.
            let missing = size.saturating_sub(self.groups[number].open);
            if missing == 0 {
                continue;
            }
            let of_group = |node: &NodeWaves| node.groups.contains(&number);
            let mut candidates: Vec<NodeId> = self.candidates(of_group).collect();
            if missing < candidates.len() {
                let is_outdated =
                    |id: NodeId| self.nodes[id.index()].status.holding == Holding::Outdated;
                candidates.sort_by_cached_key(|id| (is_outdated(*id), rank(*id), names(*id)));
            }
            candidates.truncate(missing);
            candidates.iter().for_each(|id| self.open(*id));
            opened.extend(candidates);
        }
        opened
    }

    /// Whether nothing is left to do in the wave at this position. A wave does not wait for failed
    /// nodes, which the policy tolerates; a rollout with one is not complete.
    pub(crate) fn is_complete(&self, position: &Position) -> bool {
        let group = self.group(position);
        match position {
            Position::AllNodes => group.passed == group.members,
            Position::Wave(wave) => {
                let size = self.size_at(position, wave.step, &wave.group, group.members);
                group.open >= size && group.passed == group.open
            }
        }
    }

    /// Whether more nodes have failed than the policy tolerates (G15).
    pub(crate) fn has_failed_nodes(&self) -> bool {
        let rule = self.policy.failure.as_ref();
        rule.is_some_and(|rule| self.all.failed > rule.max_nodes.resolve_floor(self.all.on_target))
    }

    /// Whether the target is everywhere already.
    pub(crate) const fn is_rolled_out(&self) -> bool {
        self.all.members > 0 && self.all.updated == self.all.members
    }

    /// The counts of the group at a position.
    pub(crate) fn group(&self, position: &Position) -> Group {
        match position {
            Position::AllNodes => self.all,
            Position::Wave(wave) => {
                let number = self.numbers.get(&(wave.step, wave.group.clone()));
                number.map_or_else(Group::default, |number| self.groups[*number])
            }
        }
    }

    /// The open nodes of the group at a position.
    pub(crate) fn open_nodes(&self, position: &Position) -> impl Iterator<Item = NodeId> {
        let number = match position {
            Position::AllNodes => None,
            Position::Wave(wave) => {
                Some(self.numbers.get(&(wave.step, wave.group.clone())).copied())
            }
        };
        let is_in = move |node: &NodeWaves| match number {
            None => true,
            Some(number) => number.is_some_and(|number| node.groups.contains(&number)),
        };
        let nodes = self.nodes.iter().enumerate();
        let open = nodes.filter(move |(_, node)| node.wave == Wave::Open && is_in(node));
        open.map(|(index, _)| NodeId::from_index(index))
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
        let behind = Bound::Excluded((wave.step, wave.group.clone()));
        match self.groups_from(behind, wave.step).next() {
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
        // No value is before the empty one.
        self.groups_from(Bound::Included((step, GroupValue::Value("".into()))), step)
    }

    /// The values of the step's groups that have nodes, in their order, from one on. It visits no
    /// group before.
    fn groups_from(
        &self,
        first: Bound<(usize, GroupValue)>,
        step: usize,
    ) -> impl Iterator<Item = &GroupValue> {
        let from = self.numbers.range((first, Bound::Unbounded));
        let of_step = from.take_while(move |((of, _), _)| *of == step);
        let with_nodes = of_step.filter(|(_, number)| self.groups[**number].members > 0);
        with_nodes.map(|((_, value), _)| value)
    }

    /// How many nodes of a group are open at a position.
    fn size_at(
        &self,
        position: &Position,
        step: usize,
        value: &GroupValue,
        members: usize,
    ) -> usize {
        let Position::Wave(at) = position else { return members };
        let sizes = &self.policy.steps[step].up_to;
        let size = match (step, value).cmp(&(at.step, &at.group)) {
            std::cmp::Ordering::Less => sizes.last(),
            std::cmp::Ordering::Equal => sizes.get(at.size).or(sizes.last()),
            std::cmp::Ordering::Greater => return 0,
        };
        size.map_or(0, |size| size.resolve(members).min(members))
    }

    fn group_numbers(&mut self, labels: &Labels) -> Vec<usize> {
        let policy = self.policy.clone();
        let steps = policy.steps.iter().enumerate();
        let of_node = steps.filter(|(_, step)| step.nodes.matches(labels));
        of_node.map(|(index, step)| self.group_number(index, group_value(step, labels))).collect()
    }

    fn group_number(&mut self, step: usize, value: GroupValue) -> usize {
        *self.numbers.entry((step, value)).or_insert_with(|| {
            self.groups.push(Group::default());
            self.groups.len() - 1
        })
    }

    fn candidates(&self, is_in: impl Fn(&NodeWaves) -> bool) -> impl Iterator<Item = NodeId> {
        let nodes = self.nodes.iter().enumerate();
        let candidates = nodes
            .filter(move |(_, node)| node.wave == Wave::Closed && node.counts() && is_in(node));
        candidates.map(|(index, _)| NodeId::from_index(index))
    }

    fn open(&mut self, id: NodeId) {
        let mut node = std::mem::take(self.node_mut(id));
        self.count(&node, false);
        node.wave = Wave::Open;
        self.count(&node, true);
        *self.node_mut(id) = node;
    }

    /// Adds the node to the counts of its groups, or removes it.
    fn count(&mut self, node: &NodeWaves, is_added: bool) {
        if !node.counts() {
            return;
        }
        for number in &node.groups {
            self.groups[*number].count(node, is_added);
        }
        self.all.count(node, is_added);
    }

    fn node_mut(&mut self, id: NodeId) -> &mut NodeWaves {
        if self.nodes.len() <= id.index() {
            self.nodes.resize_with(id.index() + 1, NodeWaves::default);
        }
        &mut self.nodes[id.index()]
    }
}

impl NodeWaves {
    /// A node that is open counts, too, if the target has emptied it: otherwise a template that
    /// fits no node would empty one after the other.
    const fn counts(&self) -> bool {
        match self.wave {
            Wave::Held => false,
            Wave::Open => true,
            Wave::Closed => self.status.is_member(),
        }
    }
}

impl Group {
    fn count(&mut self, node: &NodeWaves, is_added: bool) {
        let (is_updated, has_target) = match node.status.holding {
            Holding::Nothing | Holding::NothingOfTarget => (true, false),
            Holding::Outdated => (node.status.is_done, false),
            Holding::Target => (node.status.is_done, true),
        };
        let is_open = node.wave == Wave::Open;
        let counts = [
            (&mut self.members, true),
            (&mut self.open, is_open),
            (&mut self.done, is_open && node.status.is_done),
            (&mut self.passed, is_open && (node.status.is_done || node.status.has_failed)),
            (&mut self.updated, is_updated),
            (&mut self.on_target, has_target),
            (&mut self.on_target_but_closed, has_target && !is_open),
            (&mut self.failed, node.status.has_failed),
        ];
        for (count, counts) in counts {
            match is_added {
                true => *count += usize::from(counts),
                false => *count -= usize::from(counts),
            }
        }
    }
}

fn group_value(step: &RolloutStep, labels: &Labels) -> GroupValue {
    let value = step.by.as_ref().and_then(|key| labels.get(key));
    value.map_or(GroupValue::Unlabelled, |value| GroupValue::Value(value.clone()))
}
