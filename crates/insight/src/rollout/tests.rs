//! Phases, headlines and groups of causes.

mod set_aside;

use super::*;
use crate::snapshot::ObjectKind;
use everynode_k8s::revision_data::data_of_template;
use expect_test::{Expect, expect};
use serde_json::{Value, json};

/// 2026-01-01T01:00:00Z
const NOW: Timestamp = Timestamp::from_seconds(1_767_229_200);

/// A DaemonSet with these spec fields and status counts (desired, updated, ready, available).
fn daemon_set(spec: Value, status: [u32; 4]) -> Value {
    let [desired, updated, ready, available] = status;
    let mut spec = spec;
    spec["selector"] = json!({ "matchLabels": { "app": "a" } });
    spec["template"] = template();
    json!({
        "metadata": { "name": "a", "namespace": "n", "uid": "u", "generation": 2,
            "resourceVersion": "1" },
        "spec": spec,
        "status": { "observedGeneration": 2, "desiredNumberScheduled": desired,
            "currentNumberScheduled": desired, "updatedNumberScheduled": updated,
            "numberReady": ready, "numberAvailable": available, "numberMisscheduled": 0 },
    })
}

fn template() -> Value {
    json!({ "metadata": { "labels": { "app": "a" } },
        "spec": { "containers": [{ "name": "c" }] } })
}

fn pod(number: u32, hash: &str, status: Value) -> Value {
    json!({
        "metadata": { "name": format!("a-{number}"), "namespace": "n",
            "uid": format!("p{number}"),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "app": "a", "controller-revision-hash": hash },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet", "uid": "u",
                "controller": true }] },
        "spec": { "nodeName": format!("node-{number}"), "containers": [] },
        "status": status,
    })
}

fn ready(since: &str) -> Value {
    json!({ "phase": "Running",
        "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": since }],
        "containerStatuses": [{ "name": "c", "ready": true, "restartCount": 0,
            "state": { "running": {} } }] })
}

fn waiting(reason: &str) -> Value {
    json!({ "phase": "Running", "containerStatuses": [{ "name": "c", "ready": false,
        "restartCount": 3, "state": { "waiting": { "reason": reason } } }] })
}

const LONG_AGO: &str = "2026-01-01T00:10:00Z";

fn rollout(daemon_set: Value, pods: &[Value]) -> Rollout {
    rollout_on(&[], daemon_set, pods)
}

fn rollout_on(nodes: &[Value], daemon_set: Value, pods: &[Value]) -> Rollout {
    let mut snapshot = Snapshot::default();
    let mut add = |kind, object: &Value| snapshot.add(kind, object.to_string().as_bytes());
    add(ObjectKind::DaemonSet, &daemon_set);
    let data: Value = serde_json::from_str(&data_of_template(&template())).unwrap();
    add(
        ObjectKind::ControllerRevision,
        &json!({ "metadata": { "name": "a-new", "namespace": "n", "uid": "r",
            "creationTimestamp": "2026-01-01T00:30:00Z",
            "labels": { "app": "a", "controller-revision-hash": "new" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet", "uid": "u",
                "controller": true }] },
            "revision": 2, "data": data }),
    );
    for pod in pods {
        add(ObjectKind::Pod, pod);
    }
    for node in nodes {
        add(ObjectKind::Node, node);
    }
    assert_eq!(snapshot.problems, Vec::<String>::new());
    Rollout::of(&snapshot, &DaemonSetKey::new("n", "a"), NOW).unwrap()
}

fn check(rollout: &Rollout, expected: Expect) {
    let groups: Vec<String> = rollout.groups().iter().map(|group| format!("  {group}\n")).collect();
    expected.assert_eq(&format!(
        "{:?}: {}\n{}",
        rollout.phase,
        rollout.headline(),
        groups.concat()
    ));
}

#[test]
fn a_rollout_is_done_when_all_pods_are_updated_and_available() {
    let pods = [pod(1, "new", ready(LONG_AGO)), pod(2, "new", ready(LONG_AGO))];
    check(
        &rollout(daemon_set(json!({}), [2, 2, 2, 2]), &pods),
        expect![[r#"
        Done: rolled out: 2 of 2 pods updated and available
    "#]],
    );
}

#[test]
fn causes_are_listed_worst_first_with_their_nodes() {
    let mut pods: Vec<Value> =
        (1..=5).map(|number| pod(number, "new", waiting("CrashLoopBackOff"))).collect();
    pods.push(pod(6, "new", waiting("ContainerCreating")));
    pods.push(pod(7, "old", ready(LONG_AGO)));
    pods.push(pod(8, "new", ready(LONG_AGO)));
    check(
        &rollout(daemon_set(json!({}), [8, 7, 2, 2]), &pods),
        expect![[r#"
            Failing: 7 of 8 pods updated, 2 available
              CrashLoopBackOff of container c on 5 nodes: node-1..5
              ContainerCreating for more than 10 min on 1 node: node-6
              older revision, waiting to be replaced on 1 node: node-7
        "#]],
    );
}

#[test]
fn pods_that_await_manual_deletion_are_no_failure() {
    let spec = json!({ "updateStrategy": { "type": "OnDelete" } });
    let pods = [pod(1, "new", ready(LONG_AGO)), pod(2, "old", ready(LONG_AGO))];
    check(
        &rollout(daemon_set(spec, [2, 1, 2, 2]), &pods),
        expect![[r#"
            AwaitsDeletion: 1 of 2 pods updated, 2 available
              older revision, to be deleted manually (OnDelete) on 1 node: node-2
        "#]],
    );
}

/// G18, G22: with a policy nobody has to delete pods, also for commands that do not read policies
#[test]
fn pods_of_a_guarded_rollout_await_no_manual_deletion() {
    let spec = json!({ "updateStrategy": { "type": "OnDelete" } });
    let pods = [pod(1, "new", ready(LONG_AGO)), pod(2, "old", ready(LONG_AGO))];
    let mut guarded = daemon_set(spec, [2, 1, 2, 2]);
    let mut stated = |reason: &str, message: &str| {
        guarded["status"]["conditions"] = json!([{ "type": "Progressing", "status": "True",
            "reason": reason, "message": message, "lastTransitionTime": LONG_AGO }]);
        rollout(guarded.clone(), &pods)
    };
    check(
        &stated("Updating", "updating wave canary"),
        expect![[r#"
            Progressing: updating wave canary: 1 of 2 pods updated, 2 available
              older revision, waiting to be replaced on 1 node: node-2
        "#]],
    );
    check(
        &stated("NotGuarded", "not guarded"),
        expect![[r#"
            AwaitsDeletion: not guarded: 1 of 2 pods updated, 2 available
              older revision, to be deleted manually (OnDelete) on 1 node: node-2
        "#]],
    );
}

/// G5, G22: a node that the policy excludes is named as such, also by commands that do not read
/// policies, and after the rollout is complete
#[test]
fn a_node_that_is_held_does_not_await_its_replacement() {
    let pods = [pod(1, "new", ready(LONG_AGO)), pod(2, "old", ready(LONG_AGO))];
    let node = |number: u32, labels: Value| {
        json!({ "metadata": { "name": format!("node-{number}"), "labels": labels },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] } })
    };
    let nodes = [node(1, json!({})), node(2, json!({ "everynode.dev/hold": "" }))];
    let unguarded = daemon_set(json!({}), [2, 1, 2, 2]);
    let mut guarded = unguarded.clone();
    guarded["status"]["conditions"] = json!([{ "type": "Progressing", "status": "True",
        "reason": "Complete", "message": "complete", "lastTransitionTime": LONG_AGO }]);
    check(
        &rollout_on(&nodes, guarded, &pods),
        expect![[r#"
            Done: rolled out: 1 of 2 pods updated and available; set aside: 1 held (node-2)
              older revision, the rollout policy holds its node, set aside on 1 node: node-2
        "#]],
    );
    check(
        &rollout_on(&nodes, unguarded, &pods),
        expect![[r#"
            Progressing: 1 of 2 pods updated, 2 available
              older revision, waiting to be replaced on 1 node: node-2
        "#]],
    );
}

/// G21, G22: a pause counts once the controller has stated in the status that it acts on it.
#[test]
fn a_pause_counts_once_the_controller_has_acknowledged_it() {
    let pods = [pod(1, "new", ready(LONG_AGO)), pod(2, "old", ready(LONG_AGO))];
    let mut paused = daemon_set(json!({}), [2, 1, 2, 2]);
    paused["metadata"]["annotations"] = json!({ "everynode.dev/paused": "true" });
    check(
        &rollout(paused.clone(), &pods),
        expect![[r#"
            Progressing: pause not acknowledged by a controller: 1 of 2 pods updated, 2 available
              older revision, waiting to be replaced on 1 node: node-2
        "#]],
    );
    paused["status"]["conditions"] = json!([{ "type": "Progressing", "status": "Unknown",
        "reason": "Paused", "lastTransitionTime": LONG_AGO }]);
    check(
        &rollout(paused, &pods),
        expect![[r#"
            Paused: paused: 1 of 2 pods updated, 2 available
              older revision, kept while the rollout is paused on 1 node: node-2
        "#]],
    );
}

/// G5, G22: a rollout outside of its windows waits for nobody, and says when it goes on
#[test]
fn a_rollout_outside_of_its_windows_says_when_it_goes_on() {
    let pods = [pod(1, "new", ready(LONG_AGO)), pod(2, "old", ready(LONG_AGO))];
    let mut waiting = daemon_set(json!({}), [2, 2, 1, 2]);
    waiting["status"]["conditions"] = json!([{ "type": "Progressing", "status": "Unknown",
        "reason": "OutsideWindow", "message": "all nodes go on at 22:00",
        "lastTransitionTime": LONG_AGO }]);
    let rollout = rollout(waiting, &pods);
    assert!(!rollout.awaits_person() && !rollout.is_stuck());
    assert_eq!(rollout.waits_for(), "all nodes go on at 22:00");
    check(
        &rollout,
        expect![[r#"
            Progressing: all nodes go on at 22:00: 2 of 2 pods updated, 2 available
              older revision, kept until a window of the rollout opens on 1 node: node-2: all nodes go on at 22:00
        "#]],
    );
}

/// G21, G55, G56: a wave that bakes says which of its pods are not ready, and a rollout that cannot
/// pull images, or change pods, why
#[test]
fn what_the_controller_waits_for_comes_with_what_holds_it_up() {
    let stated = |reason: &str, message: &str| {
        let mut stated = daemon_set(json!({}), [2, 1, 1, 1]);
        stated["status"]["conditions"] = json!([{ "type": "Progressing", "status": "True",
            "reason": reason, "message": message, "lastTransitionTime": LONG_AGO }]);
        stated
    };
    let mut pods = [pod(1, "new", json!({ "phase": "Running" })), pod(2, "old", ready(LONG_AGO))];
    pods[0]["metadata"]["creationTimestamp"] = "2026-01-01T00:59:00Z".into();
    let message = "wave a is updated, and its bake time is not over";
    assert_eq!(
        rollout(stated("Baking", message), &pods).waits_for(),
        "waiting for the end of the bake time of wave a; ContainerCreating on 1 node: node-1"
    );
    let pods = [pod(1, "old", ready(LONG_AGO)), pod(2, "old", ready(LONG_AGO))];
    for why in [
        "nodes cannot pull the images ahead: pods is forbidden",
        "pods cannot be changed in place: change pod agent-2: it is forbidden",
    ] {
        let message = format!("updating all nodes (0 of 2 nodes done); {why}; and so on");
        let refused = rollout(stated("Updating", &message), &pods).waits_for();
        assert!(refused.ends_with(why), "{refused}");
    }
}

/// G21, G22: a failed rollout waits for a person, also while its canary is not available
#[test]
fn a_failed_rollout_waits_for_a_person() {
    let not_ready = json!({ "phase": "Running" });
    let mut pods = [pod(1, "new", not_ready), pod(2, "old", ready(LONG_AGO))];
    pods[0]["metadata"]["creationTimestamp"] = "2026-01-01T00:59:00Z".into();
    let mut failed = daemon_set(json!({}), [2, 1, 1, 1]);
    failed["status"]["conditions"] = json!([{ "type": "Progressing", "status": "False",
        "reason": "Failed", "message": "the rollout has failed",
        "lastTransitionTime": LONG_AGO }]);
    let rollout = rollout(failed, &pods);
    assert!(rollout.awaits_person());
    check(
        &rollout,
        expect![[r#"
            AwaitsPerson: the rollout has failed: 1 of 2 pods updated, 1 available
              ContainerCreating on 1 node: node-1
              older revision, its wave is not open on 1 node: node-2
        "#]],
    );
}

/// G22: a rollout that waits or has failed names the command itself, as often as there is one, and
/// pages, which have buttons, leave it out.
#[test]
fn a_rollout_that_waits_names_the_next_command() {
    let pods = [pod(1, "new", ready(LONG_AGO)), pod(2, "old", ready(LONG_AGO))];
    let next = |reason: &str, message: &str| {
        let mut stated = daemon_set(json!({}), [2, 1, 2, 2]);
        stated["status"]["conditions"] = json!([{ "type": "Progressing", "status": "True",
            "reason": reason, "message": message, "lastTransitionTime": LONG_AGO }]);
        let rollout = rollout(stated, &pods);
        let of_groups = rollout.groups().into_iter().filter_map(|group| group.cause.next);
        assert_eq!(of_groups.count(), 0, "{reason}: it is said once");
        assert_eq!(rollout.next_is_order(), rollout.next.is_some());
        rollout.next_step().unwrap_or_default()
    };
    let waits = "wave zones/a:10% must be approved";
    for (reason, message, expected) in [
        ("AwaitingApproval", waits, "try: everynode rollout approve ds/a -n n --wave zones/a:10%"),
        (
            "Failed",
            "too many nodes failed",
            "try: everynode undo ds/a -n n, or with a policy once more: everynode rollout retry \
             ds/a -n n",
        ),
        ("InvalidRecord", "it can't be read", "try: everynode rollout retry ds/a -n n"),
        (
            "AwaitingChecks",
            "wave a is updated",
            "next: it goes on when they pass; without them: everynode rollout promote ds/a -n n",
        ),
        ("Baking", "wave a is updated, and its bake time is not over", ""),
        ("OutsideWindow", "all nodes go on at 22:00", ""),
    ] {
        assert_eq!(next(reason, message), expected, "{reason}");
    }
}

/// G22: a rollout that waits for checks names their wave, also where only the message has it.
#[test]
fn the_wave_whose_checks_are_awaited_is_named() {
    let pods = [pod(1, "new", ready(LONG_AGO)), pod(2, "old", ready(LONG_AGO))];
    let mut stated = daemon_set(json!({}), [2, 1, 2, 2]);
    stated["status"]["conditions"] = json!([{ "type": "Progressing", "status": "True",
        "reason": "AwaitingChecks", "lastTransitionTime": LONG_AGO,
        "message": "wave canary is updated, and its checks have not passed yet; check gate \
                    unknown at 01:00:00 UTC: 503" }]);
    let reason = rollout(stated, &pods).reason();
    assert!(reason.starts_with("waiting for the checks of wave canary; check gate"), "{reason}");
}

/// G22: a rollout that has failed says so, and names the way back, while its pods crash; one that
/// waits for an approval does not ask for it then.
#[test]
fn a_failed_rollout_whose_pods_crash_names_the_way_back() {
    let pods = [pod(1, "new", waiting("CrashLoopBackOff")), pod(2, "old", ready(LONG_AGO))];
    let remarks = |reason: &str, message: &str| {
        let mut stated = daemon_set(json!({}), [2, 1, 1, 1]);
        stated["metadata"]["annotations"] = json!({ "everynode.dev/rollout-policy": "{}" });
        stated["status"]["conditions"] = json!([{ "type": "Progressing", "status": "False",
            "reason": reason, "message": message, "lastTransitionTime": LONG_AGO }]);
        let rollout = rollout(stated, &pods);
        assert_eq!(rollout.phase, Phase::Failing);
        rollout.remarks()
    };
    let message = "the rollout has failed: too many nodes failed: node-1 (2 restarts)";
    let back = "try: everynode undo ds/a -n n, or once more: everynode rollout retry ds/a -n n";
    assert_eq!(remarks("Failed", message), [message, back]);
    let crash =
        ["CrashLoopBackOff of container c on 1 node: node-1", "try: kubectl -n n describe pod a-1"];
    assert_eq!(remarks("AwaitingApproval", "wave a must be approved"), crash);
    assert_eq!(remarks("InvalidPolicy", "the rollout policy is invalid"), crash);
}

/// G21, G22: a rollout whose last wave bakes, must be approved or has failed is not over
#[test]
fn a_guarded_rollout_is_done_with_its_last_wave() {
    let pods = [pod(1, "new", ready(LONG_AGO)), pod(2, "new", ready(LONG_AGO))];
    for (reason, phase) in [
        ("Baking", Phase::Progressing),
        ("AwaitingChecks", Phase::Progressing),
        ("AwaitingApproval", Phase::AwaitsPerson),
        ("OutsideWindow", Phase::Progressing),
        ("Complete", Phase::Done),
        ("Failed", Phase::AwaitsPerson),
    ] {
        let mut stated = daemon_set(json!({}), [2, 2, 2, 2]);
        stated["status"]["conditions"] = json!([{ "type": "Progressing", "status": "True",
            "reason": reason, "lastTransitionTime": LONG_AGO }]);
        assert_eq!(rollout(stated, &pods).phase, phase, "{reason}");
    }
}

/// G22: a failed rollout waits for a person, also once every node has a new pod
#[test]
fn a_failed_rollout_with_an_unavailable_new_pod_awaits_a_person() {
    let spec = json!({ "minReadySeconds": 60 });
    let pods = [pod(1, "new", ready("2026-01-01T00:59:30Z")), pod(2, "new", ready(LONG_AGO))];
    for (reason, phase) in [("Failed", Phase::AwaitsPerson), ("Updating", Phase::Progressing)] {
        let mut stated = daemon_set(spec.clone(), [2, 2, 2, 1]);
        stated["status"]["conditions"] = json!([{ "type": "Progressing", "status": "True",
            "reason": reason, "lastTransitionTime": LONG_AGO }]);
        assert_eq!(rollout(stated, &pods).phase, phase, "{reason}");
    }
}

#[test]
fn a_pod_that_has_not_been_ready_for_min_ready_seconds_holds_up_the_rollout() {
    let spec = json!({ "minReadySeconds": 60 });
    let pods = [pod(1, "new", ready("2026-01-01T00:59:30Z")), pod(2, "new", ready(LONG_AGO))];
    check(
        &rollout(daemon_set(spec, [2, 2, 2, 1]), &pods),
        expect![[r#"
            Progressing: 2 of 2 pods updated, 1 available
              ready for less than 60 s (minReadySeconds) on 1 node: node-1
        "#]],
    );
}

#[test]
fn a_status_of_an_older_generation_is_ignored() {
    let mut daemon_set = daemon_set(json!({}), [2, 2, 2, 2]);
    daemon_set["metadata"]["generation"] = json!(3);
    check(
        &rollout(daemon_set, &[]),
        expect![[r#"
        Unobserved: no controller has observed the latest spec yet
    "#]],
    );
}
