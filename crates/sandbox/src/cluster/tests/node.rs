//! Nodes that are added, deleted, fail and recover.

use std::collections::BTreeSet;

use crate::json::{Value, json};

use super::{Sim, pinned, pod};
use crate::cluster::{DOWN_ANNOTATION, STEP_MAX};
use crate::kinds::{EVENT, LEASE, NODE, POD};

fn ready(sim: &Sim, node: &str) -> String {
    let node = sim.node(node);
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
    ready["status"].as_str().unwrap().to_owned()
}

fn nodes_ready(sim: &Sim) -> usize {
    let nodes = sim.cluster.store().iter(&NODE, None);
    nodes.filter(|node| ready(sim, node.name()) == "True").count()
}

fn taints(sim: &Sim, node: &str) -> Vec<String> {
    let node = sim.node(node);
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    taints.iter().map(|t| format!("{}:{}", text(&t["key"]), text(&t["effect"]))).collect()
}

fn tolerating(name: &str, tolerations: Value) -> Value {
    let mut pod = pinned(name, "node-0001");
    pod["spec"]["tolerations"] = tolerations;
    pod
}

/// S23: a node that is marked as down is detected by its lease, and recovers.
#[test]
fn a_node_goes_down_and_comes_back() {
    let mut sim = Sim::new(2);
    let forever = json!([{"operator": "Exists"}]);
    sim.create_pod(tolerating("p", forever));
    sim.run_for(30_000);
    assert_eq!(
        (ready(&sim, "node-0001"), sim.line("p")),
        ("True".into(), "Running c[running ready] Ready".into())
    );

    sim.annotate_node("node-0001", DOWN_ANNOTATION, Some("true"));
    sim.run_for(30_000);
    assert_eq!(ready(&sim, "node-0001"), "Unknown");
    assert_eq!(ready(&sim, "node-0002"), "True");
    assert_eq!(
        taints(&sim, "node-0001"),
        ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]
    );
    assert_eq!(sim.line("p"), "Running c[running ready]");
    assert!(sim.events("p").iter().any(|e| e == "Warning NodeNotReady: Node is not ready"));

    sim.annotate_node("node-0001", DOWN_ANNOTATION, None);
    assert_eq!(ready(&sim, "node-0001"), "True");
    assert_eq!(taints(&sim, "node-0001"), [] as [&str; 0]);
    assert_eq!(sim.line("p"), "Running c[running ready] Ready");
    sim.run_for(60_000);
    assert_eq!(ready(&sim, "node-0001"), "True");
}

/// S23, S25: no node becomes not ready while the components are minutes behind.
#[test]
fn no_node_is_marked_lost_when_the_components_are_late() {
    let mut sim = Sim::new(50);
    sim.create_pod(pinned("p", "node-0001"));
    for _ in 0..200 {
        sim.now.0 += 6_000;
        sim.cluster.step(sim.now, STEP_MAX);
        assert_eq!(nodes_ready(&sim), 50);
    }
    sim.run_for(60_000);
    assert_eq!(nodes_ready(&sim), 50);
    assert_eq!(sim.line("p"), "Running c[running ready] Ready");
}

/// S23: a live kubelet whose node has Unknown conditions reports its node and its pods with the
/// next heartbeat.
#[test]
fn a_node_wrongly_marked_lost_recovers() {
    let mut sim = Sim::new(1);
    sim.create_pod(pinned("p", "node-0001"));
    sim.run_for(1_000);
    let mut node = sim.node("node-0001");
    for condition in node["status"]["conditions"].as_array_mut().unwrap() {
        condition["status"] = json!("Unknown");
    }
    let options = sim.at();
    sim.cluster.registry_mut().update_status(&NODE, "", "node-0001", node, &options).unwrap();
    sim.cluster.settle(sim.now);
    assert_eq!(sim.line("p"), "Running c[running ready]");
    assert_eq!(taints(&sim, "node-0001").len(), 2);
    sim.run_for(10_000);
    assert_eq!(ready(&sim, "node-0001"), "True");
    assert_eq!(taints(&sim, "node-0001"), [] as [&str; 0]);
    assert_eq!(sim.line("p"), "Running c[running ready] Ready");
}

/// S22, S23: the kubelet of a down node does nothing: pods neither start nor stop until it is back.
#[test]
fn pods_of_a_dead_node_neither_start_nor_stop() {
    let mut sim = Sim::new(1);
    sim.create_pod(pinned("old", "node-0001"));
    sim.run_for(1_000);
    sim.annotate_node("node-0001", DOWN_ANNOTATION, Some("true"));
    let mut new = pod("new");
    new["spec"]["nodeName"] = json!("node-0001");
    sim.create_pod(new);
    sim.delete_pod("old");
    sim.run_for(5_000);
    assert_eq!(sim.line("new"), "Pending");
    assert!(sim.line("old").ends_with("Terminating"));
    sim.annotate_node("node-0001", DOWN_ANNOTATION, None);
    sim.run_for(5_000);
    assert_eq!(sim.line("new"), "Running c[running ready] Ready");
    assert_eq!(sim.line("old"), "gone");
}

/// S23: heartbeats are leases that are renewed every ten seconds, at a different moment for each
/// node.
#[test]
fn heartbeats_are_leases() {
    let mut sim = Sim::new(5);
    sim.run_for(60_000);
    let times: BTreeSet<String> = (1..=5)
        .map(|n| {
            let name = format!("node-000{n}");
            let lease = sim.cluster.store().find(&LEASE, "kube-node-lease", &name).unwrap();
            assert_eq!(lease.text(&["spec", "holderIdentity"]), name);
            let renewed = crate::clock::parse(lease.text(&["spec", "renewTime"])).unwrap();
            assert!(sim.now.0 - renewed.0 <= 10_000, "{name}");
            lease.text(&["spec", "renewTime"]).to_owned()
        })
        .collect();
    assert_eq!(times.len(), 5);
}

/// S23: a kubelet reports its node's conditions every five minutes, changed or not.
#[test]
fn conditions_are_reported_periodically() {
    let mut sim = Sim::new(1);
    let heartbeat = |sim: &Sim| {
        let node = sim.node("node-0001");
        let conditions = node["status"]["conditions"].as_array().unwrap().clone();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
        ["lastHeartbeatTime", "lastTransitionTime"].map(|time| ready[time].clone())
    };
    let [first, since] = heartbeat(&sim);
    sim.run_for(290_000);
    assert_eq!(heartbeat(&sim), [first.clone(), since.clone()]);
    sim.run_for(20_000);
    let [second, still_since] = heartbeat(&sim);
    assert!(second != first && still_since == since);
}

/// S23: cordon adds the unschedulable taint, uncordon removes it; other taints stay.
#[test]
fn cordon_adds_a_taint() {
    let mut sim = Sim::new(1);
    sim.taint("node-0001", json!([{"key": "k", "effect": "NoSchedule"}]));
    sim.edit_node("node-0001", |node| node["spec"]["unschedulable"] = json!(true));
    assert_eq!(
        taints(&sim, "node-0001"),
        ["k:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"]
    );
    sim.edit_node("node-0001", |node| {
        node["spec"].as_object_mut().unwrap().remove("unschedulable");
    });
    assert_eq!(taints(&sim, "node-0001"), ["k:NoSchedule"]);
}

/// S23: a NoExecute taint evicts pods at once, or after the time that they tolerate it.
#[test]
fn a_no_execute_taint_evicts() {
    let mut sim = Sim::new(1);
    sim.create_pod(tolerating("none", json!([])));
    sim.create_pod(tolerating(
        "some",
        json!([{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20}]),
    ));
    sim.create_pod(tolerating("all", json!([{"key": "k", "operator": "Exists"}])));
    sim.create_pod(tolerating(
        "long",
        json!([{"key": "k", "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": i64::MAX}]),
    ));
    sim.run_for(1_000);
    sim.taint("node-0001", json!([{"key": "k", "effect": "NoExecute"}]));
    sim.run_for(1_000);
    let there = |sim: &Sim| ["none", "some", "all", "long"].map(|name| sim.pod(name).is_some());
    assert_eq!(there(&sim), [false, true, true, true]);
    sim.run_for(18_000);
    assert_eq!(there(&sim), [false, true, true, true]);
    sim.run_for(2_000);
    assert_eq!(there(&sim), [false, false, true, true]);
    assert!(sim.events("some").iter().any(|e| e.contains("Marking for deletion Pod default/some")));
}

/// S23: a taint that is removed in time evicts no pod.
#[test]
fn a_taint_removed_in_time_does_not_evict_the_pod() {
    let mut sim = Sim::new(1);
    sim.create_pod(tolerating(
        "p",
        json!([{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20}]),
    ));
    sim.taint("node-0001", json!([{"key": "k", "effect": "NoExecute"}]));
    sim.run_for(15_000);
    sim.taint("node-0001", json!([]));
    sim.run_for(30_000);
    assert!(sim.pod("p").is_some());
}

/// S23: the pods of a deleted node are removed; a node that is created again in time keeps them.
#[test]
fn pods_of_deleted_nodes_are_collected() {
    let mut sim = Sim::new(2);
    sim.create_pod(pinned("p", "node-0001"));
    sim.create_pod(pinned("q", "node-0002"));
    sim.run_for(1_000);
    let node = sim.node("node-0002");
    sim.delete_node("node-0001");
    sim.delete_node("node-0002");
    let mut again = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0002"}});
    again["metadata"]["labels"] = node["metadata"]["labels"].clone();
    sim.create_node(again);
    sim.run_for(5_000);
    assert_eq!(sim.line("p"), "gone");
    assert_eq!(sim.line("q"), "Running c[running ready, 1 restarts] Ready");
}

/// S20, S22, S23: a minimal node that a client creates gets a kubelet, which completes it.
#[test]
fn a_bare_node_gets_a_kubelet() {
    let mut sim = Sim::new(0);
    sim.create_node(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mine"}}));
    let node = sim.node("mine");
    assert_eq!(ready(&sim, "mine"), "True");
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "mine");
    assert_eq!(node["status"]["allocatable"]["pods"], "110");
    assert_eq!(taints(&sim, "mine"), [] as [&str; 0]);
    sim.create_pod(pinned("p", "mine"));
    sim.run_for(1_000);
    assert_eq!(sim.line("p"), "Running c[running ready] Ready");
    sim.run_for(60_000);
    assert_eq!(ready(&sim, "mine"), "True");
}

/// S7, S21, S22: components that missed changes start again from a list.
#[test]
fn components_recover_from_missed_changes() {
    let mut sim = Sim::new(2);
    sim.create_pod(pinned("gone", "node-0001"));
    sim.run_for(1_000);
    let options = sim.at();
    let registry = sim.cluster.registry_mut();
    let delete = crate::store::DeleteOptions::now();
    registry.delete(&POD, "default", "gone", &delete, &options).unwrap();
    registry.create(&POD, "default", pinned("new", "node-0002"), &options).unwrap();
    registry.delete(&crate::kinds::NODE, "", "node-0001", &delete, &options).unwrap();
    let current = registry.store().resource_version();
    registry.store_mut().compact(current);
    sim.run_for(1_000);
    assert_eq!(sim.line("new"), "Running c[running ready] Ready");
    let store = sim.cluster.store();
    assert_eq!((store.count(&NODE), store.count(&POD)), (1, 1));
}

/// S7, S22: a node that was replaced unobserved starts its pods again and counts their usage once.
#[test]
fn a_node_replaced_between_steps_restarts_its_pods() {
    let mut sim = Sim::new(1);
    let mut large = pinned("p", "node-0001");
    large["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "3"}});
    sim.create_pod(large.clone());
    sim.run_for(1_000);
    let options = sim.at();
    let registry = sim.cluster.registry_mut();
    let delete = crate::store::DeleteOptions::now();
    registry.delete(&crate::kinds::NODE, "", "node-0001", &delete, &options).unwrap();
    let again = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0001"}});
    registry.create(&crate::kinds::NODE, "", again, &options).unwrap();
    let current = registry.store().resource_version();
    registry.store_mut().compact(current);
    sim.run_for(1_000);
    assert_eq!(sim.line("p"), "Running c[running ready, 1 restarts] Ready");
    large["metadata"]["name"] = json!("q");
    large["spec"]["nodeName"] = json!("node-0001");
    sim.create_pod(large);
    assert_eq!(sim.line("q"), "Failed (OutOfcpu)");
}

/// S24: the same seed gives the same history, another seed another one.
#[test]
fn the_same_seed_gives_the_same_history() {
    let history = |seed| {
        let mut sim = Sim::with_seed(20, seed);
        for n in 1..=20 {
            sim.create_pod(pinned(&format!("p{n}"), &format!("node-{n:04}")));
        }
        sim.annotate_node("node-0003", DOWN_ANNOTATION, Some("true"));
        let lines = sim.transcript("p7", 60_000);
        let pods: Vec<String> = sim
            .cluster
            .store()
            .iter(&POD, None)
            .chain(sim.cluster.store().iter(&EVENT, None))
            .map(|object| object.value().to_string())
            .collect();
        (lines, pods, sim.cluster.store().resource_version())
    };
    assert_eq!(history(1), history(1));
    assert_ne!(history(1), history(2));
}

/// S25: events that were not written for an hour are deleted, and no others.
#[test]
fn old_events_are_dropped() {
    let mut sim = Sim::new(1);
    sim.create_pod(pinned("p", "node-0001"));
    sim.run_for(1_800_000);
    sim.create_pod(pinned("q", "node-0001"));
    sim.run_for(1_700_000);
    assert!(!sim.events("p").is_empty());
    sim.run_for(200_000);
    assert!(sim.events("p").is_empty());
    assert!(!sim.events("q").is_empty());
}
