//! Suggested policies, compared with those in `suggestion/`. The product's own parser accepts each.

use everynode_core::api::DaemonSetName;
use everynode_insight::snapshot::ObjectKind;
use everynode_insight::suggestion::{NoSuggestion, Suggestion, Window};
use everynode_k8s::convert::{self, PolicyTarget, policy_object};
use expect_test::{ExpectFile, expect_file};
use serde_json::{Value, json};

use crate::support::{Fixture, NOW, daemon_set, name_of_node, node, ready_pod, with};

/// Compares the suggested policy with the expected one, and reads it as a policy.
fn check(fixture: &Fixture, live: &Value, windows: &[&str], expected: &ExpectFile) {
    let text = suggested(fixture, live, windows).expect("a node should run a pod");
    let object: Value = serde_saphyr::from_str(&text).expect("it is YAML");
    let policy = policy_object(object.to_string().as_bytes()).expect("it is a policy");
    assert!(policy.policy.is_ok(), "{:?}\n{text}", policy.policy);
    assert_eq!(policy.target, Some(PolicyTarget::Name(DaemonSetName::from("agent"))));
    assert!(text.lines().all(|line| line.len() <= 100 || !line.contains('#')), "{text}");
    expected.assert_eq(&text);
}

fn suggested(fixture: &Fixture, live: &Value, windows: &[&str]) -> Result<String, NoSuggestion> {
    let object = convert::daemon_set(live.to_string().as_bytes(), None).expect("it is a DaemonSet");
    let windows = windows.iter().map(|text| text.parse::<Window>().expect("it is a window"));
    Suggestion::new(&fixture.snapshot, &object, windows.collect(), NOW).map(|it| it.manifest())
}

/// Nodes with labels, and a pod on each that became ready after eight seconds.
fn cluster(count: usize, label: impl Fn(usize, &mut Value)) -> (Fixture, Value) {
    let mut fixture = Fixture::with_nodes(0);
    for number in 1..=count {
        let labelled = with(node(&name_of_node(number)), |node| {
            label(number, &mut node["metadata"]["labels"])
        });
        fixture.add(ObjectKind::Node, &labelled);
    }
    let live = daemon_set("v1");
    fixture.run(&live, 1..=count);
    (fixture, live)
}

/// G52: of alike nodes without zones, one is first, and then shares follow
#[test]
fn one_kind_without_zones() {
    let (fixture, live) = cluster(12, |_, labels| labels["kubernetes.io/arch"] = "amd64".into());
    check(&fixture, &live, &[], &expect_file!["suggestion/one_kind_without_zones.txt"]);
}

/// G52: one node of each kind is first, and then zones follow; probes make the bake time longer
#[test]
fn three_kinds_with_zones() {
    let (fixture, live) = cluster(150, |number, labels| {
        labels["kubernetes.io/arch"] = if number % 5 == 0 { "arm64" } else { "amd64" }.into();
        labels["topology.kubernetes.io/zone"] = format!("zone-{}", number % 3).into();
        let kind = ["m5.large", "m5.large", "m6g.xlarge", "g5.xlarge"][number % 4];
        labels["node.kubernetes.io/instance-type"] = kind.into();
    });
    let live = with(live, |live| {
        live["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = 10.into();
        live["spec"]["minReadySeconds"] = 20.into();
        let container = &mut live["spec"]["template"]["spec"]["containers"][0];
        container["livenessProbe"] =
            json!({ "initialDelaySeconds": 15, "periodSeconds": 60, "failureThreshold": 5 });
        container["startupProbe"] = json!({ "periodSeconds": 10, "failureThreshold": 60 });
    });
    let windows = ["Mon-Fri 09:00-16:00 Europe/Berlin", "22:00-04:00"];
    check(&fixture, &live, &windows, &expect_file!["suggestion/three_kinds_with_zones.txt"]);
}

/// G52: of too many kinds, the most frequent are first, and too many zones are none
#[test]
fn forty_kinds() {
    let (fixture, live) = cluster(90, |number, labels| {
        labels["topology.kubernetes.io/zone"] = format!("rack-{}", number % 12).into();
        let kind = if number % 2 == 0 { number % 8 } else { number.min(78) / 2 };
        labels["node.kubernetes.io/instance-type"] = format!("type-{kind:02}").into();
    });
    let live = with(live, |live| {
        live["spec"]["updateStrategy"]["rollingUpdate"] =
            json!({ "maxSurge": "20%", "maxUnavailable": 0 });
    });
    check(&fixture, &live, &[], &expect_file!["suggestion/forty_kinds.txt"]);
}

/// G52: without pods, times are assumed; only nodes that should run a pod count
#[test]
fn no_pods_yet() {
    let mut fixture = Fixture::with_nodes(4);
    for number in 5..=30 {
        let tainted = with(node(&name_of_node(number)), |node| {
            node["metadata"]["labels"]["accelerator"] = "t4".into();
            node["spec"]["taints"] = json!([{ "key": "gpu", "effect": "NoSchedule" }]);
        });
        fixture.add(ObjectKind::Node, &tainted);
    }
    let live = with(daemon_set("v1"), |live| {
        live["spec"]["updateStrategy"] = json!({ "type": "OnDelete" });
    });
    check(&fixture, &live, &[], &expect_file!["suggestion/no_pods_yet.txt"]);
}

/// G52: of two nodes one is first; of two that differ, one after the other
#[test]
fn two_nodes() {
    let (fixture, live) = cluster(2, |_, _| ());
    check(&fixture, &live, &[], &expect_file!["suggestion/two_nodes.txt"]);
    let (fixture, live) = cluster(2, |number, labels| {
        labels["kubernetes.io/arch"] = ["amd64", "arm64"][number - 1].into();
        labels["topology.kubernetes.io/zone"] = number.to_string().into();
    });
    check(&fixture, &live, &[], &expect_file!["suggestion/two_nodes_that_differ.txt"]);
}

/// G52: pods that restart anyway may, and a pod that lost its readiness does not tell how long it
/// takes
#[test]
fn what_pods_do_anyway_is_no_failure() {
    let (mut fixture, live) = cluster(3, |_, _| ());
    for number in 1..=3 {
        let restarted = with(ready_pod(&name_of_node(number), "old"), |pod| {
            pod["status"]["containerStatuses"][0]["restartCount"] = (number + 1).into();
        });
        fixture.add(ObjectKind::Pod, &restarted);
    }
    let text = suggested(&fixture, &live, &[]).expect("a node should run a pod");
    assert!(text.contains("maxRestarts: 4\n") && text.contains("readyWithin: 10m\n"), "{text}");
    let (mut fixture, live) = cluster(3, |_, _| ());
    let late = with(ready_pod("node-02", "old"), |pod| {
        pod["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-03T00:00:00Z".into();
    });
    fixture.add(ObjectKind::Pod, &late);
    let text = suggested(&fixture, &live, &[]).expect("a node should run a pod");
    assert!(text.contains("as all 2 pods did"), "{text}");
}

/// G52: without a node to try a template on there is nothing to suggest
#[test]
fn no_node_is_an_error() {
    let fixture = Fixture::with_nodes(2);
    let live = with(daemon_set("v1"), |live| {
        live["spec"]["template"]["spec"]["nodeSelector"] = json!({ "disk": "ssd" });
    });
    let error = suggested(&fixture, &live, &[]).expect_err("no node has the label").to_string();
    assert!(error.starts_with("no node should run it: nodeSelector wants disk=ssd"), "{error}");
    assert!(error.ends_with("; a policy would have no node to try a template on"), "{error}");
}
