//! Which nodes a replica may have opened to a guarded rollout (G5, G11, G17): so many of each group
//! as the stored position allows.

use std::collections::{BTreeMap, BTreeSet};

use super::history::History;
use super::model::{Eligibility, Group, Node, Policy, Position, Record};
use super::situation::{NodeView, Situation};
use super::stage::Stage;
use super::{Property, Violation};
use crate::role::Role;

/// The groups of a policy, by step and value.
type GroupKey = (usize, Group);

/// Judges which nodes the replica has opened.
pub(super) fn check(situation: &Situation, history: &History) -> Option<Violation> {
    let is_there = |name: &&String| {
        situation.nodes.get(name.as_str()).is_some_and(|on_node| on_node.node.is_some())
    };
    let open: BTreeSet<&String> = situation.open_nodes.iter().filter(is_there).collect();
    let problem = match (&situation.stage, situation.ds.policy.valid()) {
        (Stage::Moving(record), Some(policy)) => {
            problem(situation, history, policy, &record.position, &open)
                .or_else(|| left(situation, history, record).filter(|_| record.is_under_way()))
        }
        _ if open.is_empty() => None,
        // The revision with the record is adopted first (C21).
        (Stage::Pending, _) if !situation.revisions.orphans.is_empty() => None,
        // The built-in controller places all pods, and none is replaced before the rollout begins.
        _ if situation.role == Role::Beside => None,
        (stage, _) => Some(format!("nodes are open, although the stage is {stage:?}: {open:?}")),
    }?;
    Some(situation.violation(Property::Gate, problem))
}

fn problem(
    situation: &Situation,
    history: &History,
    policy: &Policy,
    position: &Position,
    open: &BTreeSet<&String>,
) -> Option<String> {
    let on_node = |name: &String| &situation.nodes[name.as_str()];
    if *position == Position::AllNodes {
        return None;
    }
    let sizes = sizes(situation, history, policy, position);
    let size = |key: &GroupKey| sizes.get(key).copied().unwrap_or(0);
    let mut only: BTreeMap<GroupKey, usize> = BTreeMap::new();
    for name in open {
        let groups = on_node(name).labels().map(|labels| policy.groups(labels)).unwrap_or_default();
        let groups: BTreeSet<GroupKey> = groups.into_iter().filter(|key| size(key) > 0).collect();
        match groups.first() {
            None => {
                return Some(format!(
                    "node {name} is open, which is in no wave up to {position:?}"
                ));
            }
            Some(group) if groups.len() == 1 => *only.entry(group.clone()).or_default() += 1,
            Some(_) => {}
        }
    }
    let exceeded = only.iter().find(|(key, count)| **count > size(key));
    if let Some((group, count)) = exceeded {
        return Some(format!("{count} nodes of {group:?} are open at {position:?}: {open:?}"));
    }
    let most: usize = sizes.values().sum();
    (open.len() > most).then(|| format!("more than {most} nodes are open: {open:?}"))
}

/// A node whose wave was opened in this attempt, and on which the rollout has begun, although it is
/// in no open wave any more: until there are another template or other steps, it stays one of its
/// wave (G11), also if the policy was invalid meanwhile (G33).
fn left(situation: &Situation, history: &History, record: &Record) -> Option<String> {
    let current = situation.revisions.current.last()?;
    let mut records = history.records(&current.metadata.uid);
    let is_of_attempt = |other: &Record| other.began == record.began && other.steps == record.steps;
    let (attempt, _) = records.find(|(_, other)| is_of_attempt(other))?;
    let states = || history.daemon_sets(situation.role).of(&situation.ds.metadata.uid);
    let is_held = |node: &Node| {
        let mut policies = states().filter_map(|(_, ds)| ds.policy.valid());
        policies.any(|policy| policy.holds(&node.metadata.labels))
    };
    let may_be_held =
        |node: &Node, begun| history.nodes.at(&node.metadata.uid, begun).is_none_or(is_held);
    let has_left = |on_node: &NodeView| {
        let (Some(node), Some(stated)) = (on_node.node, on_node.stated) else { return false };
        let begun = stated.in_waves.begun.filter(|_| !stated.in_waves.is_open);
        begun.is_some_and(|at| at > attempt && !may_be_held(node, at))
            && on_node.by_target == Eligibility::ShouldRun
            && on_node.deletable().all(|pod| situation.is_updated(pod))
    };
    let (name, _) = situation.nodes.iter().find(|(_, on_node)| has_left(on_node))?;
    Some(format!("node {name} is in no open wave any more"))
}

/// How many nodes of each group may be open at most. A node that is open stays open when its group
/// shrinks, so that all nodes count that have ever been of the group.
fn sizes(
    situation: &Situation,
    history: &History,
    policy: &Policy,
    position: &Position,
) -> BTreeMap<GroupKey, usize> {
    let mut members: BTreeMap<GroupKey, BTreeSet<&str>> = BTreeMap::new();
    let known = situation.nodes.values().filter_map(|on_node| on_node.node);
    for node in history.nodes.states().map(|(_, node)| node).chain(known) {
        for key in policy.groups(&node.metadata.labels) {
            members.entry(key).or_default().insert(&node.metadata.uid);
        }
    }
    let size = |((step, group), nodes): (GroupKey, BTreeSet<&str>)| {
        let size = policy.size_at(position, (step, &group), nodes.len());
        ((step, group), size)
    };
    members.into_iter().map(size).collect()
}
