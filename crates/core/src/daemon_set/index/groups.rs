//! Counts and sets for each group of nodes that have the same value of a label, for a policy that
//! limits each of them (G13).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::{Budget, GroupLimit, GroupValue, Labels, NodeName, Timestamp};
use crate::node::{BudgetUse, Direction, NodeAssessment, NodeProgress, Scheduling};
use crate::node_table::NodeId;

use super::counts::{NodeCounts, Room};
use super::pending_names::PendingNames;
use super::retry_order::RetryOrder;
use super::work_sets::{NodeSet, WorkSets};

/// The groups of a limit, updated by the difference of two assessments of a node.
#[derive(Debug)]
pub(in crate::daemon_set) struct Groups {
    limit: GroupLimit,
    groups: BTreeMap<GroupValue, Group>,
    /// The group of each node, by its number.
    nodes: Vec<GroupValue>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Group {
    counts: NodeCounts,
    work_sets: WorkSets,
}

/// The nodes that may be begun now, so that no group exceeds its limit. Each set replaces the one
/// of [`WorkSets`] with the same name.
#[derive(Debug, Default)]
pub(in crate::daemon_set) struct Admitted {
    pub replace_now: NodeSet,
    pub replace: NodeSet,
    pub surge_now: NodeSet,
    pub surge: NodeSet,
    pub delete_agreed: NodeSet,
}

impl Groups {
    /// Groups without nodes.
    pub(crate) fn new(limit: GroupLimit) -> Self {
        Self { limit, groups: BTreeMap::new(), nodes: Vec::new() }
    }

    /// The limit of each group.
    pub(crate) const fn limit(&self) -> &GroupLimit {
        &self.limit
    }

    /// Applies the labels of a node that is assessed as `assessment`.
    pub(crate) fn apply_node(
        &mut self,
        name: &NodeName,
        id: NodeId,
        labels: &Labels,
        assessment: &NodeAssessment,
    ) {
        let value = group_value(&self.limit.label, labels);
        let known = self.nodes.get(id.index());
        if known.unwrap_or(&GroupValue::Unlabelled) == &value {
            return;
        }
        let none = NodeAssessment::default();
        self.update(name, id, assessment, &none);
        if self.nodes.len() <= id.index() {
            self.nodes.resize(id.index() + 1, GroupValue::Unlabelled);
        }
        self.nodes[id.index()] = value;
        self.update(name, id, &none, assessment);
    }

    /// Applies the change of a node's assessment from `old` to `new`.
    pub(crate) fn update(
        &mut self,
        name: &NodeName,
        id: NodeId,
        old: &NodeAssessment,
        new: &NodeAssessment,
    ) {
        let (old, new) = (&relevant(old), &relevant(new));
        if old == new {
            return;
        }
        let value = self.nodes.get(id.index()).unwrap_or(&GroupValue::Unlabelled);
        if !self.groups.contains_key(value) {
            self.groups.insert(value.clone(), Group::default());
        }
        let Some(group) = self.groups.get_mut(value) else { return };
        group.counts.remove(old);
        group.counts.add(new);
        group.work_sets.update(name, id, old, new);
        if *group == Group::default() {
            let value = value.clone();
            self.groups.remove(&value);
        }
    }

    /// True if the other groups have the same nodes.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.groups == other.groups
    }

    /// The nodes that may be begun within the limit of each group, in the order in which they are
    /// tried. Nodes for which a creation has an unknown outcome come first: their pods may exist.
    /// If no group has room, one node may be begun nevertheless while the rollout is at work on
    /// none, or going back while all are available (G14, G41).
    pub(crate) fn admitted(
        &self,
        budget: Budget,
        (guarded, all): (Option<Direction>, &NodeCounts),
        order: &AdmissionOrder<'_>,
    ) -> Admitted {
        let mut admitted = Admitted::default();
        for group in self.groups.values() {
            let max = self.limit.max.resolve(group.counts.desired);
            admitted.add(group, Room::new(guarded, max, &group.counts), budget, order);
            let agreed = group.counts.room_for_agreed(max);
            order.admit(&group.work_sets.delete_agreed, agreed, &mut admitted.delete_agreed);
        }
        let mut groups = self.groups.values();
        while all.may_let_one_go()
            && admitted.delete_agreed.is_empty()
            && let Some(group) = groups.next()
        {
            order.admit(&group.work_sets.delete_agreed, 1, &mut admitted.delete_agreed);
        }
        let is_at_rest = match guarded {
            Some(Direction::Forward) => all.in_flight == 0 && all.taken == 0,
            // A percentage of a group without desired nodes is 0 (G41).
            Some(Direction::Back) => all.uses_unavailable == 0,
            None => false,
        };
        if is_at_rest {
            let mut groups = self.groups.values();
            while admitted.is_empty()
                && let Some(group) = groups.next()
            {
                admitted.add(group, Room::ONE, budget, order);
            }
        }
        admitted
    }

    /// The nodes whose pods may get another override within the limit of each group. On those that
    /// are `touched` the plan takes a pod away already.
    pub(crate) fn admitted_overrides(
        &self,
        touched: &BTreeSet<NodeId>,
        order: &AdmissionOrder<'_>,
    ) -> NodeSet {
        let mut admitted = NodeSet::new();
        for (value, group) in &self.groups {
            let max = self.limit.max.resolve(group.counts.desired).max(1);
            let of_group = |id: &&NodeId| self.nodes.get(id.index()).is_none_or(|it| it == value);
            let begun = touched.iter().filter(of_group).count();
            let room = group.counts.room_for_overrides(max).saturating_sub(begun);
            order.admit(&group.work_sets.r#override, room, &mut admitted);
        }
        admitted
    }
}

/// The order in which nodes are admitted.
pub(in crate::daemon_set) struct AdmissionOrder<'a> {
    pub retry_order: &'a RetryOrder,
    pub pending_names: &'a PendingNames,
    pub now: Timestamp,
}

impl AdmissionOrder<'_> {
    /// Adds at most `room` nodes of a set; returns how many.
    fn admit(&self, set: &NodeSet, room: usize, admitted: &mut NodeSet) -> usize {
        let reserved = self.pending_names.nodes_reserving_surge(set, self.now);
        let others = self.retry_order.sorted(set).map(|(name, id)| (name.clone(), id));
        let others = others.filter(|(name, _)| !reserved.contains_key(name));
        let before = admitted.len();
        admitted.extend(reserved.clone().into_iter().chain(others).take(room));
        admitted.len() - before
    }
}

impl Admitted {
    fn is_empty(&self) -> bool {
        let Self { replace_now, replace, surge_now, surge, delete_agreed } = self;
        let sets = [replace_now, replace, surge_now, surge, delete_agreed];
        sets.into_iter().all(NodeSet::is_empty)
    }

    fn add(&mut self, group: &Group, room: Room, budget: Budget, order: &AdmissionOrder<'_>) {
        let sets = &group.work_sets;
        let room = room.after(order.admit(&sets.replace_now, room.nodes, &mut self.replace_now));
        let room = room.after(order.admit(&sets.replace, room.available, &mut self.replace));
        if let Budget::Surge(_) = budget {
            let now = order.admit(&sets.surge_now, room.nodes, &mut self.surge_now);
            order.admit(&sets.surge, room.after(now).starting, &mut self.surge);
        }
    }
}

/// The parts of an assessment that a limit needs.
fn relevant(of: &NodeAssessment) -> NodeAssessment {
    let is_in_flight = of.progress.is_in_flight();
    NodeAssessment {
        scheduling: if of.is_desired() { Scheduling::Missing } else { Scheduling::Unneeded },
        budget_use: of.budget_use
            & (BudgetUse::UNAVAILABLE | BudgetUse::ASKED | BudgetUse::CHANGED),
        progress: if is_in_flight { NodeProgress::InFlight } else { NodeProgress::NotBegun },
        step: of.step,
        ..NodeAssessment::default()
    }
}

fn group_value(label: &Arc<str>, labels: &Labels) -> GroupValue {
    labels.get(label).map_or(GroupValue::Unlabelled, |value| GroupValue::Value(value.clone()))
}
