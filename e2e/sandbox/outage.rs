//! Connections that break, hang and are half closed during a rollout, and a server that no longer
//! has the changes of that time: nothing is missed, and nothing is done twice.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::leader::{another_leads, holder};
use super::separate_process::run;
use crate::observe::{Limits, Observer};
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch};
use crate::world::pod::node_of;
use crate::world::process::{Process, SHORT_PINGS};
use crate::world::tcp_proxy::{Condition, TcpProxy};
use crate::world::{Setup, World, eventually};

/// A cluster without a controller, and a TCP proxy to it.
async fn wired(nodes: usize, arguments: &[&str]) -> Result<(World, TcpProxy)> {
    let setup = Setup { nodes, controller: false, arguments };
    let world = World::sandbox(setup).await?;
    let proxy = TcpProxy::to(&world.kubeconfig).await?;
    Ok((world, proxy))
}

/// A controller behind the proxy.
fn run_over(proxy: &TcpProxy, world: &World, arguments: &[&str]) -> Result<Process> {
    let kubeconfig = proxy.kubeconfig(&world.kubeconfig)?;
    let arguments = [&["run"], &SHORT_PINGS[..], arguments].concat();
    Process::everynode_with(world.directory.path(), "run", &arguments, Some(&kubeconfig))
}

async fn updated(world: &World) -> Result<i32> {
    let status = world.daemon_sets().get("a").await?.status.unwrap_or_default();
    Ok(status.updated_number_scheduled.unwrap_or(0))
}

/// C1, C34, C60, C62: connections that are reset or half closed repeatedly during a rollout cause
/// neither missing nor duplicate pods
#[tokio::test]
async fn a_rollout_survives_connections_that_break_repeatedly() -> Result<()> {
    rollout_over_breaking_connections(&[]).await
}

/// C1, C34, C60: the same if each new connection reaches another of three API servers, two of
/// which are a second behind
#[tokio::test]
async fn a_rollout_survives_api_servers_that_lag() -> Result<()> {
    rollout_over_breaking_connections(&["--api-server-lags=0s,1s,1s"]).await
}

async fn rollout_over_breaking_connections(arguments: &[&str]) -> Result<()> {
    let (world, proxy) = wired(8, arguments).await?;
    let mut controller = run_over(&proxy, &world, &["--leader-elect=false"])?;
    world.roll_out(&daemon_set("a")).await?;
    let observer = Observer::start(&world, "a", Limits::ONE_BY_ONE).await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    for (index, condition) in
        [Condition::Reset, Condition::HalfClosed].into_iter().cycle().take(6).enumerate()
    {
        let progress = i32::try_from(index)? + 1;
        eventually("the rollout continues", async || {
            let updated = updated(&world).await?;
            ensure!(updated >= progress, "{updated} pods are new");
            Ok(())
        })
        .await
        .with_context(|| controller.output())?;
        proxy.break_existing(condition);
    }
    world.settled("a").await?;
    let report = observer.finish().await?;
    ensure!(report.created.len() == 8, "{} pods were created for 8 nodes", report.created.len());
    controller.check_running()
}

/// C1, C16, C23, C60: the controller catches up on changes during an outage (nodes deleted and
/// created, pods deleted, DaemonSets created), even if they exceed the server's history (410 Gone)
#[tokio::test]
async fn changes_during_an_outage_are_caught_up() -> Result<()> {
    let window = ["--watch-window=30"];
    for (arguments, forgets) in [(&[][..], false), (&window[..], true)] {
        let (world, proxy) = wired(5, arguments).await?;
        let flags = ["--leader-elect=false", "--log-level=debug"];
        let mut controller = run_over(&proxy, &world, &flags)?;
        world.roll_out(&daemon_set("a")).await?;
        proxy.break_all(Condition::Reset);
        meanwhile(&world, if forgets { 40 } else { 1 }).await?;
        proxy.restore();
        world.settled("a").await.with_context(|| controller.output())?;
        world.settled("b").await.with_context(|| controller.output())?;
        one_pod_on_each_node(&world, "a").await?;
        one_pod_on_each_node(&world, "b").await?;
        let has_expired = controller.output().contains("too old resource version");
        ensure!(has_expired == forgets, "410: {has_expired}\n{}", controller.output());
        controller.check_running()?;
    }
    Ok(())
}

/// Changes all four kinds until the history of each no longer has the first change.
async fn meanwhile(world: &World, times: usize) -> Result<()> {
    let nodes = World::node_names(&world.list_nodes().await?);
    let pods = world.pods_of("a").await?;
    world.nodes().delete(&nodes[0], &DeleteParams::default()).await?;
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "newcomer"}}))?;
    world.nodes().create(&PostParams::default(), &node).await?;
    let victim = pods.iter().find(|pod| node_of(pod) == nodes[1]).context("a pod")?;
    let victim = victim.metadata.name.clone().context("a name")?;
    world.pods().delete(&victim, &DeleteParams::default()).await?;
    world.create_daemon_set(&daemon_set("b")).await?;
    let revisions = world.revisions().list(&Default::default()).await?.items;
    let revision = revisions[0].metadata.name.clone().context("a name")?;
    let other = pods.iter().find(|pod| node_of(pod) == nodes[2]).context("a pod")?;
    let other = other.metadata.name.clone().context("a name")?;
    let parameters = PatchParams::default();
    for time in 0..times {
        let touched: Value = json!({"metadata": {"annotations": {"touched": time.to_string()}}});
        let touched = Patch::Merge(touched);
        world.nodes().patch(&nodes[3], &parameters, &touched).await?;
        world.pods().patch(&other, &parameters, &touched).await?;
        world.revisions().patch(&revision, &parameters, &touched).await?;
        world.daemon_sets().patch("b", &parameters, &touched).await?;
    }
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    Ok(())
}

async fn one_pod_on_each_node(world: &World, name: &str) -> Result<()> {
    let nodes = World::node_names(&world.list_nodes().await?);
    eventually("each node has its pod", async || {
        let mut found: Vec<String> = world.pods_of(name).await?.iter().map(node_of).collect();
        found.sort();
        ensure!(found == nodes, "{name} has pods on {found:?}, not on {nodes:?}");
        Ok(())
    })
    .await
}

/// C63: a leader that gets no answers gives up; the standby continues, and the rollout loses
/// nothing
#[tokio::test]
async fn a_leader_whose_connections_hang_gives_up() -> Result<()> {
    let (world, proxy) = wired(8, &[]).await?;
    let flags = [
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=300ms",
    ];
    let mut first = run_over(&proxy, &world, &flags)?;
    let leader = holder(&world).await?;
    world.roll_out(&daemon_set("a")).await?;
    let observer = Observer::start(&world, "a", Limits::ONE_BY_ONE).await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    let mut second = run(&world, &flags)?;
    proxy.break_all(Condition::Stalled);
    let (status, _) = first.ended().await?;
    ensure!(!status.success() && first.output().contains("no longer leading"), "{status}");
    another_leads(&world, &leader).await?;
    world.settled("a").await?;
    observer.finish().await?;
    second.check_running()
}

/// C1, C62: connections that hang are replaced by new ones
#[tokio::test]
async fn connections_that_hang_are_replaced() -> Result<()> {
    let (world, proxy) = wired(3, &[]).await?;
    let mut controller = run_over(&proxy, &world, &["--leader-elect=false"])?;
    world.roll_out(&daemon_set("a")).await?;
    let observer = Observer::start(&world, "a", Limits::ONE_BY_ONE).await?;
    proxy.break_existing(Condition::Stalled);
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    world.settled("a").await.with_context(|| controller.output())?;
    let report = observer.finish().await?;
    ensure!(report.created.len() == 3, "{} pods were created for 3 nodes", report.created.len());
    controller.check_running()
}
