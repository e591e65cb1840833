//! Pods that are changed in place: policies get and lose `update`, templates change in images,
//! amounts of resources, labels and annotations, or in more, kubelets refuse or defer resizes, and
//! webhooks deny changes.

use everynode_core::api::{POLICY_ANNOTATION, Timestamp};
use everynode_sandbox::cluster::lifecycle::LIFECYCLE_ANNOTATION;
use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kinds::{DAEMON_SET, NODE};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::{guarded, pick};
use crate::admission::{Admission, Effect};
use crate::world::{World, name_and_namespace};

/// The lifecycles of nodes whose kubelets refuse, defer or delay resizes.
const RESIZES: [&str; 3] = ["resize-infeasible", "resize-deferred", "slow-resize"];

pub(super) fn change(world: &mut World, rng: &mut Pcg64Mcg) {
    let Some((mut ds, mut policy)) = guarded(world) else { return };
    if policy["update"].is_null() {
        set_update(rng, &mut policy);
        prepare(rng, &mut ds);
        ds["metadata"]["annotations"][POLICY_ANNOTATION] = json!(policy.to_string());
        return world.update(&DAEMON_SET, ds);
    }
    match rng.random_range(0..12) {
        0 => {
            policy["update"] = pick(rng, &[json!("Replace"), json!("InPlaceOnly")]);
            require_failure(&mut policy);
            ds["metadata"]["annotations"][POLICY_ANNOTATION] = json!(policy.to_string());
        }
        1 | 2 => return set_resizes(world, rng),
        3 => return deny_changes(world, rng),
        _ => change_template(rng, &mut ds),
    }
    world.update(&DAEMON_SET, ds);
}

/// Lets a policy change pods in place.
pub(super) fn set_update(rng: &mut Pcg64Mcg, policy: &mut Value) {
    policy["update"] =
        pick(rng, &[json!("InPlaceIfPossible"), json!("InPlaceIfPossible"), json!("InPlaceOnly")]);
    require_failure(policy);
    if rng.random_ratio(1, 2) {
        policy["resizeWithin"] = json!(pick(rng, &["10s", "40s"]));
    }
}

/// A policy with `InPlaceOnly` is invalid without a failure rule.
fn require_failure(policy: &mut Value) {
    if policy["update"] == "InPlaceOnly" && policy["failure"].is_null() {
        policy["failure"] = json!({});
    }
}

/// Gives the template what can be changed in place, and mostly a strategy with which that is done.
fn prepare(rng: &mut Pcg64Mcg, ds: &mut Value) {
    let spec = &mut ds["spec"]["template"]["spec"];
    let resources = json!({"requests": {"cpu": "100m", "memory": "64Mi"}});
    spec["containers"][0]["resources"] = resources;
    let labels = json!([{
        "name": "LABEL",
        "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['read']"}},
    }]);
    let second = json!({"name": "d", "image": "other:1", "env": labels});
    let has_one = |containers: &&mut Vec<Value>| containers.len() == 1;
    if let Some(containers) = spec["containers"].as_array_mut().filter(has_one)
        && rng.random_ratio(1, 2)
    {
        containers.push(second);
    }
    let surge = &ds["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"];
    if !surge.is_null() && *surge != 0 && rng.random_ratio(7, 8) {
        ds["spec"]["updateStrategy"] = json!({"type": "RollingUpdate"});
    }
}

/// Half of the changes are such that pods can be changed in place.
fn change_template(rng: &mut Pcg64Mcg, ds: &mut Value) {
    let template = &mut ds["spec"]["template"];
    let value = pick(rng, &["1", "2", "3"]);
    if rng.random_ratio(1, 3) {
        match rng.random_range(0..3) {
            0 => template["metadata"]["annotations"]["checksum/config"] = json!(value),
            1 => template["metadata"]["labels"]["read"] = json!(value),
            _ => {
                let env = json!([{"name": "E", "value": value}]);
                template["spec"]["containers"][0]["env"] = env;
            }
        }
        return;
    }
    for _ in 0..rng.random_range(1..=2) {
        let containers = &mut template["spec"]["containers"];
        match rng.random_range(0..6) {
            0 | 1 => {
                let image = format!("image:{}", rng.random_range(1..5));
                containers[0]["image"] = json!(image);
            }
            2 | 3 => {
                let cpu = pick(rng, &["100m", "200m", "300m"]);
                let memory = pick(rng, &["64Mi", "128Mi"]);
                containers[0]["resources"] = json!({"requests": {"cpu": cpu, "memory": memory}});
            }
            4 => template["metadata"]["labels"]["l"] = json!(value),
            _ => template["metadata"]["annotations"]["n"] = json!(value),
        }
    }
}

/// The kubelet of a node refuses, defers or delays resizes, or no longer does.
fn set_resizes(world: &mut World, rng: &mut Pcg64Mcg) {
    let Some(mut node) = world.random_object(&NODE, rng) else { return };
    let annotations = &mut node["metadata"]["annotations"];
    annotations[LIFECYCLE_ANNOTATION] = json!(pick(rng, &RESIZES));
    if rng.random_ratio(1, 4) {
        annotations[LIFECYCLE_ANNOTATION] = Value::Null;
    }
    world.update(&NODE, node);
}

/// A webhook denies changes of the pods of a node for a while, or of all.
fn deny_changes(world: &mut World, rng: &mut Pcg64Mcg) {
    let lasts_ms = pick(rng, &[2_000, 15_000, 60_000]);
    let node = world.random_object(&NODE, rng).map(|node| name_and_namespace(&node).0);
    let effect = Effect::DenyChanges(node.filter(|_| rng.random_ratio(1, 2)));
    world.log(|| format!("admission for {lasts_ms} ms: {effect:?}"));
    let until = Timestamp(world.now.0 + lasts_ms);
    world.admission = Some(Admission { until, effect });
}

/// Lets all kubelets resize.
pub(super) fn repair(world: &mut World) {
    let is_changed =
        |node: &Value| node["metadata"]["annotations"][LIFECYCLE_ANNOTATION].is_string();
    for mut node in world.all(&NODE).into_iter().filter(is_changed) {
        if let Some(annotations) = node["metadata"]["annotations"].as_object_mut() {
            annotations.remove(LIFECYCLE_ANNOTATION);
        }
        world.update(&NODE, node);
    }
}
