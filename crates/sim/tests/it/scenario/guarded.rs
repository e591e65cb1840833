//! The acts of users in the scenarios of guarded rollouts: node-0001 is the canary.

use everynode_core::api::{HASH_LABEL, HOLD_LABEL, ORDER_ANNOTATION, POLICY_ANNOTATION, Timestamp};
use everynode_k8s::record::time_text;
use everynode_sandbox::cluster::DOWN_ANNOTATION;
use everynode_sandbox::cluster::lifecycle::LIFECYCLE_ANNOTATION;
use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kinds::{CONTROLLER_REVISION, DAEMON_SET, NODE, POD};

use everynode_sim::check_answers::FAILING;
use everynode_sim::workload::{NAMESPACE, config_map, manifest};
use everynode_sim::world::World;

const CANARY: &str = "node-0001";
/// The node that is updated after a rollout is complete.
const LATE: &str = "node-0002";
const LAST: &str = "node-0003";

/// Longer than `readyWithin` on two nodes, one after the other.
const KILLED_FOR_SECONDS: u32 = 120;

/// Longer than the lease of a leader that crashed.
const PLACED_WITHIN_SECONDS: u32 = 120;

/// Number of waves of the policy, without the last one of all other nodes.
pub(crate) const WAVES: u64 = 3;

/// A canary that bakes and must be approved, then one zone after the other.
fn policy() -> Value {
    json!({"steps": [
        {
            "name": "canary",
            "nodes": {"matchLabels": {"kubernetes.io/hostname": CANARY}},
            "bake": "5s",
            "approval": true,
        },
        {"name": "zones", "by": "topology.kubernetes.io/zone", "upTo": [1, "100%"]},
    ]})
}

fn create_with(world: &mut World, policy: &Value) {
    let mut ds = manifest("a", 1);
    ds["metadata"]["annotations"] = json!({POLICY_ANNOTATION: policy.to_string()});
    world.create(&DAEMON_SET, ds);
}

pub(super) fn create(world: &mut World) {
    create_with(world, &policy());
}

/// One failed node is too many, and then all go back.
pub(super) fn create_that_goes_back(world: &mut World) {
    let mut policy = policy();
    policy["failure"] = json!({
        "maxNodes": 0,
        "maxRestarts": 1,
        "readyWithin": "30s",
        "rollbackAfter": "0s",
    });
    create_with(world, &policy);
}

/// A container that restarts more than once makes a node fail, and so do ten minutes.
pub(super) fn create_without_restarts(world: &mut World) {
    let mut policy = policy();
    policy["failure"] = json!({"maxNodes": 0, "maxRestarts": 1, "readyWithin": "10m"});
    create_with(world, &policy);
}

/// Worlds start at midnight.
pub(super) fn create_with_windows(world: &mut World) {
    let windows = [
        json!({"from": "01:02", "to": "01:03", "timeZone": "Europe/Berlin"}),
        json!({"from": "00:05", "to": "24:00"}),
    ];
    // Not all nodes are updated before the first window closes.
    create_with(world, &json!({"windows": windows, "podsPerMinute": 1}));
}

/// Two nodes may be unavailable, but the rollout begins on one in a minute.
pub(super) fn create_with_pace(world: &mut World) {
    create_two_at_a_time(world, &json!({"podsPerMinute": 1}), 0);
}

/// Pods get copies of ConfigMaps, and a node on which they do not become ready is one too many.
pub(super) fn create_with_config_maps(world: &mut World) {
    config_map::put(world, "settings", json!({"n": "1"}));
    let canary = json!({
        "name": "canary",
        "nodes": {"matchLabels": {"kubernetes.io/hostname": CANARY}},
        "bake": "5s",
    });
    let policy = json!({
        "steps": [canary],
        "failure": {"maxNodes": 0, "readyWithin": "30s", "rollbackAfter": "0s"},
        "config": {"configMaps": "snapshot", "settle": "3s"},
    });
    let mut ds = manifest("a", 1);
    config_map::name_maps(&mut ds);
    ds["metadata"]["annotations"] = json!({POLICY_ANNOTATION: policy.to_string()});
    world.create(&DAEMON_SET, ds);
}

/// Pods that start with the ConfigMap do not become ready, for longer than `readyWithin`.
pub(super) fn spoil_config_map(world: &mut World) {
    let lifecycle = "sandbox.everynode.dev.lifecycle";
    config_map::put(world, "settings", json!({"n": "2", lifecycle: "never-ready"}));
    world.run_for(90_000);
}

pub(super) fn correct_config_map(world: &mut World) {
    config_map::put(world, "settings", json!({"n": "3"}));
}

/// Two nodes may be unavailable.
fn create_two_at_a_time(world: &mut World, policy: &Value, min_ready_seconds: u32) {
    let mut ds = manifest("a", 1);
    ds["metadata"]["annotations"] = json!({POLICY_ANNOTATION: policy.to_string()});
    ds["spec"]["minReadySeconds"] = json!(min_ready_seconds);
    let two = json!({"maxSurge": 0, "maxUnavailable": 2});
    ds["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": two});
    world.create(&DAEMON_SET, ds);
}

pub(super) fn create_with_surge(world: &mut World) {
    let mut ds = manifest("a", 1);
    ds["metadata"]["annotations"] = json!({POLICY_ANNOTATION: policy().to_string()});
    let surge = json!({"maxSurge": 1, "maxUnavailable": 0});
    ds["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": surge});
    world.create(&DAEMON_SET, ds);
}

/// The canary bakes for longer than its check takes to fail too often.
pub(super) fn create_with_failing_check(world: &mut World) {
    let check = json!({
        "name": FAILING,
        "interval": "1s",
        "failures": 2,
        "http": {"url": "http://errors.example/"},
    });
    let canary = json!({
        "name": "canary",
        "nodes": {"matchLabels": {"kubernetes.io/hostname": CANARY}},
        "bake": "5s",
        "checks": [FAILING],
    });
    create_with(world, &json!({"checks": [check], "steps": [canary]}));
}

/// The end of a rollout bakes, is checked and must be approved.
pub(super) fn create_with_finally(world: &mut World) {
    let check = json!({
        "name": "errors",
        "interval": "1s",
        "initialDelay": "12s",
        "failures": 3,
        "http": {"url": "http://errors.example/"},
    });
    let finally = json!({"bake": "3s", "checks": ["errors"], "approval": true});
    create_with(world, &json!({"checks": [check], "finally": finally}));
}

fn order(world: &mut World, verb: &str, wave: &str) {
    let store = world.cluster.store();
    let newest =
        store.iter(&CONTROLLER_REVISION, None).max_by_key(|r| r.value()["revision"].as_i64());
    let hash = newest.map(|r| r.value()["metadata"]["labels"][HASH_LABEL].clone());
    let Some(hash) = hash.as_ref().and_then(Value::as_str) else { return };
    let order = format!("{verb} {hash}{wave} {}", world.now.0);
    annotate(world, ORDER_ANNOTATION, Some(order));
}

fn annotate(world: &mut World, key: &str, value: Option<String>) {
    let Some(mut ds) = world.stored(&DAEMON_SET, NAMESPACE, "a") else { return };
    match (value, ds["metadata"]["annotations"].as_object_mut()) {
        (Some(value), Some(annotations)) => drop(annotations.insert(key.to_owned(), json!(value))),
        (None, Some(annotations)) => drop(annotations.remove(key)),
        (_, None) => {}
    }
    world.update(&DAEMON_SET, ds);
}

pub(super) fn approve(world: &mut World) {
    order(world, "approve", " canary");
}

pub(super) fn approve_end(world: &mut World) {
    order(world, "approve", " finally");
}

pub(super) fn abort(world: &mut World) {
    order(world, "abort", "");
}

pub(super) fn retry(world: &mut World) {
    order(world, "retry", "");
}

pub(super) fn promote_in_full(world: &mut World) {
    order(world, "promote-full", "");
}

/// A new generation, so that the controller plans: its status must state that it was seen.
pub(super) fn keep_fewer_revisions(world: &mut World) {
    let Some(mut ds) = world.stored(&DAEMON_SET, NAMESPACE, "a") else { return };
    ds["spec"]["revisionHistoryLimit"] = json!(5);
    world.update(&DAEMON_SET, ds);
}

pub(super) fn remove_policy(world: &mut World) {
    annotate(world, POLICY_ANNOTATION, None);
}

/// The canary's pod.
fn canary_pod(world: &World) -> Option<Value> {
    world.all(&POD).into_iter().rfind(|pod| pod["spec"]["nodeName"] == CANARY)
}

/// The containers of the canary's pod have restarted twice.
pub(super) fn restart_canary(world: &mut World) {
    let Some(mut pod) = canary_pod(world) else { return };
    for container in pod["status"]["containerStatuses"].as_array_mut().into_iter().flatten() {
        container["restartCount"] = json!(2);
    }
    world.update_status(&POD, pod);
}

/// The canary's new pod takes longer to become ready than the shortest `readyWithin`.
pub(super) fn roll_out_slowly(world: &mut World) {
    label_node(world, CANARY, "life", Some("never-ready"));
    super::second_image(world);
    world.run_for(45_000);
    label_node(world, CANARY, "life", None);
    restore_canary(world);
}

/// The canary's pod ends as failed.
pub(super) fn fail_canary(world: &mut World) {
    let Some(mut pod) = canary_pod(world) else { return };
    pod["status"]["phase"] = json!("Failed");
    world.update_status(&POD, pod);
}

/// Somebody must approve when all nodes have the new template.
pub(super) fn create_with_gate(world: &mut World) {
    create_with(world, &json!({"steps": [{"name": "all", "approval": true}]}));
}

/// Nodes that have no available pod for half a minute fail, and none may be lost.
pub(super) fn create_that_loses_none(world: &mut World) {
    let mut policy = policy();
    policy["failure"] = json!({"maxNodes": 0, "maxLost": 0, "readyWithin": "30s"});
    create_with(world, &policy);
}

/// A policy without steps.
pub(super) fn create_without_steps(world: &mut World) {
    create_with(world, &json!({"maxUnavailable": 1}));
}

/// A template that runs on one node only.
pub(super) fn run_on_one_node(world: &mut World) {
    let Some(mut ds) = world.stored(&DAEMON_SET, NAMESPACE, "a") else { return };
    let spec = &mut ds["spec"]["template"]["spec"];
    spec["nodeSelector"] = json!({"kubernetes.io/hostname": "node-0002"});
    world.update(&DAEMON_SET, ds);
}

/// The canary is drained.
pub(super) fn drain_canary(world: &mut World) {
    set_drained(world, true);
}

/// The canary is in use again.
pub(super) fn return_canary(world: &mut World) {
    set_drained(world, false);
}

fn set_drained(world: &mut World, is_drained: bool) {
    let Some(mut node) = world.stored(&NODE, "", CANARY) else { return };
    let now = time_text(world.now);
    let status = if is_drained { "True" } else { "False" };
    let drained = json!({"type": "Drained", "status": status, "lastTransitionTime": now});
    if let Some(conditions) = node["status"]["conditions"].as_array_mut() {
        conditions.retain(|condition| condition["type"] != "Drained");
        conditions.push(drained);
    }
    world.update_status(&NODE, node);
}

/// The canary goes down for longer than the watches take to agree.
pub(super) fn stop_canary(world: &mut World) {
    world.run_for(2 * 60_000);
    set_node(world, CANARY, false);
    world.run_for(3 * 60_000);
}

/// The canary comes back.
pub(super) fn start_canary(world: &mut World) {
    set_node(world, CANARY, true);
}

/// The pod on the last node becomes unready, long after the rollout has begun.
pub(super) fn disturb_last_node(world: &mut World) {
    world.run_for(2 * 60_000);
    set_lifecycle(world, "never-ready", |pod| pod["spec"]["nodeName"] == LAST);
    world.run_for(30_000);
}

/// The canary's pod is no longer ready.
pub(super) fn disturb_canary(world: &mut World) {
    set_lifecycle(world, "never-ready", |pod| pod["spec"]["nodeName"] == CANARY);
}

/// It is ready again.
pub(super) fn restore_canary(world: &mut World) {
    set_lifecycle(world, "quick", |pod| pod["spec"]["nodeName"] == CANARY);
}

/// Two nodes may be unavailable, but only the first one may be updated.
pub(super) fn create_with_held_nodes(world: &mut World) {
    label_node(world, LATE, HOLD_LABEL, Some(""));
    label_node(world, LAST, HOLD_LABEL, Some(""));
    create_two_at_a_time(world, &json!({"failure": {"maxNodes": 0, "readyWithin": "30s"}}), 0);
}

/// The second node may be updated, where no new pod becomes ready, and long after it has failed the
/// last one, too.
pub(super) fn release_nodes(world: &mut World) {
    world.run_for(90_000);
    label_node(world, LATE, "life", Some("never-ready"));
    label_node(world, LATE, HOLD_LABEL, None);
    world.run_for(3 * 60_000);
    label_node(world, LAST, HOLD_LABEL, None);
}

/// The pod on the second node becomes ready.
pub(super) fn restore_late_node(world: &mut World) {
    set_lifecycle(world, "quick", |pod| pod["spec"]["nodeName"] == LATE);
}

fn label_node(world: &mut World, name: &str, key: &str, value: Option<&str>) {
    let Some(mut node) = world.stored(&NODE, "", name) else { return };
    let Some(labels) = node["metadata"]["labels"].as_object_mut() else { return };
    match value {
        Some(value) => drop(labels.insert(key.to_owned(), json!(value))),
        None => drop(labels.remove(key)),
    }
    world.update(&NODE, node);
}

/// All pods become unready.
pub(super) fn disturb_all(world: &mut World) {
    set_lifecycle(world, "never-ready", |_| true);
}

fn set_lifecycle(world: &mut World, lifecycle: &str, is_it: fn(&Value) -> bool) {
    for mut pod in world.all(&POD).into_iter().filter(is_it) {
        pod["metadata"]["annotations"][LIFECYCLE_ANNOTATION] = json!(lifecycle);
        world.update(&POD, pod);
    }
}

/// The last node goes down.
pub(super) fn stop_node(world: &mut World) {
    set_node(world, LAST, false);
}

pub(super) fn start_node(world: &mut World) {
    set_node(world, LAST, true);
}

/// Sets whether a node is up, with its kubelet and its condition.
fn set_node(world: &mut World, name: &str, is_up: bool) {
    let Some(mut node) = world.stored(&NODE, "", name) else { return };
    node["metadata"]["annotations"][DOWN_ANNOTATION] = json!((!is_up).to_string());
    world.update(&NODE, node);
    let Some(mut node) = world.stored(&NODE, "", name) else { return };
    set_ready(&mut node, is_up, world.now);
    world.update_status(&NODE, node);
}

/// Sets the condition `Ready` of a node or a pod.
fn set_ready(object: &mut Value, is_ready: bool, now: Timestamp) {
    for condition in object["status"]["conditions"].as_array_mut().into_iter().flatten() {
        if condition["type"] == "Ready" {
            condition["status"] = json!(if is_ready { "True" } else { "False" });
            condition["lastTransitionTime"] = json!(time_text(now));
        }
    }
}

/// One failed node is tolerated, and two may be unavailable.
pub(super) fn create_for_killer(world: &mut World) {
    let failure = json!({"maxNodes": 1, "maxLost": 0, "readyWithin": "30s"});
    // Long enough for the template to stop the node.
    create_two_at_a_time(world, &json!({"failure": failure}), 5);
}

/// Waits until all nodes have a pod.
pub(super) fn wait_for_pods(world: &mut World) {
    for _ in 0..PLACED_WITHIN_SECONDS {
        let (nodes, pods) = (
            world.cluster.store().iter(&NODE, None).count(),
            world.cluster.store().iter(&POD, None).count(),
        );
        if pods == nodes {
            return;
        }
        world.run_for(1_000);
    }
}

/// Rolls out a template that stops each node on which it runs.
pub(super) fn roll_out_killer(world: &mut World) {
    super::second_image(world);
    for _ in 0..KILLED_FOR_SECONDS {
        world.run_for(1_000);
        let is_killer = |pod: &Value| {
            pod["spec"]["containers"][0]["image"] == "image:2"
                && pod["status"]["phase"] == "Running"
        };
        for mut pod in world.all(&POD).into_iter().filter(is_killer) {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
            set_node(world, &node, false);
            set_ready(&mut pod, false, world.now);
            world.update_status(&POD, pod);
        }
    }
}
