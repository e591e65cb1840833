//! Plays a single schedule and prints its transcript, or plays many schedules.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use everynode_sim::checker::Coverage;
use everynode_sim::mutation::Mutation;
use everynode_sim::runner;
use everynode_sim::schedule::{Policies, Schedule};
use everynode_sim::world::World;

/// Plays the controller against the sandbox in virtual time, with faults in between.
///
/// Exits with 1 if a property is violated.
#[derive(Parser)]
#[command(name = "everynode-sim", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Arguments {
    /// Play the schedule of this seed and print its transcript.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["replay", "schedules"])]
    seed: Option<u64>,
    /// Play the schedule in this file and print its transcript.
    #[arg(long, value_name = "FILE", conflicts_with = "schedules")]
    replay: Option<PathBuf>,
    /// Play this number of schedules and print those that violate a property, shrunk.
    #[arg(long, value_name = "N", required_unless_present_any = ["seed", "replay"])]
    schedules: Option<u64>,
    /// Start with this seed.
    #[arg(long, value_name = "SEED", default_value_t = 0, requires = "schedules")]
    from: u64,
    /// Print the progress after every N schedules.
    #[arg(
        long,
        value_name = "N",
        requires = "schedules",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    report: Option<u64>,
    /// Guard the rollouts of each schedule by a policy, not those of one in three.
    #[arg(long)]
    guarded: bool,
    /// The same, beside the built-in controller, which everynode without policies plays.
    #[arg(long, conflicts_with = "guarded")]
    beside: bool,
    /// Insert a deliberate bug into the controller, one of those in crates/sim/src/mutation.rs.
    #[arg(long, value_name = "BUG", value_parser = mutation)]
    mutation: Option<Mutation>,
}

const EXAMPLES: &str = "\
Examples:
  everynode-sim --seed 79
  everynode-sim --replay crates/sim/tests/regressions/created-twice.txt
  everynode-sim --schedules 100000 --from 20000 --report 1000
  everynode-sim --schedules 1500 --mutation SkipExpectations
  everynode-sim --schedules 10000 --guarded
  everynode-sim --schedules 10000 --beside";

fn main() -> ExitCode {
    let Arguments { seed, replay, schedules, from, report, guarded, beside, mutation } =
        Arguments::parse();
    let policies = match (guarded, beside) {
        (_, true) => Policies::Beside,
        (true, false) => Policies::Always,
        (false, false) => Policies::Sometimes,
    };
    if let Some(seed) = seed {
        return print(Schedule::from_seed(seed, policies).play(mutation, true));
    }
    if let Some(path) = replay {
        return match read(&path) {
            Ok(schedule) => print(schedule.play(mutation, true)),
            Err(error) => {
                eprintln!("error: {}: {error}", path.display());
                ExitCode::FAILURE
            }
        };
    }
    run(from, schedules.unwrap_or_default(), report.unwrap_or(u64::MAX), policies, mutation)
}

fn mutation(name: &str) -> Result<Mutation, String> {
    let known = || {
        let names = Mutation::all().map(|(mutation, _)| mutation.name());
        format!("the known mutations are {}", names.collect::<Vec<_>>().join(", "))
    };
    Mutation::from_name(name).ok_or_else(known)
}

fn run(
    from: u64,
    count: u64,
    report: u64,
    policies: Policies,
    mutation: Option<Mutation>,
) -> ExitCode {
    let (mut failures, mut writes, mut steps) = (0, 0, 0);
    let mut coverage = Coverage::default();
    for seed in from..from + count {
        steps += Schedule::from_seed(seed, policies).steps.len();
        match runner::run(seed, policies, mutation) {
            Ok(world) => {
                writes += world.writes;
                coverage.merge(&world.checks.coverage);
            }
            Err(failure) => {
                failures += 1;
                println!("{failure}");
            }
        }
        let done = seed + 1 - from;
        if done.is_multiple_of(report) || done == count {
            println!(
                "{done} schedules from {from}: {failures} failed; {steps} steps, {writes} writes"
            );
        }
    }
    println!("{coverage}");
    if failures > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Reads the schedule in the first line that starts with a brace.
fn read(path: &Path) -> Result<Schedule, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let line =
        text.lines().find(|line| line.starts_with('{')).ok_or("the file contains no schedule")?;
    Schedule::parse(line).map_err(|error| error.to_string())
}

fn print(world: World) -> ExitCode {
    for line in world.transcript.unwrap_or_default() {
        println!("{line}");
    }
    if world.violation.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
