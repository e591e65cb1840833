//! Pods crash, fail, are deleted, evicted, relabelled and replaced by others.

use everynode_sandbox::cluster::lifecycle::LIFECYCLE_ANNOTATION;
use everynode_sandbox::kind::{DAEMON_SET, NODE, POD};
use everynode_sandbox::store::DeleteOptions;
use rand::RngExt;
use serde_json::{Value, json};

use super::{NAMESPACE, node_of, owner, pick, place};
use crate::world::World;

pub fn act(world: &mut World) {
    let Some(pod) = world.any(&POD) else { return };
    world.disturb_pod(&pod);
    match world.rng.random_range(0..14) {
        0..2 => world.delete(&POD, &pod, &DeleteOptions::default()),
        2 => world.delete(&POD, &pod, &DeleteOptions::now()),
        3 => evict(world, &pod),
        4..6 => end(world, pod),
        6..8 => relabel(world, pod),
        8 => replace(world, &pod),
        9 => orphan(world),
        10 => foreign(world),
        _ => live(world, pod),
    }
}

fn evict(world: &mut World, pod: &Value) {
    let (name, namespace) = place(pod);
    let eviction = json!({"metadata": {"name": name, "namespace": namespace}});
    let options = world.at();
    let done = world.store().evict(&namespace, &name, &eviction, &options);
    world.note("evicts", &POD, &name, done.err());
}

/// As after an eviction by the kubelet, or a completion.
fn end(world: &mut World, mut pod: Value) {
    let (name, namespace) = place(&pod);
    let phase = pick(world, &["Failed", "Failed", "Succeeded"]);
    pod["status"]["phase"] = json!(phase);
    let options = world.at();
    let done = world.store().update_status(&POD, &namespace, &name, pod, &options);
    world.note(phase, &POD, &name, done.err());
}

fn relabel(world: &mut World, mut pod: Value) {
    let label = pick(world, &["a", "b", "none"]);
    pod["metadata"]["labels"]["app"] = json!(label);
    if let Some(node) = node_of(&pod) {
        let now = world.now;
        world.checks.relabel(&node, now);
    }
    world.edit(&POD, pod);
}

/// Gone at once, and somebody else's pod has its name.
fn replace(world: &mut World, pod: &Value) {
    world.delete(&POD, pod, &DeleteOptions::now());
    let mut other = stranger(world);
    other["metadata"]["name"] = pod["metadata"]["name"].clone();
    other["metadata"]["labels"] = pod["metadata"]["labels"].clone();
    other["spec"]["nodeName"] = pod["spec"]["nodeName"].clone();
    world.create(&POD, other);
}

fn foreign(world: &mut World) {
    let mut pod = stranger(world);
    pod["metadata"]["labels"]["app"] = json!(pick(world, &["a", "b"]));
    if let Some(node) = world.any(&NODE) {
        pod["spec"]["nodeName"] = node["metadata"]["name"].clone();
    }
    world.create(&POD, pod);
}

/// A pod of a ReplicaSet.
fn stranger(world: &mut World) -> Value {
    let number = world.rng.random_range(0..1_000_000);
    let uid = world.any(&DAEMON_SET).map(|ds| ds["metadata"]["uid"].clone()).unwrap_or_default();
    json!({
        "metadata": {
            "name": format!("r-{number}"),
            "namespace": NAMESPACE,
            "labels": {},
            "annotations": {"sim/daemonset-uid": uid.as_str().unwrap_or_default()},
            "ownerReferences": owner("5e1c5e9c-0000-4000-8000-000000000000"),
        },
        "spec": {"containers": [{"name": "c", "image": "stranger"}]},
    })
}

/// A pod that a DaemonSet could adopt.
fn orphan(world: &mut World) {
    let mut pod = stranger(world);
    let metadata = pod["metadata"].as_object_mut().expect("it was made so");
    metadata.remove("ownerReferences");
    pod["metadata"]["labels"]["app"] = json!(pick(world, &["a", "b"]));
    if let Some(node) = world.any(&NODE) {
        let (name, now) = (place(&node).0, world.now);
        world.disturb_node(&name);
        world.checks.relabel(&name, now);
        pod["spec"]["nodeName"] = node["metadata"]["name"].clone();
    }
    world.create(&POD, pod);
}

fn live(world: &mut World, mut pod: Value) {
    let life = pick(world, &["default", "never-ready", "crash-loop", "slow"]);
    pod["metadata"]["annotations"][LIFECYCLE_ANNOTATION] = json!(life);
    world.edit(&POD, pod);
}

/// Every pod can become ready.
pub fn heal(world: &mut World) {
    let pods: Vec<Value> =
        world.cluster.store().iter(&POD, None).map(|pod| pod.value().clone()).collect();
    for mut pod in pods {
        world.disturb_pod(&pod);
        pod["metadata"]["annotations"][LIFECYCLE_ANNOTATION] = json!("quick");
        world.edit(&POD, pod);
    }
}
