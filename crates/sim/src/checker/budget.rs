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
    let group = |on_node: &OnNode| {
        let labels = &on_node.node?.metadata.labels;
        Some(policy.limited_group(labels))
    };
    let group_of = |node: &str| group(&situation.nodes[node]);
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
    let is_available = |pod: &Pod| situation.may_be_available(pod);
    begins.into_iter().find_map(|(value, begins)| {
        let is_in = |on_node: &OnNode| group(on_node).as_ref() == Some(&value);
        let should_run = |on_node: &&OnNode| on_node.eligibility == Eligibility::ShouldRun;
        let nodes = situation.nodes.values().filter(|on_node| is_in(on_node));
        let max = policy.group_limit(nodes.filter(should_run).count());
        let begun = situation.begun_among(is_in, is_available);
        let unavailable = situation.unavailable_among(is_in, is_available);
        let within = deleted(|reason| reason == Deletion::WithinBudget);
        let within = within.filter(|of| *of == value).count();
        (begun + begins > max || within > 0 && unavailable + within > max).then(|| {
            format!(
                "a rollout begins on {begins} nodes of {value:?}, while it is not done on {begun} \
                 and {unavailable} are unavailable, {max} allowed"
            )
        })
    })
}
