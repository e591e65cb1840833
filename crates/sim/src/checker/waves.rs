//! Which nodes a replica may have opened to a guarded rollout (G5, G11, G17): so many of each group
//! as the stored position allows, and none that is held.

use std::collections::{BTreeMap, BTreeSet};

use super::history::History;
use super::model::{Group, Policy, Position};
use super::situation::Situation;
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
    let first = open.first()?;
    let problem = match (&situation.stage, situation.ds.policy.valid()) {
        (Stage::Moving(record), Some(policy)) => {
            problem(situation, history, policy, &record.position, &open)
        }
        // The revision with the record is adopted first (C21).
        (Stage::Pending, _) if !situation.revisions.orphans.is_empty() => None,
        // The built-in controller places all pods, and none is replaced before the rollout begins.
        _ if situation.role == Role::Beside => None,
        (stage, _) => Some(format!("node {first} is open, although the stage is {stage:?}")),
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
    let labels = |name: &str| {
        situation.nodes[name].node.map(|node| node.metadata.labels.clone()).unwrap_or_default()
    };
    let has_target =
        |name: &str| situation.nodes[name].occupants().any(|our| situation.is_updated(our.pod));
    let is_held = |name: &&&String| policy.holds(&labels(name)) && !has_target(name);
    if let Some(held) = open.iter().find(is_held) {
        return Some(format!("node {held} is open, although it is held"));
    }
    if *position == Position::AllNodes {
        return None;
    }
    let sizes = sizes(situation, history, policy, position);
    let size = |key: &GroupKey| sizes.get(key).copied().unwrap_or(0);
    let mut only: BTreeMap<GroupKey, usize> = BTreeMap::new();
    let mut relabelled = 0;
    for name in open {
        let groups: BTreeSet<GroupKey> =
            policy.groups(&labels(name)).into_iter().filter(|key| size(key) > 0).collect();
        // A node that is open stays open when its labels change.
        let has_left_one =
            groups_ever(history, policy, name).any(|key| size(&key) > 0 && !groups.contains(&key));
        match groups.first() {
            _ if has_left_one => relabelled += 1,
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
    (open.len() > most + relabelled).then(|| format!("more than {most} nodes are open: {open:?}"))
}

/// True if the waves up to a position surely have the node: all nodes of one of its groups, or all
/// nodes.
pub(super) fn surely_reaches(
    situation: &Situation,
    history: &History,
    policy: &Policy,
    position: &Position,
    name: &str,
) -> bool {
    if *position == Position::AllNodes {
        return true;
    }
    let Some(node) = situation.nodes.get(name).and_then(|on_node| on_node.node) else {
        return false;
    };
    let members = members(situation, history, policy);
    policy.groups(&node.metadata.labels).into_iter().any(|(step, group)| {
        let count = members.get(&(step, group.clone())).map_or(0, BTreeSet::len);
        policy.size_at(position, (step, &group), count) >= count
    })
}

/// The groups that a node has ever been in.
fn groups_ever<'a>(
    history: &'a History,
    policy: &'a Policy,
    name: &'a str,
) -> impl Iterator<Item = GroupKey> + 'a {
    let states = history.nodes.states().filter(move |(_, node)| node.metadata.name == name);
    states.flat_map(|(_, node)| policy.groups(&node.metadata.labels))
}

/// How many nodes of each group may be open at most. A node that is open stays open when its group
/// shrinks, so that all nodes count that have ever been of the group.
fn sizes(
    situation: &Situation,
    history: &History,
    policy: &Policy,
    position: &Position,
) -> BTreeMap<GroupKey, usize> {
    let size = |((step, group), nodes): (&GroupKey, &BTreeSet<&str>)| {
        policy.size_at(position, (*step, group), nodes.len())
    };
    let members = members(situation, history, policy);
    members.iter().map(|entry| (entry.0.clone(), size(entry))).collect()
}

/// All nodes that have ever been of each group, by UID.
fn members<'a>(
    situation: &Situation<'a>,
    history: &'a History,
    policy: &Policy,
) -> BTreeMap<GroupKey, BTreeSet<&'a str>> {
    let mut members: BTreeMap<GroupKey, BTreeSet<&str>> = BTreeMap::new();
    let known = situation.nodes.values().filter_map(|on_node| on_node.node);
    for node in history.nodes.states().map(|(_, node)| node).chain(known) {
        for key in policy.groups(&node.metadata.labels) {
            members.entry(key).or_default().insert(&node.metadata.uid);
        }
    }
    members
}
