//! Settings that have no effect in this cluster, as those with a typing error.

use everynode_core::api::{
    Budget, DaemonSet, IntOrPercent, ORDER_ANNOTATION, ORDER_REASON_ANNOTATION,
    PAUSE_REASON_ANNOTATION, PAUSED_ANNOTATION, POLICY_ANNOTATION, RETRY_ANNOTATION,
    ROLLED_BACK_ANNOTATION, RolloutPolicy,
};
use everynode_k8s::convert::{DaemonSetObject, label_selector_text};

use super::{Risk, RiskKind, everywhere};
use crate::forecast::simulation::Simulation;
use crate::snapshot::{NodeDetail, Snapshot};

/// The domain of the annotations that the controller and the commands read.
const DOMAIN: &str = "everynode.dev/";

/// The annotations of DaemonSets that people set, and those that commands and the controller set.
const BY_PEOPLE: [&str; 3] = [PAUSED_ANNOTATION, RETRY_ANNOTATION, POLICY_ANNOTATION];
const BY_PROGRAMS: [&str; 4] =
    [ORDER_ANNOTATION, ORDER_REASON_ANNOTATION, PAUSE_REASON_ANNOTATION, ROLLED_BACK_ANNOTATION];

/// A risk for each annotation that only looks like one that is read.
pub(super) fn unknown_annotations(object: &DaemonSetObject) -> impl Iterator<Item = Risk> {
    let keys = object.raw.annotations.keys().filter(|key| key.starts_with(DOMAIN));
    let unknown = keys
        .filter(|key| !BY_PEOPLE.iter().chain(&BY_PROGRAMS).any(|known| *known == key.as_str()));
    unknown.map(|key| {
        let message = format!("annotation {key} has no effect; there are {}", BY_PEOPLE.join(", "));
        everywhere(RiskKind::UnknownAnnotation, message)
    })
}

/// The steps without nodes, the labels that no node has, and the limits that do not limit.
pub(super) fn of_policy(
    snapshot: &Snapshot,
    daemon_set: &DaemonSet,
    simulation: &Simulation,
) -> Vec<Risk> {
    let Some(policy) = daemon_set.policy.valid() else { return Vec::new() };
    let nodes: Vec<&NodeDetail> =
        simulation.desired_nodes().filter_map(|name| snapshot.nodes.get(name)).collect();
    let mut risks = Vec::new();
    for step in &policy.steps {
        let is_selected = |detail: &&&NodeDetail| step.nodes.matches(&detail.node.labels);
        let selected: Vec<&NodeDetail> = nodes.iter().filter(is_selected).copied().collect();
        let name = &step.name;
        if selected.is_empty() {
            let which = match step.nodes.is_empty() {
                true => String::new(),
                false => format!(" with {}", label_selector_text(&step.nodes)),
            };
            let message = format!(
                "step {name} of the rollout policy has no node: no node{which} should run a pod"
            );
            risks.push(everywhere(RiskKind::StepWithoutNodes, message));
            continue;
        }
        let label = step.by.as_ref().or(step.each.as_ref());
        risks.extend(label.and_then(|label| {
            unknown_label(&selected, label, &format!("step {name} of the rollout policy"))
        }));
    }
    let all: Vec<&NodeDetail> = snapshot.nodes.values().collect();
    let per = policy.max_unavailable_per.as_ref();
    risks.extend(per.and_then(|per| {
        unknown_label(&all, &per.label, "maxUnavailablePer of the rollout policy")
    }));
    risks.extend(limits(daemon_set, policy, simulation.desired()));
    risks
}

fn unknown_label(nodes: &[&NodeDetail], label: &str, of: &str) -> Option<Risk> {
    let is_unknown = nodes.iter().all(|detail| detail.node.labels.get(label).is_none());
    is_unknown.then(|| {
        let message = format!("{of} groups nodes by label {label}, which none of them has");
        everywhere(RiskKind::UnknownLabel, message)
    })
}

/// Limits of the policy that others make useless.
fn limits(daemon_set: &DaemonSet, policy: &RolloutPolicy, desired: usize) -> Option<Risk> {
    let (what, allowed) = match daemon_set.strategy().budget(desired)? {
        Budget::Unavailable(nodes) => ("maxUnavailable", nodes),
        Budget::Surge(nodes) => ("maxSurge", nodes),
    };
    let useless = |limit: IntOrPercent, name: &str| {
        format!(
            "{name} {limit} of the rollout policy has no effect: by its updateStrategy ({what}) \
             the DaemonSet allows only {allowed} of {desired} nodes at a time"
        )
    };
    let of_all = policy.max_unavailable.filter(|max| max.resolve(desired) > allowed);
    let of_group = policy.max_unavailable_per.as_ref().map(|per| per.max);
    let of_group = of_group.filter(|max| match max {
        IntOrPercent::Int(nodes) => *nodes as usize > allowed,
        // Of a group, whose size may be that of all.
        IntOrPercent::Percent(_) => false,
    });
    let message = of_all
        .map(|limit| useless(limit, "maxUnavailable"))
        .or(of_group.map(|limit| useless(limit, "maxUnavailablePer")))?;
    Some(everywhere(RiskKind::LimitWithoutEffect, message))
}
