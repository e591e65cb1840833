//! Changes of DaemonSets and their revisions by users.

use everynode_core::api::{HASH_LABEL, PAUSED_ANNOTATION};
use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kinds::{CONTROLLER_REVISION, DAEMON_SET};
use everynode_sandbox::store::{DeleteOptions, PropagationPolicy};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::pick;
use crate::world::{NAMESPACE, World};

/// Returns a DaemonSet whose template contains the image with this number.
pub fn manifest(name: &str, image: u32) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "revisionHistoryLimit": 10,
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "c", "image": format!("image:{image}")}],
                },
            },
        },
    })
}

pub(super) fn change(world: &mut World, rng: &mut Pcg64Mcg) {
    let names = ["a", "b"];
    let name = pick(rng, &names);
    change_in(world, NAMESPACE, name, rng);
}

/// Changes a DaemonSet in a namespace, or creates it.
pub(super) fn change_in(world: &mut World, namespace: &str, name: &str, rng: &mut Pcg64Mcg) {
    let Some(mut ds) = world.stored(&DAEMON_SET, namespace, name) else {
        let mut made = manifest(name, rng.random_range(1..4));
        made["metadata"]["namespace"] = json!(namespace);
        change_spec(rng, &mut made);
        return world.create(&DAEMON_SET, made);
    };
    match rng.random_range(0..20) {
        0 => {
            let policies = [
                PropagationPolicy::Background,
                PropagationPolicy::Foreground,
                PropagationPolicy::Orphan,
            ];
            let propagation_policy = Some(pick(rng, &policies));
            let delete = DeleteOptions { propagation_policy, ..DeleteOptions::default() };
            world.delete(&DAEMON_SET, &ds, &delete);
        }
        1 => change_revision(world, rng),
        19 => {
            // The malformed value pauses, too (G7).
            let value = pick(rng, &["false", "false", "true", "true", "yes"]);
            ds["metadata"]["annotations"][PAUSED_ANNOTATION] = json!(value);
            world.update(&DAEMON_SET, ds);
        }
        _ => {
            change_spec(rng, &mut ds);
            world.update(&DAEMON_SET, ds);
        }
    }
}

fn change_spec(rng: &mut Pcg64Mcg, ds: &mut Value) {
    let spec = &mut ds["spec"];
    match rng.random_range(0..10) {
        0..4 => {
            let image = rng.random_range(1..4);
            spec["template"]["spec"]["containers"][0]["image"] = json!(format!("image:{image}"));
        }
        4 | 5 => spec["updateStrategy"] = strategy(rng),
        6 => spec["minReadySeconds"] = json!(pick(rng, &[0, 1, 5, 20, 50])),
        7 => {
            let selector = pick(rng, &[Value::Null, Value::Null, json!({"role": "a"})]);
            spec["template"]["spec"]["nodeSelector"] = selector;
        }
        8 => {
            let tolerations = pick(rng, &[json!([]), json!([{"operator": "Exists"}])]);
            spec["template"]["spec"]["tolerations"] = tolerations;
        }
        _ => spec["revisionHistoryLimit"] = json!(pick(rng, &[0, 1, 2, 10])),
    }
}

/// Sets a random percentage as the budget of a DaemonSet.
pub(super) fn change_percentage(world: &mut World, rng: &mut Pcg64Mcg) {
    let Some(mut ds) = world.random_object(&DAEMON_SET, rng) else { return };
    let percentage = json!(format!("{}%", rng.random_range(1..=100)));
    ds["spec"]["updateStrategy"] = match rng.random_range(0..3) {
        0 => rolling(json!(0), percentage),
        _ => rolling(percentage, json!(0)),
    };
    world.update(&DAEMON_SET, ds);
}

fn rolling(unavailable: Value, surge: Value) -> Value {
    json!({
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge},
    })
}

fn strategy(rng: &mut Pcg64Mcg) -> Value {
    let choices = [
        json!({"type": "OnDelete"}),
        rolling(json!(1), json!(0)),
        rolling(json!(1), json!(0)),
        rolling(json!(2), json!(0)),
        rolling(json!("40%"), json!(0)),
        rolling(json!(0), json!(1)),
        rolling(json!(0), json!("50%")),
    ];
    pick(rng, &choices)
}

fn change_revision(world: &mut World, rng: &mut Pcg64Mcg) {
    let Some(mut revision) = world.random_object(&CONTROLLER_REVISION, rng) else { return };
    match rng.random_range(0..3) {
        0 => world.delete(&CONTROLLER_REVISION, &revision, &DeleteOptions::default()),
        1 => {
            revision["revision"] = json!(rng.random_range(1..5));
            world.update(&CONTROLLER_REVISION, revision);
        }
        _ => {
            if let Some(labels) = revision["metadata"]["labels"].as_object_mut() {
                labels.remove(HASH_LABEL);
            }
            world.update(&CONTROLLER_REVISION, revision);
        }
    }
}
