//! ConfigMaps of which pods get copies: policies begin and cease to copy them, and people change
//! them, to bad contents as well, delete them, and delete copies.

use everynode_core::api::POLICY_ANNOTATION;
use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kinds::{CONFIG_MAP, DAEMON_SET};
use everynode_sandbox::store::DeleteOptions;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{pick, valid_policy};
use crate::world::{NAMESPACE, World};

/// The ConfigMaps of the template. The second one may be missing.
const MAPS: [&str; 2] = ["settings", "rules"];
/// The key whose value says how pods go on that start with a ConfigMap.
const LIFECYCLE: &str = "sandbox.everynode.dev.lifecycle";
/// Makes the random choices of [`repair`] independent of those of other repairs.
const REPAIR_SEED: u64 = 0x1f83_d9ab_fb41_bd6b;

pub(super) fn change(world: &mut World, rng: &mut Pcg64Mcg) {
    let Some(mut ds) = world.stored(&DAEMON_SET, NAMESPACE, "a") else { return };
    let Some(mut policy) = valid_policy(&ds) else {
        return change_content(world, rng);
    };
    match rng.random_range(0..16) {
        _ if policy["config"].is_null() => {
            policy["config"] = config(rng);
            name_maps(&mut ds);
            for map in MAPS {
                if rng.random_ratio(7, 8) {
                    put(world, map, content(rng));
                }
            }
        }
        0 => {
            policy["config"] = config(rng);
            policy["config"]["except"] = pick(rng, &[json!([]), json!([MAPS[1]])]);
        }
        1 => policy["config"] = Value::Null,
        2 => return delete(world, pick(rng, &MAPS)),
        3 | 4 => return delete_copy(world, rng),
        5..8 => {
            // Both are one change, if no more time than `settle` is in between.
            change_content(world, rng);
            world.run_for(pick(rng, &[0, 1_000, 6_000]));
            return change_content(world, rng);
        }
        _ => return change_content(world, rng),
    }
    ds["metadata"]["annotations"][POLICY_ANNOTATION] = json!(policy.to_string());
    world.update(&DAEMON_SET, ds);
}

fn config(rng: &mut Pcg64Mcg) -> Value {
    json!({"configMaps": "snapshot", "settle": pick(rng, &["0s", "3s", "10s", "30s"])})
}

/// Lets the template name the ConfigMaps.
pub fn name_maps(ds: &mut Value) {
    let spec = &mut ds["spec"]["template"]["spec"];
    spec["volumes"] = json!([{"name": "v", "configMap": {"name": MAPS[0]}}]);
    let rules = json!([{"configMapRef": {"name": MAPS[1], "optional": true}}]);
    spec["containers"][0]["envFrom"] = rules;
}

/// A content, which is bad in one of four cases.
fn content(rng: &mut Pcg64Mcg) -> Value {
    let number = pick(rng, &["1", "2", "3"]);
    match rng.random_range(0..8) {
        0 => json!({"n": number, LIFECYCLE: "never-ready"}),
        1 => json!({"n": number, LIFECYCLE: "crash-loop-at-first"}),
        _ => json!({"n": number}),
    }
}

fn change_content(world: &mut World, rng: &mut Pcg64Mcg) {
    put(world, pick(rng, &MAPS), content(rng));
}

/// Gives a ConfigMap a content, and creates it if it is missing.
pub fn put(world: &mut World, name: &str, data: Value) {
    let map = json!({"metadata": {"name": name, "namespace": NAMESPACE}, "data": data});
    match world.cluster.store().find(&CONFIG_MAP, NAMESPACE, name).is_some() {
        true => world.update(&CONFIG_MAP, map),
        false => world.create(&CONFIG_MAP, map),
    }
}

fn delete(world: &mut World, name: &str) {
    if let Some(map) = world.stored(&CONFIG_MAP, NAMESPACE, name) {
        world.delete(&CONFIG_MAP, &map, &DeleteOptions::default());
    }
}

fn delete_copy(world: &mut World, rng: &mut Pcg64Mcg) {
    let maps = world.all(&CONFIG_MAP).into_iter();
    let copies: Vec<Value> = maps.filter(|map| map["immutable"] == true).collect();
    if !copies.is_empty() {
        world.delete(&CONFIG_MAP, &pick(rng, &copies), &DeleteOptions::default());
    }
}

/// In half of the schedules all contents become good.
pub(super) fn repair(world: &mut World) {
    let rng = &mut Pcg64Mcg::seed_from_u64(world.setting.seed ^ REPAIR_SEED);
    let becomes_good = rng.random_ratio(1, 2);
    for name in MAPS.into_iter().filter(|_| becomes_good) {
        if world.cluster.store().find(&CONFIG_MAP, NAMESPACE, name).is_some() {
            put(world, name, json!({"n": "4"}));
        }
    }
}
