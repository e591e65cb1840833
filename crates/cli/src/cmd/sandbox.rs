//! `everynode sandbox`: starts a simulated cluster and its controller, applies manifests, reports
//! their rollout, and keeps running. An error stops all parts.

mod client;
mod command;
mod controller;
mod import;
mod inputs;
mod progress;
mod report;
mod row;
mod settle;
mod summary;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use everynode_core::api::DaemonSetKey;
use everynode_sandbox::{NodeSource, Options, Sandbox};

use crate::args::{ConnectionArguments, LogLevel, SandboxArguments, Then};
use crate::input::InputFile;
use crate::{log, output, panic, signal};
use client::SandboxClient;
use controller::Controller;
use import::ClusterCopy;
use report::Report;
use settle::{Phases, PodCounts, Scope};

/// The interval at which the cluster's progress is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long the counts of DaemonSets, which may say too little, stand still before all objects are
/// read, and how long it takes until they are read again.
const CLOSE_LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// The same while the counts change: some may never stand still.
const CLOSE_LOOK_INTERVAL_MAX: Duration = Duration::from_secs(20);

/// The definitions of policies, which a sandbox has from its start.
const DEFINITIONS: [&str; 2] = [
    include_str!("../../../../deploy/policies/rollout-policies.yaml"),
    include_str!("../../../../deploy/policies/cluster-rollout-policies.yaml"),
];

/// Executes the command.
pub(crate) async fn execute(arguments: SandboxArguments) -> anyhow::Result<ExitCode> {
    log::start(&arguments.log, LogLevel::Warn);
    panic::install_hook();
    if let Err(error) = everynode_allocator::return_freed_pages() {
        tracing::warn!("freed memory stays with the process: {error}");
    }
    let stop = signal::shutdown()?;
    let read = async {
        let (nodes_from, apply) = (arguments.nodes_from.clone(), arguments.apply.clone());
        let faults = arguments.faults.clone();
        let read = move || inputs::read_all(nodes_from.as_deref(), &apply, faults.as_deref());
        let inputs = tokio::task::spawn_blocking(read).await??;
        anyhow::Ok((inputs, read_cluster(&arguments).await?))
    };
    let (inputs, copy) = tokio::select! {
        () = stop.cancelled() => return interrupted(arguments.then()),
        read = read => read?,
    };
    let started = Instant::now();
    let nodes = copy.as_ref().map(|copy| copy.nodes.clone()).or(inputs.nodes);
    let options = Options { faults: inputs.faults, ..options(&arguments, nodes) };
    let sandbox = everynode_sandbox::start(options).await.context("start the sandbox")?;
    define_policies(&sandbox)?;
    let controller = (!arguments.no_controller)
        .then(|| Controller::start(sandbox.kubeconfig_path(), &arguments));
    let main = async {
        let (copy, manifests) = (copy.as_ref(), &inputs.apply);
        tokio::select! {
            () = stop.cancelled() => return interrupted(arguments.then()),
            settled = apply_and_report(&sandbox, &arguments, copy, manifests, started) => settled?,
        }
        match arguments.then() {
            Then::KeepRunning => stop.cancelled().await,
            Then::Exit => {}
            Then::Run(command) => return command::run(command, sandbox.kubeconfig_path()).await,
        }
        Ok(ExitCode::SUCCESS)
    };
    let controller_ended = async {
        match &controller {
            Some(controller) => controller.ended().await,
            None => std::future::pending().await,
        }
    };
    let result = tokio::select! {
        error = controller_ended => Err(error),
        result = main => result,
    };
    if let Some(controller) = controller {
        controller.stop().await;
    }
    sandbox.shutdown_before_exit().await;
    result
}

/// The end by a signal before the sandbox has settled.
///
/// # Errors
/// If a script would take it for the end that it waits for.
fn interrupted(then: Then<'_>) -> anyhow::Result<ExitCode> {
    match then {
        Then::KeepRunning => Ok(ExitCode::SUCCESS),
        Then::Exit | Then::Run(_) => bail!("stopped by a signal before the sandbox had settled"),
    }
}

/// Reads the cluster of `--from-context`.
async fn read_cluster(arguments: &SandboxArguments) -> anyhow::Result<Option<ClusterCopy>> {
    let Some(context) = &arguments.from_context else { return Ok(None) };
    let connection = ConnectionArguments {
        kubeconfig: arguments.kubeconfig.clone(),
        context: Some(context.clone()),
        ..ConnectionArguments::default()
    };
    Ok(Some(ClusterCopy::read(&connection).await?))
}

/// Installs the definitions of policies, as deploy/ does in a cluster.
fn define_policies(sandbox: &Sandbox) -> anyhow::Result<()> {
    for definition in DEFINITIONS {
        sandbox.install_definition(definition).context("define the policies")?;
    }
    Ok(())
}

/// Applies the manifests, waits until the cluster has settled, and prints the summary. A copy of a
/// cluster settles first, so that the manifests change what runs there. What does not settle then
/// counts afterwards only if the manifests have changed it.
async fn apply_and_report(
    sandbox: &Sandbox,
    arguments: &SandboxArguments,
    copy: Option<&ClusterCopy>,
    manifests: &[InputFile],
    started: Instant,
) -> anyhow::Result<()> {
    let (timeout, then) = (arguments.timeout, arguments.then());
    let report = Report::before(then);
    let client = SandboxClient::connect(sandbox.kubeconfig_path(), timeout)?;
    let count = client.node_count().await?;
    let seconds = started.elapsed().as_secs_f64();
    let url = sandbox.server_url();
    report.line(format_args!("sandbox: {count} nodes at {url} after {seconds:.2} s"))?;
    let mut before = BTreeMap::new();
    if let Some(copy) = copy {
        let refused = copy.apply(sandbox)?;
        if refused > 0 && !matches!(then, Then::KeepRunning) {
            bail!("the sandbox refused {refused} objects of the cluster");
        }
        if !manifests.is_empty() {
            before = settle_copy(&client, timeout, report).await?;
            start_churn(sandbox, arguments, report)?;
        }
    }
    inputs::apply(manifests, sandbox, report)?;
    let scope = match copy {
        Some(_) if manifests.is_empty() => Scope::Copy,
        Some(_) | None => Scope::But(&before),
    };
    if let Some(missing) = settle(&client, timeout, scope, report).await? {
        if !matches!(then, Then::KeepRunning) {
            bail!("the sandbox did not settle in {timeout:?}: {missing}");
        }
        output::note(format_args!("not settled after {timeout:?}: {missing}"));
    }
    if copy.is_none() || manifests.is_empty() {
        start_churn(sandbox, arguments, report)?;
    }
    let without_nodes = client.daemon_sets_without_nodes().await?;
    for daemon_set in &without_nodes {
        output::note(daemon_set);
    }
    match then {
        Then::KeepRunning | Then::Exit => {
            let (nodes, pods) = tokio::try_join!(client.nodes(), client.pods())?;
            output::print(&format!("\n{}", summary::table(&nodes, &pods)))?;
        }
        Then::Run(_) => {}
    }
    if arguments.require_pods && !without_nodes.is_empty() {
        bail!("DaemonSets that no node should run: {}", without_nodes.len());
    }
    if matches!(then, Then::KeepRunning) {
        print_next_steps(&client, sandbox, arguments).await?;
    }
    Ok(())
}

/// Prints commands with which to go on.
async fn print_next_steps(
    client: &SandboxClient,
    sandbox: &Sandbox,
    arguments: &SandboxArguments,
) -> anyhow::Result<()> {
    let daemon_set = client.daemon_sets().await?.first().map(|daemon_set| {
        let metadata = &daemon_set.metadata;
        let [namespace, name] =
            [&metadata.namespace, &metadata.name].map(|text| text.as_deref().unwrap_or_default());
        DaemonSetKey::new(namespace, name)
    });
    let manifest = arguments.apply.iter().find(|path| path.is_file()).map(PathBuf::as_path);
    let kubeconfig = sandbox.kubeconfig_path();
    let steps = summary::next_steps(kubeconfig, daemon_set.as_ref(), manifest);
    output::print(&format!("\n{steps}"))
}

/// Starts the motion of `--churn`: when pods run everywhere, so that it meets the next change.
fn start_churn(
    sandbox: &Sandbox,
    arguments: &SandboxArguments,
    report: Report,
) -> anyhow::Result<()> {
    let Some(percent) = arguments.churn else { return Ok(()) };
    sandbox.start_churn(percent);
    report.line(format_args!("churn: {percent}% of the nodes are in motion from now on"))
}

/// Waits until a copied cluster has settled. Returns the DaemonSets that have not, as nothing has
/// changed yet, with the generations of their specs.
async fn settle_copy(
    client: &SandboxClient,
    timeout: Duration,
    report: Report,
) -> anyhow::Result<BTreeMap<DaemonSetKey, i64>> {
    if let Some(missing) = settle(client, timeout, Scope::Copy, report).await? {
        output::note(format_args!("the copy has not settled after {timeout:?}: {missing}"));
    }
    let (daemon_sets, phases) = tokio::try_join!(client.daemon_sets(), client.phases())?;
    let none = BTreeMap::new();
    let open = settle::unsettled_daemon_sets(&daemon_sets, &phases, Scope::But(&none));
    Ok(open.into_iter().map(|open| (open.key, open.generation)).collect())
}

/// Shows progress until what has to settle has settled. Returns what is missing after the timeout.
async fn settle(
    client: &SandboxClient,
    timeout: Duration,
    scope: Scope<'_>,
    report: Report,
) -> anyhow::Result<Option<String>> {
    let started = Instant::now();
    let mut display = progress::ProgressDisplay::new();
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut last_counts, mut still_since) = (PodCounts::default(), started);
    let mut looked_closely_at = started;
    loop {
        ticks.tick().await;
        let daemon_sets = client.daemon_sets().await?;
        let counts = settle::pod_counts(&daemon_sets);
        display.update(counts);
        if counts != last_counts {
            (last_counts, still_since) = (counts, Instant::now());
        }
        let is_last = started.elapsed() >= timeout;
        let mut open = settle::unsettled_daemon_sets(&daemon_sets, &Phases::new(), scope);
        let is_due = is_last
            || still_since.elapsed() >= CLOSE_LOOK_INTERVAL
            || looked_closely_at.elapsed() >= CLOSE_LOOK_INTERVAL_MAX;
        if !open.is_empty() && is_due {
            (still_since, looked_closely_at) = (Instant::now(), Instant::now());
            open = settle::unsettled_daemon_sets(&daemon_sets, &client.phases().await?, scope);
        }
        let mut missing: Vec<String> = open.into_iter().map(|open| open.phrase).collect();
        if missing.is_empty() {
            missing = settle::unready_nodes(&client.nodes().await?);
        }
        if missing.is_empty() {
            display.finish();
            let seconds = started.elapsed().as_secs_f64();
            let pods = counts.available;
            report.line(format_args!("settled: {pods} pods available after {seconds:.2} s"))?;
            return Ok(None);
        }
        if is_last {
            display.finish();
            let pods = client.pods().await?;
            return Ok(Some(settle::summary(&missing, settle::unready_pods(&pods).first())));
        }
    }
}

fn options(arguments: &SandboxArguments, nodes: Option<InputFile>) -> Options {
    let nodes = match nodes {
        Some(InputFile { name, text }) => NodeSource::Listed { name, text },
        None => NodeSource::Generated { nodes: arguments.nodes, zones: arguments.zones },
    };
    Options {
        nodes,
        listen: arguments.listen,
        kubeconfig_out: arguments.kubeconfig_out.clone(),
        seed: arguments.seed,
        watch_window: arguments.watch_window,
        api_server_lags: arguments.api_server_lags.clone(),
        lifecycles: arguments.lifecycles.clone(),
        ..Options::default()
    }
}
