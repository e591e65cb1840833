//! Random constraints of pods on their nodes, and taints.

use std::sync::Arc;

use everynode_core::api::{
    NodeName, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm, Placement, Taint,
    TaintEffect, Term, Toleration, TolerationOperator,
};
use proptest::prelude::*;
use proptest::sample::select;

pub(super) fn any_placement() -> impl Strategy<Value = Placement> {
    let selector = prop_oneof![6 => Just(None), 1 => select(vec!["a", "b"]).prop_map(Some)];
    let affinity = prop_oneof![4 => Just(None), 1 => any_affinity().prop_map(Some)];
    let tolerations = prop::collection::vec(any_toleration(), 0..3);
    let node_name = prop_oneof![12 => Just(None), 1 => Just(Some("n1"))];
    (node_name, selector, affinity, tolerations, any::<bool>()).prop_map(
        |(node_name, zone, required_node_affinity, tolerations, host_network)| Placement {
            node_name: node_name.map(NodeName::from),
            node_selector: zone.map(|zone| ("zone", zone)).into_iter().collect(),
            required_node_affinity,
            tolerations,
            host_network,
        },
    )
}

fn any_affinity() -> impl Strategy<Value = Vec<NodeSelectorTerm>> {
    let value = || select(vec!["a", "b", "3", "c"]);
    let values = move || value().prop_map(|value| vec![Arc::from(value)]);
    let operator = prop_oneof![
        2 => values().prop_map(NodeSelectorOperator::In),
        2 => values().prop_map(NodeSelectorOperator::NotIn),
        1 => Just(NodeSelectorOperator::Exists),
        1 => Just(NodeSelectorOperator::DoesNotExist),
        1 => Just(NodeSelectorOperator::Gt(2)),
        1 => Just(NodeSelectorOperator::Lt(2)),
    ];
    let requirement =
        |key: &'static str| move |operator| NodeSelectorRequirement { key: key.into(), operator };
    let expressions = prop::collection::vec(operator.prop_map(requirement("zone")), 0..3);
    let names = prop_oneof![
        Just(NodeSelectorOperator::In(vec!["n0".into(), "n2".into()])),
        Just(NodeSelectorOperator::NotIn(vec!["n0".into()])),
    ];
    let fields = prop_oneof![
        4 => Just(Vec::new()),
        1 => prop::collection::vec(names.prop_map(requirement("metadata.name")), 1..3),
    ];
    let term = (expressions, fields).prop_map(|(match_expressions, match_fields)| {
        NodeSelectorTerm::Parsed(Term { match_expressions, match_fields })
    });
    prop::collection::vec(
        prop_oneof![6 => term, 1 => Just(NodeSelectorTerm::Malformed("bad".into()))],
        0..3,
    )
}

/// Of taints and tolerations. An integer is written without a plus sign and leading zeros.
const VALUES: [&str; 5] = ["", "1", "2", "-3", "02"];

const TAINT_KEYS: [&str; 9] = [
    "t",
    "u",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/network-unavailable",
];

fn any_toleration() -> impl Strategy<Value = Toleration> {
    let operator = select(vec![
        TolerationOperator::Equal,
        TolerationOperator::Exists,
        TolerationOperator::Lt,
        TolerationOperator::Gt,
    ]);
    let effect = prop_oneof![1 => Just(None), 2 => any_effect().prop_map(Some)];
    (select(vec!["", "t", "u"]), operator, select(&VALUES[..]), effect).prop_map(
        |(key, operator, value, effect)| Toleration {
            key: key.into(),
            operator,
            value: value.into(),
            effect,
        },
    )
}

fn any_effect() -> impl Strategy<Value = TaintEffect> {
    prop_oneof![
        4 => Just(TaintEffect::NoSchedule),
        2 => Just(TaintEffect::NoExecute),
        1 => Just(TaintEffect::PreferNoSchedule),
    ]
}

pub(super) fn taint(key: &str, value: &str, effect: TaintEffect) -> Taint {
    Taint { key: key.into(), value: value.into(), effect }
}

pub(super) fn any_taint() -> impl Strategy<Value = Taint> {
    (select(&TAINT_KEYS[..]), select(&VALUES[..]), any_effect())
        .prop_map(|(key, value, effect)| taint(key, value, effect))
}
