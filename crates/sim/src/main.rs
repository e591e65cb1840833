//! Runs schedules: `--seed N` or `--replay FILE` one, with its transcript; `--schedules N [--from N]` many, with a line
//! on how far it is every `--report N` schedules. `--mutation NAME` puts a deliberate bug in.

use std::process::ExitCode;

use everynode_sim::mutation::Mutation;
use everynode_sim::schedule::{self, Schedule};
use everynode_sim::world::World;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let text = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)
    };
    let number = |name: &str| text(name)?.parse::<u64>().ok();
    let mutation = match text("--mutation").map(|name| (name, Mutation::named(name))) {
        Some((name, None)) => {
            eprintln!("error: no deliberate bug is called {name}: see crates/sim/src/mutation.rs");
            return ExitCode::FAILURE;
        }
        Some((_, mutation)) => mutation,
        None => None,
    };
    if let Some(seed) = number("--seed") {
        return tell(Schedule::of(seed).play(mutation, true));
    }
    if let Some(path) = text("--replay") {
        return match read(path) {
            Ok(schedule) => tell(schedule.play(mutation, true)),
            Err(error) => {
                eprintln!("error: {path}: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let (from, count) = (number("--from").unwrap_or(0), number("--schedules").unwrap_or(1000));
    run(from, count, number("--report").unwrap_or(u64::MAX), mutation)
}

fn run(from: u64, count: u64, report: u64, mutation: Option<Mutation>) -> ExitCode {
    let (mut failures, mut writes, mut steps) = (0, 0, 0);
    for seed in from..from + count {
        steps += Schedule::of(seed).steps.len();
        match schedule::run(seed, mutation) {
            Ok(world) => writes += world.writes,
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
    if failures > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The first line that is no comment.
fn read(path: &str) -> Result<Schedule, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let line = text.lines().find(|line| line.starts_with('{')).ok_or("holds no schedule")?;
    Schedule::parse(line).map_err(|error| error.to_string())
}

fn tell(world: World) -> ExitCode {
    for line in world.transcript.unwrap_or_default() {
        println!("{line}");
    }
    if world.violation.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
