//! Plays the schedule of a seed and shrinks it if it fails.

use crate::checker::Violation;
use crate::failure::Failure;
use crate::mutation::Mutation;
use crate::schedule::{Policies, Schedule};
use crate::shrink::{self, Shrunk};
use crate::world::World;

/// Plays the schedule of a seed, optionally with a deliberate bug. A failing schedule is shrunk
/// and played once more to record its transcript.
///
/// # Errors
/// The violation, with the transcript of the shrunk schedule.
pub fn run(
    seed: u64,
    policies: Policies,
    mutation: Option<Mutation>,
) -> Result<World, Box<Failure>> {
    let schedule = Schedule::from_seed(seed, policies);
    let world = schedule.play(mutation, false);
    let Some(violation) = world.violation else { return Ok(world) };
    let Shrunk { schedule, others } = shrink::shrink(&schedule, violation.property, mutation);
    let world = schedule.play(mutation, true);
    let policies = match policies {
        Policies::Sometimes => "",
        Policies::Always => " --guarded",
        Policies::Beside => " --beside",
    };
    let replay = format!(
        "seed {seed}, shrunk. The original schedule: \
         cargo run --profile sim -p everynode-sim -- --seed {seed}{policies}\n\
         For a test, put this line into crates/sim/tests/regressions/NAME.txt:\n{}",
        schedule.to_line()
    );
    let other = |(violation, schedule): &(Violation, Schedule)| {
        let (property, message) = (violation.property, &violation.message);
        format!("\nMet while it was shrunk: {property:?}: {message}\n{}", schedule.to_line())
    };
    let replay = others.iter().map(other).fold(replay, |all, other| all + &other);
    let violation = world.violation.unwrap_or(violation);
    let transcript = world.transcript.unwrap_or_default();
    Err(Box::new(Failure { violation, transcript, replay }))
}
