//! Webhooks and quotas that refuse or change created pods for a while.

use everynode_core::api::{HASH_LABEL, Timestamp};
use everynode_sandbox::json::Value;
use everynode_sandbox::kinds::{NODE, POD};
use everynode_sandbox::store::DeleteOptions;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::pick;
use crate::admission::{Admission, Effect};
use crate::world::{World, name_and_namespace};

pub(super) fn change(world: &mut World, rng: &mut Pcg64Mcg) {
    let lasts_ms = pick(rng, &[2_000, 15_000, 60_000, 300_000]);
    let node = world.random_object(&NODE, rng).map(|node| name_and_namespace(&node).0);
    let node = node.unwrap_or_default();
    let effect = match rng.random_range(0..12) {
        0 | 1 => Effect::DenyNode(node),
        2 => Effect::DenyAll,
        3 => Effect::FailToCall,
        4 => Effect::ExceedQuota,
        5 | 6 => Effect::Extend,
        7 => Effect::RemoveLabels,
        8 => Effect::RemoveLabel("app"),
        9 => Effect::RemoveLabel(HASH_LABEL),
        10 => Effect::RemoveAffinity,
        _ => Effect::SetNode(node),
    };
    world.log(|| format!("admission for {lasts_ms} ms: {effect:?}"));
    let until = Timestamp(world.now.0 + lasts_ms);
    world.admission = Some(Admission { until, effect });
}

/// Ends what happens to created pods, and deletes those that no DaemonSet selects for it: nobody
/// else does, and with many of them a node has no room for another one.
pub(super) fn repair(world: &mut World) {
    world.admission = None;
    let is_lost = |pod: &Value| {
        let metadata = &pod["metadata"];
        let owners = metadata["ownerReferences"].as_array();
        owners.is_none_or(Vec::is_empty) && metadata["labels"]["app"].is_null()
    };
    for pod in world.all(&POD).into_iter().filter(is_lost) {
        world.delete(&POD, &pod, &DeleteOptions::default());
    }
}
