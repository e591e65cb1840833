//! What is forecast, in transcripts.

mod support;

use std::time::Duration;

use everynode_insight::forecast::{Forecast, Proposal, changes, forecast};
use everynode_insight::names::shortened;
use everynode_insight::snapshot::{Kind, Snapshot};
use everynode_k8s::convert;
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use support::{Fixture, NOW, daemon_set, name_of_node, node, revision, waiting_pod, with};

fn proposal(live: Option<&Value>, new: &Value) -> Proposal {
    Proposal {
        object: convert::daemon_set(new.to_string().as_bytes(), None).expect("it is a DaemonSet"),
        changes: live.map(|live| changes(live, new)),
        knows_room: true,
        start_up: None,
    }
}

fn check(snapshot: &Snapshot, live: Option<&Value>, new: &Value, expected: &Expect) {
    expected.assert_eq(&told(&forecast(snapshot, &proposal(live, new), NOW)));
}

fn told(forecast: &Forecast) -> String {
    let names = |nodes: &[String]| shortened(nodes.iter().map(String::as_str), 60);
    let nodes = &forecast.nodes;
    let mut text = format!("{:?}, {}\n", forecast.action, forecast.update_strategy);
    for (what, side) in [
        ("gain", &nodes.gain),
        ("lose", &nodes.lose),
        ("replace", &nodes.replace),
        ("keep", &nodes.keep),
    ] {
        if !side.is_empty() {
            text += &format!("{what}: {}\n", names(side));
        }
    }
    for wave in &forecast.waves {
        text += &format!("+{}s: {}\n", wave.starts_after_seconds, names(&wave.nodes));
    }
    if let Some(duration) = &forecast.duration {
        text += &format!("takes {} to {} s\n", duration.typical_seconds, duration.worst_seconds);
    }
    for group in &forecast.unfinished {
        text += &format!("unfinished: {} [{}]\n", group.why, names(&group.nodes));
    }
    for risk in &forecast.risks {
        text += &format!("{:?}: {} [{}]\n", risk.kind, risk.message, names(&risk.nodes));
    }
    text
}

#[test]
fn a_new_daemon_set_gains_every_node_that_it_may_run_on() {
    let mut fixture = Fixture::with_nodes(4);
    fixture.add(
        Kind::Node,
        &with(node("node-04"), |node| {
            node["spec"]["taints"] = json!([{ "key": "gpu", "effect": "NoSchedule" }]);
        }),
    );
    check(
        &fixture.snapshot,
        None,
        &daemon_set("v1"),
        &expect![[r#"
        Create, RollingUpdate, maxUnavailable 1
        gain: node-01..03
    "#]],
    );
}

/// C52, C55: one after the other, in the order of names, at the pace seen.
#[test]
fn a_change_rolls_out_in_waves_at_the_pace_seen() {
    let mut fixture = Fixture::with_nodes(5);
    let live = daemon_set("v1");
    fixture.run(&live, 1..=5);
    let two = with(daemon_set("v2"), |ds| {
        ds["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = 2.into();
        ds["spec"]["minReadySeconds"] = 10.into();
    });
    check(
        &fixture.snapshot,
        Some(&live),
        &two,
        &expect![[r#"
        Change, RollingUpdate, maxUnavailable 2
        replace: node-01..05
        +0s: node-01, node-02
        +18s: node-03, node-04
        +36s: node-05
        takes 54 to 144 s
    "#]],
    );
}

/// C53: with surge the old pod goes once the new one is available.
#[test]
fn a_surge_rolls_out_in_waves_as_well() {
    let mut fixture = Fixture::with_nodes(4);
    let live = daemon_set("v1");
    fixture.run(&live, 1..=4);
    let surge = with(daemon_set("v2"), |ds| {
        ds["spec"]["updateStrategy"]["rollingUpdate"] =
            json!({ "maxSurge": "50%", "maxUnavailable": 0 });
    });
    check(
        &fixture.snapshot,
        Some(&live),
        &surge,
        &expect![[r#"
        Change, RollingUpdate, maxSurge 50%
        replace: node-01..04
        +0s: node-01, node-02
        +8s: node-03, node-04
        takes 16 to 46 s
    "#]],
    );
    let mut ported = surge;
    ported["spec"]["template"]["spec"]["containers"][0]["ports"] =
        json!([{ "containerPort": 9100, "hostPort": 9100 }]);
    let mut live = live;
    live["spec"]["template"]["spec"]["containers"][0]["ports"] =
        json!([{ "containerPort": 9100, "hostPort": 9100 }]);
    let mut fixture = Fixture::with_nodes(4);
    fixture.run(&live, []);
    for number in 1..=4 {
        let name = name_of_node(number);
        fixture.add(
            Kind::Pod,
            &with(support::ready_pod(&name, "old"), |pod| {
                pod["spec"]["containers"] =
                    json!([{ "name": "agent", "ports": [{ "hostPort": 9100 }] }]);
            }),
        );
    }
    check(
        &fixture.snapshot,
        Some(&live),
        &ported,
        &expect![[r#"
        Change, RollingUpdate, maxSurge 50%
        keep: node-01..04
        takes 0 to 0 s
        unfinished: its turn does not come [node-03, node-04]
        unfinished: the new pod does not fit: node(s) didn't have free ports for the requested pod ports [node-01, node-02]
        HostPortWithSurge: host port 9100/TCP with maxSurge: old and new pod can't be on a node together; use maxUnavailable []
    "#]],
    );
}

#[test]
fn a_pod_that_does_not_fit_stops_the_rollout() {
    let mut fixture = Fixture::with_nodes(4);
    let live = daemon_set("v1");
    fixture.run(&live, 1..=4);
    fixture.add(Kind::Pod, &json!({
        "metadata": { "name": "big", "namespace": "x", "uid": "big",
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "uid": "r", "controller": true }] },
        "spec": { "nodeName": "node-02", "containers": [{ "resources": { "requests": { "cpu": "3" } } }] } }));
    let hungry = with(daemon_set("v2"), |ds| {
        ds["spec"]["template"]["spec"]["containers"][0]["resources"] =
            json!({ "requests": { "cpu": "2" } });
    });
    check(
        &fixture.snapshot,
        Some(&live),
        &hungry,
        &expect![[r#"
            Change, RollingUpdate, maxUnavailable 1
            replace: node-01, node-02
            keep: node-03, node-04
            +0s: node-01
            +8s: node-02
            takes 8 to 68 s
            unfinished: its turn does not come [node-03, node-04]
            unfinished: the new pod does not fit: Insufficient cpu, unless others are evicted for it [node-02]
        "#]],
    );
}

/// C41, C50: neither the same template nor OnDelete replaces a pod.
#[test]
fn what_replaces_no_pod_says_so() {
    let mut fixture = Fixture::with_nodes(2);
    let live = daemon_set("v1");
    fixture.run(&live, 1..=2);
    check(
        &fixture.snapshot,
        Some(&live),
        &live,
        &expect![[r#"
        Nothing, RollingUpdate, maxUnavailable 1
        keep: node-01, node-02
        takes 0 to 0 s
    "#]],
    );
    let same = with(daemon_set("v1"), |ds| {
        ds["spec"]["template"]["spec"]["securityContext"] = json!({});
        ds["spec"]["revisionHistoryLimit"] = 3.into();
    });
    check(
        &fixture.snapshot,
        Some(&live),
        &same,
        &expect![[r#"
        Change, RollingUpdate, maxUnavailable 1
        keep: node-01, node-02
        takes 0 to 0 s
        SameTemplate: the pod template means the same as before: no pod is replaced for it []
    "#]],
    );
    let on_delete =
        with(daemon_set("v2"), |ds| ds["spec"]["updateStrategy"] = json!({ "type": "OnDelete" }));
    check(
        &fixture.snapshot,
        Some(&live),
        &on_delete,
        &expect![[r#"
            Change, OnDelete
            keep: node-01, node-02
            takes 0 to 0 s
            OnDelete: updateStrategy is OnDelete: pods keep the old template until someone deletes them []
        "#]],
    );
}

/// C42: the pods of a template that returns are kept.
#[test]
fn an_undo_keeps_the_pods_that_have_the_template_already() {
    let mut fixture = Fixture::with_nodes(3);
    fixture.run(&daemon_set("v1"), [2, 3]);
    let live = daemon_set("v2");
    fixture.add(Kind::DaemonSet, &live);
    fixture.add(Kind::ControllerRevision, &revision(&live, "new", 2));
    fixture.add(Kind::Pod, &waiting_pod("node-01", "new", "CrashLoopBackOff", ""));
    check(
        &fixture.snapshot,
        Some(&live),
        &daemon_set("v1"),
        &expect![[r#"
        Change, RollingUpdate, maxUnavailable 1
        replace: node-01
        keep: node-02, node-03
        +0s: node-01
        takes 8 to 38 s
        AlreadyFailing: pods that fail already: the forecast takes it that new ones start [node-01]
    "#]],
    );
}

#[test]
fn a_narrower_selector_and_a_dead_node_are_told() {
    let mut fixture = Fixture::with_nodes(4);
    let live = daemon_set("v1");
    fixture.run(&live, 1..=4);
    for number in [1, 2] {
        let name = name_of_node(number);
        fixture.add(
            Kind::Node,
            &with(node(&name), |node| {
                node["metadata"]["labels"]["disk"] = "ssd".into();
                if number == 1 {
                    node["status"]["conditions"][0]["status"] = "Unknown".into();
                }
            }),
        );
    }
    let narrow = with(daemon_set("v1"), |ds| {
        let spec = &mut ds["spec"]["template"]["spec"];
        spec["nodeSelector"] = json!({ "disk": "ssd" });
        spec["tolerations"] = json!([{ "key": "gpu", "operator": "Exists" }]);
        spec["priorityClassName"] = json!(null);
        spec["containers"][0]["readinessProbe"] = json!(null);
    });
    check(
        &fixture.snapshot,
        Some(&live),
        &narrow,
        &expect![[r#"
        Change, RollingUpdate, maxUnavailable 1
        lose: node-03, node-04
        replace: node-01
        keep: node-02
        +0s: node-01
        takes 0 to 30 s
        unfinished: its turn does not come [node-02]
        unfinished: the node is not ready [node-01]
        NodeNotReady: nodes that are not ready: pods there neither start nor stop, and use up the rollout's budget [node-01]
        NoReadinessProbe: without readinessProbe and minReadySeconds a pod counts as available as soon as it runs: a version that breaks later goes through all nodes []
        NoPriorityClass: no priorityClassName: on a full node its pods stay pending, and are among the first to be evicted []
        TolerationMatchesNothing: toleration gpu matches no taint of any node here []
    "#]],
    );
}

/// C80: a plan costs what it writes, and so 5,000 steps of a rollout are done in a moment.
#[test]
fn thousands_of_waves_are_forecast() {
    let mut fixture = Fixture::with_nodes(1500);
    let live = daemon_set("v1");
    fixture.run(&live, 1..=1500);
    let forecast = forecast(
        &fixture.snapshot,
        &Proposal {
            start_up: Some(Duration::from_secs(20)),
            ..proposal(Some(&live), &daemon_set("v2"))
        },
        NOW,
    );
    assert_eq!(forecast.waves.len(), 1500);
    let duration = forecast.duration.expect("the pace was given");
    assert_eq!((duration.typical_seconds, duration.worst_seconds), (1500 * 20, 1500 * 50));
}
