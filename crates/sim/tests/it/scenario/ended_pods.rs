//! Pods that end, and the node whose pods do.

use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kinds::{NODE, POD};

use everynode_sim::world::World;

const FAILING: &str = "node-0001";
const OTHER: &str = "node-0002";

pub(super) fn first(world: &World) -> Option<Value> {
    world.all(&POD).into_iter().next()
}

pub(super) fn fail(world: &mut World) {
    let pod = first(world);
    fail_pod(world, pod);
}

/// Each pod of a node ends as soon as it is there, so that the last one waits for the back-off.
/// Meanwhile the node changes in a way that ends no back-off.
pub(super) fn fail_again_and_again(world: &mut World) {
    for millis in [1_500, 2_500, 4_500, 2_000, 500] {
        fail_on(world, FAILING);
        world.run_for(millis);
    }
    change_node(world, |node| node["metadata"]["labels"]["rack"] = json!("r1"));
}

/// The node boots while its pod waits for the back-off.
pub(super) fn reboot(world: &mut World) {
    fail_on(world, FAILING);
    world.run_for(500);
    change_node(world, |node| node["status"]["nodeInfo"]["bootID"] = json!("next"));
    world.run_for(500);
    // The controller plans again, whether it has noticed or not.
    fail_on(world, OTHER);
}

fn fail_on(world: &mut World, node: &str) {
    let pod = world.all(&POD).into_iter().rfind(|pod| pod["spec"]["nodeName"] == node);
    fail_pod(world, pod);
}

fn fail_pod(world: &mut World, pod: Option<Value>) {
    let Some(mut pod) = pod else { return };
    pod["status"]["phase"] = json!("Failed");
    world.update_status(&POD, pod);
}

fn change_node(world: &mut World, change: fn(&mut Value)) {
    let Some(mut node) = world.stored(&NODE, "", FAILING) else { return };
    change(&mut node);
    let options = world.write_options();
    let of_status = world.registry().update_status(&NODE, "", FAILING, node.clone(), &options);
    let of_status = of_status.map(|stored| stored.value()["metadata"]["resourceVersion"].clone());
    if let Ok(version) = &of_status {
        node["metadata"]["resourceVersion"] = version.clone();
        world.update(&NODE, node);
    }
    world.log(|| format!("node {FAILING} changes: {of_status:?}"));
}
