//! Which nodes may run a pod of a template (C10–C15).

use everynode_core::api::{
    Labels, Node, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm, Placement,
    Taint, TaintEffect, Toleration, TolerationOperator,
};

/// The two answers for a node and a template (C10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// True if a pod should be created. Upstream: `shouldRun`.
    pub create: bool,
    /// True if an existing pod may stay. Upstream: `shouldContinueRunning`.
    pub keep: bool,
}

/// The answers for a node: if a pod should be created, and if one may stay (C10–C15). The selector
/// of the namespace prevents creations and removes nothing.
pub fn answer(placement: &Placement, namespace_node_selector: &Labels, node: &Node) -> Answer {
    let is_allowed = placement.node_name.as_ref().is_none_or(|name| *name == node.name)
        && has_labels(node, &placement.node_selector)
        && has_affinity(placement, node);
    let is_tainted = |effects: &[TaintEffect]| {
        let mut taints = node.taints.iter().filter(|taint| effects.contains(&taint.effect));
        taints.any(|taint| !is_tolerated(placement, taint))
    };
    Answer {
        create: is_allowed
            && !is_tainted(&[TaintEffect::NoSchedule, TaintEffect::NoExecute])
            && has_labels(node, namespace_node_selector),
        keep: is_allowed && !is_tainted(&[TaintEffect::NoExecute]),
    }
}

/// True if the node has all of these labels (C12).
fn has_labels(node: &Node, labels: &Labels) -> bool {
    labels.iter().all(|(key, value)| node.labels.get(key) == Some(value))
}

/// True if one of the terms of the required node affinity matches; none of an empty list does
/// (C12).
fn has_affinity(placement: &Placement, node: &Node) -> bool {
    let Some(terms) = &placement.required_node_affinity else { return true };
    terms.iter().any(|term| match term {
        NodeSelectorTerm::Malformed(_) => false,
        NodeSelectorTerm::Parsed(term) => {
            let is_empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
            let label = |key: &str| node.labels.get(key).map(|value| &**value);
            let field = |key: &str| (key == "metadata.name").then_some(node.name.as_str());
            !is_empty
                && term.match_expressions.iter().all(|it| is_met(it, label(&it.key)))
                && term.match_fields.iter().all(|it| is_met(it, field(&it.key)))
        }
    })
}

/// True if the value of a label or field, if there is one, meets the requirement (C12).
fn is_met(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let is_one_of = |values: &[_]| value.is_some_and(|value| values.contains(&value.into()));
    let number = || value.and_then(|value| value.parse::<i64>().ok());
    match &requirement.operator {
        NodeSelectorOperator::In(values) => is_one_of(values),
        NodeSelectorOperator::NotIn(values) => !is_one_of(values),
        NodeSelectorOperator::Exists => value.is_some(),
        NodeSelectorOperator::DoesNotExist => value.is_none(),
        NodeSelectorOperator::Gt(bound) => number().is_some_and(|number| number > *bound),
        NodeSelectorOperator::Lt(bound) => number().is_some_and(|number| number < *bound),
    }
}

/// The taints that each pod of a DaemonSet tolerates, and the last one in the host's network (C14).
const TOLERATED: [(&str, TaintEffect); 7] = [
    ("node.kubernetes.io/not-ready", TaintEffect::NoExecute),
    ("node.kubernetes.io/unreachable", TaintEffect::NoExecute),
    ("node.kubernetes.io/disk-pressure", TaintEffect::NoSchedule),
    ("node.kubernetes.io/memory-pressure", TaintEffect::NoSchedule),
    ("node.kubernetes.io/pid-pressure", TaintEffect::NoSchedule),
    ("node.kubernetes.io/unschedulable", TaintEffect::NoSchedule),
    ("node.kubernetes.io/network-unavailable", TaintEffect::NoSchedule),
];

/// The taints that pods tolerate by default (C14).
pub fn tolerated_by_default(in_host_network: bool) -> &'static [(&'static str, TaintEffect)] {
    if in_host_network { &TOLERATED } else { &TOLERATED[..6] }
}

/// True if pods tolerate the taint, by the template or by default (C13, C14).
fn is_tolerated(placement: &Placement, taint: &Taint) -> bool {
    tolerated_by_default(placement.host_network).contains(&(&*taint.key, taint.effect))
        || placement.tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

/// True if one toleration tolerates the taint; no key or effect stands for any (C13).
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    toleration.effect.is_none_or(|effect| effect == taint.effect)
        && (toleration.key.is_empty() || toleration.key == taint.key)
        && match (toleration.operator, integer(&taint.value), integer(&toleration.value)) {
            (TolerationOperator::Equal, ..) => taint.value == toleration.value,
            (TolerationOperator::Exists, ..) => true,
            (TolerationOperator::Lt, Some(taint), Some(bound)) => taint < bound,
            (TolerationOperator::Gt, Some(taint), Some(bound)) => taint > bound,
            (TolerationOperator::Lt | TolerationOperator::Gt, ..) => false,
        }
}

/// The integer that a text states as Kubernetes accepts it: without a plus sign and leading zeros.
fn integer(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}
