//! The nodes of a guarded rollout by their state.

use everynode_core::daemon_set::NodeState;
use everynode_insight::guarded::StepState;
use everynode_insight::overview::{Estimate, Overview};
use everynode_insight::rollout::Rollout;
use everynode_insight::rollout_nodes::{RolloutNode, RolloutNodes, WaveNodes};
use everynode_insight::snapshot::ObjectKind;
use everynode_k8s::convert;
use expect_test::expect;
use serde_json::{Value, json};

use crate::support::{
    Fixture, NOW, daemon_set, key, name_of_node, node, ready_pod, revision, waiting_pod, with,
};

/// Three nodes in zone a, and five in zone b, of which node 6 is down. The rollout has this phase
/// at this wave.
fn guarded(phase: &str, wave: Value) -> Fixture {
    changed(phase, wave, |_| {})
}

/// The same of a DaemonSet with other fields.
fn changed(phase: &str, wave: Value, change: impl FnOnce(&mut Value)) -> Fixture {
    let mut fixture = Fixture::with_nodes(0);
    for number in 1..=8 {
        let zone = if number <= 3 { "a" } else { "b" };
        let node = with(node(&name_of_node(number)), |node| {
            node["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone.into();
            if number == 6 {
                node["status"]["conditions"][0]["status"] = "Unknown".into();
            }
        });
        fixture.add(ObjectKind::Node, &node);
    }
    let recorded = |revision: Value, hash: &str, record: Value| {
        let mut record = record;
        record["revision"] = format!("agent-{hash}").into();
        record["began"] = "2026-01-01T00:00:00Z".into();
        record["since"] = "2026-01-01T00:00:00Z".into();
        with(revision, |revision| {
            revision["metadata"]["annotations"] =
                json!({ "everynode.dev/rollout": record.to_string() });
        })
    };
    let new = with(daemon_set("agent:2"), |ds| {
        let policy = json!({
            "steps": [
                { "name": "canary", "upTo": [1], "bake": "2h" },
                { "name": "zones", "by": "topology.kubernetes.io/zone", "upTo": ["100%"] },
            ],
            "maxUnavailable": 3,
            "failure": { "maxNodes": 2, "readyWithin": "5m" },
        });
        ds["metadata"]["annotations"] =
            json!({ "everynode.dev/rollout-policy": policy.to_string() });
        ds["status"]["conditions"] = json!([{ "type": "Progressing", "status": "True",
            "reason": "Updating", "message": "updating wave zones/b",
            "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
        change(ds);
    });
    let policy = convert::daemon_set(new.to_string().as_bytes(), None);
    let policy = policy.expect("a valid object").daemon_set.policy;
    let steps = policy.valid().expect("a valid policy").steps_hash.to_string();
    let old = daemon_set("agent:1");
    let complete = json!({ "phase": "Complete", "steps": steps });
    let complete = recorded(revision(&old, "old", 1), "old", complete);
    let current = json!({ "phase": phase, "wave": wave, "steps": steps });
    let current = recorded(revision(&new, "new", 2), "new", current);
    fixture.add(ObjectKind::DaemonSet, &new);
    fixture.add(ObjectKind::ControllerRevision, &complete);
    fixture.add(ObjectKind::ControllerRevision, &current);
    fixture
}

/// Zone a is updated, the wave of zone b is open: node 4 is done, the pod of node 5 has crashed for
/// an hour, node 6 is down, node 7 has no pod yet.
fn rollout() -> Fixture {
    rollout_in("Updating")
}

fn rollout_in(phase: &str) -> Fixture {
    let mut fixture = guarded(phase, json!({ "step": 1, "group": "b", "size": 0 }));
    for number in 1..=4 {
        fixture.add(ObjectKind::Pod, &ready_pod(&name_of_node(number), "new"));
    }
    let crashing = waiting_pod(&name_of_node(5), "new", "CrashLoopBackOff", "back-off 5m0s");
    fixture.add(ObjectKind::Pod, &crashing);
    for number in [6, 8] {
        fixture.add(ObjectKind::Pod, &ready_pod(&name_of_node(number), "old"));
    }
    fixture
}

/// G32, G34: the nodes have the states that a controller which has watched them concludes, in all,
/// in each wave, and one by one with the cause.
#[test]
fn nodes_are_counted_by_their_state() {
    let fixture = rollout();
    let nodes = RolloutNodes::of(&fixture.snapshot, &key(), NOW, true).expect("it is guarded");
    assert_eq!(
        nodes.all.to_string(),
        "4 of 8 nodes done, 1 updating, 1 failed, 1 set aside: 1 down"
    );
    let wave = |wave: &WaveNodes| {
        let states = wave.states.map(|states| states.to_string());
        format!("{} {}: {}", wave.title(), wave.state, states.unwrap_or_default())
    };
    let waves: Vec<String> = nodes.waves.iter().map(wave).collect();
    assert_eq!(
        waves,
        [
            "canary done: ",
            "zones/a done: 3 of 3 nodes done",
            "zones/b current: 1 of 5 nodes done, 1 updating, 1 failed, 1 set aside: 1 down",
        ]
    );
    assert_eq!((nodes.waves[0].nodes, nodes.waves[2].state), (1, StepState::Current));
    let of = |number: usize| {
        let list = nodes.list.iter().flatten();
        list.clone().find(|node| node.node == name_of_node(number)).expect("it is listed")
    };
    let RolloutNode { state, cause, wave, .. } = of(5);
    assert_eq!((*state, wave.as_deref()), (NodeState::Failed, Some("zones/b")));
    assert!(cause.as_ref().is_some_and(|cause| cause.contains("CrashLoopBackOff")), "{cause:?}");
    assert_eq!((of(6).state.as_str(), of(6).set_aside), ("setAside", Some("down")));
    assert_eq!((of(8).state.as_str(), of(8).cause.as_deref()), ("waiting", None));
    expect![[r#"{"name":"zones/b","state":"current","nodes":5,"states":{"waiting":1,"updating":1,"done":1,"failed":1,"setAside":{"down":1}}}"#]].assert_eq(&serde_json::to_string(&nodes.waves[2]).unwrap());
}

/// G22, G32: after a failure the nodes that failed are still counted as such, in all and in the
/// wave at which it failed.
#[test]
fn nodes_of_a_failed_rollout_have_failed() {
    let fixture = rollout_in("Failed");
    let nodes = RolloutNodes::of(&fixture.snapshot, &key(), NOW, true).expect("it is guarded");
    let expected = "1 updating, 1 failed, 1 set aside: 1 down";
    assert_eq!(nodes.all.to_string(), format!("4 of 8 nodes done, {expected}"));
    let listed = nodes.list.iter().flatten().find(|node| node.node == name_of_node(5));
    assert_eq!(listed.expect("it is listed").state, NodeState::Failed);
    let rollout = Rollout::of(&fixture.snapshot, &key(), NOW).expect("there is a DaemonSet");
    let wave = rollout.guard.and_then(|guard| guard.wave).expect("it is at a wave");
    let wave = wave.to_string();
    assert_eq!(wave, format!("wave 3 of 3, zones/b: 1 of 5 nodes done, {expected}"));
    let overview = Overview::of(&fixture.snapshot, &key(), NOW).expect("there is a DaemonSet");
    assert_eq!(overview.estimate, Estimate::Paused);
}

/// G1: while a wave is updated, all commands tell its nodes from those of later waves.
#[test]
fn nodes_of_later_waves_wait_for_their_wave() {
    let mut fixture = guarded("Updating", json!({ "step": 1, "group": "a", "size": 0 }));
    for number in 1..=8 {
        let hash = if number == 1 { "new" } else { "old" };
        fixture.add(ObjectKind::Pod, &ready_pod(&name_of_node(number), hash));
    }
    let rollout = Rollout::of(&fixture.snapshot, &key(), NOW).expect("there is a DaemonSet");
    let groups: Vec<String> = rollout.groups().iter().map(ToString::to_string).collect();
    assert_eq!(
        groups[..2],
        [
            "older revision, waiting to be replaced on 2 nodes: node-02, node-03",
            "older revision, its wave is not open on 5 nodes: node-04..08",
        ]
    );
}

/// G22, G32: `status` and `watch` have the counts of the wave that the rollout is at.
#[test]
fn the_current_wave_has_its_nodes_by_their_state() {
    let rollout = Rollout::of(&rollout().snapshot, &key(), NOW).expect("there is a DaemonSet");
    let wave = rollout.guard.and_then(|guard| guard.wave).expect("it is at a wave");
    assert_eq!(
        wave.to_string(),
        "wave 3 of 3, zones/b: 1 of 5 nodes done, 1 updating, 1 failed, 1 set aside: 1 down"
    );
}

/// G22: a bake time is counted down only while all nodes of the wave are available: it does not end
/// otherwise.
#[test]
fn no_bake_time_is_counted_down_while_the_canary_crashes() {
    let canary = |pod: Value| {
        let mut fixture = guarded("Baking", json!({ "step": 0, "size": 0 }));
        fixture.add(ObjectKind::Pod, &pod);
        let rollout = Rollout::of(&fixture.snapshot, &key(), NOW).expect("there is a DaemonSet");
        let guard = rollout.guard.expect("it is guarded");
        (guard.message, guard.wave.expect("it is at a wave").bake_seconds_left)
    };
    let node = name_of_node(1);
    let (message, left) = canary(ready_pod(&node, "new"));
    assert_eq!(
        (&*message, left),
        ("wave canary is updated, and its bake time is not over", Some(3600))
    );
    let crashing = with(waiting_pod(&node, "new", "CrashLoopBackOff", "back-off 5m0s"), |pod| {
        pod["metadata"]["creationTimestamp"] = "2026-01-01T00:59:00Z".into();
    });
    let (message, left) = canary(crashing);
    assert!(message.ends_with("so its bake time does not end"), "{message}");
    assert_eq!(left, None);
}

/// G42: beside the built-in controller only the condition tells that the rollout waits because its
/// template removes pods: that controller has removed them.
#[test]
fn removed_pods_hold_a_rollout_beside_the_built_in_controller() {
    let wave = json!({ "step": 1, "group": "a", "size": 0 });
    let mut fixture = changed("Updating", wave, |ds| {
        ds["spec"]["updateStrategy"] = json!({ "type": "OnDelete" });
        let stated = &mut ds["status"]["conditions"][0];
        (stated["status"], stated["reason"]) = ("Unknown".into(), "RemovesNodes".into());
        stated["message"] = "the new template removes 1 pod".into();
    });
    for number in 1..=8 {
        fixture.add(ObjectKind::Pod, &ready_pod(&name_of_node(number), "new"));
    }
    let reason = |fixture: &Fixture| {
        let rollout = Rollout::of(&fixture.snapshot, &key(), NOW).expect("there is a DaemonSet");
        rollout.guard.expect("it is guarded").reason.as_str()
    };
    assert_eq!(reason(&fixture), "Updating");
    fixture.snapshot.set_runs_beside(true);
    assert_eq!(reason(&fixture), "RemovesNodes");
}
