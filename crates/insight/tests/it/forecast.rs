//! Forecasts, compared with the transcripts in `forecast/`.

use std::time::Duration;

use crate::support::{Fixture, NOW, daemon_set, name_of_node, node, revision, waiting_pod, with};
use everynode_insight::forecast::{Forecast, Proposal, changes, forecast};
use everynode_insight::names::shortened;
use everynode_insight::snapshot::{ObjectKind, Snapshot};
use everynode_k8s::convert;
use expect_test::{ExpectFile, expect_file};
use serde_json::{Value, json};

fn proposal(live: Option<&Value>, new: &Value) -> Proposal {
    Proposal {
        object: convert::daemon_set(new.to_string().as_bytes(), None).expect("it is a DaemonSet"),
        changes: live.map(|live| changes(live, new)),
        knows_room: true,
        start_up: None,
    }
}

fn check(snapshot: &Snapshot, live: Option<&Value>, new: &Value, expected: &ExpectFile) {
    expected.assert_eq(&text_of(&forecast(snapshot, &proposal(live, new), NOW)));
}

fn text_of(forecast: &Forecast) -> String {
    let names = |nodes: &[String]| shortened(nodes.iter().map(String::as_str), 60);
    let nodes = forecast.nodes.clone().unwrap_or_default();
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
        ObjectKind::Node,
        &with(node("node-04"), |node| {
            node["spec"]["taints"] = json!([{ "key": "gpu", "effect": "NoSchedule" }]);
        }),
    );
    check(
        &fixture.snapshot,
        None,
        &daemon_set("v1"),
        &expect_file!["forecast/a_new_daemon_set_gains_every_node_that_it_may_run_on.txt"],
    );
}

/// C52, C55: nodes are updated in the order of their names, with the observed start-up time.
#[test]
fn a_change_rolls_out_in_waves_with_the_observed_start_up_time() {
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
        &expect_file!["forecast/a_change_rolls_out_in_waves_with_the_observed_start_up_time.txt"],
    );
}

/// C53: with surge the old pod is deleted when the new one is available.
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
        &expect_file!["forecast/a_surge_rolls_out_in_waves_as_well.txt"],
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
            ObjectKind::Pod,
            &with(crate::support::ready_pod(&name, "old"), |pod| {
                pod["spec"]["containers"] =
                    json!([{ "name": "agent", "ports": [{ "hostPort": 9100 }] }]);
            }),
        );
    }
    check(
        &fixture.snapshot,
        Some(&live),
        &ported,
        &expect_file!["forecast/a_surge_rolls_out_in_waves_as_well_2.txt"],
    );
}

/// C57: an update does not take a pod that the node can't have back, and says which taint it is.
#[test]
fn a_node_that_gets_no_new_pod_keeps_the_old_one() {
    let live = daemon_set("v1");
    let surging = json!({ "maxSurge": 1, "maxUnavailable": 0 });
    for limits in [json!({ "maxUnavailable": 1 }), surging] {
        let mut fixture = Fixture::with_nodes(3);
        fixture.run(&live, 1..=3);
        let tainted = with(node("node-02"), |node| {
            node["spec"]["taints"] =
                json!([{ "key": "dedicated", "value": "x", "effect": "NoSchedule" }]);
        });
        fixture.add(ObjectKind::Node, &tainted);
        let new = with(daemon_set("v2"), |ds| {
            ds["spec"]["updateStrategy"]["rollingUpdate"] = limits;
        });
        let text = text_of(&forecast(&fixture.snapshot, &proposal(Some(&live), &new), NOW));
        assert!(text.contains("\nreplace: node-01, node-03\nkeep: node-02\n"), "{text}");
        let said = "KeepsOldPods: nodes would lose their pod, so they keep the old one until they \
                    may get a new one: taint dedicated=x:NoSchedule is not tolerated [node-02]";
        assert!(text.contains(said), "{text}");
    }
}

/// C52: pods that are not ready are replaced at once, whatever the budget; pods that only wait for
/// minReadySeconds are not.
#[test]
fn pods_that_are_replaced_at_once_are_named() {
    let live = daemon_set("v1");
    let mut fixture = Fixture::with_nodes(4);
    fixture.run(&live, 1..=4);
    for number in 2..=4 {
        let pod = waiting_pod(&name_of_node(number), "old", "CrashLoopBackOff", "");
        fixture.add(ObjectKind::Pod, &pod);
    }
    let said = "NotReadyAtOnce: 3 pods are replaced at once, whatever maxUnavailable says: pods \
                that are not ready do not wait [node-02..04]";
    let text =
        text_of(&forecast(&fixture.snapshot, &proposal(Some(&live), &daemon_set("v2")), NOW));
    assert!(text.contains(said), "{text}");
    let mut fixture = Fixture::with_nodes(4);
    fixture.run(&live, 1..=4);
    let patient = with(daemon_set("v2"), |ds| ds["spec"]["minReadySeconds"] = 7200.into());
    let text = text_of(&forecast(&fixture.snapshot, &proposal(Some(&live), &patient), NOW));
    assert!(!text.contains("AtOnce"), "{text}");
    assert!(text.contains("+3608s: node-01\n"), "{text}");
}

#[test]
fn a_pod_that_does_not_fit_stops_the_rollout() {
    let mut fixture = Fixture::with_nodes(4);
    let live = daemon_set("v1");
    fixture.run(&live, 1..=4);
    fixture.add(
        ObjectKind::Pod,
        &json!({
        "metadata": { "name": "big", "namespace": "x", "uid": "big",
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "uid": "r",
                "controller": true }] },
        "spec": { "nodeName": "node-02",
            "containers": [{ "resources": { "requests": { "cpu": "3" } } }] } }),
    );
    let hungry = with(daemon_set("v2"), |ds| {
        ds["spec"]["template"]["spec"]["containers"][0]["resources"] =
            json!({ "requests": { "cpu": "2" } });
    });
    check(
        &fixture.snapshot,
        Some(&live),
        &hungry,
        &expect_file!["forecast/a_pod_that_does_not_fit_stops_the_rollout.txt"],
    );
}

/// C41, C50: neither the same template nor OnDelete replaces a pod.
#[test]
fn a_change_that_replaces_no_pod_is_reported_as_a_risk() {
    let mut fixture = Fixture::with_nodes(2);
    let live = daemon_set("v1");
    fixture.run(&live, 1..=2);
    check(
        &fixture.snapshot,
        Some(&live),
        &live,
        &expect_file!["forecast/a_change_that_replaces_no_pod_is_reported_as_a_risk.txt"],
    );
    let same = with(daemon_set("v1"), |ds| {
        ds["spec"]["template"]["spec"]["securityContext"] = json!({});
        ds["spec"]["revisionHistoryLimit"] = 3.into();
    });
    check(
        &fixture.snapshot,
        Some(&live),
        &same,
        &expect_file!["forecast/a_change_that_replaces_no_pod_is_reported_as_a_risk_2.txt"],
    );
    let on_delete =
        with(daemon_set("v2"), |ds| ds["spec"]["updateStrategy"] = json!({ "type": "OnDelete" }));
    check(
        &fixture.snapshot,
        Some(&live),
        &on_delete,
        &expect_file!["forecast/a_change_that_replaces_no_pod_is_reported_as_a_risk_3.txt"],
    );
}

/// G7: an invalid policy is named before a template is applied, also while the rollout is paused.
#[test]
fn an_invalid_policy_is_reported_as_a_risk() {
    let mut fixture = Fixture::with_nodes(2);
    let live = daemon_set("v1");
    fixture.run(&live, 1..=2);
    let annotated = with(daemon_set("v2"), |ds| {
        ds["metadata"]["annotations"] = json!({ "everynode.dev/paused": "true",
            "everynode.dev/rollout-policy": "maxUnavailable: -1" });
    });
    check(
        &fixture.snapshot,
        Some(&live),
        &annotated,
        &expect_file!["forecast/an_invalid_policy_is_reported_as_a_risk.txt"],
    );
}

/// G22: what has no effect in this cluster, as after a typing error, is a risk.
#[test]
fn settings_without_effect_are_reported() {
    let mut fixture = Fixture::with_nodes(4);
    let live = daemon_set("v1");
    fixture.run(&live, 1..=4);
    let policy = json!({
        "steps": [
            { "name": "canary", "nodes": { "matchLabels": { "pool": "canery" } }, "bake": "30m" },
            { "name": "zones", "by": "topology.kubernetes.io/zon" },
            { "name": "rest" },
        ],
        "maxUnavailable": "50%",
        "maxUnavailablePer": { "label": "kubernetes.io/rack", "max": 2 },
    });
    let proposed = with(daemon_set("v2"), |ds| {
        ds["metadata"]["annotations"] = json!({
            "everynode.dev/rollout-policy": policy.to_string(),
            "everynode.dev/rollout-polcy": "x",
        });
        let spec = &mut ds["spec"]["template"]["spec"];
        spec["volumes"] = json!([{ "name": "c", "configMap": { "name": "agent" } }]);
    });
    let text = text_of(&forecast(&fixture.snapshot, &proposal(Some(&live), &proposed), NOW));
    for said in [
        "StepWithoutNodes: step canary of the rollout policy has no node: no node with pool in \
         (canery) should run a pod []",
        "UnknownLabel: step zones of the rollout policy groups nodes by label \
         topology.kubernetes.io/zon, which none of them has []",
        "UnknownLabel: maxUnavailablePer of the rollout policy groups nodes by label \
         kubernetes.io/rack, ",
        "LimitWithoutEffect: maxUnavailable 50% of the rollout policy has no effect: by its \
         updateStrategy (maxUnavailable) the DaemonSet allows only 1 of 4 nodes at a time []",
        "UnknownAnnotation: annotation everynode.dev/rollout-polcy has no effect; there are ",
        "ConfigurationOutside: configuration outside of the revision: ConfigMap agent: ",
    ] {
        assert!(text.contains(said), "{said} is missing in\n{text}");
    }
    assert!(!text.contains("step rest of"), "{text}");
    let surge = with(daemon_set("v2"), |ds| {
        ds["spec"]["updateStrategy"]["rollingUpdate"] = json!({ "maxSurge": 1 });
        ds["spec"]["template"]["spec"]["hostNetwork"] = true.into();
    });
    let text = text_of(&forecast(&fixture.snapshot, &proposal(Some(&live), &surge), NOW));
    assert!(text.contains("HostNetworkWithSurge: hostNetwork with maxSurge"), "{text}");
}

/// G5, G22: a forecast waits for windows and keeps the pace, and says when the window closes or
/// opens. It is 02:00 in Berlin.
#[test]
fn a_forecast_waits_for_windows_and_keeps_the_pace() {
    let mut fixture = Fixture::with_nodes(4);
    let live = daemon_set("v1");
    fixture.run(&live, 1..=4);
    let proposed = |from: &str| {
        with(daemon_set("v2"), |ds| {
            let policy = json!({
                "steps": [{ "name": "canary", "upTo": [1], "bake": "3h" }],
                "windows": [{ "from": from, "to": "04:00", "timeZone": "Europe/Berlin" }],
                "podsPerMinute": 1,
            });
            ds["metadata"]["annotations"] =
                json!({ "everynode.dev/rollout-policy": policy.to_string() });
            ds["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = json!(4);
        })
    };
    let mut texts = String::new();
    for from in ["22:00", "03:00"] {
        let proposal = Proposal {
            start_up: Some(Duration::from_secs(20)),
            ..proposal(Some(&live), &proposed(from))
        };
        let forecast = forecast(&fixture.snapshot, &proposal, NOW);
        texts += &text_of(&forecast);
        for wave in &forecast.guarded_waves {
            let name = wave.name.as_deref().unwrap_or("all other nodes");
            texts += &format!("{name} at +{}s\n", wave.starts_after_seconds);
        }
        texts += "\n";
    }
    expect_file!["forecast/a_forecast_waits_for_windows_and_keeps_the_pace.txt"].assert_eq(&texts);
}

/// C42: pods that have the restored template already are kept.
#[test]
fn an_undo_keeps_the_pods_that_have_the_template_already() {
    let mut fixture = Fixture::with_nodes(3);
    fixture.run(&daemon_set("v1"), [2, 3]);
    let live = daemon_set("v2");
    fixture.add(ObjectKind::DaemonSet, &live);
    fixture.add(ObjectKind::ControllerRevision, &revision(&live, "new", 2));
    fixture.add(ObjectKind::Pod, &waiting_pod("node-01", "new", "CrashLoopBackOff", ""));
    check(
        &fixture.snapshot,
        Some(&live),
        &daemon_set("v1"),
        &expect_file!["forecast/an_undo_keeps_the_pods_that_have_the_template_already.txt"],
    );
}

#[test]
fn a_narrower_selector_and_a_node_that_is_down_are_reported() {
    let mut fixture = Fixture::with_nodes(4);
    let live = daemon_set("v1");
    fixture.run(&live, 1..=4);
    for number in [1, 2] {
        let name = name_of_node(number);
        fixture.add(
            ObjectKind::Node,
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
        &expect_file!["forecast/a_narrower_selector_and_a_node_that_is_down_are_reported.txt"],
    );
}

/// C80: a plan costs what it writes, so a thousand steps take little time.
#[test]
fn a_thousand_waves_are_forecast() {
    let mut fixture = Fixture::with_nodes(1000);
    let live = daemon_set("v1");
    fixture.run(&live, 1..=1000);
    let forecast = forecast(
        &fixture.snapshot,
        &Proposal {
            start_up: Some(Duration::from_secs(20)),
            ..proposal(Some(&live), &daemon_set("v2"))
        },
        NOW,
    );
    assert_eq!(forecast.waves.len(), 1000);
    let duration = forecast.duration.expect("a start-up time was given");
    assert_eq!((duration.typical_seconds, duration.worst_seconds), (1000 * 20, 1000 * 50));
}
