//! The decisions and messages of the scheduler.

use crate::json::{Value, json};

use super::{Sim, pinned, pod};

fn unschedulable(sim: &Sim, name: &str) -> String {
    let pod = sim.pod(name).unwrap();
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let condition = conditions.iter().find(|c| c["type"] == "PodScheduled").unwrap();
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("Unschedulable"))
    );
    condition["message"].as_str().unwrap().to_owned()
}

fn node_of(sim: &Sim, name: &str) -> Option<String> {
    sim.pod(name)?["spec"]["nodeName"].as_str().map(str::to_owned)
}

fn with(mut pod: Value, edit: impl FnOnce(&mut Value)) -> Value {
    edit(&mut pod);
    pod
}

/// S21: pinned pods are bound to their node, others to the node with the fewest pods.
#[test]
fn pods_are_bound_to_matching_nodes_with_capacity() {
    let mut sim = Sim::new(3);
    sim.create_pod(pinned("a", "node-0002"));
    sim.create_pod(pod("b"));
    sim.create_pod(pod("c"));
    sim.create_pod(with(pod("d"), |pod| {
        pod["spec"]["nodeSelector"] = json!({"topology.kubernetes.io/zone": "zone-b"});
    }));
    let nodes: Vec<_> = ["a", "b", "c", "d"].map(|name| node_of(&sim, name).unwrap()).into();
    assert_eq!(nodes, ["node-0002", "node-0001", "node-0003", "node-0002"]);
    assert_eq!(
        sim.events("a")[0],
        "Normal Scheduled: Successfully assigned default/a to node-0002"
    );
}

const NO_HELP: &str = "no new claims to deallocate, preemption: 0/3 nodes are available: 3 \
                       Preemption is not helpful for scheduling.";
const NO_VICTIMS: &str = "no new claims to deallocate, preemption: 0/3 nodes are available: 1 No \
                          preemption victims found for incoming pod, 2 Preemption is not helpful \
                          for scheduling.";

fn asking(pod: Value, resource: &str, amount: &str) -> Value {
    with(pod, |pod| {
        pod["spec"]["containers"][0]["resources"] =
            json!({"requests": {resource: amount}, "limits": {resource: amount}});
    })
}

fn with_host_port(pod: Value, ip: &str) -> Value {
    with(pod, |pod| {
        pod["spec"]["containers"][0]["ports"] =
            json!([{"containerPort": 80, "hostPort": 80, "hostIP": ip}]);
    })
}

/// A pod, and the first and second part of the expected message. Of three nodes the first is
/// tainted and the second half full.
fn impossible_pods() -> Vec<(Value, &'static str, &'static str)> {
    vec![
        (
            asking(pod("p"), "cpu", "64"),
            "1 node(s) had untolerated taint(s), 2 Insufficient cpu",
            NO_HELP,
        ),
        (
            asking(pod("p"), "nvidia.com/gpu", "1"),
            "1 node(s) had untolerated taint(s), 2 Insufficient nvidia.com/gpu",
            NO_HELP,
        ),
        (
            with(pod("p"), |pod| pod["spec"]["nodeSelector"] = json!({"disk": "ssd"})),
            "1 node(s) had untolerated taint(s), 2 node(s) didn't match Pod's node \
             affinity/selector",
            NO_HELP,
        ),
        (
            asking(pinned("p", "node-0002"), "cpu", "3"),
            "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]",
            NO_VICTIMS,
        ),
        (
            pinned("p", "node-0001"),
            "1 node(s) had untolerated taint(s), 2 node(s) didn't satisfy plugin(s) [NodeAffinity]",
            NO_HELP,
        ),
        (pinned("p", "node-9"), "3 node(s) didn't satisfy plugin(s) [NodeAffinity]", NO_HELP),
        (
            with_host_port(pinned("p", "node-0002"), "127.0.0.1"),
            "1 node(s) didn't have free ports for the requested pod ports, \
             2 node(s) didn't satisfy plugin(s) [NodeAffinity]",
            NO_VICTIMS,
        ),
    ]
}

/// S21: an unschedulable pod reports the reasons in upstream's words.
#[test]
fn an_unschedulable_pod_reports_the_reasons() {
    for (pod, reasons, preemption) in impossible_pods() {
        let mut sim = Sim::new(3);
        sim.taint("node-0001", json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]));
        let half = asking(pinned("half", "node-0002"), "cpu", "2");
        sim.create_pod(with_host_port(half, "0.0.0.0"));
        sim.create_pod(pod);
        let expected = format!("0/3 nodes are available: {reasons}. {preemption}");
        assert_eq!(unschedulable(&sim, "p"), expected);
        assert_eq!(sim.events("p"), [format!("Warning FailedScheduling: {expected}")]);
    }
}

/// S21: a cluster without nodes has a distinct message.
#[test]
fn an_empty_cluster_has_a_distinct_message() {
    let mut sim = Sim::new(0);
    sim.create_pod(pod("p"));
    assert_eq!(unschedulable(&sim, "p"), "no nodes available to schedule pods");
    sim.create_node(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}));
    assert_eq!(node_of(&sim, "p").as_deref(), Some("n"));
}

/// S21: an unschedulable pod is retried when its node changes or another pod leaves it.
#[test]
fn a_pending_pod_is_retried_when_the_cluster_changes() {
    let mut sim = Sim::new(1);
    sim.taint("node-0001", json!([{"key": "k", "effect": "NoSchedule"}]));
    sim.create_pod(pinned("p", "node-0001"));
    assert_eq!(node_of(&sim, "p"), None);
    sim.taint("node-0001", json!([]));
    assert_eq!(node_of(&sim, "p").as_deref(), Some("node-0001"));

    let large = |name| {
        with(pinned(name, "node-0001"), |pod| {
            pod["spec"]["containers"][0]["resources"] = json!({"requests": {"memory": "10Gi"}});
        })
    };
    sim.create_pod(large("first"));
    sim.create_pod(large("second"));
    assert_eq!(node_of(&sim, "second"), None);
    sim.delete_pod("first");
    sim.run_for(1_000);
    assert_eq!(node_of(&sim, "second").as_deref(), Some("node-0001"));
}

/// S21: of several pods for one node, the one with the highest priority is bound, then the oldest.
#[test]
fn the_pod_with_the_highest_priority_is_scheduled_first() {
    let mut sim = Sim::new(0);
    let large = |name, class: Option<&str>| {
        with(pod(name), |pod| {
            pod["spec"]["containers"][0]["resources"] = json!({"requests": {"memory": "10Gi"}});
            if let Some(class) = class {
                pod["spec"]["priorityClassName"] = json!(class);
            }
        })
    };
    sim.create_pod(large("a", None));
    sim.create_pod(large("b", Some("system-node-critical")));
    sim.create_pod(large("c", Some("system-cluster-critical")));
    sim.create_node(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}));
    let nodes = ["a", "b", "c"].map(|name| node_of(&sim, name));
    assert_eq!(nodes, [None, Some("n".to_owned()), None]);
}

/// S21: a cordoned node gets only pods that tolerate its taint.
#[test]
fn a_cordoned_node_takes_only_pods_that_tolerate_it() {
    let mut sim = Sim::new(1);
    sim.edit_node("node-0001", |node| node["spec"]["unschedulable"] = json!(true));
    sim.create_pod(pinned("a", "node-0001"));
    assert!(unschedulable(&sim, "a").contains("1 node(s) were unschedulable"));
    sim.create_pod(with(pinned("b", "node-0001"), |pod| {
        pod["spec"]["tolerations"] = json!([
            {
                "key": "node.kubernetes.io/unschedulable",
                "operator": "Exists",
                "effect": "NoSchedule",
            },
        ]);
    }));
    assert_eq!(node_of(&sim, "b").as_deref(), Some("node-0001"));
    sim.edit_node("node-0001", |node| node["spec"]["unschedulable"] = json!(false));
    assert_eq!(node_of(&sim, "a").as_deref(), Some("node-0001"));
}

/// S21: pods with scheduling gates or another scheduler are ignored.
#[test]
fn gated_and_foreign_pods_are_ignored() {
    let mut sim = Sim::new(1);
    sim.create_pod(with(pod("gated"), |pod| {
        pod["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    }));
    sim.create_pod(with(pod("foreign"), |pod| pod["spec"]["schedulerName"] = json!("other")));
    assert_eq!(node_of(&sim, "gated"), None);
    assert_eq!(node_of(&sim, "foreign"), None);
    sim.edit_pod("gated", |pod| pod["spec"]["schedulingGates"] = json!([]));
    assert_eq!(node_of(&sim, "gated").as_deref(), Some("node-0001"));
}

/// S21: a pod that is pinned to a full node preempts as few pods with a lower priority as possible.
#[test]
fn a_pod_preempts_pods_of_lower_priority_on_its_node() {
    let mut sim = Sim::new(1);
    sim.create_pod(asking(pinned("large", "node-0001"), "cpu", "2"));
    sim.create_pod(asking(pinned("small", "node-0001"), "cpu", "1"));
    sim.create_pod(with(asking(pinned("equal", "node-0001"), "cpu", "1"), |pod| {
        pod["spec"]["priorityClassName"] = json!("system-node-critical");
    }));
    sim.run_for(1_000);
    sim.create_pod(with(asking(pinned("p", "node-0001"), "cpu", "1"), |pod| {
        pod["spec"]["priorityClassName"] = json!("system-node-critical");
    }));
    assert_eq!(unschedulable(&sim, "p"), "0/1 nodes are available: 1 Insufficient cpu.");
    assert_eq!(sim.pod("p").unwrap()["status"]["nominatedNodeName"], "node-0001");
    let uid = sim.pod("p").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let preempted = format!("Normal Preempted: Preempted by pod {uid} on node node-0001");
    assert!(sim.events("small").contains(&preempted));
    sim.run_for(2_000);
    let there = ["large", "small", "equal", "p"].map(|name| node_of(&sim, name).is_some());
    assert_eq!(there, [true, false, true, true]);
}

/// S21: a pod that does not tolerate its node is retried when it does.
#[test]
fn a_pending_pod_is_retried_when_it_changes() {
    let mut sim = Sim::new(1);
    sim.taint("node-0001", json!([{"key": "k", "effect": "NoSchedule"}]));
    sim.create_pod(pinned("p", "node-0001"));
    assert_eq!(node_of(&sim, "p"), None);
    sim.edit_pod("p", |pod| {
        let tolerations = pod["spec"]["tolerations"].as_array_mut().unwrap();
        tolerations.push(json!({"key": "k", "operator": "Exists"}));
    });
    assert_eq!(node_of(&sim, "p").as_deref(), Some("node-0001"));
}
