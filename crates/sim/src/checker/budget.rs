//! On how many nodes a guarded rollout may work at the same time, in all and in each group of nodes
//! that has a limit of its own (G13, G14).

use std::collections::BTreeMap;

use super::model::{Budget, Eligibility, Group, Pod, Policy};
use super::reason::{Deletion, JudgedPlan};
use super::situation::{OnNode, Situation};
use super::{Property, Violation, violation};

/// Judges on how many nodes a plan begins.
pub(super) fn check(situation: &Situation, judged: &JudgedPlan) -> Option<Violation> {
    let policy = situation.ds.policy.valid()?;
    let problem = exceeded(situation, judged)
        .or_else(|| policy.limits_groups().then(|| group_exceeded(situation, policy, judged))?)?;
    let metadata = &situation.ds.metadata;
    violation(Property::Budget, format!("{}/{}: {problem}", metadata.namespace, metadata.name))
}

/// A guarded rollout never works on more nodes than its budget, available before or not (G14).
fn exceeded(situation: &Situation, judged: &JudgedPlan) -> Option<String> {
    let deletions = judged.deletions.values().filter(|reason| reason.begins());
    let creations = judged.creations.values().filter(|reason| reason.begins());
    let (max, begins) = match situation.budget()? {
        Budget::Unavailable(max) => (max, deletions.count()),
        Budget::Surge(max) => (max, creations.count()),
    };
    let begun = situation.begun_nodes(|pod| situation.may_be_available(pod));
    (begins > 0 && begun + begins > max).then(|| {
        format!(
            "a guarded rollout begins on {begins} nodes while it is not done on {begun}, {max} \
             allowed"
        )
    })
}

/// Counts the beginnings in each group of nodes (G13).
fn group_exceeded(situation: &Situation, policy: &Policy, judged: &JudgedPlan) -> Option<String> {
    let group_of = |node: &str| group(policy, &situation.nodes[node]);
    let deleted = |reason: fn(Deletion) -> bool| {
        let deletions = judged.deletions.iter().filter(move |(_, it)| reason(**it));
        deletions.filter_map(|(uid, _)| group_of(situation.pods[uid.as_str()].node()?))
    };
    let created = judged.creations.iter().filter(|(_, reason)| reason.begins());
    let begun: Vec<Group> = match situation.budget()? {
        Budget::Unavailable(_) => deleted(Deletion::begins).collect(),
        Budget::Surge(_) => created.filter_map(|(node, _)| group_of(node)).collect(),
    };
    let mut begins: BTreeMap<Group, usize> = BTreeMap::new();
    for value in begun {
        *begins.entry(value).or_default() += 1;
    }
    begins.into_iter().find_map(|(value, begins)| {
        let is_available = |pod: &Pod| situation.may_be_available(pod);
        let GroupUse { begun, unavailable, max } =
            GroupUse::of(situation, policy, &value, is_available);
        let within = deleted(Deletion::is_within_budget);
        let within = within.filter(|of| *of == value).count();
        (begun + begins > max || within > 0 && unavailable + within > max).then(|| {
            format!(
                "a rollout begins on {begins} nodes of {value:?}, while it is not done on {begun} \
                 and {unavailable} are unavailable, {max} allowed"
            )
        })
    })
}

/// The group to whose limit a node counts.
fn group(policy: &Policy, on_node: &OnNode) -> Option<Group> {
    Some(policy.limited_group(&on_node.node?.metadata.labels))
}

/// How far a group of nodes uses its limit.
struct GroupUse {
    /// The nodes on which the rollout is not done.
    begun: usize,
    unavailable: usize,
    max: usize,
}

impl GroupUse {
    fn of(
        situation: &Situation,
        policy: &Policy,
        value: &Group,
        is_available: impl Fn(&Pod) -> bool,
    ) -> Self {
        let is_in = |on_node: &OnNode| group(policy, on_node).as_ref() == Some(value);
        let should_run = |on_node: &&OnNode| on_node.eligibility == Eligibility::ShouldRun;
        let nodes = situation.nodes.values().filter(|on_node| is_in(on_node));
        Self {
            max: policy.group_limit(nodes.filter(should_run).count()),
            begun: situation.begun_among(is_in, &is_available),
            unavailable: situation.unavailable_among(is_in, &is_available),
        }
    }
}

/// Whether the group of a node surely has room for the beginning of the rollout there: on a node
/// with an available pod, or on another one.
pub(super) fn has_room_in_group(
    situation: &Situation,
    policy: &Policy,
    on_node: &OnNode,
    is_node_available: bool,
) -> bool {
    group(policy, on_node).is_some_and(|value| {
        let is_available = |pod: &Pod| situation.is_surely_available(pod) && !pod.has_ended();
        let GroupUse { begun, unavailable, max } =
            GroupUse::of(situation, policy, &value, is_available);
        begun < max && (!is_node_available || unavailable < max)
    })
}
