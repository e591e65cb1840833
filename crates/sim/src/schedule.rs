//! One seed, from the first node to the verdict.

use std::fmt;

use everynode_core::daemon_set::Config;
use everynode_sandbox::kind::DAEMON_SET;
use rand::RngExt;

use crate::checker::Violation;
use crate::fault::Faults;
use crate::mutation::Mutation;
use crate::workload::{self, NAMESPACE};
use crate::world::World;

/// A schedule in which something went wrong.
#[derive(Debug)]
pub struct Failure {
    pub seed: u64,
    pub violation: Violation,
    pub transcript: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LINES_MAX: usize = 150;
        let skipped = self.transcript.len().saturating_sub(LINES_MAX);
        if skipped > 0 {
            writeln!(f, "… {skipped} lines before")?;
        }
        for line in &self.transcript[skipped..] {
            writeln!(f, "{line}")?;
        }
        let Self { seed, violation, .. } = self;
        writeln!(f, "seed {seed}: {:?}: {}", violation.property, violation.message)?;
        write!(f, "replay: cargo run -p everynode-sim -- --seed {seed}")
    }
}

/// Runs one schedule; after a failure once more, for its transcript.
///
/// # Errors
/// The property that did not hold, with the transcript.
pub fn run(seed: u64) -> Result<World, Box<Failure>> {
    let world = play(seed, None, false);
    let Some(violation) = world.violation else { return Ok(world) };
    let transcript = play(seed, None, true).transcript.unwrap_or_default();
    Err(Box::new(Failure { seed, violation, transcript }))
}

/// Plays one schedule to its end.
pub fn play(seed: u64, mutation: Option<Mutation>, transcript: bool) -> World {
    let mut world = World::new(seed, 1 + u32::try_from(seed % 5).unwrap_or(0));
    world.transcript = transcript.then(Vec::new);
    world.mutation = mutation;
    world.faults = Faults::some(&mut world.rng);
    if world.rng.random_ratio(1, 4) {
        world.config = Config { burst_replicas: 2, ..Config::default() };
    }
    let options = world.at();
    let created =
        world.store().create(&DAEMON_SET, NAMESPACE, workload::manifest("a", 1), &options);
    debug_assert!(created.is_ok(), "{created:?}");
    world.elect();
    let actions = world.rng.random_range(5..30);
    workload::run(&mut world, actions);
    workload::heal(&mut world);
    world.come_to_rest(true);
    world
}
