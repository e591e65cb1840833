//! Tables of placements and nodes, with the expected eligibility and the reasons against a pod.

use std::sync::Arc;

use everynode_core::api::{
    Labels, Node, NodeReadiness, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm,
    Placement, Taint, TaintEffect, Term, Timestamp, Toleration, TolerationOperator,
    default_tolerations,
};
use everynode_core::placement::{
    Eligibility, eligibility, reasons_against, should_continue_running, should_run,
};

use Eligibility::{ContinueRunning, MustNotRun, Run};
use NodeSelectorOperator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
use TaintEffect::{NoExecute, NoSchedule, PreferNoSchedule};

#[track_caller]
fn check(placement: Placement, node: &Node, expected: Eligibility, reasons: &[&str]) {
    let placement = placement.with_default_tolerations();
    let none = Labels::default();
    assert_eq!(eligibility(&placement, &none, node), expected, "{placement:#?}");
    assert_eq!(should_run(&placement, node), expected.should_run());
    assert_eq!(should_continue_running(&placement, node), expected.should_continue_running());
    let found: Vec<_> = reasons_against(&placement, &none, node).map(|r| r.to_string()).collect();
    assert_eq!(found, reasons);
}

fn node(taints: &[(&str, &str, TaintEffect)]) -> Node {
    let taint = |&(key, value, effect): &(&str, &str, TaintEffect)| Taint {
        key: key.into(),
        value: value.into(),
        effect,
    };
    Node {
        name: "n1".into(),
        labels: Labels::from_iter([("disk", "ssd"), ("cores", "8"), ("zone", "a")]),
        taints: taints.iter().map(taint).collect(),
        created: Timestamp(0),
        readiness: NodeReadiness::Ready,
        conditions: Box::default(),
        boot_id: "".into(),
        kubelet_version: None,
    }
}

fn requirement(key: &str, operator: NodeSelectorOperator) -> NodeSelectorRequirement {
    NodeSelectorRequirement { key: key.into(), operator }
}

fn values(values: &[&str]) -> Vec<Arc<str>> {
    values.iter().map(|&value| value.into()).collect()
}

fn labels(requirements: Vec<NodeSelectorRequirement>) -> NodeSelectorTerm {
    NodeSelectorTerm::Parsed(Term { match_expressions: requirements, match_fields: Vec::new() })
}

fn fields(requirements: Vec<NodeSelectorRequirement>) -> NodeSelectorTerm {
    NodeSelectorTerm::Parsed(Term { match_expressions: Vec::new(), match_fields: requirements })
}

fn affinity(terms: Vec<NodeSelectorTerm>) -> Placement {
    Placement { required_node_affinity: Some(terms), ..Placement::default() }
}

fn tolerating(
    key: &str,
    operator: TolerationOperator,
    value: &str,
    effect: Option<TaintEffect>,
) -> Placement {
    let toleration = Toleration { key: key.into(), operator, value: value.into(), effect };
    Placement { tolerations: vec![toleration], ..Placement::default() }
}

/// C10: a node without labels and taints gets a pod.
#[test]
fn a_plain_node_gets_a_pod() {
    check(Placement::default(), &node(&[]), Run, &[]);
}

/// C11: a template with the name of another node runs only there.
#[test]
fn a_template_with_a_node_name_runs_only_there() {
    let named = |name: &str| Placement { node_name: Some(name.into()), ..Placement::default() };
    check(named("n1"), &node(&[]), Run, &[]);
    check(named("n2"), &node(&[]), MustNotRun, &["spec.nodeName is n2"]);
}

/// C12: the node must have every label of the node selector.
#[test]
fn each_missing_label_of_a_node_selector_is_a_reason() {
    let selecting = |selector: &[(&str, &str)]| Placement {
        node_selector: selector.iter().copied().collect(),
        ..Placement::default()
    };
    check(selecting(&[("disk", "ssd"), ("zone", "a")]), &node(&[]), Run, &[]);
    check(
        selecting(&[("disk", "hdd"), ("gpu", "yes"), ("zone", "a")]),
        &node(&[]),
        MustNotRun,
        &[
            "nodeSelector wants label disk=hdd, the node has ssd",
            "nodeSelector wants label gpu=yes, the node has none",
        ],
    );
}

/// C12: each operator of node affinity, on an existing label and on a missing one.
#[test]
fn operators_of_node_affinity_match_as_the_api_documents() {
    let table = [
        ("disk", In(values(&["hdd", "ssd"])), true),
        ("disk", In(values(&["hdd"])), false),
        ("missing", In(values(&["x"])), false),
        ("disk", NotIn(values(&["hdd"])), true),
        ("disk", NotIn(values(&["ssd"])), false),
        ("missing", NotIn(values(&["x"])), true),
        ("disk", Exists, true),
        ("missing", Exists, false),
        ("disk", DoesNotExist, false),
        ("missing", DoesNotExist, true),
        ("cores", Gt(7), true),
        ("cores", Gt(8), false),
        ("cores", Lt(9), true),
        ("cores", Lt(8), false),
        ("disk", Gt(0), false),
        ("missing", Lt(9), false),
    ];
    for (key, operator, matches) in table {
        let placement = affinity(vec![labels(vec![requirement(key, operator.clone())])]);
        let expected = if matches { Run } else { MustNotRun };
        assert_eq!(
            eligibility(&placement, &Labels::default(), &node(&[])),
            expected,
            "{key} {operator:?}"
        );
    }
}

/// C12: one term and all its expressions must match; an empty or malformed term matches nothing,
/// and so does an empty list of terms.
#[test]
fn terms_of_node_affinity_combine() {
    let ssd = || requirement("disk", In(values(&["ssd"])));
    let gpu = || requirement("gpu", Exists);
    let malformed = || NodeSelectorTerm::Malformed("operator Like is not known".into());
    check(affinity(vec![labels(vec![gpu()]), labels(vec![ssd()])]), &node(&[]), Run, &[]);
    check(
        affinity(vec![labels(vec![ssd(), gpu()])]),
        &node(&[]),
        MustNotRun,
        &["no term of the required node affinity matches: (disk In [ssd] and gpu Exists)"],
    );
    check(affinity(vec![malformed(), labels(vec![ssd()])]), &node(&[]), Run, &[]);
    check(
        affinity(vec![malformed(), labels(vec![])]),
        &node(&[]),
        MustNotRun,
        &["no term of the required node affinity matches: \
           (malformed: operator Like is not known) or (empty term)"],
    );
    check(affinity(vec![]), &node(&[]), MustNotRun, &["the required node affinity has no terms"]);
}

/// C12: matchFields compares the name of the node.
#[test]
fn match_fields_compares_the_name() {
    let name = |operator| affinity(vec![fields(vec![requirement("metadata.name", operator)])]);
    check(name(In(values(&["n1"]))), &node(&[]), Run, &[]);
    check(name(NotIn(values(&["n2"]))), &node(&[]), Run, &[]);
    check(
        name(In(values(&["n2"]))),
        &node(&[]),
        MustNotRun,
        &["no term of the required node affinity matches: (field metadata.name In [n2])"],
    );
}

/// C13: NoSchedule prevents creation, and NoExecute also removes pods.
#[test]
fn taints_prevent_creation_and_no_execute_evicts() {
    check(
        Placement::default(),
        &node(&[("full", "", NoSchedule)]),
        ContinueRunning,
        &["taint full:NoSchedule is not tolerated"],
    );
    check(
        Placement::default(),
        &node(&[("down", "yes", NoExecute), ("full", "", NoSchedule)]),
        MustNotRun,
        &["taint down=yes:NoExecute is not tolerated", "taint full:NoSchedule is not tolerated"],
    );
    check(Placement::default(), &node(&[("slow", "", PreferNoSchedule)]), Run, &[]);
}

/// C13: each operator of tolerations, empty keys and effects, and numbers.
#[test]
fn tolerations_match_as_the_api_documents() {
    use TolerationOperator::{Equal, Exists, Gt, Lt};
    let table = [
        ("k", Equal, "v", Some(NoSchedule), true),
        ("k", Equal, "v", None, true),
        ("k", Equal, "w", None, false),
        ("k", Equal, "v", Some(NoExecute), false),
        ("other", Equal, "v", None, false),
        ("k", Exists, "", None, true),
        ("k", Exists, "", Some(NoExecute), false),
        ("", Exists, "", None, true),
        ("", Exists, "", Some(NoExecute), false),
        ("k", Lt, "9", None, false),
        ("k", Gt, "9", None, false),
    ];
    for (key, operator, value, effect, tolerated) in table {
        let mut placement = tolerating(key, operator, value, effect);
        let expected = if tolerated { Run } else { ContinueRunning };
        // Also among many others.
        for _ in 0..2 {
            let found =
                eligibility(&placement, &Labels::default(), &node(&[("k", "v", NoSchedule)]));
            assert_eq!(found, expected, "{key} {operator:?} {value} {effect:?}");
            let others = (0..100).flat_map(|number| {
                tolerating(&format!("other{number}"), Exists, "", None).tolerations
            });
            placement.tolerations.extend(others);
        }
    }
    let numbers = [
        (Lt, "950", "900", true),
        (Lt, "900", "900", false),
        (Gt, "750", "900", true),
        (Gt, "900", "900", false),
        (Gt, "-5", "-4", true),
        (Lt, "0950", "900", false),
        (Lt, "+950", "900", false),
        (Lt, "950", "0900", false),
        (Lt, "1e3", "900", false),
        (Lt, "99999999999999999999", "900", false),
    ];
    for (operator, bound, taint, tolerated) in numbers {
        let placement = tolerating("sla", operator, bound, None);
        let expected = if tolerated { Run } else { MustNotRun };
        let found =
            eligibility(&placement, &Labels::default(), &node(&[("sla", taint, NoExecute)]));
        assert_eq!(found, expected, "{operator:?} {bound} of {taint}");
    }
}

/// C14: the tolerations of every pod, one more with hostNetwork, and none of them twice.
#[test]
fn default_tolerations_are_added_once() {
    let conditions = [
        ("node.kubernetes.io/not-ready", "", NoExecute),
        ("node.kubernetes.io/unreachable", "", NoExecute),
        ("node.kubernetes.io/disk-pressure", "", NoSchedule),
        ("node.kubernetes.io/memory-pressure", "", NoSchedule),
        ("node.kubernetes.io/pid-pressure", "", NoSchedule),
        ("node.kubernetes.io/unschedulable", "", NoSchedule),
    ];
    check(Placement::default(), &node(&conditions), Run, &[]);
    let network = [("node.kubernetes.io/network-unavailable", "", NoSchedule)];
    check(
        Placement::default(),
        &node(&network),
        ContinueRunning,
        &["taint node.kubernetes.io/network-unavailable:NoSchedule is not tolerated"],
    );
    let host_network = Placement { host_network: true, ..Placement::default() };
    check(host_network.clone(), &node(&network), Run, &[]);

    assert_eq!(default_tolerations(false).count(), 6);
    let once = host_network.with_default_tolerations();
    assert_eq!(once.tolerations.len(), 7);
    assert_eq!(once.clone().with_default_tolerations(), once);
}

/// C15: the namespace's node selector prevents creations and removes no pod; other reasons still
/// count.
#[test]
fn the_node_selector_of_a_namespace_restricts_creations() {
    let namespace = Labels::from_iter([("zone", "b")]);
    let placement = Placement::default();
    let node = node(&[]);
    assert_eq!(eligibility(&placement, &namespace, &node), ContinueRunning);
    let reasons: Vec<_> =
        reasons_against(&placement, &namespace, &node).map(|r| r.to_string()).collect();
    assert_eq!(reasons, ["the namespace's node selector wants label zone=b, the node has a"]);
    let tainted = |effect| Node {
        taints: vec![Taint { key: "k".into(), value: "".into(), effect }],
        created: Timestamp(0),
        readiness: NodeReadiness::Ready,
        conditions: Box::default(),
        boot_id: "".into(),
        kubelet_version: None,
        ..node.clone()
    };
    let of = |effect| eligibility(&placement, &namespace, &tainted(effect));
    assert_eq!(of(TaintEffect::NoSchedule), ContinueRunning);
    assert_eq!(of(TaintEffect::NoExecute), MustNotRun);
}
