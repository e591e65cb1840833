//! Memory per DaemonSet and node, counted by the allocator: tens of bytes (C80).

#[path = "it/support/mod.rs"]
#[allow(dead_code, reason = "the other tests use more of it")]
mod support;

use everynode_core::api::{HASH_LABEL, Pod, PodPhase, Readiness, Timestamp, Uid};
use everynode_core::daemon_set::{Config, DaemonSetState};
use everynode_core::node_table::NodeTable;
use everynode_core::plan::{Outcome, Watermarks, WriteResult};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use support::{daemon_set, node, pod, revision, with_label};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

const NODES: usize = 5_000;
const DAEMON_SETS: usize = 10;
const NOW: Timestamp = Timestamp::from_seconds(2_000);

fn bytes_in_use() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Plans, and executes nothing.
fn plan(states: &mut [DaemonSetState], nodes: &NodeTable) {
    for state in states {
        for write in state.plan(NOW, &Watermarks::default(), nodes).writes {
            state.apply_result(WriteResult { write, outcome: Outcome::Skipped }, NOW);
        }
    }
}

/// C3, C80: a DaemonSet needs one slot for each node, and one view for each pod. Names are stored
/// once.
///
/// This is the only test of the binary, so that no other test allocates at the same time.
#[test]
fn a_daemon_set_needs_tens_of_bytes_for_a_node() {
    let mut nodes = NodeTable::default();
    for number in 0..NODES {
        nodes.apply(node(&format!("node-{number:05}")));
    }
    let pairs = NODES * DAEMON_SETS;
    let pods: Vec<Pod> = (0..pairs).map(running_pod).collect();
    let before = bytes_in_use();
    let mut states: Vec<DaemonSetState> = (0..DAEMON_SETS)
        .map(|_| DaemonSetState::new(Config::default(), daemon_set(), &nodes))
        .collect();
    for state in &mut states {
        state.apply_revision(revision("hash", "A", 1));
    }
    plan(&mut states, &nodes);
    let without_pod = (bytes_in_use() - before) / pairs;
    for (number, pod) in pods.iter().enumerate() {
        states[number / NODES].apply_pod(pod, &mut nodes);
    }
    plan(&mut states, &nodes);
    let with_pod = (bytes_in_use() - before) / pairs;
    // A slot of 40 bytes, and an entry in the set of nodes that need a pod.
    assert!(without_pod <= 90, "{without_pod} bytes for a node that needs a pod");
    assert!(with_pod <= 140, "{with_pod} bytes for a node with a pod");
}

fn running_pod(number: usize) -> Pod {
    let node = format!("node-{:05}", number % NODES);
    let pod = pod(&format!("pod-{number}"), &node);
    Pod {
        labels: with_label(&pod.labels, HASH_LABEL, "hash"),
        uid: Uid::new(&format!("00000000-0000-4000-8000-{number:012x}")),
        node_name: Some(node.as_str().into()),
        phase: PodPhase::Running,
        readiness: Readiness::ReadySince(NOW),
        restarts: 0,
        trouble: None,
        unschedulable: false,
        replacement: None,
        change: None,
        ..pod
    }
}
