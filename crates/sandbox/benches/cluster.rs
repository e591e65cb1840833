//! Measures the simulated cluster without HTTP and without a controller (S25).
//!
//! One pod per node and DaemonSet is created as a controller would create it. Then time jumps from
//! deadline to deadline for the two seconds in which all pods become ready.
//!
//! `cargo bench -p everynode-sandbox --bench cluster [-- NODES DAEMONSETS]`

#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use std::time::{Duration, Instant};

use everynode_core::api::Timestamp;
use everynode_sandbox::cluster::lifecycle::Lifecycles;
use everynode_sandbox::cluster::{Cluster, STEP_MAX, Settings};
use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kinds::POD;
use everynode_sandbox::nodes;
use everynode_sandbox::registry::Registry;
use everynode_sandbox::store::{Options, WriteOptions};

const START: Timestamp = Timestamp(1_767_225_600_000);
/// The time in which all pods become ready in the default lifecycle.
const READY_MS: i64 = 2_000;
/// Key and effect of the tolerations of a DaemonSet's pod.
const TOLERATIONS: [(&str, &str); 7] = [
    ("node-role.kubernetes.io/control-plane", "NoSchedule"),
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

fn main() {
    let sizes: Vec<u32> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    println!(
        "{:>6} {:>10} | {:>9} {:>9} {:>9} {:>10} | {:>15} | {:>9}",
        "nodes",
        "daemonsets",
        "start",
        "create",
        "to ready",
        "writes/s",
        "idle, per minute",
        "peak RSS"
    );
    match sizes[..] {
        [nodes, sets] => measure(nodes, sets),
        _ => {
            for (nodes, sets) in [(10, 1), (1_000, 1), (5_000, 1), (10_000, 3)] {
                measure(nodes, sets);
            }
        }
    }
}

fn measure(nodes: u32, sets: u32) {
    let (mut cluster, start) = timed(|| start(nodes));
    let written = cluster.store().resource_version();
    let ((), create) = timed(|| create(&mut cluster, nodes, sets));
    let mut now = START;
    let ((), ready) = timed(|| run_for(&mut cluster, &mut now, READY_MS));
    assert_all_ready(&cluster, nodes * sets);
    let writes = cluster.store().resource_version() - written;
    let ((), idle) = timed(|| run_for(&mut cluster, &mut now, 60_000));
    println!(
        "{nodes:>6} {sets:>10} | {:>9} {:>9} {:>9} {:>10.0} | {:>16} | {:>9}",
        ms(start),
        ms(create),
        ms(ready),
        writes as f64 / (create + ready).as_secs_f64(),
        ms(idle),
        peak_memory(),
    );
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    (work(), start.elapsed())
}

fn ms(duration: Duration) -> String {
    format!("{:.0} ms", duration.as_secs_f64() * 1000.0)
}

fn start(count: u32) -> Cluster {
    let registry = Registry::new(&Options::default(), START);
    let mut cluster = Cluster::new(registry, Settings::default(), Lifecycles::built_in(), START);
    let made = nodes::generate(count, 3).expect("the sizes are possible");
    cluster.add_nodes(made, START).expect("the nodes are valid");
    cluster.settle(START);
    cluster
}

fn create(cluster: &mut Cluster, nodes: u32, sets: u32) {
    for set in 0..sets {
        for node in 1..=nodes {
            let pod = pod(set, node);
            let options = WriteOptions::at(START);
            cluster.registry_mut().create(&POD, "kube-system", pod, &options).expect("a valid pod");
            cluster.step(START, STEP_MAX);
        }
    }
}

fn run_for(cluster: &mut Cluster, now: &mut Timestamp, ms: i64) {
    let end = now.0 + ms;
    while let Some(next) = cluster.settle(*now).filter(|next| next.0 <= end) {
        *now = next;
    }
}

fn assert_all_ready(cluster: &Cluster, pods: u32) {
    let is_ready = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
    };
    let ready = cluster.store().iter(&POD, None).filter(|pod| is_ready(&pod.read())).count();
    assert_eq!(ready, pods as usize, "ready after {READY_MS} ms");
}

/// A pod of a DaemonSet `agent-<set>` on one node, as the DaemonSet controller creates it.
fn pod(set: u32, node: u32) -> Value {
    let node_name = format!("node-{node:04}");
    let tolerations = TOLERATIONS
        .map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect}));
    json!({
        "metadata": {
            "generateName": format!("agent-{set}-"),
            "labels": {
                "name": format!("agent-{set}"),
                "controller-revision-hash": "5d8f6c9b7c",
                "pod-template-generation": "1",
            },
        },
        "spec": {
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": [node_name]},
                ]}],
            }}},
            "containers": [{
                "name": "agent",
                "image": "quay.io/fluentd_elasticsearch/fluentd:v5.0.1",
                "resources": {
                    "limits": {"memory": "200Mi"}, "requests": {"cpu": "100m", "memory": "200Mi"},
                },
                "volumeMounts": [{"name": "varlog", "mountPath": "/var/log"}],
            }],
            "terminationGracePeriodSeconds": 30,
            "tolerations": tolerations,
            "volumes": [{"name": "varlog", "hostPath": {"path": "/var/log"}}],
        },
    })
}

/// The largest resident memory of the process so far.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes: u64 =
        line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0);
    format!("{} MiB", kilobytes / 1024)
}
