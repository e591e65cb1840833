//! Prints the results as the table in docs/performance.md.

use std::time::Duration;

use crate::case::Case;
use crate::process::Usage;

/// CPU milliseconds per pod of kube-controller-manager 1.36.2 on two cores; see
/// docs/performance.md.
const UPSTREAM: &[(u32, u32, &str, f64)] = &[
    (1000, 1, "place", 1.1),
    (5000, 1, "place", 1.1),
    (1000, 1, "update at 10%", 2.6),
    (5000, 1, "update at 10%", 2.9),
    (1000, 1, "update at 1", 54.6),
];

pub struct Row<'a> {
    pub case: &'a Case,
    pub phase: &'a str,
    /// The number of pods that were placed or replaced.
    pub pods: u32,
    pub wall: Duration,
    pub cpu: Duration,
    pub usage: Usage,
}

pub fn print_machine() {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("# {cores} cores, {}", model.unwrap_or("of an unknown kind"));
}

pub fn print_header() {
    println!(
        "| {:<26} | {:<14} | {:>8} | {:>8} | {:>10} | {:>17} | {:>11} | {:>11} |",
        "nodes x DaemonSets",
        "phase",
        "wall s",
        "CPU s",
        "CPU ms/pod",
        "of upstream's",
        "RSS MB",
        "RSS peak MB",
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|");
}

pub fn print_row(row: &Row) {
    let (per_pod, ratio) = match (row.phase, row.pods) {
        ("idle", _) | (_, 0) => {
            let per_second = row.cpu.as_secs_f64() * 1000.0 / row.wall.as_secs_f64();
            (format!("{per_second:.2} ms/s"), String::new())
        }
        ("restart", pods) => {
            (format!("{:.4}", row.cpu.as_secs_f64() * 1000.0 / f64::from(pods)), String::new())
        }
        (phase, pods) => {
            let ms = row.cpu.as_secs_f64() * 1000.0 / f64::from(pods);
            (format!("{ms:.3}"), ratio(row.case, phase, ms))
        }
    };
    println!(
        "| {:<26} | {:<14} | {:>8.1} | {:>8.2} | {per_pod:>10} | {ratio:>17} | {:>11.1} | \
         {:>11.1} |",
        row.case.to_string(),
        row.phase,
        row.wall.as_secs_f64(),
        row.cpu.as_secs_f64(),
        row.usage.memory_kilobytes as f64 / 1024.0,
        row.usage.memory_kilobytes_max as f64 / 1024.0,
    );
}

fn ratio(case: &Case, phase: &str, ms: f64) -> String {
    let known = UPSTREAM.iter().find(|(nodes, sets, of, _)| {
        (*nodes, *sets, *of) == (case.nodes, case.daemon_sets, phase) && case.foreign_per_node == 0
    });
    known.map_or_else(String::new, |(.., theirs)| format!("1/{:.1} of {theirs}", theirs / ms))
}
