//! Guarded rollouts: policies come, change and go, people give orders, and all pods of a DaemonSet
//! become unready at once.

use everynode_core::api::{
    HASH_LABEL, HOLD_LABEL, ORDER_ANNOTATION, POLICY_ANNOTATION, RECORD_ANNOTATION,
};
use everynode_sandbox::cluster::lifecycle::LIFECYCLE_ANNOTATION;
use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kinds::{CONTROLLER_REVISION, DAEMON_SET, NODE, POD};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{in_place, pick};
use crate::role::Installation;
use crate::world::{NAMESPACE, World};

pub(super) fn change(world: &mut World, rng: &mut Pcg64Mcg) {
    let name = pick(rng, &["a", "a", "a", "b"]);
    let Some(mut ds) = world.stored(&DAEMON_SET, NAMESPACE, name) else { return };
    let is_beside = world.setting.installation != Installation::Controller;
    if is_beside && rng.random_ratio(1, 2) {
        ds["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    }
    match rng.random_range(0..20) {
        0..4 => {
            let image = format!("image:{}", rng.random_range(1..4));
            ds["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        }
        4..6 => {
            let mut policy = policy(rng);
            if !is_beside && rng.random_ratio(1, 4) {
                in_place::set_update(rng, &mut policy);
            }
            ds["metadata"]["annotations"][POLICY_ANNOTATION] = json!(policy.to_string());
        }
        6 => {
            ds["metadata"]["annotations"][POLICY_ANNOTATION] =
                json!(pick(rng, &["{", "{\"unknown\": 1}"]))
        }
        7 => {
            if let Some(annotations) = ds["metadata"]["annotations"].as_object_mut() {
                annotations.remove(POLICY_ANNOTATION);
            }
        }
        8 => return label_node(world, rng),
        9 => return lose_record(world, rng),
        10 => return disturb_all(world, name),
        _ => {
            let Some(order) = order(world, &ds, rng) else { return };
            ds["metadata"]["annotations"][ORDER_ANNOTATION] = json!(order);
        }
    }
    world.update(&DAEMON_SET, ds);
}

/// Gives the DaemonSets a policy, and the nodes zones and canaries. The names alone decide, so that
/// nodes which are added later have them as well.
pub(super) fn begin(world: &mut World, rng: &mut Pcg64Mcg) {
    for (index, mut node) in world.all(&NODE).into_iter().enumerate() {
        node["metadata"]["labels"]["zone"] = json!(if index % 2 == 0 { "x" } else { "y" });
        if index == 0 {
            node["metadata"]["labels"]["pool"] = json!("canary");
        }
        world.update(&NODE, node);
    }
    let Some(mut ds) = world.stored(&DAEMON_SET, NAMESPACE, "a") else { return };
    ds["metadata"]["annotations"][POLICY_ANNOTATION] = json!(policy(rng).to_string());
    if world.setting.installation != Installation::Controller {
        ds["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    }
    world.update(&DAEMON_SET, ds);
}

/// A valid policy.
pub(super) fn policy(rng: &mut Pcg64Mcg) -> Value {
    let mut canary = json!({
        "name": "canary",
        "nodes": {"matchLabels": {"pool": "canary"}},
        "bake": pick(rng, &["0s", "20s", "60s"]),
        "approval": rng.random_ratio(1, 2),
    });
    if canary["bake"] == "20s" {
        canary["checks"] = json!(["errors"]);
    }
    let one = json!({"name": "one", "upTo": [1], "bake": pick(rng, &["0s", "10s"])});
    let zones = json!({
        "name": "zones",
        "by": "zone",
        "upTo": pick(rng, &[json!([1, "100%"]), json!(["50%", "100%"]), json!(["100%"])]),
        "approval": rng.random_ratio(1, 4),
    });
    let gate = json!({"name": "gate", "upTo": [0], "approval": true});
    let steps = pick(
        rng,
        &[
            json!([]),
            json!([canary]),
            json!([one]),
            json!([canary, zones]),
            json!([one, zones]),
            json!([zones]),
            json!([gate, one]),
        ],
    );
    let mut policy = json!({"steps": steps});
    let url = "http://errors.example/";
    policy["checks"] = json!([
        {"name": "errors", "interval": "5s", "failures": 2, "http": {"url": url}},
    ]);
    if rng.random_ratio(1, 3) {
        policy["maxUnavailable"] = pick(rng, &[json!(1), json!("50%"), json!(2)]);
    }
    if rng.random_ratio(1, 4) {
        policy["maxUnavailablePer"] =
            json!({"label": "zone", "max": pick(rng, &[json!(1), json!("50%")])});
    }
    if rng.random_ratio(1, 2) {
        policy["failure"] = failure(rng);
    }
    if rng.random_ratio(1, 12) {
        policy["paused"] = json!(true);
    }
    if rng.random_ratio(1, 4) {
        policy["podsPerMinute"] = json!(pick(rng, &[1, 1, 2, 3, 30]));
    }
    if rng.random_ratio(1, 4) {
        policy["windows"] = windows(rng);
    }
    if rng.random_ratio(1, 3) {
        let parallel = pick(rng, &[1, 1, 2]);
        let required = rng.random_ratio(3, 4);
        policy["prepare"] = json!({"images": {"parallel": parallel, "required": required}});
    }
    policy
}

/// Some minutes of the first half hour, and in half of the cases all of the day after that, so that
/// the cluster comes to rest. Worlds start at midnight.
fn windows(rng: &mut Pcg64Mcg) -> Value {
    let zones = [("UTC", 0), ("Europe/Berlin", 60), ("Asia/Kolkata", 330)];
    let (zone, ahead) = pick(rng, &[zones[0], zones[1], zones[2], ("America/New_York", 19 * 60)]);
    let time = |minute: u32| {
        let minute = (minute + ahead) % (24 * 60);
        format!("{:02}:{:02}", minute / 60, minute % 60)
    };
    let window = |from, to| json!({"from": time(from), "to": time(to), "timeZone": zone});
    let mut windows = Vec::new();
    let mut at = rng.random_range(0..4);
    while at < 28 {
        let until = at + rng.random_range(1..5);
        windows.push(window(at, until));
        at = until + rng.random_range(1..5);
    }
    if rng.random_ratio(1, 2) {
        windows.push(window(40, 24 * 60 - 1));
    } else if rng.random_ratio(1, 4) {
        windows.push(json!({"days": ["Sat", "Sun"]}));
    }
    json!(windows)
}

fn failure(rng: &mut Pcg64Mcg) -> Value {
    let mut failure = json!({"maxNodes": pick(rng, &[json!(0), json!(1), json!("50%")])});
    if rng.random_ratio(1, 2) {
        failure["maxRestarts"] = json!(pick(rng, &[0, 1]));
    }
    if rng.random_ratio(1, 2) {
        failure["readyWithin"] = json!(pick(rng, &["30s", "60s"]));
    }
    if rng.random_ratio(1, 2) {
        failure["rollbackAfter"] = json!(pick(rng, &["0s", "10s"]));
    }
    failure
}

/// An order, mostly about the current template and the current wave.
fn order(world: &World, ds: &Value, rng: &mut Pcg64Mcg) -> Option<String> {
    let hashes = hashes(world, ds);
    let hash = if rng.random_ratio(1, 8) { hashes.first() } else { hashes.last() }?;
    let wave = wave(ds).unwrap_or_else(|| pick(rng, &["canary", "one", "zones/x:1"]).to_owned());
    let verbs =
        ["approve", "approve", "approve", "promote", "promote-full", "abort", "retry", "retry"];
    let verb = match world.setting.installation {
        // What is aborted is rolled back.
        Installation::BesideRollingBack if rng.random_ratio(1, 3) => "abort",
        _ => pick(rng, &verbs),
    };
    let time = world.now.0;
    Some(match (verb, rng.random_ratio(1, 16)) {
        (_, true) => format!("{verb} it"),
        ("approve" | "promote", false) => format!("{verb} {hash} {wave} {time}"),
        (_, false) => format!("{verb} {hash} {time}"),
    })
}

/// The hashes of the revisions of a DaemonSet, by number.
pub(super) fn hashes(world: &World, ds: &Value) -> Vec<String> {
    let uid = &ds["metadata"]["uid"];
    let is_owned = |revision: &Value| revision["metadata"]["ownerReferences"][0]["uid"] == *uid;
    let revisions = world.cluster.store().iter(&CONTROLLER_REVISION, None);
    let mut revisions: Vec<&Value> =
        revisions.map(|revision| revision.value()).filter(|value| is_owned(value)).collect();
    revisions.sort_by_key(|revision| revision["revision"].as_i64());
    let hash = |revision: &Value| {
        revision["metadata"]["labels"][HASH_LABEL].as_str().map(ToOwned::to_owned)
    };
    revisions.into_iter().filter_map(hash).collect()
}

/// The wave that the condition names, as a person would read it.
fn wave(ds: &Value) -> Option<String> {
    let conditions = ds["status"]["conditions"].as_array()?;
    let progressing = conditions.iter().find(|condition| condition["type"] == "Progressing")?;
    let message = progressing["message"].as_str()?;
    let mut words = message.split(' ').skip_while(|word| *word != "wave");
    words.nth(1).map(ToOwned::to_owned)
}

fn label_node(world: &mut World, rng: &mut Pcg64Mcg) {
    let Some(mut node) = world.random_object(&NODE, rng) else { return };
    match rng.random_range(0..4) {
        0 => node["metadata"]["labels"]["pool"] = json!(pick(rng, &["canary", "other"])),
        1 | 2 => node["metadata"]["labels"]["zone"] = json!(pick(rng, &["x", "y", "z"])),
        _ => {
            let Some(labels) = node["metadata"]["labels"].as_object_mut() else { return };
            if labels.remove(HOLD_LABEL).is_none() {
                labels.insert(HOLD_LABEL.to_owned(), json!(""));
            }
        }
    }
    world.update(&NODE, node);
}

/// Removes or damages a record, or replaces it with a copy of another revision's.
fn lose_record(world: &mut World, rng: &mut Pcg64Mcg) {
    let Some(mut revision) = world.random_object(&CONTROLLER_REVISION, rng) else { return };
    let other = world.random_object(&CONTROLLER_REVISION, rng);
    let copy = other.map(|other| other["metadata"]["annotations"][RECORD_ANNOTATION].clone());
    let Some(annotations) = revision["metadata"]["annotations"].as_object_mut() else { return };
    let had_record = annotations.remove(RECORD_ANNOTATION).is_some();
    match (rng.random_range(0..4), copy) {
        (0, _) if had_record => drop(annotations.insert(RECORD_ANNOTATION.to_owned(), json!("{}"))),
        (1, Some(copy)) if copy.is_string() => {
            annotations.insert(RECORD_ANNOTATION.to_owned(), copy);
        }
        _ => {}
    }
    world.update(&CONTROLLER_REVISION, revision);
}

/// All pods become unready, as if a datastore had failed.
fn disturb_all(world: &mut World, daemon_set: &str) {
    let is_its = |pod: &Value| pod["metadata"]["labels"]["app"] == daemon_set;
    for mut pod in world.all(&POD).into_iter().filter(is_its) {
        pod["metadata"]["annotations"][LIFECYCLE_ANNOTATION] = json!("never-ready");
        world.update(&POD, pod);
    }
}

/// In half of the schedules somebody promotes what is not complete, so that rollouts end.
pub(super) fn repair(world: &mut World) {
    let rng = &mut Pcg64Mcg::seed_from_u64(world.setting.seed);
    if rng.random_ratio(1, 2) {
        return;
    }
    for mut ds in world.all(&DAEMON_SET) {
        let has_policy = ds["metadata"]["annotations"][POLICY_ANNOTATION].is_string();
        let Some(hash) = hashes(world, &ds).pop().filter(|_| has_policy) else { continue };
        ds["metadata"]["annotations"][ORDER_ANNOTATION] =
            json!(format!("promote-full {hash} {}", world.now.0));
        world.update(&DAEMON_SET, ds);
    }
}
