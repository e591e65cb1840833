//! A second namespace with a DaemonSet. It is deleted with its content, and created again.

use everynode_sandbox::json::json;
use everynode_sandbox::kinds::NAMESPACE as NAMESPACE_KIND;
use everynode_sandbox::store::DeleteOptions;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::{daemon_set, pick};
use crate::world::World;

/// The second namespace.
const OTHER: &str = "other";
/// The annotation that upstream and `PodNodeSelector` read.
const NODE_SELECTOR: &str = "scheduler.alpha.kubernetes.io/node-selector";

pub(super) fn change(world: &mut World, rng: &mut Pcg64Mcg) {
    let Some(mut namespace) = world.stored(&NAMESPACE_KIND, "", OTHER) else {
        world.create(&NAMESPACE_KIND, json!({"metadata": {"name": OTHER}}));
        return daemon_set::change_in(world, OTHER, "b", rng);
    };
    match rng.random_range(0..8) {
        0 => world.delete(&NAMESPACE_KIND, &namespace, &DeleteOptions::default()),
        1 => {
            namespace["metadata"]["annotations"][NODE_SELECTOR] = json!(pick(rng, &["", "role=a"]));
            world.update(&NAMESPACE_KIND, namespace);
        }
        _ => daemon_set::change_in(world, OTHER, "b", rng),
    }
}

/// Removes the node selector.
pub(super) fn repair(world: &mut World) {
    let Some(mut namespace) = world.stored(&NAMESPACE_KIND, "", OTHER) else { return };
    if let Some(annotations) = namespace["metadata"]["annotations"].as_object_mut()
        && annotations.remove(NODE_SELECTOR).is_some()
    {
        world.update(&NAMESPACE_KIND, namespace);
    }
}
