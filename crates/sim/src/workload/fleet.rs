//! A fleet in motion: nodes join, go down and come back, leave, and lose the pods that they run;
//! templates move to other nodes.

use everynode_core::api::POLICY_ANNOTATION;
use everynode_k8s::record::time_text;
use everynode_sandbox::cluster::DOWN_ANNOTATION;
use everynode_sandbox::cluster::lifecycle::LIFECYCLE_ANNOTATION;
use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kinds::{DAEMON_SET, NODE, POD};
use everynode_sandbox::store::DeleteOptions;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{guarded, node, pick};
use crate::world::{NAMESPACE, World, name_and_namespace};

/// Makes the random choices of [`repair`] independent of those of other repairs.
const REPAIR_SEED: u64 = 0xbb67_ae85_84ca_a73b;
/// Taints and conditions of nodes that leave; the second taint means nothing, unless a policy names
/// it.
const TAINTS: [&str; 4] = [
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "karpenter.sh/disrupted",
    "node.cloudprovider.kubernetes.io/shutdown",
];
const CONDITIONS: [&str; 3] =
    ["GracefulNodeShutdownInProgress", "Drained", "MaintenanceInProgress"];
/// Why a kubelet ends a pod.
const ENDS: [&str; 4] = ["Evicted", "NodeShutdown", "OutOfcpu", "UnexpectedAdmissionError"];

pub(super) fn change(world: &mut World, rng: &mut Pcg64Mcg) {
    match rng.random_range(0..24) {
        0..2 => return change_placement(world, rng),
        2..5 => return change_policy(world, rng),
        _ => {}
    }
    let number = rng.random_range(1..=world.setting.nodes_max);
    let name = format!("node-{number:04}");
    let Some(mut node) = world.stored(&NODE, "", &name) else {
        return node::add(world, number);
    };
    match rng.random_range(0..20) {
        0 => return world.delete(&NODE, &node, &DeleteOptions::default()),
        1..5 => {
            let is_up =
                node["metadata"]["annotations"].get(DOWN_ANNOTATION) == Some(&json!("true"));
            return set_up(world, node, is_up);
        }
        5..8 => change_taint(&mut node, rng),
        8..11 => return change_condition(world, node, rng),
        11 => {
            let is_cordoned = node["spec"]["unschedulable"] == true;
            node["spec"]["unschedulable"] = json!(!is_cordoned);
        }
        12..16 => return change_pods(world, &name, rng),
        _ => return end_pod(world, &name, rng),
    }
    world.update(&NODE, node);
}

/// A node goes down or comes back, with its kubelet and its condition.
fn set_up(world: &mut World, mut node: Value, is_up: bool) {
    node["metadata"]["annotations"][DOWN_ANNOTATION] = json!((!is_up).to_string());
    let (name, _) = name_and_namespace(&node);
    world.update(&NODE, node);
    let Some(mut node) = world.stored(&NODE, "", &name) else { return };
    set_condition(&mut node, "Ready", is_up, world);
    world.update_status(&NODE, node);
}

/// Adds a taint of a node that leaves, or removes it.
fn change_taint(node: &mut Value, rng: &mut Pcg64Mcg) {
    let key = pick(rng, &TAINTS);
    let effect = pick(rng, &["NoSchedule", "NoSchedule", "PreferNoSchedule"]);
    let taint = json!({"key": key, "effect": effect});
    match node["spec"]["taints"].as_array_mut() {
        Some(taints) => {
            let count = taints.len();
            taints.retain(|taint| taint["key"] != key);
            if taints.len() == count {
                taints.push(taint);
            }
        }
        None => node["spec"]["taints"] = json!([taint]),
    }
}

/// Sets a condition of a node that leaves, or ends it.
fn change_condition(world: &mut World, mut node: Value, rng: &mut Pcg64Mcg) {
    let kind = pick(rng, &CONDITIONS);
    let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let is_set = conditions.any(|it| it["type"] == kind && it["status"] == "True");
    set_condition(&mut node, kind, !is_set, world);
    world.update_status(&NODE, node);
}

fn set_condition(object: &mut Value, kind: &str, is_true: bool, world: &World) {
    let condition = json!({
        "type": kind,
        "status": if is_true { "True" } else { "False" },
        "lastTransitionTime": time_text(world.now),
    });
    match object["status"]["conditions"].as_array_mut() {
        Some(conditions) => {
            conditions.retain(|condition| condition["type"] != kind);
            conditions.push(condition);
        }
        None => object["status"]["conditions"] = json!([condition]),
    }
}

fn pods_on(world: &World, node: &str) -> Vec<Value> {
    let pods = world.all(&POD).into_iter();
    pods.filter(|pod| pod["spec"]["nodeName"] == node).collect()
}

/// No pod of a node is ready any more, or all become ready again.
fn change_pods(world: &mut World, node: &str, rng: &mut Pcg64Mcg) {
    let lifecycle = pick(rng, &["never-ready", "quick"]);
    for mut pod in pods_on(world, node) {
        pod["metadata"]["annotations"][LIFECYCLE_ANNOTATION] = json!(lifecycle);
        world.update(&POD, pod);
    }
}

/// The kubelet ends a pod.
fn end_pod(world: &mut World, node: &str, rng: &mut Pcg64Mcg) {
    let pods = pods_on(world, node);
    if pods.is_empty() {
        return;
    }
    let mut pod = pick(rng, &pods);
    pod["status"]["phase"] = json!("Failed");
    pod["status"]["reason"] = json!(pick(rng, &ENDS));
    for kind in ["Ready", "ContainersReady"] {
        set_condition(&mut pod, kind, false, world);
    }
    world.update_status(&POD, pod);
}

/// A new template that may run on some of the nodes only, or on all.
fn change_placement(world: &mut World, rng: &mut Pcg64Mcg) {
    let Some(mut ds) = world.stored(&DAEMON_SET, NAMESPACE, "a") else { return };
    let spec = &mut ds["spec"]["template"]["spec"];
    spec["nodeSelector"] = pick(rng, &[Value::Null, json!({"zone": "x"}), json!({"zone": "y"})]);
    spec["containers"][0]["image"] = json!(format!("image:{}", rng.random_range(1..4)));
    world.update(&DAEMON_SET, ds);
}

/// Sets what a policy says of nodes that leave, are lost, or lose their pods.
fn change_policy(world: &mut World, rng: &mut Pcg64Mcg) {
    let Some((mut ds, mut policy)) = guarded(world) else { return };
    match rng.random_range(0..6) {
        0 => policy["failure"]["maxLost"] = pick(rng, &[json!(0), json!(1), json!("50%")]),
        1 => policy["failure"]["maxRemoved"] = pick(rng, &[json!(1), json!("100%"), json!("100%")]),
        2 => policy["absent"] = json!({"cordoned": true}),
        3 => policy["absent"] = json!({"taints": [TAINTS[1]], "conditions": []}),
        4 => policy["absent"] = json!({"nodes": {"matchLabels": {"zone": pick(rng, &["x", "z"])}}}),
        _ => {
            policy.as_object_mut().map(|all| all.remove("absent"));
        }
    }
    ds["metadata"]["annotations"][POLICY_ANNOTATION] = json!(policy.to_string());
    world.update(&DAEMON_SET, ds);
}

/// All nodes come back, and in half of the schedules none leaves any more.
pub(super) fn repair(world: &mut World) {
    let rng = &mut Pcg64Mcg::seed_from_u64(world.setting.seed ^ REPAIR_SEED);
    let all_stay = rng.random_ratio(1, 2);
    for mut node in world.all(&NODE) {
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_not_ready =
            conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "False");
        if is_not_ready {
            set_condition(&mut node, "Ready", true, world);
        }
        for kind in CONDITIONS.iter().filter(|_| all_stay) {
            if conditions.iter().any(|it| it["type"] == *kind && it["status"] == "True") {
                set_condition(&mut node, kind, false, world);
            }
        }
        if node["status"]["conditions"].as_array() != Some(&conditions) {
            world.update_status(&NODE, node.clone());
        }
        let (name, _) = name_and_namespace(&node);
        let Some(mut node) = world.stored(&NODE, "", &name) else { continue };
        let Some(taints) = node["spec"]["taints"].as_array_mut().filter(|_| all_stay) else {
            continue;
        };
        let count = taints.len();
        taints.retain(|taint| !TAINTS.iter().any(|key| taint["key"] == *key));
        if taints.len() < count {
            world.update(&NODE, node);
        }
    }
}
