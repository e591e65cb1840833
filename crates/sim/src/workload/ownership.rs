//! Changes of ownerReferences, finalizers and labels by people.

use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kind::Kind;
use everynode_sandbox::kinds::{CONTROLLER_REVISION, DAEMON_SET, NODE, POD};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::pick;
use crate::world::{World, foreign_owner, name_and_namespace};

const FINALIZER: &str = "sim.example.com/hold";

pub(super) fn change(world: &mut World, rng: &mut Pcg64Mcg) {
    match rng.random_range(0..10) {
        0..5 => {
            let kind = pick(rng, &[&POD, &POD, &CONTROLLER_REVISION]);
            change_owners(world, kind, rng);
        }
        5..8 => {
            let kind = pick(rng, &[&POD, &POD, &CONTROLLER_REVISION, &DAEMON_SET]);
            change_finalizers(world, kind, rng);
        }
        _ => change_labels(world, rng),
    }
}

/// Removes the ownerReferences, adds one, or replaces the controller.
fn change_owners(world: &mut World, kind: &'static Kind, rng: &mut Pcg64Mcg) {
    let Some(mut object) = world.random_object(kind, rng) else { return };
    let daemon_set = world.random_object(&DAEMON_SET, rng);
    let namespace = object["metadata"]["namespace"].clone();
    let owners = &mut object["metadata"]["ownerReferences"];
    match rng.random_range(0..4) {
        0 => *owners = json!([]),
        1 => {
            let Some(node) = world.random_object(&NODE, rng) else { return };
            let owner = json!({
                "apiVersion": "v1",
                "kind": "Node",
                "name": node["metadata"]["name"],
                "uid": node["metadata"]["uid"],
            });
            match owners.as_array_mut() {
                Some(owners) => owners.insert(0, owner),
                None => *owners = json!([owner]),
            }
        }
        2 => *owners = foreign_owner(),
        _ => {
            let in_namespace = |ds: &Value| ds["metadata"]["namespace"] == namespace;
            let Some(daemon_set) = daemon_set.filter(in_namespace) else { return };
            *owners = json!([{
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "name": daemon_set["metadata"]["name"],
                "uid": daemon_set["metadata"]["uid"],
                "controller": true,
                "blockOwnerDeletion": true,
            }]);
        }
    }
    world.update(kind, object);
}

/// Adds a finalizer, or removes it.
fn change_finalizers(world: &mut World, kind: &'static Kind, rng: &mut Pcg64Mcg) {
    let Some(mut object) = world.random_object(kind, rng) else { return };
    if !remove_finalizer(&mut object) {
        match object["metadata"]["finalizers"].as_array_mut() {
            Some(finalizers) => finalizers.push(json!(FINALIZER)),
            None => object["metadata"]["finalizers"] = json!([FINALIZER]),
        }
    }
    world.update(kind, object);
}

/// Adds or removes a label of a revision, or changes the hash of a pod.
fn change_labels(world: &mut World, rng: &mut Pcg64Mcg) {
    let kind = pick(rng, &[&POD, &CONTROLLER_REVISION]);
    let Some(mut object) = world.random_object(kind, rng) else { return };
    let (key, value) = pick(
        rng,
        &[
            ("sim/label", json!("x")),
            ("app", json!("a")),
            ("app", json!("b")),
            ("app", json!("none")),
        ],
    );
    object["metadata"]["labels"][key] = value;
    world.update(kind, object);
}

/// True if the object had the finalizer, which is removed.
fn remove_finalizer(object: &mut Value) -> bool {
    let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() else { return false };
    let before = finalizers.len();
    finalizers.retain(|finalizer| finalizer != FINALIZER);
    finalizers.len() < before
}

/// Removes all finalizers, so that deleted objects disappear, and gives revisions back.
pub(super) fn repair(world: &mut World) {
    for kind in [&POD, &CONTROLLER_REVISION, &DAEMON_SET] {
        for mut object in world.all(kind) {
            let is_released = remove_finalizer(&mut object);
            let is_back = kind.kind == CONTROLLER_REVISION.kind && give_back(&mut object);
            if is_released || is_back {
                world.update(kind, object);
            }
        }
    }
}

/// Lets the DaemonSet whose name a revision has adopt it, unless it has. Returns whether the
/// revision changed.
fn give_back(revision: &mut Value) -> bool {
    let (name, _) = name_and_namespace(revision);
    let daemon_set = name.split('-').next().unwrap_or_default();
    let owners = revision["metadata"]["ownerReferences"].as_array();
    let mut controllers = owners.into_iter().flatten().filter(|owner| owner["controller"] == true);
    let is_selected = revision["metadata"]["labels"]["app"] == daemon_set;
    if is_selected && controllers.all(|controller| controller["name"] == daemon_set) {
        return false;
    }
    revision["metadata"]["labels"]["app"] = json!(daemon_set);
    revision["metadata"]["ownerReferences"] = json!([]);
    true
}
