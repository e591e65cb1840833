//! What users do to DaemonSets and their revisions.

use everynode_sandbox::kind::{CONTROLLER_REVISION, DAEMON_SET};
use everynode_sandbox::store::{DeleteOptions, PropagationPolicy};
use rand::RngExt;
use serde_json::{Value, json};

use super::{NAMESPACE, pick};
use crate::world::World;

/// A DaemonSet whose template is told apart by `image`.
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

pub fn act(world: &mut World) {
    let names = ["a", "b"];
    let name = pick(world, &names);
    let stored = world.cluster.store().find(&DAEMON_SET, NAMESPACE, name);
    let Some(mut ds) = stored.map(|object| object.value().clone()) else {
        let mut made = manifest(name, world.rng.random_range(1..4));
        change(world, &mut made);
        return world.create(&DAEMON_SET, made);
    };
    match world.rng.random_range(0..20) {
        0 => {
            let policies = [
                PropagationPolicy::Background,
                PropagationPolicy::Foreground,
                PropagationPolicy::Orphan,
            ];
            let propagation_policy = Some(pick(world, &policies));
            let delete = DeleteOptions { propagation_policy, ..DeleteOptions::default() };
            world.delete(&DAEMON_SET, &ds, &delete);
        }
        1 => touch_revision(world),
        _ => {
            change(world, &mut ds);
            world.edit(&DAEMON_SET, ds);
        }
    }
}

fn change(world: &mut World, ds: &mut Value) {
    let spec = &mut ds["spec"];
    match world.rng.random_range(0..10) {
        0..4 => {
            let image = world.rng.random_range(1..4);
            spec["template"]["spec"]["containers"][0]["image"] = json!(format!("image:{image}"));
        }
        4..6 => spec["updateStrategy"] = strategy(world),
        6 => spec["minReadySeconds"] = json!(pick(world, &[0, 0, 1, 5, 20])),
        7 => {
            let selector = pick(world, &[Value::Null, Value::Null, json!({"role": "a"})]);
            spec["template"]["spec"]["nodeSelector"] = selector;
        }
        8 => {
            let tolerations = pick(world, &[json!([]), json!([{"operator": "Exists"}])]);
            spec["template"]["spec"]["tolerations"] = tolerations;
        }
        _ => spec["revisionHistoryLimit"] = json!(pick(world, &[0, 1, 2, 10])),
    }
}

fn strategy(world: &mut World) -> Value {
    let rolling = |unavailable: Value, surge: Value| {
        json!({
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge},
        })
    };
    let choices = [
        json!({"type": "OnDelete"}),
        rolling(json!(1), json!(0)),
        rolling(json!(1), json!(0)),
        rolling(json!(2), json!(0)),
        rolling(json!("40%"), json!(0)),
        rolling(json!(0), json!(1)),
        rolling(json!(0), json!("50%")),
    ];
    pick(world, &choices)
}

fn touch_revision(world: &mut World) {
    let Some(mut revision) = world.any(&CONTROLLER_REVISION) else { return };
    world.checks.revisions_disturbed = true;
    match world.rng.random_range(0..3) {
        0 => world.delete(&CONTROLLER_REVISION, &revision, &DeleteOptions::default()),
        1 => {
            revision["revision"] = json!(world.rng.random_range(1..5));
            world.edit(&CONTROLLER_REVISION, revision);
        }
        _ => {
            if let Some(labels) = revision["metadata"]["labels"].as_object_mut() {
                labels.remove("controller-revision-hash");
            }
            world.edit(&CONTROLLER_REVISION, revision);
        }
    }
}
