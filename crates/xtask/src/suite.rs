//! Runs the tests and says what it ran and what it left out: with cargo-nextest where it is
//! installed, which runs the tests of all programs at once, else with `cargo test`.
//!
//! Tests whose path has `night::` take long and are left out ([`nightly`](crate::nightly)).

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use regex::Regex;

use crate::{cargo, cargo_metadata};

/// Which tests run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suite {
    /// Those that need neither a cluster nor the simulation.
    Quick,
    /// All but those of the night.
    Whole,
}

impl Suite {
    /// The packages that take part. Without the simulation's, cargo still chooses the same features
    /// of dependencies, and builds none twice. jemalloc takes minutes to build.
    const fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Quick => &["--workspace", "--exclude=everynode-sim", "--no-default-features"],
            Self::Whole => &["--workspace", "--no-default-features"],
        }
    }

    /// The targets that are built.
    const fn targets(self) -> &'static [&'static str] {
        match self {
            Self::Quick => {
                &["--lib", "--bin=everynode", "--bin=everynode-xtask", "--test=it", "--test=memory"]
            }
            Self::Whole => &["--lib", "--bins", "--tests"],
        }
    }

    /// The modules whose tests do not run.
    const fn skipped(self) -> &'static [&'static str] {
        match self {
            Self::Quick => &["night::", "hostile::"],
            Self::Whole => &["night::"],
        }
    }

    /// The tests that run, for nextest. A filter replaces the one of its configuration.
    fn filter(self) -> Option<String> {
        let skipped = |name: &&str| format!(" and not test(/(^|::){name}/)");
        let skipped: String = self.skipped().iter().map(skipped).collect();
        (self == Self::Quick).then(|| format!("all(){skipped}"))
    }
}

/// Runs the suite. Returns a line for each kind of tests of which one failed, and prints what ran
/// and what did not in three lines.
///
/// # Errors
/// If the tests do not build.
pub(crate) fn run(root: &Path, suite: Suite) -> anyhow::Result<Vec<String>> {
    // By itself, so that cargo shows its progress.
    let mut build = cargo::command(root);
    build.args(["test", "--no-run", "--quiet"]).args(suite.packages()).args(suite.targets());
    ensure!(build.status()?.success(), "the tests do not build");
    let runner = Runner::find();
    let (succeeded, totals) = runner.run(root, suite)?;
    let examples = match suite {
        Suite::Quick => true,
        Suite::Whole => {
            let mut examples = cargo::command(root);
            examples.args(["test", "--quiet", "--doc"]).args(suite.packages()).status()?.success()
        }
    };
    println!("{} passed, {} failed, {} skipped", totals.passed, totals.failed, totals.skipped);
    for line in summary(suite, runner, &totals) {
        println!("{line}");
    }
    let mut problems = Vec::new();
    if !succeeded {
        problems.push("error: a test failed".to_owned());
    }
    if !examples {
        problems.push("error: an example in the documentation failed".to_owned());
    }
    Ok(problems)
}

/// The program that runs the tests.
#[derive(Clone, Copy)]
enum Runner {
    Nextest,
    CargoTest,
}

impl Runner {
    fn find() -> Self {
        let version = Command::new("cargo-nextest").args(["nextest", "--version"]).output();
        match version {
            Ok(output) if output.status.success() => Self::Nextest,
            Ok(_) | Err(_) => Self::CargoTest,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Nextest => "cargo nextest",
            Self::CargoTest => "cargo test",
        }
    }

    /// Runs the tests. Returns true if all passed, and how many did.
    fn run(self, root: &Path, suite: Suite) -> anyhow::Result<(bool, Totals)> {
        let target = cargo_metadata::read(root, &["--no-deps"])?.target_directory;
        let mut command = cargo::command(root);
        // The tests of the program's package build it.
        command.env("EVERYNODE_PROGRAM", Path::new(&target).join("debug/everynode"));
        match self {
            Self::Nextest => command
                .args(["nextest", "run"])
                .args(suite.packages())
                .args(suite.targets())
                .args(suite.filter().into_iter().flat_map(|filter| ["-E".to_owned(), filter])),
            Self::CargoTest => command
                .args(["test", "--no-fail-fast"])
                .args(suite.packages())
                .args(suite.targets())
                .arg("--")
                .args(suite.skipped().iter().flat_map(|name| ["--skip", name])),
        };
        watch(self, command)
    }
}

/// Numbers of tests.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    passed: u64,
    failed: u64,
    /// Those that were left out because of their names.
    skipped: u64,
}

impl Totals {
    /// Adds the numbers of a line with which the runner ends. nextest also shows how single tests
    /// end.
    fn add(&mut self, runner: Runner, line: &str) {
        let is_end = match runner {
            Runner::Nextest => line.contains("tests run:"),
            Runner::CargoTest => line.starts_with("test result:"),
        };
        if !is_end {
            return;
        }
        let number = Regex::new(r"(\d+) (passed|failed|timed out|filtered out|skipped)");
        for found in number.expect("a constant pattern").captures_iter(line) {
            let count: u64 = found[1].parse().unwrap_or_default();
            match &found[2] {
                "passed" => self.passed += count,
                "failed" | "timed out" => self.failed += count,
                _ => self.skipped += count,
            }
        }
    }
}

/// Prints what the command prints, as it does, and reads the totals.
fn watch(runner: Runner, mut command: Command) -> anyhow::Result<(bool, Totals)> {
    let (reader, writer) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().context("start cargo")?;
    // As long as its ends of the pipe are open, the pipe has no end.
    drop(command);
    let mut totals = Totals::default();
    for line in BufReader::new(reader).split(b'\n') {
        let line = line?;
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&line)?;
        stdout.write_all(b"\n")?;
        totals.add(runner, &String::from_utf8_lossy(&line));
    }
    Ok((child.wait()?.success(), totals))
}

/// The tests that ran, those that did not, and why.
fn summary(suite: Suite, runner: Runner, totals: &Totals) -> [String; 3] {
    let Totals { passed, failed, skipped } = totals;
    let ran = passed + failed;
    let left_out = match suite {
        Suite::Quick => {
            "the end-to-end tests, those of hostile objects and requests, the simulation and the \
             examples in the documentation, which `make test` runs"
                .to_owned()
        }
        Suite::Whole => format!(
            "{skipped} tests that take minutes, fresh schedules, mutants and benches, which `make \
             night` runs"
        ),
    };
    let examples = match suite {
        Suite::Quick => "",
        Suite::Whole => ", and the examples in the documentation",
    };
    [
        format!("ran: {ran} tests with {}{examples}", runner.name()),
        format!("left out: {left_out}"),
        format!("not tried, because this machine lacks it: {}", missing()),
    ]
}

/// The tools that tests would use, and do without.
fn missing() -> String {
    let has_browser = std::env::var("EVERYNODE_BROWSER").map_or(true, |name| name != "none");
    let browser = (!has_browser).then_some("a browser (EVERYNODE_BROWSER=none)");
    let programs = ["zsh", "fish", "promtool"].into_iter().filter(|name| !is_installed(name));
    let missing: Vec<&str> = browser.into_iter().chain(programs).collect();
    if missing.is_empty() { "nothing".to_owned() } else { missing.join(", ") }
}

fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(runner: Runner, lines: &[&str]) -> Totals {
        let mut totals = Totals::default();
        lines.iter().for_each(|line| totals.add(runner, line));
        totals
    }

    #[test]
    fn the_totals_of_both_runners_are_read() {
        let nextest = [
            "    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured",
            "   Summary [ 1.0s] 7 tests run: 4 passed (2 slow), 2 failed, 1 timed out, 5 skipped",
        ];
        assert_eq!(totals(Runner::Nextest, &nextest), Totals { passed: 4, failed: 3, skipped: 5 });
        let cargo_test = [
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out",
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 1 filtered out",
        ];
        assert_eq!(
            totals(Runner::CargoTest, &cargo_test),
            Totals { passed: 13, failed: 2, skipped: 4 }
        );
    }
}
