//! What is said of nodes, in transcripts.

mod support;

use everynode_insight::explain::{Explanation, explain, node};
use everynode_insight::names::shortened;
use everynode_insight::snapshot::Kind;
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use support::{
    Fixture, NOW, daemon_set, key, name_of_node, node as node_object, pod, ready_pod, revision,
    waiting_pod, with,
};

fn check(fixture: &Fixture, expected: &Expect) {
    let explanation = explain(&fixture.snapshot, &key(), NOW).expect("it is there");
    expected.assert_eq(&told(&explanation));
}

fn told(explanation: &Explanation) -> String {
    let Explanation { nodes, desired, .. } = explanation;
    let counts = [explanation.ready, explanation.available, explanation.updated];
    let [ready, available, updated] = counts.map(|count| count.expect("pods are read"));
    let mut text = format!(
        "{nodes} nodes, {desired} desired, {ready} ready, {available} available, {updated} updated; {}\n{}\n",
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

/// C10, C12, C13: the very label and taint are named, and nodes of one reason are one group.
#[test]
fn nodes_without_a_pod_are_grouped_by_the_reason() {
    let mut fixture = Fixture::with_nodes(6);
    for number in [2, 3, 4] {
        let tainted = with(node_object(&name_of_node(number)), |node| {
            node["spec"]["taints"] =
                json!([{ "key": "gpu", "value": "true", "effect": "NoSchedule" }]);
        });
        fixture.add(Kind::Node, &tainted);
    }
    let other =
        with(node_object("node-05"), |node| node["metadata"]["labels"]["disk"] = "hdd".into());
    fixture.add(Kind::Node, &other);
    let labelled =
        with(node_object("node-01"), |node| node["metadata"]["labels"]["disk"] = "ssd".into());
    fixture.add(Kind::Node, &labelled);
    let narrow = with(daemon_set("v1"), |ds| {
        ds["spec"]["template"]["spec"]["nodeSelector"] = json!({ "disk": "ssd" });
    });
    fixture.run(&narrow, [1, 2, 6]);
    check(
        &fixture,
        &expect![[r#"
        6 nodes, 1 desired, 1 ready, 1 available, 1 updated; RollingUpdate, maxUnavailable 1
        nothing to roll out: every node that should has an available pod of the current revision
        ToBeDeleted: nodeSelector wants disk=ssd, the node has no such label [node-06]
          next: its pod is deleted
        ToBeDeleted: nodeSelector wants disk=ssd, the node has no such label; taint gpu=true:NoSchedule is not tolerated [node-02]
          next: its pod is deleted
        UpToDate: ready [node-01]
        Excluded: nodeSelector wants disk=ssd, the node has no such label; taint gpu=true:NoSchedule is not tolerated [node-03, node-04]
        Excluded: nodeSelector wants disk=ssd, the node has another value [node-05]
    "#]],
    );
}

/// C52: what holds the rollout up is named, and what fails comes first.
#[test]
fn what_holds_a_rollout_up_is_named() {
    let mut fixture = Fixture::with_nodes(5);
    fixture.run(&daemon_set("v1"), [2, 3, 4, 5]);
    fixture.add(Kind::DaemonSet, &daemon_set("v2"));
    fixture.add(Kind::ControllerRevision, &revision(&daemon_set("v2"), "new", 2));
    let message = "back-off 5m0s restarting failed container=agent";
    fixture.add(Kind::Pod, &waiting_pod("node-01", "new", "CrashLoopBackOff", message));
    check(
        &fixture,
        &expect![[r#"
        5 nodes, 5 desired, 4 ready, 4 available, 1 updated; RollingUpdate, maxUnavailable 1
        1 of 5 nodes have the current revision; held up: 1 of maxUnavailable 1 used up by node-01 (CrashLoopBackOff of container agent (Error, exit code 1), current revision)
        Failing: CrashLoopBackOff of container agent (Error, exit code 1), current revision [node-01]
          detail: back-off 5m0s restarting failed container=agent
          next: kubectl -n infra logs agent-node-01 -c agent --previous
        Outdated: ready, older revision: it waits for its turn [node-02..05]
    "#]],
    );
}

#[test]
fn every_trouble_has_its_own_words() {
    let mut fixture = Fixture::with_nodes(8);
    fixture.run(&with(daemon_set("v1"), |ds| ds["spec"]["minReadySeconds"] = 3603.into()), [1]);
    fixture.add(Kind::Pod, &ready_pod("node-01", "old"));
    fixture.add(Kind::Pod, &waiting_pod("node-02", "old", "ImagePullBackOff", "no such image"));
    fixture.add(
        Kind::Pod,
        &pod(
            "node-03",
            "old",
            json!({ "phase": "Failed", "reason": "Evicted",
        "message": "The node was low on resource: memory" }),
        ),
    );
    fixture.add(Kind::Pod, &unscheduled_pod("node-04"));
    fixture.add(Kind::Node, &dead_node("node-05"));
    fixture.add(
        Kind::Pod,
        &pod(
            "node-05",
            "old",
            json!({ "phase": "Running",
        "containerStatuses": [{ "name": "agent", "ready": false, "state": { "running": {} } }] }),
        ),
    );
    fixture.add(
        Kind::Pod,
        &with(ready_pod("node-06", "old"), |pod| {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:59:59Z".into();
        }),
    );
    fixture.add(Kind::Pod, &pod("node-07", "old", json!({ "phase": "Pending" })));
    check(
        &fixture,
        &expect![[r#"
            8 nodes, 8 desired, 2 ready, 0 available, 7 updated; RollingUpdate, maxUnavailable 1
            every pod is of the current revision; 8 of 8 nodes have none that is available
            Failing: ImagePullBackOff of container agent [node-02]
              detail: no such image
              next: kubectl -n infra describe pod agent-node-02
            Failing: failed: Evicted [node-03]
              detail: The node was low on resource: memory
              next: the controller replaces it, after a back-off of at most 15 min
            Unschedulable: can't be scheduled: Insufficient cpu [node-04]
              detail: 0/8 nodes are available: 1 Insufficient cpu, 7 node(s) didn't satisfy plugin(s) [NodeAffinity].
            NodeNotReady: the node is not ready [node-05]
              detail: Kubelet stopped posting node status.
              next: its pod can't become ready before the node does
            Missing: no pod [node-08]
              next: the controller creates it; if this stays, see the DaemonSet's events: kubectl describe ds
            NotReady: ContainerCreating [node-07]
              detail: pod agent-node-07 is 1h old
            Terminating: its pod is terminating [node-06]
              next: a new one is created when it is gone
            NotYetAvailable: ready, but not yet for minReadySeconds (3603 s) [node-01]
              detail: agent-node-01 counts as available in 11 s
        "#]],
    );
}

/// C12: nothing that a pod on a dead node is to do is done before the node is back, or deleted.
#[test]
fn a_pod_on_a_dead_node_stays_or_waits_to_stop() {
    let mut fixture = Fixture::with_nodes(0);
    fixture.run(&daemon_set("v1"), [1]);
    for (node, deleted) in [("node-01", Value::Null), ("node-02", "2026-01-01T00:59:59Z".into())] {
        let unreachable =
            json!([{ "key": "node.kubernetes.io/unreachable", "effect": "NoSchedule" }]);
        fixture.add(
            Kind::Node,
            &with(dead_node(node), |object| object["spec"]["taints"] = unreachable),
        );
        fixture.add(
            Kind::Pod,
            &with(ready_pod(node, "old"), |pod| pod["metadata"]["deletionTimestamp"] = deleted),
        );
    }
    check(
        &fixture,
        &expect![[r#"
            2 nodes, 0 desired, 0 ready, 0 available, 0 updated; RollingUpdate, maxUnavailable 1
            nothing to roll out: every node that should has an available pod of the current revision
            NodeNotReady: the node is not ready [node-01]
              detail: Kubelet stopped posting node status.
              next: its pod stays; a new one is created only when the node is ready
            NodeNotReady: the node is not ready, and its pod can't stop [node-02]
              detail: Kubelet stopped posting node status.
              next: bring the node back, or delete it
        "#]],
    );
}

fn unscheduled_pod(name: &str) -> Value {
    let message = "0/8 nodes are available: 1 Insufficient cpu, 7 node(s) didn't satisfy plugin(s) [NodeAffinity].";
    let refused = json!({ "type": "PodScheduled", "status": "False", "message": message });
    let field = json!({ "key": "metadata.name", "operator": "In", "values": [name] });
    with(pod(name, "old", json!({ "phase": "Pending", "conditions": [refused] })), |pod| {
        pod["spec"]["nodeName"] = json!(null);
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({ "nodeSelectorTerms": [{ "matchFields": [field] }] });
    })
}

fn dead_node(name: &str) -> Value {
    let message = "Kubelet stopped posting node status.";
    with(node_object(name), |node| {
        node["status"]["conditions"] =
            json!([{ "type": "Ready", "status": "Unknown", "message": message }]);
    })
}

/// C50
#[test]
fn with_on_delete_old_pods_wait_for_people() {
    let mut fixture = Fixture::with_nodes(2);
    let on_delete = |image| {
        with(daemon_set(image), |ds| ds["spec"]["updateStrategy"] = json!({ "type": "OnDelete" }))
    };
    fixture.run(&on_delete("v1"), [1, 2]);
    let changed = with(on_delete("v2"), |ds| ds["metadata"]["generation"] = 2.into());
    fixture.add(Kind::DaemonSet, &changed);
    fixture.add(Kind::ControllerRevision, &revision(&on_delete("v2"), "new", 2));
    check(
        &fixture,
        &expect![[r#"
        2 nodes, 2 desired, 2 ready, 2 available, 0 updated; OnDelete
        0 of 2 nodes have the current revision; with OnDelete the 2 other pods stay until someone deletes them
        problem: no controller has dealt with its last change yet (generation 2, observed 1): if this stays, see whether a DaemonSet controller runs
        Outdated: ready, older revision: updateStrategy is OnDelete: it stays until someone deletes it [node-01, node-02]
    "#]],
    );
}

/// C12: of each term it is told what holds, and what the node has instead.
#[test]
fn the_story_of_a_node_names_each_requirement() {
    let mut fixture = Fixture::with_nodes(1);
    let affine = with(daemon_set("v1"), |ds| {
        ds["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
            "nodeSelectorTerms": [
                { "matchExpressions": [
                    { "key": "kubernetes.io/hostname", "operator": "In", "values": ["node-01"] },
                    { "key": "disk", "operator": "Exists" }] },
                { "matchFields": [{ "key": "metadata.name", "operator": "NotIn", "values": ["node-01"] }] }] });
    });
    fixture.run(&affine, []);
    let story = node(&fixture.snapshot, &key(), &"node-01".into(), NOW).expect("both are there");
    expect![[r#"
        {
          "namespace": "infra",
          "name": "agent",
          "node": "node-01",
          "nodeNotes": [],
          "shouldRun": false,
          "shouldContinueRunning": false,
          "reasons": [
            {
              "reason": "no term of the required node affinity matches: (kubernetes.io/hostname In [node-01] and disk Exists) or (field metadata.name NotIn [node-01])",
              "evicts": true,
              "checks": [
                {
                  "term": 1,
                  "requirement": "kubernetes.io/hostname In [node-01]",
                  "holds": true,
                  "found": "node-01"
                },
                {
                  "term": 1,
                  "requirement": "disk Exists",
                  "holds": false,
                  "found": null
                },
                {
                  "term": 2,
                  "requirement": "metadata.name NotIn [node-01]",
                  "holds": false,
                  "found": "node-01"
                }
              ]
            }
          ],
          "situation": "excluded",
          "why": "no term of the required node affinity matches: (kubernetes.io/hostname In [node-01] and disk Exists) or (field metadata.name NotIn [node-01])",
          "rollout": "nothing to roll out: every node that should has an available pod of the current revision",
          "pods": [],
          "problems": []
        }"#]].assert_eq(&serde_json::to_string_pretty(&story).expect("it is plain data"));
}

/// C15: the annotation of the namespace is named, and keeps no pod away unless the controller is said to heed it; a pod that is
/// there stays all the same.
#[test]
fn a_node_selector_of_the_namespace_is_named() {
    let mut fixture = Fixture::with_nodes(2);
    fixture.run(&daemon_set("v1"), [1]);
    let annotations = json!({ "scheduler.alpha.kubernetes.io/node-selector": "disk=ssd,pool=a" });
    let namespace = json!({ "metadata": { "name": "infra", "annotations": annotations } });
    fixture.add(Kind::Namespace, &namespace);
    check(
        &fixture,
        &expect![[r#"
        2 nodes, 2 desired, 1 ready, 1 available, 1 updated; RollingUpdate, maxUnavailable 1
        every pod is of the current revision; 1 of 2 nodes have none that is available
        problem: namespace infra has the annotation scheduler.alpha.kubernetes.io/node-selector: disk=ssd,pool=a, which is not taken into account: everynode heeds it with --namespace-node-selectors only
        Missing: no pod [node-02]
          next: the controller creates it; if this stays, see the DaemonSet's events: kubectl describe ds
        UpToDate: ready [node-01]
    "#]],
    );
    fixture.snapshot.heeds_namespace_node_selectors = true;
    check(
        &fixture,
        &expect![[r#"
        2 nodes, 0 desired, 0 ready, 0 available, 0 updated; RollingUpdate, maxUnavailable 1
        nothing to roll out: every node that should has an available pod of the current revision
        Lingering: the namespace's node selector wants disk=ssd, the node has no such label; the namespace's node selector wants pool=a, the node has no such label [node-01]
          next: its pod stays; no new one would be created
        Excluded: the namespace's node selector wants disk=ssd, the node has no such label; the namespace's node selector wants pool=a, the node has no such label [node-02]
    "#]],
    );
}
