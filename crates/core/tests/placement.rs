//! Which nodes get a pod, as tables: a template's wishes, a node, and what speaks against it.

use std::sync::Arc;

use everynode_core::api::{
    Labels, Node, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm, Placement,
    Taint, TaintEffect, Term, Toleration, TolerationOperator, default_tolerations,
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

/// C10: nothing speaks against a plain node.
#[test]
fn a_plain_node_gets_a_pod() {
    check(Placement::default(), &node(&[]), Run, &[]);
}

/// C11: a node name that is another's speaks against both.
#[test]
fn a_template_with_a_node_name_runs_there_alone() {
    let named = |name: &str| Placement { node_name: Some(name.into()), ..Placement::default() };
    check(named("n1"), &node(&[]), Run, &[]);
    check(named("n2"), &node(&[]), MustNotRun, &["spec.nodeName is n2"]);
}

/// C12: every label of the node selector has to be there.
#[test]
fn a_node_selector_names_the_labels_that_it_misses() {
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

/// C12: each operator of node affinity, on a label that is there and on one that is not.
#[test]
fn operators_of_node_affinity_compare_as_the_api_documents() {
    let table = [
        ("disk", In(values(&["hdd", "ssd"])), true),
        ("disk", In(values(&["hdd"])), false),
        ("gone", In(values(&["x"])), false),
        ("disk", NotIn(values(&["hdd"])), true),
        ("disk", NotIn(values(&["ssd"])), false),
        ("gone", NotIn(values(&["x"])), true),
        ("disk", Exists, true),
        ("gone", Exists, false),
        ("disk", DoesNotExist, false),
        ("gone", DoesNotExist, true),
        ("cores", Gt(7), true),
        ("cores", Gt(8), false),
        ("cores", Lt(9), true),
        ("cores", Lt(8), false),
        ("disk", Gt(0), false),
        ("gone", Lt(9), false),
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

/// C12: terms are ORed, expressions ANDed; an empty term and a malformed one match nothing, and no terms neither.
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

/// C12: of fields there is the node's name.
#[test]
fn match_fields_know_the_name() {
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

/// C13: which of the answers each effect speaks against.
#[test]
fn an_untolerated_taint_keeps_away_and_no_execute_evicts() {
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
    check(Placement::default(), &node(&[("meh", "", PreferNoSchedule)]), Run, &[]);
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
        let placement = tolerating(key, operator, value, effect);
        let expected = if tolerated { Run } else { ContinueRunning };
        let found = eligibility(&placement, &Labels::default(), &node(&[("k", "v", NoSchedule)]));
        assert_eq!(found, expected, "{key} {operator:?} {value} {effect:?}");
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

/// C14: what every pod tolerates, the network only with hostNetwork, and nothing twice.
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

/// C15: the namespace's node selector keeps pods from being created, and takes none away; what else speaks against a pod still
/// does.
#[test]
fn the_namespace_restricts_its_daemon_sets() {
    let namespace = Labels::from_iter([("zone", "b")]);
    let placement = Placement::default();
    let node = node(&[]);
    assert_eq!(eligibility(&placement, &namespace, &node), ContinueRunning);
    let reasons: Vec<_> =
        reasons_against(&placement, &namespace, &node).map(|r| r.to_string()).collect();
    assert_eq!(reasons, ["the namespace's node selector wants label zone=b, the node has a"]);
    let tainted = |effect| Node {
        taints: vec![Taint { key: "k".into(), value: "".into(), effect }],
        ..node.clone()
    };
    let of = |effect| eligibility(&placement, &namespace, &tainted(effect));
    assert_eq!(of(TaintEffect::NoSchedule), ContinueRunning);
    assert_eq!(of(TaintEffect::NoExecute), MustNotRun);
}
