//! What decisions cost, without any I/O (C80, C81): the inputs of whole lives of a DaemonSet are recorded in virtual
//! time, then given to a new core, and only that is timed. There is a plan after every single input, which is more than
//! a controller makes that takes what has come together.
//!
//! `cargo bench -p everynode-core --bench core [-- NODES… | plot FILE | count PHASE NODES]`. `plot` draws the curve of CPU
//! per replaced pod, with the processes' figures of the tables in docs/performance.md. `count` is for callgrind: it
//! replays one phase, in a function of its own by name.

#![forbid(unsafe_code)]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

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

/// A phase, recorded, and what it took to replay.
struct Measured {
    phase: &'static str,
    inputs: usize,
    writes: usize,
    time: Duration,
}

fn table(with_heading: bool, nodes: u32) {
    if with_heading {
        println!(
            "| {:>7} | {:<18} | {:>8} | {:>8} | {:>7} | {:>8} | {:>11} |",
            "nodes", "phase", "inputs", "writes", "ms", "ns/input", "inputs/s"
        );
        println!("|--:|---|--:|--:|--:|--:|--:|");
    }
    for Measured { phase, inputs, writes, time } in measure(nodes) {
        println!(
            "| {nodes:>7} | {phase:<18} | {inputs:>8} | {writes:>8} | {:>7.1} | {:>8.0} | {:>11.0} |",
            time.as_secs_f64() * 1e3,
            time.as_nanos() as f64 / inputs as f64,
            inputs as f64 / time.as_secs_f64(),
        );
    }
}

/// All phases, each on the core that the ones before left behind.
fn measure(nodes: u32) -> Vec<Measured> {
    let mut world = World::new(nodes);
    let mut core = Core::new(&world::daemon_set());
    let mut all = Vec::new();
    for phase in PHASES {
        let Recording { inputs, writes } = world.record(phase);
        let count = inputs.len();
        let (core_after, time) = timed(|| {
            record::replay(&mut core, inputs);
            core
        });
        core = core_after;
        all.push(Measured { phase, inputs: count, writes, time });
    }
    assert_eq!(core.counts(), world.counts(), "a replay ends where the record ended");
    all
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let started = cpu_time();
    let result = work();
    (result, cpu_time() - started)
}

/// Of this thread, so that a busy machine does not show.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("it only ever grows from zero")
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
    let mut world = World::new(nodes);
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
