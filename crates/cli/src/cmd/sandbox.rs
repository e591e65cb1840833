//! `everynode sandbox`: starts the cluster and its controller, applies manifests, shows them settle, and stays up. Whatever
//! goes wrong stops all of it: nothing is left running.

mod cluster;
mod controller;
mod manifest;
mod progress;
mod settle;
mod summary;

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use everynode_sandbox::{NodeSource, Options, Sandbox};

use crate::args::{LogLevel, SandboxArguments};
use crate::{log, output, panic, signal};
use cluster::Cluster;
use controller::Controller;
use manifest::{Manifest, Manifests};

/// How often the cluster is asked how far it is.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub async fn execute(arguments: SandboxArguments) -> anyhow::Result<()> {
    log::start(&arguments.log, LogLevel::Warn);
    panic::ends_the_process();
    let stop = signal::shutdown()?;
    let (nodes_from, apply) = (arguments.nodes_from.clone(), arguments.apply.clone());
    let faults = arguments.faults.clone();
    let read = move || manifest::read_all(nodes_from.as_deref(), &apply, faults.as_deref());
    let Manifests { nodes, apply: manifests, faults } = tokio::select! {
        () = stop.cancelled() => return Ok(()),
        manifests = tokio::task::spawn_blocking(read) => manifests??,
    };
    let started = Instant::now();
    let options = Options { faults, ..options(&arguments, nodes) };
    let sandbox = everynode_sandbox::start(options).await.context("start the sandbox")?;
    let controller =
        (!arguments.no_controller).then(|| Controller::start(sandbox.kubeconfig_path()));
    let stay = !arguments.exit_when_settled;
    let driven = async {
        drive(&sandbox, &arguments, &manifests, started).await?;
        if stay { std::future::pending().await } else { Ok(()) }
    };
    let controller_ended = async {
        match &controller {
            Some(controller) => controller.ended().await,
            None => std::future::pending().await,
        }
    };
    let result = tokio::select! {
        () = stop.cancelled() => Ok(()),
        error = controller_ended => Err(error),
        result = driven => result,
    };
    if let Some(controller) = controller {
        controller.stop().await;
    }
    sandbox.shutdown().await;
    result
}

/// From the sandbox being up to the summary.
async fn drive(
    sandbox: &Sandbox,
    arguments: &SandboxArguments,
    manifests: &[Manifest],
    started: Instant,
) -> anyhow::Result<()> {
    let cluster = Cluster::connect(sandbox.kubeconfig_path(), arguments.timeout)?;
    let nodes = cluster.nodes().await?;
    let seconds = started.elapsed().as_secs_f64();
    let (count, url) = (nodes.len(), sandbox.server_url());
    output::print(&format!("sandbox: {count} nodes at {url} after {seconds:.2} s\n"))?;
    for manifest in manifests {
        manifest.apply(sandbox)?;
    }
    let settled = settle(&cluster, arguments.timeout).await?;
    let (nodes, pods) = (cluster.nodes().await?, cluster.pods().await?);
    if let Some(missing) = settled {
        let missing = settle::tell(&missing, settle::unready_pods(&pods).first());
        let timeout = arguments.timeout;
        if arguments.exit_when_settled {
            bail!("the sandbox did not settle in {timeout:?}: {missing}");
        }
        output::note(format_args!("not settled after {timeout:?}: {missing}"));
    }
    output::print(&format!("\n{}", summary::table(&nodes, &pods)))?;
    if !arguments.exit_when_settled {
        output::print(&format!("\n{}", summary::next_steps(sandbox.kubeconfig_path())))?;
    }
    Ok(())
}

/// Shows progress until all is settled (`None`) or time is up (what is missing).
async fn settle(cluster: &Cluster, timeout: Duration) -> anyhow::Result<Option<Vec<String>>> {
    let started = Instant::now();
    let mut display = progress::Display::new();
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let daemon_sets = cluster.daemon_sets().await?;
        let progress = settle::progress(&daemon_sets);
        display.update(progress);
        let mut missing = settle::unsettled_daemon_sets(&daemon_sets);
        if missing.is_empty() {
            missing = settle::unready_nodes(&cluster.nodes().await?);
        }
        if missing.is_empty() {
            display.finish();
            let seconds = started.elapsed().as_secs_f64();
            let pods = progress.available;
            output::print(&format!("settled: {pods} pods available after {seconds:.2} s\n"))?;
            return Ok(None);
        }
        if started.elapsed() >= timeout {
            display.finish();
            return Ok(Some(missing));
        }
    }
}

fn options(arguments: &SandboxArguments, nodes: Option<Manifest>) -> Options {
    let nodes = match nodes {
        Some(Manifest { name, text }) => NodeSource::Listed { name, text },
        None => NodeSource::Generated { nodes: arguments.nodes, zones: arguments.zones },
    };
    Options {
        nodes,
        listen: arguments.listen,
        kubeconfig_out: arguments.kubeconfig_out.clone(),
        seed: arguments.seed,
        watch_window: arguments.watch_window,
        lifecycles: arguments.lifecycles.clone(),
        ..Options::default()
    }
}
