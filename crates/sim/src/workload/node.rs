//! Changes of nodes: they are added, deleted, relabelled and tainted, and they fail.

use everynode_sandbox::cluster::DOWN_ANNOTATION;
use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kinds::NODE;
use everynode_sandbox::nodes;
use everynode_sandbox::store::DeleteOptions;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::pick;
use crate::world::World;

pub(super) fn change(world: &mut World, rng: &mut Pcg64Mcg) {
    let number = rng.random_range(1..=world.setting.nodes_max);
    let name = format!("node-{number:04}");
    let Some(mut node) = world.stored(&NODE, "", &name) else {
        return add(world, number);
    };
    match rng.random_range(0..12) {
        0 => return world.delete(&NODE, &node, &DeleteOptions::default()),
        1..4 => node["metadata"]["labels"]["role"] = json!(pick(rng, &["a", "b"])),
        4..7 => node["spec"]["taints"] = taints(rng),
        7 => node["spec"]["unschedulable"] = json!(rng.random_ratio(1, 2)),
        8 => {
            let down = if rng.random_ratio(1, 2) { "true" } else { "false" };
            node["metadata"]["annotations"][DOWN_ANNOTATION] = json!(down);
        }
        _ => {
            let lifecycles = ["well", "reject", "never-ready", "crash", "slow", "stubborn"];
            node["metadata"]["labels"]["life"] = json!(pick(rng, &lifecycles));
        }
    }
    world.update(&NODE, node);
}

fn taints(rng: &mut Pcg64Mcg) -> Value {
    let taint = |effect: &str| json!([{"key": "t", "value": "v", "effect": effect}]);
    let choices =
        [json!([]), json!([]), taint("NoSchedule"), taint("NoExecute"), taint("PreferNoSchedule")];
    pick(rng, &choices)
}

pub(super) fn add(world: &mut World, number: u32) {
    let made = nodes::generate(number, 1).expect("the number is in range");
    let node = made.into_iter().next_back().expect("at least one node was generated");
    let now = world.now;
    let done = world.cluster.add_nodes(vec![node], now);
    world.log(|| format!("somebody adds node {number}: {done:?}"));
}

/// Starts all nodes that are down and lets new pods on all nodes become ready.
pub(super) fn repair(world: &mut World) {
    for mut node in world.all(&NODE) {
        let lifecycle = node["metadata"]["labels"].get("life");
        let is_down = node["metadata"]["annotations"].get(DOWN_ANNOTATION) == Some(&json!("true"));
        if !is_down && lifecycle.is_none_or(|lifecycle| lifecycle == "well") {
            continue;
        }
        node["metadata"]["labels"]["life"] = json!("well");
        node["metadata"]["annotations"][DOWN_ANNOTATION] = json!("false");
        world.update(&NODE, node);
    }
}
