//! Nodes that a rollout does not wait for, and causes that may pass by themselves.

use super::*;

/// The time at which the template came.
const CAME: &str = "2026-01-01T00:30:00Z";

/// A node with this creation time, ready unless it says since when it is not.
fn node(number: u32, created: &str, not_ready_since: Option<&str>) -> Value {
    let condition = match not_ready_since {
        Some(since) => json!({ "type": "Ready", "status": "Unknown", "lastTransitionTime": since }),
        None => json!({ "type": "Ready", "status": "True", "lastTransitionTime": created }),
    };
    json!({ "metadata": { "name": format!("node-{number}"), "creationTimestamp": created },
        "status": { "conditions": [condition] } })
}

fn created(mut pod: Value, at: &str) -> Value {
    pod["metadata"]["creationTimestamp"] = at.into();
    pod
}

const OLD: &str = "2026-01-01T00:00:00Z";

/// Two nodes: the first one is done, the second one has this pod.
fn with_second(node_2: Value, pod_2: Option<Value>, status: [u32; 4]) -> Rollout {
    let pods = [Some(pod(1, "new", ready(LONG_AGO))), pod_2];
    let pods: Vec<Value> = pods.into_iter().flatten().collect();
    let mut daemon_set = daemon_set(json!({}), status);
    daemon_set["status"]["currentNumberScheduled"] = pods.len().into();
    rollout_on(&[node(1, OLD, None), node_2], daemon_set, &pods)
}

#[test]
fn a_node_that_was_down_before_the_revision_came_to_it_is_set_aside() {
    let down = || node(2, OLD, Some("2026-01-01T00:10:00Z"));
    let not_ready = || json!({ "phase": "Running" });
    check(
        &with_second(down(), Some(pod(2, "old", not_ready())), [2, 1, 1, 1]),
        expect![[r#"
            Done: rolled out: 1 of 2 pods updated and available; set aside: 1 down (node-2)
              node not ready for more than 10 min, set aside on 1 node: node-2
        "#]],
    );
    let mut deleted = pod(2, "old", not_ready());
    deleted["metadata"]["deletionTimestamp"] = CAME.into();
    let rollout = with_second(down(), Some(deleted), [2, 1, 1, 1]);
    assert_eq!((rollout.phase, rollout.is_stuck()), (Phase::Done, false));
    let new = created(pod(2, "new", not_ready()), CAME);
    assert_eq!(with_second(down(), Some(new), [2, 2, 1, 1]).phase, Phase::Done);
}

/// Nothing goes on until somebody repairs or deletes the node.
#[test]
fn a_node_that_is_down_and_uses_up_the_budget_is_stuck() {
    let nodes = [node(1, OLD, None), node(2, OLD, Some(LONG_AGO)), node(3, OLD, None)];
    let mut deleted = pod(2, "old", json!({ "phase": "Running" }));
    deleted["metadata"]["deletionTimestamp"] = CAME.into();
    let pods = [pod(1, "new", ready(LONG_AGO)), deleted, pod(3, "old", ready(LONG_AGO))];
    let with_budget = |nodes_max: u32| {
        let strategy = json!({ "type": "RollingUpdate",
            "rollingUpdate": { "maxUnavailable": nodes_max } });
        let spec = json!({ "updateStrategy": strategy });
        rollout_on(&nodes, daemon_set(spec, [3, 1, 2, 2]), &pods).phase
    };
    assert_eq!(with_budget(1), Phase::Failing);
    assert_eq!(with_budget(2), Phase::Progressing);
}

/// Its taint keeps pods away, so that none is desired there. Those that wait for it are no cause.
#[test]
fn a_node_that_is_down_and_tainted_comes_before_those_that_wait_for_it() {
    let tainted = |since: &str| {
        let mut node = node(2, OLD, Some(since));
        let key = "node.kubernetes.io/unreachable";
        node["spec"] = json!({ "taints": [{ "key": key, "effect": "NoSchedule" }] });
        node
    };
    let mut deleted = pod(2, "old", json!({ "phase": "Running" }));
    deleted["metadata"]["deletionTimestamp"] = CAME.into();
    let pods = [pod(1, "old", ready(LONG_AGO)), deleted, pod(3, "old", ready(LONG_AGO))];
    let rollout = |since: &str| {
        let nodes = [node(1, OLD, None), tainted(since), node(3, OLD, None)];
        rollout_on(&nodes, daemon_set(json!({}), [2, 0, 2, 2]), &pods)
    };
    check(
        &rollout("2026-01-01T00:59:00Z"),
        expect![[r#"
            Progressing: 0 of 2 pods updated, 2 available
              node not ready, its pod can't stop on 1 node: node-2
              older revision, waiting to be replaced on 2 nodes: node-1, node-3
        "#]],
    );
    assert_eq!(rollout(LONG_AGO).phase, Phase::Failing);
}

#[test]
fn a_node_that_went_down_with_the_new_revision_is_stuck() {
    let down = node(2, OLD, Some("2026-01-01T00:40:00Z"));
    let new = created(pod(2, "new", json!({ "phase": "Running" })), CAME);
    check(
        &with_second(down, Some(new), [2, 2, 1, 1]),
        expect![[r#"
            Failing: 2 of 2 pods updated, 1 available
              node not ready for more than 10 min on 1 node: node-2
        "#]],
    );
}

/// Else a fleet in which nothing runs would be done.
#[test]
fn nothing_is_done_before_a_node_has_the_new_revision() {
    let nodes = [node(1, OLD, Some(LONG_AGO)), node(2, OLD, Some(LONG_AGO))];
    let pods = [1, 2].map(|number| pod(number, "old", json!({ "phase": "Running" })));
    let rollout = rollout_on(&nodes, daemon_set(json!({}), [2, 0, 0, 0]), &pods);
    assert_eq!(rollout.phase, Phase::Failing);
}

#[test]
fn a_node_that_joined_later_starts_as_on_any_day() {
    let later = "2026-01-01T00:59:30Z";
    let joined = || node(2, later, None);
    let starting = created(pod(2, "new", json!({ "phase": "Pending" })), later);
    check(
        &with_second(joined(), Some(starting), [2, 2, 1, 1]),
        expect![[r#"
            Done: rolled out: 1 of 2 pods updated and available; set aside: 1 joined (node-2)
              ContainerCreating, set aside on 1 node: node-2
        "#]],
    );
    assert_eq!(with_second(joined(), None, [2, 1, 1, 1]).phase, Phase::Done);
    // What fails there is said.
    let crashing = created(pod(2, "new", waiting("CrashLoopBackOff")), later);
    assert_eq!(with_second(joined(), Some(crashing), [2, 2, 1, 1]).phase, Phase::Failing);
    // It counts once it has an older revision.
    let old = created(pod(2, "old", ready(later)), later);
    assert_eq!(with_second(joined(), Some(old), [2, 1, 2, 2]).phase, Phase::Progressing);
    // One that existed before does.
    let starting = created(pod(2, "new", json!({ "phase": "Pending" })), later);
    let before = with_second(node(2, OLD, None), Some(starting), [2, 2, 1, 1]);
    assert_eq!(before.phase, Phase::Progressing);
}

#[test]
fn a_node_that_leaves_or_refuses_pods_is_set_aside_with_the_sign() {
    let leaving = |change: &dyn Fn(&mut Value)| {
        let mut leaving = node(2, OLD, None);
        change(&mut leaving);
        let rollout = with_second(leaving, Some(pod(2, "old", ready(LONG_AGO))), [2, 1, 2, 2]);
        assert_eq!(rollout.phase, Phase::Done);
        rollout.waits_for()
    };
    let tainted = leaving(&|node| {
        node["spec"] = json!({ "taints": [{ "key": "node.kubernetes.io/out-of-service",
            "effect": "PreferNoSchedule" }] });
    });
    assert_eq!(tainted, "set aside: 1 leaving (node-2: node.kubernetes.io/out-of-service)");
    let full = leaving(&|node| {
        let conditions = node["status"]["conditions"].as_array_mut().unwrap();
        conditions.push(json!({ "type": "DiskPressure", "status": "True" }));
    });
    assert_eq!(full, "set aside: 1 leaving (node-2: DiskPressure)");
}

#[test]
fn nodes_that_keep_a_wave_from_being_tried_are_named() {
    let mut stated = daemon_set(json!({}), [2, 0, 1, 1]);
    let message = "the only node of wave canary is not done: set aside, or failed";
    stated["status"]["conditions"] = json!([{ "type": "Progressing", "status": "True",
        "reason": "WaveNotTried", "message": message, "lastTransitionTime": LONG_AGO }]);
    let pods = [pod(1, "old", ready(LONG_AGO)), pod(2, "old", json!({ "phase": "Running" }))];
    let waits_for =
        |down: Value| rollout_on(&[node(1, OLD, None), down], stated.clone(), &pods).waits_for();
    let down = node(2, OLD, Some(LONG_AGO));
    let stopped = "node not ready for more than 10 min";
    assert_eq!(
        waits_for(down.clone()),
        format!("{message}; {stopped}, set aside on 1 node: node-2")
    );
    // No pod is desired on a node with this taint.
    let mut tainted = down;
    let taint = json!({ "key": "node.kubernetes.io/unreachable", "effect": "NoSchedule" });
    tainted["spec"] = json!({ "taints": [taint] });
    assert_eq!(waits_for(tainted), format!("{message}; {stopped} on 1 node: node-2"));
}

/// A pod on a node that is gone stays until the garbage collector finds it.
#[test]
fn a_node_that_is_gone_is_not_waited_for() {
    let pods = [pod(1, "new", ready(LONG_AGO)), pod(2, "old", ready(LONG_AGO))];
    let nodes = [node(1, OLD, None)];
    let rollout = rollout_on(&nodes, daemon_set(json!({}), [1, 1, 1, 1]), &pods);
    assert_eq!(rollout.phase, Phase::Done);
    assert!(rollout.held_up.iter().all(|held_up| !held_up.desired));
}

/// A status that counts a node of which nothing was read tells of no end.
#[test]
fn a_node_that_was_not_read_is_waited_for() {
    let down = node(2, OLD, Some(LONG_AGO));
    let old = pod(2, "old", json!({ "phase": "Running" }));
    assert_eq!(with_second(down, Some(old), [3, 1, 1, 1]).phase, Phase::Progressing);
}

#[test]
fn all_nodes_are_waited_for_on_demand() {
    let mut snapshot = Snapshot::default();
    let mut add = |kind, object: &Value| snapshot.add(kind, object.to_string().as_bytes());
    add(ObjectKind::DaemonSet, &daemon_set(json!({}), [2, 2, 1, 1]));
    for node in [node(1, OLD, None), node(2, OLD, Some(LONG_AGO))] {
        add(ObjectKind::Node, &node);
    }
    let late = created(pod(2, "new", json!({ "phase": "Running" })), CAME);
    for pod in [pod(1, "new", ready(LONG_AGO)), late] {
        add(ObjectKind::Pod, &pod);
    }
    let phase = |awaited| {
        Rollout::awaiting(&snapshot, &DaemonSetKey::new("n", "a"), NOW, awaited).unwrap().phase
    };
    assert_eq!(phase(Awaited::OfRollout), Phase::Done);
    assert_eq!(phase(Awaited::AllNodes), Phase::Failing);
}

/// Each failure with the number of seconds for which it has lasted, and whether it is stuck.
#[test]
fn a_failure_that_may_pass_by_itself_is_not_stuck_at_once() {
    let at = |ago: i64| {
        let at = NOW.as_millis() / 1000 - ago;
        everynode_k8s::record::time_text(Timestamp::from_seconds(at))
    };
    let container = |restarts: u32, state: Value, last: Value| {
        json!({ "phase": "Running", "containerStatuses": [{ "name": "c", "ready": false,
            "restartCount": restarts, "state": state, "lastState": last }] })
    };
    let waiting =
        |reason: &str| container(0, json!({ "waiting": { "reason": reason } }), json!({}));
    let exit = |ran: i64, ago: i64| {
        json!({ "terminated": { "exitCode": 1, "reason": "Error", "startedAt": at(ago + ran),
            "finishedAt": at(ago) } })
    };
    let back_off = || json!({ "waiting": { "reason": "CrashLoopBackOff" } });
    let unscheduled = |ago: i64| {
        json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False",
            "lastTransitionTime": at(ago), "message": "0/1 nodes are available" }] })
    };
    let refused = || {
        let message = "Back-off pulling image \"a\": ErrImagePull: a: not found";
        container(
            0,
            json!({ "waiting": { "reason": "ImagePullBackOff", "message": message } }),
            json!({}),
        )
    };
    let after_init = |done: i64| {
        let mut status = waiting("ErrImagePull");
        status["initContainerStatuses"] = json!([{ "name": "i", "ready": true, "state": {
            "terminated": { "exitCode": 0, "finishedAt": at(done) } } }]);
        status
    };
    for (age, status, stuck) in [
        (300, after_init(50), false),
        (300, after_init(70), true),
        (15, refused(), false),
        (25, refused(), true),
        (50, waiting("ErrImagePull"), false),
        (50, waiting("ImagePullBackOff"), false),
        (70, waiting("ErrImagePull"), true),
        (70, waiting("ImagePullBackOff"), true),
        (5, waiting("InvalidImageName"), true),
        (20, waiting("CreateContainerConfigError"), false),
        (40, waiting("CreateContainerConfigError"), true),
        // A first exit, and one after a long time.
        (90, container(0, exit(5, 10), json!({})), false),
        (90, container(1, back_off(), exit(5, 10)), false),
        (90, container(1, back_off(), exit(5, 40)), true),
        (90, container(2, back_off(), exit(5, 10)), true),
        (3000, container(2, exit(2000, 10), json!({})), false),
        (20, unscheduled(20), false),
        (40, unscheduled(40), true),
    ] {
        let mut pods = [pod(1, "new", status.clone())];
        pods[0]["metadata"]["creationTimestamp"] = at(age).into();
        if status["phase"] == "Pending" {
            pods[0]["spec"]["nodeName"] = Value::Null;
        }
        let rollout = rollout(daemon_set(json!({}), [1, 1, 0, 0]), &pods);
        assert_eq!(rollout.is_stuck(), stuck, "{age} s: {status}");
    }
}

#[test]
fn a_pod_that_preempts_others_waits_for_them() {
    let preempting = |refused: &str, ending: Option<&str>| {
        let mut snapshot = Snapshot::default();
        let mut add = |kind, object: &Value| snapshot.add(kind, object.to_string().as_bytes());
        add(ObjectKind::DaemonSet, &daemon_set(json!({}), [1, 1, 0, 0]));
        let condition = json!({ "type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "lastTransitionTime": refused,
            "message": "0/1 nodes are available" });
        let mut pod = pod(
            1,
            "new",
            json!({ "phase": "Pending", "nominatedNodeName": "node-1",
            "conditions": [condition] }),
        );
        pod["spec"] = json!({ "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{
                "matchFields": [{ "key": "metadata.name", "operator": "In",
                    "values": ["node-1"] }] }] } } }, "containers": [] });
        add(ObjectKind::Pod, &pod);
        add(ObjectKind::Node, &node(1, OLD, None));
        add(
            ObjectKind::PodOnNode,
            &json!({ "metadata": { "name": "batch-4", "namespace": "jobs", "uid": "b4",
                "deletionTimestamp": ending },
                "spec": { "nodeName": "node-1", "containers": [] } }),
        );
        Rollout::of(&snapshot, &DaemonSetKey::new("n", "a"), NOW).unwrap()
    };
    check(
        &preempting("2026-01-01T00:55:00Z", Some("2026-01-01T00:59:00Z")),
        expect![[r#"
            Progressing: 1 of 1 pods updated, 0 available
              waiting for the pods to end that it preempts on 1 node: node-1: jobs/batch-4 on node-1
        "#]],
    );
    let too_long = preempting("2026-01-01T00:40:00Z", Some("2026-01-01T00:45:00Z"));
    assert_eq!(too_long.phase, Phase::Failing);
    assert_eq!(preempting("2026-01-01T00:55:00Z", None).phase, Phase::Failing);
}
