//! What people and machines do to a cluster, drawn from the world's chance.

mod daemon_set;
mod node;
mod pod;

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use crate::world::World;

pub use daemon_set::manifest;

pub use crate::world::NAMESPACE;

/// What somebody does after a pause. Everything else about it is drawn from its own chance, so that it stays what it
/// is when others are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub pause_ms: i64,
    pub act: Act,
    pub chance: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Act {
    DaemonSet,
    Node,
    Pod,
    /// The leader crashes.
    Crash,
    /// The leader can't renew its lease.
    Depose,
    Nothing,
}

impl Step {
    pub fn some(rng: &mut Pcg64Mcg) -> Self {
        let pause_ms = match rng.random_range(0..10) {
            0..5 => rng.random_range(0..200),
            5..9 => rng.random_range(200..4_000),
            _ => rng.random_range(4_000..60_000),
        };
        let act = match rng.random_range(0..100) {
            0..36 => Act::DaemonSet,
            36..62 => Act::Node,
            62..93 => Act::Pod,
            93..95 => Act::Crash,
            95..97 => Act::Depose,
            _ => Act::Nothing,
        };
        Self { pause_ms, act, chance: rng.next_u64() }
    }

    /// Lets time pass, and does it.
    pub fn take(self, world: &mut World) {
        world.run_for(self.pause_ms);
        if world.violation.is_some() {
            return;
        }
        let rng = &mut Pcg64Mcg::seed_from_u64(self.chance);
        match self.act {
            Act::DaemonSet => daemon_set::act(world, rng),
            Act::Node => node::act(world, rng),
            Act::Pod => pod::act(world, rng),
            Act::Crash => world.crash(),
            Act::Depose => world.depose(),
            Act::Nothing => {}
        }
        world.settle();
    }
}

/// Makes everything able to come to rest: nodes up, pods able to become ready.
pub fn heal(world: &mut World) {
    node::heal(world);
    pod::heal(world);
    world.settle();
}

fn pick<T: Clone>(rng: &mut Pcg64Mcg, choices: &[T]) -> T {
    choices[rng.random_range(0..choices.len())].clone()
}
