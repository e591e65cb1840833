//! The instructions of the core's hot paths: callgrind counts the phases of the core's bench, and
//! the counts are compared with those recorded. Time varies with the machine, instructions hardly.
//! A phase that is recorded with two numbers of nodes shows how its cost grows.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use regex::Regex;

use crate::cargo;

const KEPT: &str = "crates/core/benches/instructions.txt";
/// Maximum difference of a count, in percent: compilers and the C library differ a little.
const MARGIN_PERCENT: u64 = 10;

/// A phase of the bench, and the number of nodes with which it is counted.
type Measurement = (String, u32);

/// Returns one line for each phase that costs more than the margin allows, or less: then the new
/// count is worth recording.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    if !has_valgrind() {
        println!("instructions: skipped, valgrind is not installed (apt-get install valgrind)");
        return Ok(Vec::new());
    }
    let kept = read(root)?;
    let program = build(root)?;
    let mut problems = Vec::new();
    for ((phase, nodes), kept) in &kept {
        let counted = count(root, &program, phase, *nodes)?;
        println!("{counted:>12} {nodes:>6} {phase} (kept: {kept})");
        if counted.abs_diff(*kept) * 100 > kept * MARGIN_PERCENT {
            let percent = counted as f64 * 100.0 / *kept as f64 - 100.0;
            problems.push(format!(
                "{phase}, {nodes} nodes: {counted} instructions, {percent:+.1} % against {KEPT}; \
                 if that is meant: cargo xtask instructions --keep"
            ));
        }
    }
    Ok(problems)
}

/// Counts again and records the result.
pub(crate) fn keep(root: &Path) -> anyhow::Result<Vec<String>> {
    if !has_valgrind() {
        bail!("counting needs valgrind: apt-get install valgrind");
    }
    let program = build(root)?;
    let mut text = "# Instructions, nodes and phase of the core's bench: cargo xtask instructions \
                    --keep\n"
        .to_owned();
    for (phase, nodes) in read(root)?.keys() {
        let count = count(root, &program, phase, *nodes)?;
        text.push_str(&format!("{count:>12} {nodes:>6} {phase}\n"));
    }
    std::fs::write(root.join(KEPT), text)?;
    Ok(Vec::new())
}

fn has_valgrind() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success())
}

fn read(root: &Path) -> anyhow::Result<BTreeMap<Measurement, u64>> {
    let text = std::fs::read_to_string(root.join(KEPT)).context(KEPT)?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (count, rest) = line.trim().split_once(' ').context("a count")?;
            let (nodes, phase) = rest.trim().split_once(' ').context("nodes and a phase")?;
            Ok(((phase.to_owned(), nodes.parse()?), count.parse()?))
        })
        .collect()
}

/// Builds the bench and returns the path of its program.
fn build(root: &Path) -> anyhow::Result<String> {
    let output = cargo::command(root)
        .args(["bench", "--package", "everynode-core", "--bench", "core", "--no-run"])
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let executable = Regex::new(r"Executable .*\((.+)\)")?;
    match executable.captures(&text) {
        Some(found) if output.status.success() => Ok(found[1].to_owned()),
        _ => bail!("the core's bench does not build:\n{text}"),
    }
}

fn count(root: &Path, program: &str, phase: &str, nodes: u32) -> anyhow::Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .args(["--toggle-collect=*counted_replay*", program, "count", phase])
        .arg(nodes.to_string())
        .current_dir(root)
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = Regex::new(r"Collected : (\d+)")?;
    let found = collected.captures(&text).filter(|_| output.status.success());
    let count = found.with_context(|| format!("callgrind counted nothing:\n{text}"))?[1].parse()?;
    Ok(count)
}
