//! Changes of pods: they fail, complete, and are deleted, evicted, relabelled and replaced.

use everynode_sandbox::cluster::lifecycle::LIFECYCLE_ANNOTATION;
use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kinds::{NODE, POD};
use everynode_sandbox::object::Object;
use everynode_sandbox::store::DeleteOptions;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::pick;
use crate::world::{World, name_and_namespace};

pub(super) fn change(world: &mut World, rng: &mut Pcg64Mcg) {
    let Some(pod) = world.random_object(&POD, rng) else { return };
    match rng.random_range(0..14) {
        0..2 => world.delete(&POD, &pod, &DeleteOptions::default()),
        2 => world.delete(&POD, &pod, &DeleteOptions::now()),
        3 => evict(world, &pod),
        4..6 => finish(world, pod, rng),
        6..8 => relabel(world, pod, rng),
        8 => world.replace_with_foreign_pod(&pod, rng),
        9 => create_orphan(world, rng),
        10 => create_foreign_pod(world, rng),
        _ => change_lifecycle(world, pod, rng),
    }
}

fn evict(world: &mut World, pod: &Value) {
    let (name, namespace) = name_and_namespace(pod);
    let eviction = json!({"metadata": {"name": name, "namespace": namespace}});
    let options = world.write_options();
    let done = world.registry().evict(&namespace, &name, &eviction, &options);
    world.log_write("evicts", &POD, &name, done.err());
}

/// Sets a terminal phase, as the kubelet does after an eviction or a completion.
fn finish(world: &mut World, mut pod: Value, rng: &mut Pcg64Mcg) {
    let phase = pick(rng, &["Failed", "Failed", "Succeeded"]);
    pod["status"]["phase"] = json!(phase);
    for condition in pod["status"]["conditions"].as_array_mut().into_iter().flatten() {
        if condition["type"] == "Ready" || condition["type"] == "ContainersReady" {
            condition["status"] = json!("False");
        }
    }
    world.update_status(&POD, pod);
}

fn relabel(world: &mut World, mut pod: Value, rng: &mut Pcg64Mcg) {
    let label = pick(rng, &["a", "b", "none"]);
    pod["metadata"]["labels"]["app"] = json!(label);
    world.update(&POD, pod);
}

fn create_foreign_pod(world: &mut World, rng: &mut Pcg64Mcg) {
    let mut pod = world.foreign_pod(rng);
    pod["metadata"]["labels"]["app"] = json!(pick(rng, &["a", "b"]));
    if let Some(node) = world.random_object(&NODE, rng) {
        pod["spec"]["nodeName"] = node["metadata"]["name"].clone();
    }
    world.create(&POD, pod);
}

/// Creates a pod without a controller that a DaemonSet may adopt.
fn create_orphan(world: &mut World, rng: &mut Pcg64Mcg) {
    let mut pod = world.foreign_pod(rng);
    let metadata = pod["metadata"].as_object_mut().expect("the pod has metadata");
    metadata.remove("ownerReferences");
    pod["metadata"]["labels"]["app"] = json!(pick(rng, &["a", "b"]));
    if let Some(node) = world.random_object(&NODE, rng) {
        pod["spec"]["nodeName"] = node["metadata"]["name"].clone();
    }
    world.create(&POD, pod);
}

fn change_lifecycle(world: &mut World, mut pod: Value, rng: &mut Pcg64Mcg) {
    let lifecycle = pick(rng, &["default", "never-ready", "crash-loop", "slow"]);
    pod["metadata"]["annotations"][LIFECYCLE_ANNOTATION] = json!(lifecycle);
    world.update(&POD, pod);
}

/// Lets every pod become ready.
pub(super) fn repair(world: &mut World) {
    let is_healthy = |pod: &Object| {
        pod.annotation(LIFECYCLE_ANNOTATION).is_none() && world.checks.is_pod_ready(pod.uid())
    };
    let pods = world.cluster.store().iter(&POD, None).filter(|pod| !is_healthy(pod));
    let pods: Vec<Value> = pods.map(|pod| pod.value().clone()).collect();
    for mut pod in pods {
        pod["metadata"]["annotations"][LIFECYCLE_ANNOTATION] = json!("quick");
        world.update(&POD, pod);
    }
}
