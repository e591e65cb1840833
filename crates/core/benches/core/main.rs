//! The CPU time of decisions, without any I/O (C80, C81).
//!
//! The inputs of a DaemonSet's lifetime are recorded in virtual time. Then they are replayed to a
//! new core, and only the replay is measured. The replay plans after every input; a controller
//! plans less often, because it handles several inputs together.
//!
//! `cargo bench -p everynode-core --bench core [-- NODES… | plot FILE | count PHASE NODES]`
//!
//! - `plot` draws the CPU time per replaced pod, together with the results of whole processes in
//!   the tables of docs/performance.md.
//! - `count` replays one phase in a separate function, whose instructions callgrind counts.

#![forbid(unsafe_code)]
#![allow(clippy::cast_precision_loss, reason = "rounded results are sufficient")]

mod plot;
mod record;
mod world;

use std::time::Duration;

use record::{Core, Recording};
use world::{PHASES, World};

const SIZES: &[u32] = &[1_000, 10_000, 100_000];
const PLOT_SIZES: &[u32] = &[1_000, 3_000, 10_000, 30_000, 100_000];

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["plot", file] => plot(file),
        ["count", phase, nodes] => count(phase, nodes.parse().expect("a number of nodes")),
        [] => SIZES.iter().enumerate().for_each(|(row, &nodes)| table(row == 0, nodes)),
        _ => {
            let sizes = arguments.iter().map(|size| size.parse().expect("a number of nodes"));
            sizes.enumerate().for_each(|(row, nodes)| table(row == 0, nodes));
        }
    }
}

/// The replay of one phase.
struct Measured {
    phase: &'static str,
    inputs: usize,
    writes: usize,
    time: Duration,
    /// Maximum time of one input with its plan, while the phase was recorded.
    longest: Duration,
}

fn table(with_heading: bool, nodes: u32) {
    if with_heading {
        println!(
            "| {:>7} | {:<22} | {:>8} | {:>8} | {:>7} | {:>8} | {:>11} | {:>10} |",
            "nodes", "phase", "inputs", "writes", "ms", "ns/input", "inputs/s", "longest ms"
        );
        println!("|--:|---|--:|--:|--:|--:|--:|--:|");
    }
    for Measured { phase, inputs, writes, time, longest } in measure(nodes) {
        println!(
            "| {nodes:>7} | {phase:<22} | {inputs:>8} | {writes:>8} | {:>7.1} | {:>8.0} \
             | {:>11.0} | {:>10.2} |",
            time.as_secs_f64() * 1e3,
            time.as_nanos() as f64 / inputs as f64,
            inputs as f64 / time.as_secs_f64(),
            longest.as_secs_f64() * 1e3,
        );
    }
}

/// Records and replays all phases, one after the other.
fn measure(nodes: u32) -> Vec<Measured> {
    let mut world = World::new(nodes, cpu_time);
    let mut core = Core::new(&world::daemon_set());
    let mut all = Vec::new();
    for phase in PHASES {
        let Recording { inputs, writes, longest } = world.record(phase);
        let count = inputs.len();
        let (core_after, time) = timed(|| {
            record::replay(&mut core, inputs);
            core
        });
        core = core_after;
        all.push(Measured { phase, inputs: count, writes, time, longest });
    }
    assert_eq!(core.counts(), world.counts(), "a replay ends with the recorded counts");
    all
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let started = cpu_time();
    let result = work();
    (result, cpu_time() - started)
}

/// CPU time of this thread, which does not depend on other load on the machine.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("CPU time is not negative")
}

fn plot(file: &str) {
    let mut core = Vec::new();
    for &nodes in PLOT_SIZES {
        let measured = measure(nodes);
        let rollout = measured.iter().find(|m| m.phase == "update at 1").expect("a phase");
        core.push((f64::from(nodes), rollout.time.as_secs_f64() * 1e3 / f64::from(nodes)));
    }
    let page = std::fs::read_to_string("../../docs/performance.md").unwrap_or_default();
    let picture = plot::draw(&core, &plot::processes(&page));
    std::fs::write(file, picture).expect("the picture can be written");
    println!("{file} is drawn");
}

fn count(phase: &str, nodes: u32) {
    // The clock of the kernel is not to be had under callgrind.
    let mut world = World::new(nodes, || Duration::ZERO);
    let mut core = Core::new(&world::daemon_set());
    for before in PHASES {
        let inputs = world.record(before).inputs;
        if *before == phase {
            record::counted_replay(&mut core, inputs);
            return;
        }
        record::replay(&mut core, inputs);
    }
    panic!("there is no phase {phase:?}");
}
