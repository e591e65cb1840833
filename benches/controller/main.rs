//! The cost of the controller's process with the sandbox over HTTPS (C80): placement, rolling
//! updates, idling, restart. CPU is user and system time of the controller only, so that other load
//! on the machine affects only the wall time.
//!
//! `cargo bench -p everynode-cli --bench controller [-- CASE…]`, a case being `NODESxDAEMONSETS`,
//! e.g. `1000x1`, with `+30` for thirty pods of other owners on every node, and `@1,10%` for the
//! values of maxUnavailable to roll out at.

#![forbid(unsafe_code)]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

#[path = "../agent.rs"]
mod agent;
mod case;
mod cluster;
mod process;
#[path = "../sandbox.rs"]
mod sandbox;
mod table;

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use case::Case;
use cluster::Cluster;
use process::Controller;
use sandbox::Sandbox;
use table::Row;

/// The default cases.
const CASES: &[&str] =
    &["1000x1@10%,1", "5000x1@10%,1", "10000x1@10%,1", "5000x1+30@10%,1", "1000x100@10%"];
/// The period for which the idle controller is measured.
const IDLE: Duration = Duration::from_secs(20);
/// The time after its readiness at which a restarted controller is measured.
const AFTER_RESTART: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let asked: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let cases: Vec<Case> = match asked.is_empty() {
        true => CASES.iter().map(|text| Case::parse(text)).collect::<anyhow::Result<_>>()?,
        false => asked.iter().map(|text| Case::parse(text)).collect::<anyhow::Result<_>>()?,
    };
    table::print_machine();
    table::print_header();
    for case in cases {
        measure(&case).await.with_context(|| format!("case {case}"))?;
    }
    Ok(())
}

/// Measures one case, from an empty cluster to a restart with all pods placed.
async fn measure(case: &Case) -> anyhow::Result<()> {
    let sandbox = Sandbox::start(&["--no-controller", "--nodes", &case.nodes.to_string()])?;
    let cluster = Cluster::connect(sandbox.kubeconfig()).await?;
    cluster.create_namespace().await?;
    if case.foreign_per_node > 0 {
        let pods = cluster.create_foreign_pods(case.nodes, case.foreign_per_node).await?;
        println!("# {case}: {pods} pods of other owners are there");
    }
    let controller = Controller::start(sandbox.kubeconfig()).await?;
    let phase = Phase::begin(case, &controller)?;
    cluster.create_daemon_sets(case.daemon_sets).await?;
    cluster.wait_until_settled(case, "place").await?;
    phase.end("place", &controller)?;
    for (round, max_unavailable) in case.rollouts.iter().enumerate() {
        let phase = Phase::begin(case, &controller)?;
        cluster.roll_out(case.daemon_sets, round + 1, max_unavailable).await?;
        let name = format!("update at {max_unavailable}");
        cluster.wait_until_settled(case, &name).await?;
        phase.end(&name, &controller)?;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    measure_idle(case, &controller).await?;
    drop(controller);
    let controller = Controller::start(sandbox.kubeconfig()).await?;
    tokio::time::sleep(AFTER_RESTART).await;
    let usage = controller.usage()?;
    table::print_row(&Row {
        case,
        phase: "restart",
        pods: case.pods(),
        wall: controller.time_to_ready(),
        cpu: usage.cpu,
        usage,
    });
    let pods = case.pods() + case.nodes * case.foreign_per_node;
    let found = cluster.pod_count().await?;
    ensure!(found == u64::from(pods), "{found} pods are there at the end, not {pods}");
    Ok(())
}

async fn measure_idle(case: &Case, controller: &Controller) -> anyhow::Result<()> {
    let before = controller.run_time()?;
    tokio::time::sleep(IDLE).await;
    let cpu = controller.run_time()?.saturating_sub(before);
    let usage = controller.usage()?;
    table::print_row(&Row { case, phase: "idle", pods: 0, wall: IDLE, cpu, usage });
    Ok(())
}

struct Phase<'a> {
    case: &'a Case,
    started: Instant,
    cpu: Duration,
}

impl<'a> Phase<'a> {
    fn begin(case: &'a Case, controller: &Controller) -> anyhow::Result<Self> {
        Ok(Self { case, started: Instant::now(), cpu: controller.usage()?.cpu })
    }

    fn end(self, phase: &str, controller: &Controller) -> anyhow::Result<()> {
        let wall = self.started.elapsed();
        let usage = controller.usage()?;
        let (case, pods, cpu) = (self.case, self.case.pods(), usage.cpu - self.cpu);
        table::print_row(&Row { case, phase, pods, wall, cpu, usage });
        Ok(())
    }
}
