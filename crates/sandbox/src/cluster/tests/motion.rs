//! A fleet in motion: nodes that shut down, are removed, break, and all of it at random.

use std::collections::BTreeSet;

use super::{START, Sim, pinned, pod, pod_that};
use crate::cluster::lifecycle::LIFECYCLE_ANNOTATION;
use crate::cluster::{DOWN_ANNOTATION, SCALE_DOWN_ANNOTATION, SHUTDOWN_ANNOTATION};
use crate::json::{Value, json};
use crate::kinds::NODE;

const NODE_1: &str = "node-0001";

/// The status, reason and message of the node's condition Ready.
fn ready(sim: &Sim, node: &str) -> [String; 3] {
    let node = sim.node(node);
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
    ["status", "reason", "message"].map(|field| ready[field].as_str().unwrap().to_owned())
}

fn is_ready(sim: &Sim, node: &str) -> bool {
    ready(sim, node)[0] == "True"
}

fn boot_id(sim: &Sim) -> Value {
    sim.node(NODE_1)["status"]["nodeInfo"]["bootID"].clone()
}

/// A pod of the first node that its taints do not keep away.
fn bound(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = json!(NODE_1);
    pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    pod
}

/// S23: a node that shuts down ends its pods and refuses others, sends no heartbeats, and has
/// another boot ID when it is back.
#[test]
fn a_node_shuts_down_and_comes_back() {
    let mut sim = Sim::new(1);
    sim.create_pod(bound("old"));
    sim.run_for(1_000);
    let boot = boot_id(&sim);
    sim.annotate_node(NODE_1, SHUTDOWN_ANNOTATION, Some("true"));
    assert_eq!(ready(&sim, NODE_1), ["False", "KubeletNotReady", "node is shutting down"]);
    sim.create_pod(bound("refused"));
    sim.run_for(1_000);
    assert_eq!(sim.line("old"), "Failed (Terminated) c[exited 0]");
    let old = sim.pod("old").unwrap();
    let message = "Pod was terminated in response to imminent node shutdown.";
    assert_eq!(old["status"]["message"], message);
    let disruption = old["status"]["conditions"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&disruption["type"], &disruption["reason"]),
        (&json!("DisruptionTarget"), &json!("TerminationByKubelet"))
    );
    assert_eq!(sim.line("refused"), "Failed (NodeShutdown)");
    let refused = sim.pod("refused").unwrap();
    let message = "Pod was rejected: Pod was rejected as the node is shutting down.";
    assert_eq!(refused["status"]["message"], message);

    sim.run_for(30_000);
    assert_eq!(ready(&sim, NODE_1)[0], "Unknown");
    sim.create_pod(bound("waits"));
    sim.run_for(60_000);
    assert_eq!(sim.line("waits"), "Pending");

    sim.annotate_node(NODE_1, SHUTDOWN_ANNOTATION, None);
    sim.run_for(1_000);
    assert!(is_ready(&sim, NODE_1));
    assert_ne!(boot_id(&sim), boot);
    assert!(sim.events(NODE_1).iter().any(|e| e.contains("has been rebooted, boot id: ")));
    assert_eq!(sim.line("waits"), "Running c[running ready] Ready");
    assert_eq!(sim.line("old"), "Failed (Terminated) c[exited 0]");
    sim.run_for(60_000);
    assert!(is_ready(&sim, NODE_1));
}

/// S22, S23: a pod has until the end of the shutdown to stop.
#[test]
fn a_shutdown_kills_what_does_not_stop_in_time() {
    let mut sim = Sim::new(1);
    sim.create_pod(pod_that("ignores-sigterm"));
    sim.run_for(1_000);
    sim.annotate_node(NODE_1, SHUTDOWN_ANNOTATION, Some("true"));
    sim.run_for(9_000);
    assert_eq!(sim.line("p"), "Running c[running ready]");
    sim.run_for(1_000);
    assert_eq!(sim.line("p"), "Failed (Terminated) c[exited 137]");
}

/// S23: containers that a reboot has interrupted are restarted.
#[test]
fn interrupted_containers_restart() {
    let mut sim = Sim::new(1);
    sim.create_pod(pod_that("ignores-sigterm"));
    sim.run_for(1_000);
    sim.annotate_node(NODE_1, SHUTDOWN_ANNOTATION, Some("5s"));
    sim.run_for(6_000);
    assert_eq!(sim.line("p"), "Running c[running ready, 1 restarts] Ready");
}

/// S23: an annotation with a time ends by itself; one without meaning has no effect.
#[test]
fn annotations_with_a_time_end() {
    let mut sim = Sim::new(1);
    for key in [DOWN_ANNOTATION, SHUTDOWN_ANNOTATION] {
        sim.annotate_node(NODE_1, key, Some("40s"));
        sim.run_for(39_000);
        assert!(!is_ready(&sim, NODE_1), "{key}");
        sim.run_for(2_000);
        assert!(is_ready(&sim, NODE_1), "{key}");
        assert!(sim.node(NODE_1)["metadata"]["annotations"].get(key).is_none());
        sim.annotate_node(NODE_1, key, Some("soon"));
        sim.run_for(60_000);
        assert!(is_ready(&sim, NODE_1), "{key}");
        let warning = format!(
            "Warning InvalidAnnotation: {key}: \"soon\" is not a duration such as 300ms, 1.5s or \
             2m, nor true"
        );
        assert_eq!(sim.events(NODE_1).iter().filter(|event| **event == warning).count(), 1);
    }
}

/// S23: an autoscaler taints a node, and removes it and its pods after the time.
#[test]
fn an_autoscaler_removes_a_node() {
    let mut sim = Sim::new(2);
    sim.create_pod(bound("p"));
    sim.run_for(1_000);
    let taint = json!([{
        "key": "ToBeDeletedByClusterAutoscaler",
        "value": (START / 1000 + 1).to_string(),
        "effect": "NoSchedule",
    }]);
    for node in [NODE_1, "node-0002"] {
        sim.annotate_node(node, SCALE_DOWN_ANNOTATION, Some("30s"));
        assert_eq!(sim.node(node)["spec"]["taints"], taint);
    }
    sim.run_for(10_000);
    sim.annotate_node("node-0002", SCALE_DOWN_ANNOTATION, None);
    assert!(sim.node("node-0002")["spec"].get("taints").is_none());
    sim.run_for(19_000);
    assert_eq!(sim.line("p"), "Running c[running ready] Ready");
    sim.run_for(3_000);
    assert_eq!(sim.line("p"), "gone");
    assert_eq!(sim.cluster.store().count(&NODE), 1);
}

/// S22, S23: on a broken node all new containers fail and the others run until they restart; a
/// mended node runs all.
#[test]
fn a_broken_node_fails_every_template() {
    for (lifecycle, line) in [
        ("never-ready", "Running c[running unready]"),
        ("crash-loop", "Running c[CrashLoopBackOff, 1 restarts]"),
        ("pull-failure", "Pending c[ImagePullBackOff]"),
        ("nonsense", "Running c[running ready] Ready"),
    ] {
        let mut sim = Sim::new(1);
        sim.create_pod(pinned("old", NODE_1));
        sim.run_for(1_000);
        sim.annotate_node(NODE_1, LIFECYCLE_ANNOTATION, Some(lifecycle));
        sim.create_pod(pinned("new", NODE_1));
        sim.run_for(8_000);
        assert_eq!(sim.line("new"), line);
        assert_eq!(sim.line("old"), "Running c[running ready] Ready");
        sim.edit_pod("old", |pod| pod["spec"]["containers"][0]["image"] = json!("nginx:2"));
        sim.run_for(8_000);
        assert_eq!(sim.line("old").contains("Ready"), lifecycle == "nonsense", "{lifecycle}");
        let warned = sim.events(NODE_1).iter().any(|event| event.contains("InvalidAnnotation"));
        assert_eq!(warned, lifecycle == "nonsense", "{lifecycle}");

        sim.annotate_node(NODE_1, LIFECYCLE_ANNOTATION, None);
        sim.run_for(60_000);
        for pod in ["old", "new"] {
            assert!(sim.line(pod).ends_with(" Ready"), "{lifecycle}: {}", sim.line(pod));
        }
    }
}

/// S22: a container that ran while its node was broken is not disturbed when it is mended.
#[test]
fn a_mended_node_disturbs_no_running_container() {
    let mut sim = Sim::new(1);
    sim.create_pod(pod_that("[{stage: ready, delay: 30s}]"));
    sim.run_for(31_000);
    sim.annotate_node(NODE_1, LIFECYCLE_ANNOTATION, Some("never-ready"));
    let transcript = sim.transcript("p", 10_000);
    sim.annotate_node(NODE_1, LIFECYCLE_ANNOTATION, None);
    assert_eq!(sim.transcript("p", 10_000), transcript);
    assert!(transcript.ends_with("Running c[running ready] Ready\n"), "{transcript}");
}

/// The nodes at the end of each second: those with a motion's annotation, and all.
fn churned(seed: u64) -> Vec<(BTreeSet<String>, BTreeSet<String>)> {
    let mut sim = Sim::with_seed(50, seed);
    sim.taint("node-0007", json!([{"key": "gpu", "effect": "NoSchedule"}]));
    sim.cluster.start_churn(10, sim.now);
    let second = |sim: &mut Sim| {
        sim.run_for(1_000);
        let nodes: Vec<_> = sim.cluster.store().iter(&NODE, None).cloned().collect();
        let annotated = |key: &str| {
            let nodes = nodes.iter().filter(|node| node.annotation(key).is_some());
            nodes.map(|node| format!("{} {key}", node.name())).collect::<BTreeSet<String>>()
        };
        let moving = [DOWN_ANNOTATION, SHUTDOWN_ANNOTATION, SCALE_DOWN_ANNOTATION].map(annotated);
        let names = nodes.iter().map(|node| node.name().to_owned()).collect();
        (moving.into_iter().flatten().collect(), names)
    };
    let seconds = (0..200).map(|_| second(&mut sim)).collect();
    let zones = sim.cluster.store().iter(&NODE, None).filter(|node| {
        node.value()["metadata"]["labels"]["topology.kubernetes.io/zone"].is_string()
    });
    assert_eq!(zones.count(), sim.cluster.store().count(&NODE), "new nodes have labels");
    seconds
}

/// S23, S24: churn moves about the same share of the nodes at all times, in all ways, and replaces
/// those that go; the same seed moves the same nodes.
#[test]
fn churn_keeps_a_share_of_the_nodes_in_motion() {
    let seconds = churned(1);
    for (moving, names) in &seconds {
        assert!(moving.len() <= 5 && names.len() <= 50 && names.len() >= 45, "{moving:?}");
    }
    let moving: usize = seconds.iter().map(|(moving, _)| moving.len()).sum();
    assert!(moving > 4 * seconds.len(), "{moving}");
    for key in [DOWN_ANNOTATION, SHUTDOWN_ANNOTATION, SCALE_DOWN_ANNOTATION] {
        let ways = seconds.iter().flat_map(|(moving, _)| moving).filter(|way| way.ends_with(key));
        assert!(ways.collect::<BTreeSet<_>>().len() > 3, "{key}");
    }
    let (_, names) = seconds.last().unwrap();
    assert!(names.iter().filter(|name| name.as_str() > "node-0050").count() > 3, "{names:?}");
    assert_eq!(churned(1), seconds);
    assert_ne!(churned(2), seconds);
}
