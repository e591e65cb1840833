//! Runs that take too long for `make test`: tests that take minutes, faults at every write,
//! deliberate bugs, fresh schedules of the simulation, hostile requests, mutants, instructions and
//! benches.

use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;

use crate::cargo;

/// One command of the night.
struct Step {
    /// The property that it proves, as the summary states it.
    what: &'static str,
    /// The arguments of cargo.
    arguments: Vec<&'static str>,
    variables: Vec<(&'static str, String)>,
}

const PROPERTIES: [&str; 9] = [
    "test",
    "--package=everynode-core",
    "--package=everynode-k8s",
    "--package=everynode-apiserver",
    "--package=everynode-sandbox",
    "--package=everynode-controller",
    "--package=everynode-insight",
    "--package=everynode-cli",
    "--no-fail-fast",
];
/// Names the program that starts nodes for the stories on real kubelets.
const NODES: &str = "EVERYNODE_NODES";
/// Number of schedules with fresh seeds.
const FRESH: &str = "20000";
const STORIES: &str = "stories on real kubelets";
/// Number of schedules from seed 0, whose coverage is compared from night to night.
const KNOWN: &str = "10000";
const SIMULATION: [&str; 6] =
    ["test", "--profile=sim", "--package=everynode-sim", "--test=sim", "--no-fail-fast", "--"];

/// Runs every step, also after one has failed. Returns one line for each that failed, and prints
/// what ran and what did not in three lines. `only` is the beginning of the steps' descriptions.
///
/// # Errors
/// If cargo does not start.
pub(crate) fn run(root: &Path, only: &str) -> anyhow::Result<Vec<String>> {
    let seed = SystemTime::UNIX_EPOCH.elapsed().context("the clock is set")?.as_secs();
    let (steps, others): (Vec<Step>, Vec<Step>) =
        steps(seed).into_iter().chain(stories()).partition(|step| step.what.starts_with(only));
    let started = Instant::now();
    let mut ran = Vec::new();
    let mut problems = Vec::new();
    for step in &steps {
        let (status, took) = step.run(root)?;
        println!("night: {} took {}", step.what, minutes(took));
        ran.push(format!("{} ({})", step.what, minutes(took)));
        if !status.success() {
            problems.push(format!("error: {}: {}", step.what, step.line()));
        }
    }
    println!("ran in {}, fresh seeds from {seed}: {}", minutes(started.elapsed()), ran.join("; "));
    let left_out: Vec<&str> = others.iter().map(|step| step.what).collect();
    println!("left out, because only {only:?} was asked for: {}", list(&left_out));
    if std::env::var_os(NODES).is_none() {
        println!("left out, because {NODES} names no program that starts nodes: {STORIES}");
    }
    println!("left out always: what `make lint` and `make test` run; each source mutant");
    Ok(problems)
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join("; ") }
}

fn minutes(duration: Duration) -> String {
    format!("{:.1} min", duration.as_secs_f64() / 60.0)
}

fn steps(seed: u64) -> Vec<Step> {
    let step = |what, arguments: &[&'static str]| Step {
        what,
        arguments: arguments.to_vec(),
        variables: Vec::new(),
    };
    let schedules = |what, count: &str, first: u64| Step {
        variables: vec![
            ("EVERYNODE_SCHEDULES", count.to_owned()),
            ("EVERYNODE_SEED", first.to_string()),
        ],
        ..step(what, &[&SIMULATION[..], &["schedules::", "--nocapture"]].concat())
    };
    let hostile = [
        "test",
        "--release",
        "--package=everynode-sandbox",
        // With it the features of the allocator: jemalloc, as in the program.
        "--package=everynode-allocator",
        "--test=it",
        "--",
        "hostile::",
        "--nocapture",
    ];
    vec![
        step(
            "tests that take long",
            &[
                "test",
                "--package=everynode-e2e",
                "--no-fail-fast",
                "--",
                "night::",
                "--skip=nodes::night::",
            ],
        ),
        Step {
            variables: vec![("EVERYNODE_CASES", "150".to_owned())],
            ..step(
                "simulation: faults at every write, deliberate bugs, forecasts",
                &[&SIMULATION[..], &["--skip=schedules::"]].concat(),
            )
        },
        schedules("simulation: 10,000 known schedules", KNOWN, 0),
        schedules("simulation: 20,000 fresh schedules", FRESH, seed),
        Step {
            variables: vec![
                ("HOSTILE_REQUESTS", "1000000".to_owned()),
                ("HOSTILE_SEED", seed.to_string()),
            ],
            ..step("hostile requests: a million", &hostile)
        },
        Step {
            variables: vec![("EVERYNODE_WATCH_EVENTS", "100000".to_owned())],
            ..step(
                "a thousand watchers of 100,000 writes",
                &["test", "--package=everynode-apiserver", "--lib", "--", "a_thousand_watchers"],
            )
        },
        Step {
            variables: vec![("PROPTEST_CASES", "2000".to_owned())],
            ..step("properties: 2,000 cases of each", &PROPERTIES)
        },
        step("instructions of the core", &["xtask", "instructions"]),
        step(
            "lint with the features of the program",
            &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
        ),
        step("mutants: the known ones", &["xtask", "mutants", "--known"]),
        step("benches", &["bench", "--workspace"]),
    ]
}

/// The stories, where a program starts nodes for them.
fn stories() -> Option<Step> {
    std::env::var_os(NODES)?;
    let arguments = vec![
        "test",
        "--package=everynode-e2e",
        "--",
        "nodes::night::",
        "--nocapture",
        "--test-threads=1",
    ];
    Some(Step { what: STORIES, arguments, variables: Vec::new() })
}

impl Step {
    fn run(&self, root: &Path) -> anyhow::Result<(ExitStatus, Duration)> {
        println!("night: {}: {}", self.what, self.line());
        let started = Instant::now();
        let mut cargo = cargo::command(root);
        cargo.args(&self.arguments).envs(self.variables.iter().cloned());
        let status = cargo.status().context("start cargo")?;
        Ok((status, started.elapsed()))
    }

    /// The command line that repeats it.
    fn line(&self) -> String {
        let variables = self.variables.iter().map(|(name, value)| format!("{name}={value} "));
        format!("{}cargo {}", variables.collect::<String>(), self.arguments.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_a_command_that_can_be_repeated() {
        let steps = steps(7);
        let fresh = steps.iter().find(|step| step.what.contains("fresh")).expect("it exists");
        assert_eq!(
            fresh.line(),
            "EVERYNODE_SCHEDULES=20000 EVERYNODE_SEED=7 cargo test --profile=sim \
             --package=everynode-sim --test=sim --no-fail-fast -- schedules:: --nocapture"
        );
    }
}
