//! Explanations, compared with the transcripts in `explain/`.

use crate::support::{
    Fixture, NOW, daemon_set, key, name_of_node, node, pod, ready_pod, revision, waiting_pod, with,
};
use everynode_insight::explain::{Explanation, explain, explain_node};
use everynode_insight::names::shortened;
use everynode_insight::rollout::Rollout;
use everynode_insight::snapshot::ObjectKind;
use expect_test::{ExpectFile, expect_file};
use serde_json::{Value, json};

fn check(fixture: &Fixture, expected: &ExpectFile) {
    let explanation = explain(&fixture.snapshot, &key(), NOW).expect("it is there");
    expected.assert_eq(&text_of(&explanation));
}

fn text_of(explanation: &Explanation) -> String {
    let desired = explanation.desired;
    let nodes = explanation.nodes.expect("nodes are read");
    let counts = [explanation.ready, explanation.available, explanation.updated];
    let [ready, available, updated] = counts.map(|count| count.expect("pods are read"));
    let mut text = format!(
        "{nodes} nodes, {desired} desired, {ready} ready, {available} available, {updated} \
         updated; {}\n{}\n",
        explanation.update_strategy, explanation.rollout
    );
    for problem in &explanation.problems {
        text += &format!("problem: {problem}\n");
    }
    for group in &explanation.groups {
        let names = shortened(group.nodes.iter().map(String::as_str), 60);
        text += &format!("{:?}: {} [{names}]\n", group.situation, group.why);
        for (what, line) in [("detail", &group.detail), ("next", &group.next)] {
            if let Some(line) = line {
                text += &format!("  {what}: {line}\n");
            }
        }
    }
    text
}

/// C10, C12, C13: reasons name the label or taint, and nodes with the same reason form one group.
#[test]
fn nodes_without_a_pod_are_grouped_by_the_reason() {
    let mut fixture = Fixture::with_nodes(6);
    for number in [2, 3, 4] {
        let tainted = with(node(&name_of_node(number)), |node| {
            node["spec"]["taints"] =
                json!([{ "key": "gpu", "value": "true", "effect": "NoSchedule" }]);
        });
        fixture.add(ObjectKind::Node, &tainted);
    }
    let other = with(node("node-05"), |node| node["metadata"]["labels"]["disk"] = "hdd".into());
    fixture.add(ObjectKind::Node, &other);
    let labelled = with(node("node-01"), |node| node["metadata"]["labels"]["disk"] = "ssd".into());
    fixture.add(ObjectKind::Node, &labelled);
    let narrow = with(daemon_set("v1"), |ds| {
        ds["spec"]["template"]["spec"]["nodeSelector"] = json!({ "disk": "ssd" });
    });
    fixture.run(&narrow, [1, 2, 6]);
    check(&fixture, &expect_file!["explain/nodes_without_a_pod_are_grouped_by_the_reason.txt"]);
}

/// C52: the node that holds up the rollout is named, and failing nodes come first.
#[test]
fn the_node_that_holds_up_a_rollout_is_named() {
    let mut fixture = Fixture::with_nodes(5);
    fixture.run(&daemon_set("v1"), [2, 3, 4, 5]);
    fixture.add(ObjectKind::DaemonSet, &daemon_set("v2"));
    fixture.add(ObjectKind::ControllerRevision, &revision(&daemon_set("v2"), "new", 2));
    let message = "back-off 5m0s restarting failed container=agent";
    fixture.add(ObjectKind::Pod, &waiting_pod("node-01", "new", "CrashLoopBackOff", message));
    check(&fixture, &expect_file!["explain/the_node_that_holds_up_a_rollout_is_named.txt"]);
}

/// C52: a node that has joined during the rollout uses the budget, and is named as new.
#[test]
fn a_new_node_that_holds_up_a_rollout_is_named_as_new() {
    let mut fixture = Fixture::with_nodes(5);
    fixture.run(&daemon_set("v1"), [2, 3, 4, 5]);
    fixture.add(ObjectKind::DaemonSet, &daemon_set("v2"));
    fixture.add(ObjectKind::ControllerRevision, &revision(&daemon_set("v2"), "new", 2));
    fixture.add(ObjectKind::Pod, &ready_pod("node-01", "new"));
    let joined = with(node("spot-1"), |node| {
        node["metadata"]["creationTimestamp"] = "2026-01-01T00:59:50Z".into();
    });
    fixture.add(ObjectKind::Node, &joined);
    fixture.add(ObjectKind::Pod, &pod("spot-1", "new", json!({ "phase": "Pending" })));
    let explanation = explain(&fixture.snapshot, &key(), NOW).expect("it is there");
    let said = "current revision), a new node, which counts until its first pod is available";
    assert!(explanation.rollout.contains("used up by spot-1 ("), "{}", explanation.rollout);
    assert!(explanation.rollout.contains(said), "{}", explanation.rollout);
}

#[test]
fn every_kind_of_failure_has_its_own_text() {
    let mut fixture = Fixture::with_nodes(8);
    fixture.run(&with(daemon_set("v1"), |ds| ds["spec"]["minReadySeconds"] = 3603.into()), [1]);
    fixture.add(ObjectKind::Pod, &ready_pod("node-01", "old"));
    fixture
        .add(ObjectKind::Pod, &waiting_pod("node-02", "old", "ImagePullBackOff", "no such image"));
    fixture.add(
        ObjectKind::Pod,
        &pod(
            "node-03",
            "old",
            json!({ "phase": "Failed", "reason": "Evicted",
        "message": "The node was low on resource: memory" }),
        ),
    );
    fixture.add(ObjectKind::Pod, &unscheduled_pod("node-04"));
    fixture.add(ObjectKind::Node, &node_that_is_down("node-05"));
    fixture.add(
        ObjectKind::Pod,
        &pod(
            "node-05",
            "old",
            json!({ "phase": "Running",
        "containerStatuses": [{ "name": "agent", "ready": false, "state": { "running": {} } }] }),
        ),
    );
    fixture.add(
        ObjectKind::Pod,
        &with(ready_pod("node-06", "old"), |pod| {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:59:59Z".into();
        }),
    );
    fixture.add(ObjectKind::Pod, &pod("node-07", "old", json!({ "phase": "Pending" })));
    check(&fixture, &expect_file!["explain/every_kind_of_failure_has_its_own_text.txt"]);
}

/// A page of one node has that node's pod, not that of the first node with the same cause.
#[test]
fn each_node_of_a_group_has_its_own_message_and_next_step() {
    let mut fixture = Fixture::with_nodes(2);
    fixture.run(&daemon_set("v1"), []);
    for node in ["node-01", "node-02"] {
        let crashing = waiting_pod(node, "old", "CrashLoopBackOff", &format!("back-off on {node}"));
        fixture.add(ObjectKind::Pod, &crashing);
    }
    let explanation = explain(&fixture.snapshot, &key(), NOW).unwrap();
    let [group] = &explanation.groups[..] else { panic!("{:?}", explanation.groups) };
    let second = &group.remarks[1];
    assert_eq!(second.detail.as_deref(), Some("back-off on node-02"));
    assert!(second.next.as_ref().unwrap().contains("agent-node-02"), "{second:?}");
}

/// C12: a pod on a node that is down neither starts nor stops before the node recovers or is
/// deleted.
#[test]
fn a_pod_stays_on_a_node_that_is_down() {
    let mut fixture = Fixture::with_nodes(0);
    fixture.run(&daemon_set("v1"), [1]);
    for (node, deleted) in [("node-01", Value::Null), ("node-02", "2026-01-01T00:59:59Z".into())] {
        let unreachable =
            json!([{ "key": "node.kubernetes.io/unreachable", "effect": "NoSchedule" }]);
        fixture.add(
            ObjectKind::Node,
            &with(node_that_is_down(node), |object| object["spec"]["taints"] = unreachable),
        );
        fixture.add(
            ObjectKind::Pod,
            &with(ready_pod(node, "old"), |pod| pod["metadata"]["deletionTimestamp"] = deleted),
        );
    }
    check(&fixture, &expect_file!["explain/a_pod_stays_on_a_node_that_is_down.txt"]);
}

/// G13, G15: a node that went down with a new pod holds up a guarded rollout, also if it should run
/// no pod any more: it is named, although all desired pods are updated and available.
#[test]
fn a_node_that_holds_up_a_guarded_rollout_is_named() {
    let mut fixture = Fixture::with_nodes(2);
    let updating = json!({ "type": "Progressing", "status": "True", "reason": "Updating",
        "message": "updating all nodes", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let guarded = with(daemon_set("v2"), |ds| {
        ds["metadata"]["annotations"] = json!({ "everynode.dev/rollout-policy": "{}" });
        ds["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = 2.into();
        ds["status"]["conditions"] = json!([updating]);
    });
    fixture.run(&guarded, [2]);
    let record = with(revision(&guarded, "old", 1), |revision| {
        let record = json!({ "phase": "Updating", "began": "2026-01-01T00:00:00Z",
            "since": "2026-01-01T00:00:00Z", "steps": "none" });
        revision["metadata"]["annotations"] =
            json!({ "everynode.dev/rollout": record.to_string() });
    });
    fixture.add(ObjectKind::ControllerRevision, &record);
    let down = with(node_that_is_down("node-01"), |node| {
        node["spec"]["taints"] =
            json!([{ "key": "node.kubernetes.io/unreachable", "effect": "NoSchedule" }]);
        node["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-01-01T00:55:00Z");
    });
    fixture.add(ObjectKind::Node, &down);
    let unready = with(ready_pod("node-01", "old"), |pod| {
        pod["status"]["conditions"][0]["status"] = json!("False");
    });
    fixture.add(ObjectKind::Pod, &unready);
    check(&fixture, &expect_file!["explain/a_node_that_holds_up_a_guarded_rollout_is_named.txt"]);
}

/// A rollout that is done without a node says so, and that node comes after those that wait.
#[test]
fn a_node_that_is_set_aside_comes_last() {
    let tolerates_all = |image| {
        with(daemon_set(image), |ds| {
            ds["spec"]["template"]["spec"]["tolerations"] = json!([{ "operator": "Exists" }]);
            ds["status"] = json!({ "observedGeneration": 1, "desiredNumberScheduled": 3,
                "currentNumberScheduled": 3, "updatedNumberScheduled": 2, "numberReady": 2,
                "numberAvailable": 2, "numberMisscheduled": 0 });
        })
    };
    let mut fixture = Fixture::with_nodes(3);
    fixture.run(&tolerates_all("v1"), [1]);
    fixture.add(ObjectKind::DaemonSet, &tolerates_all("v2"));
    fixture.add(ObjectKind::ControllerRevision, &revision(&tolerates_all("v2"), "new", 2));
    let down = with(node_that_is_down("node-01"), |node| {
        node["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:20:00Z".into();
    });
    fixture.add(ObjectKind::Node, &down);
    fixture.add(ObjectKind::Pod, &ready_pod("node-02", "new"));
    fixture.add(ObjectKind::Pod, &ready_pod("node-03", "new"));
    let unready = with(ready_pod("node-01", "old"), |pod| {
        pod["status"]["conditions"][0]["status"] = json!("False");
    });
    fixture.add(ObjectKind::Pod, &unready);
    let done = explain(&fixture.snapshot, &key(), NOW).expect("it is there");
    let said = "rolled out: 2 of 3 pods updated and available; set aside: 1 down (node-01)";
    assert_eq!(done.rollout, said);

    let starting = json!({ "phase": "Pending" });
    fixture.add(ObjectKind::Pod, &pod("node-02", "new", starting));
    let explanation = explain(&fixture.snapshot, &key(), NOW).expect("it is there");
    let groups: Vec<&str> = explanation.groups.iter().map(|group| &*group.why).collect();
    assert_eq!(
        groups,
        [
            "ContainerCreating for more than 10 min, current revision",
            "node not ready for more than 10 min, older revision, set aside",
            "ready"
        ]
    );
}

/// A node that gets no pod because it is down has the next step of one that has a pod; a node that
/// would get none anyway is not said to be down.
#[test]
fn a_node_that_is_down_has_a_next_step() {
    let mut fixture = Fixture::with_nodes(2);
    fixture.run(&daemon_set("v1"), [1]);
    let down = with(node_that_is_down("node-02"), |node| {
        node["spec"]["taints"] =
            json!([{ "key": "node.kubernetes.io/unreachable", "effect": "NoSchedule" }]);
    });
    fixture.add(ObjectKind::Node, &down);
    let group_of_down = |fixture: &Fixture| {
        let explanation = explain(&fixture.snapshot, &key(), NOW).expect("it is there");
        let mut groups = explanation.groups.into_iter();
        groups.find(|group| group.nodes == ["node-02"]).expect("it has a group of its own")
    };
    let group = group_of_down(&fixture);
    assert_eq!(group.next.as_deref(), Some("kubectl describe node node-02"));
    assert_eq!(group.detail.as_deref(), Some("Kubelet stopped posting node status."));

    let elsewhere = with(daemon_set("v1"), |ds| {
        ds["spec"]["template"]["spec"]["nodeSelector"] =
            json!({ "kubernetes.io/hostname": "node-01" });
    });
    fixture.add(ObjectKind::DaemonSet, &elsewhere);
    let group = group_of_down(&fixture);
    assert!(!group.why.contains("unreachable"), "{}", group.why);
    assert_eq!(group.next, None);
}

/// C13: if no node should run a pod, the nodes that the template selects come first.
#[test]
fn a_taint_of_the_selected_nodes_comes_first() {
    let mut fixture = Fixture::with_nodes(4);
    let tainted = with(node("node-04"), |node| {
        node["metadata"]["labels"]["gpu"] = "yes".into();
        node["spec"]["taints"] = json!([{ "key": "gpu", "effect": "NoSchedule" }]);
    });
    fixture.add(ObjectKind::Node, &tainted);
    let narrow = with(daemon_set("v1"), |ds| {
        ds["spec"]["template"]["spec"]["nodeSelector"] = json!({ "gpu": "yes" });
    });
    fixture.run(&narrow, []);
    let rollout = Rollout::of(&fixture.snapshot, &key(), NOW).expect("it is there");
    let first = "no node should run it: taint gpu:NoSchedule is not tolerated (1 node); ";
    let reason = rollout.reason();
    assert!(reason.starts_with(first), "{reason}");
    assert!(rollout.next.is_some_and(|next| next.contains("TAINTS")));
}

fn unscheduled_pod(name: &str) -> Value {
    let message = "0/8 nodes are available: 1 Insufficient cpu, 7 node(s) didn't satisfy \
                   plugin(s) [NodeAffinity].";
    let refused = json!({ "type": "PodScheduled", "status": "False", "message": message });
    let field = json!({ "key": "metadata.name", "operator": "In", "values": [name] });
    with(pod(name, "old", json!({ "phase": "Pending", "conditions": [refused] })), |pod| {
        pod["spec"]["nodeName"] = json!(null);
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({ "nodeSelectorTerms": [{ "matchFields": [field] }] });
    })
}

fn node_that_is_down(name: &str) -> Value {
    let message = "Kubelet stopped posting node status.";
    with(node(name), |node| {
        node["status"]["conditions"] =
            json!([{ "type": "Ready", "status": "Unknown", "message": message }]);
    })
}

/// C50: with `OnDelete` old pods stay until somebody deletes them.
#[test]
fn with_on_delete_old_pods_await_deletion() {
    let mut fixture = Fixture::with_nodes(2);
    let on_delete = |image| {
        with(daemon_set(image), |ds| ds["spec"]["updateStrategy"] = json!({ "type": "OnDelete" }))
    };
    fixture.run(&on_delete("v1"), [1, 2]);
    let changed = with(on_delete("v2"), |ds| ds["metadata"]["generation"] = 2.into());
    fixture.add(ObjectKind::DaemonSet, &changed);
    fixture.add(ObjectKind::ControllerRevision, &revision(&on_delete("v2"), "new", 2));
    check(&fixture, &expect_file!["explain/with_on_delete_old_pods_await_deletion.txt"]);
}

/// C12: each requirement of each term is compared with the node.
#[test]
fn the_explanation_of_a_node_lists_each_requirement() {
    let mut fixture = Fixture::with_nodes(1);
    let affine = with(daemon_set("v1"), |ds| {
        let affinity = &mut ds["spec"]["template"]["spec"]["affinity"]["nodeAffinity"];
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
            "nodeSelectorTerms": [
                { "matchExpressions": [
                    { "key": "kubernetes.io/hostname", "operator": "In", "values": ["node-01"] },
                    { "key": "disk", "operator": "Exists" }] },
                { "matchFields": [
                    { "key": "metadata.name", "operator": "NotIn", "values": ["node-01"] }] }] });
    });
    fixture.run(&affine, []);
    let explanation =
        explain_node(&fixture.snapshot, &key(), &"node-01".into(), NOW).expect("both are there");
    expect_file!["explain/the_explanation_of_a_node_lists_each_requirement.txt"]
        .assert_eq(&serde_json::to_string_pretty(&explanation).expect("it is plain data"));
}

/// C15: the namespace's annotation is reported. It excludes nodes only if the controller honors it,
/// and never removes an existing pod.
#[test]
fn a_node_selector_of_the_namespace_is_named() {
    let mut fixture = Fixture::with_nodes(2);
    fixture.run(&daemon_set("v1"), [1]);
    let annotations = json!({ "scheduler.alpha.kubernetes.io/node-selector": "disk=ssd,pool=a" });
    let namespace = json!({ "metadata": { "name": "infra", "annotations": annotations } });
    fixture.add(ObjectKind::Namespace, &namespace);
    check(&fixture, &expect_file!["explain/a_node_selector_of_the_namespace_is_named.txt"]);
    fixture.snapshot.honors_namespace_node_selectors = true;
    check(&fixture, &expect_file!["explain/a_node_selector_of_the_namespace_is_named_2.txt"]);
}
