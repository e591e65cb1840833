//! Runs schedules: `--seed N` one, with its transcript; `--schedules N [--from N]` many.

use std::process::ExitCode;

use everynode_sim::schedule;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    if let Some(seed) = number("--seed") {
        let world = schedule::play(seed, None, true);
        for line in world.transcript.unwrap_or_default() {
            println!("{line}");
        }
        return if world.violation.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    let (from, count) = (number("--from").unwrap_or(0), number("--schedules").unwrap_or(1000));
    let mut failures = 0;
    let mut writes = 0;
    for seed in from..from + count {
        match schedule::run(seed) {
            Ok(world) => writes += world.writes,
            Err(failure) => {
                failures += 1;
                let violation = &failure.violation;
                println!("seed {seed}: {:?}: {}", violation.property, violation.message);
            }
        }
    }
    println!(
        "{count} schedules from {from}: {failures} failed, {writes} writes in those that did not"
    );
    if failures > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
