//! `NodeShouldRunDaemonPod`: whether a pod is created on a node, and whether one may stay there.

use everynode_core::api::{
    Node, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm, Placement, Taint,
    TaintEffect, Toleration, TolerationOperator,
};

pub(super) fn should_run(placement: &Placement, node: &Node) -> bool {
    fits(placement, node)
        && untolerated(placement, node).all(|effect| effect == TaintEffect::PreferNoSchedule)
}

pub(super) fn should_continue_running(placement: &Placement, node: &Node) -> bool {
    fits(placement, node)
        && untolerated(placement, node).all(|effect| effect != TaintEffect::NoExecute)
}

/// `predicates` without taints.
fn fits(placement: &Placement, node: &Node) -> bool {
    let is_named = placement.node_name.as_ref().is_none_or(|name| *name == node.name);
    let is_selected = placement
        .node_selector
        .iter()
        .all(|(key, value)| node.labels.get(key).is_some_and(|found| found == value));
    let has_affinity = match &placement.required_node_affinity {
        None => true,
        Some(terms) => terms.iter().any(|term| matches(term, node)),
    };
    is_named && is_selected && has_affinity
}

fn matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let NodeSelectorTerm::Parsed(term) = term else { return false };
    let expressions = term.match_expressions.iter().map(|requirement| {
        holds(requirement, node.labels.get(&requirement.key).map(|value| &**value))
    });
    let fields =
        term.match_fields.iter().map(|requirement| holds(requirement, Some(node.name.as_str())));
    let all: Vec<bool> = expressions.chain(fields).collect();
    !all.is_empty() && all.into_iter().all(|holds| holds)
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let number = value.and_then(|value| value.parse::<i64>().ok());
    match &requirement.operator {
        NodeSelectorOperator::In(values) => {
            value.is_some_and(|value| values.iter().any(|one| &**one == value))
        }
        NodeSelectorOperator::NotIn(values) => {
            !value.is_some_and(|value| values.iter().any(|one| &**one == value))
        }
        NodeSelectorOperator::Exists => value.is_some(),
        NodeSelectorOperator::DoesNotExist => value.is_none(),
        NodeSelectorOperator::Gt(bound) => number.is_some_and(|number| number > *bound),
        NodeSelectorOperator::Lt(bound) => number.is_some_and(|number| number < *bound),
    }
}

/// The effects of the taints that neither the template nor the default tolerations of
/// `AddOrUpdateDaemonPodTolerations` tolerate.
fn untolerated<'a>(
    placement: &'a Placement,
    node: &'a Node,
) -> impl Iterator<Item = TaintEffect> + 'a {
    let is_tolerated = |taint: &Taint| {
        placement.tolerations.iter().any(|toleration| tolerates(toleration, taint))
            || is_tolerated_by_all(taint, placement.host_network)
    };
    node.taints.iter().filter(move |taint| !is_tolerated(taint)).map(|taint| taint.effect)
}

fn is_tolerated_by_all(taint: &Taint, host_network: bool) -> bool {
    match (&*taint.key, taint.effect) {
        (
            "node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable",
            TaintEffect::NoExecute,
        )
        | (
            "node.kubernetes.io/disk-pressure"
            | "node.kubernetes.io/memory-pressure"
            | "node.kubernetes.io/pid-pressure"
            | "node.kubernetes.io/unschedulable",
            TaintEffect::NoSchedule,
        ) => true,
        ("node.kubernetes.io/network-unavailable", TaintEffect::NoSchedule) => host_network,
        _ => false,
    }
}

/// `ToleratesTaint`
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    if toleration.effect.is_some_and(|effect| effect != taint.effect) {
        return false;
    }
    if !toleration.key.is_empty() && toleration.key != taint.key {
        return false;
    }
    let numbers = || Some((taint.value.parse::<i64>().ok()?, toleration.value.parse().ok()?));
    match toleration.operator {
        TolerationOperator::Exists => true,
        TolerationOperator::Equal => toleration.value == taint.value,
        TolerationOperator::Lt => numbers().is_some_and(|(taint, bound): (i64, i64)| taint < bound),
        TolerationOperator::Gt => numbers().is_some_and(|(taint, bound): (i64, i64)| taint > bound),
    }
}
