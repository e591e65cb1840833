//! The end of a rollout: what it awaits after its last wave, and who decides about that one; and
//! how long checks wait before they are asked.

use everynode_core::api::{ORDER_ANNOTATION, POLICY_ANNOTATION};
use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kinds::DAEMON_SET;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::{guarded, pick, rollout};
use crate::world::World;

pub(super) fn change(world: &mut World, rng: &mut Pcg64Mcg) {
    let Some((mut ds, mut policy)) = guarded(world) else { return };
    let is_decided = policy["finally"].is_object() && rng.random_ratio(3, 4);
    if is_decided {
        let verb = pick(rng, &["approve", "approve", "promote"]);
        let Some(hash) = rollout::hashes(world, &ds).pop() else { return };
        let order = format!("{verb} {hash} finally {}", world.now.0);
        ds["metadata"]["annotations"][ORDER_ANNOTATION] = json!(order);
    } else {
        policy["finally"] = finally(rng);
        policy["checks"][0]["initialDelay"] = pick(rng, &[json!("0s"), json!("8s"), json!("25s")]);
        ds["metadata"]["annotations"][POLICY_ANNOTATION] = json!(policy.to_string());
    }
    world.update(&DAEMON_SET, ds);
}

fn finally(rng: &mut Pcg64Mcg) -> Value {
    json!({
        "bake": pick(rng, &["0s", "10s", "40s"]),
        "checks": pick(rng, &[json!([]), json!(["errors"])]),
        "approval": rng.random_ratio(1, 3),
    })
}
