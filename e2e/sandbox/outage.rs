//! Connections that break, hang and go half silent in the middle of a rollout, and a server that has forgotten what happened
//! meanwhile: nothing is missed, nothing is done twice.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::leader::{another_leads, holder};
use super::separate_process::run;
use crate::observe::{Limits, Observer, node_of};
use crate::world::cable::{Cable, Condition};
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch};
use crate::world::process::Process;
use crate::world::{Setup, World, eventually};

const ONE_BY_ONE: Limits = Limits { pods_per_node_max: 1, nodes_down_max: 1 };

/// A cluster without a controller, and a cable to it.
async fn wired(nodes: usize, arguments: &[&str]) -> Result<Option<(World, Cable)>> {
    let setup = Setup { nodes, controller: false, arguments };
    let Some(world) = World::sandbox(setup).await? else { return Ok(None) };
    let cable = Cable::to(&world.kubeconfig).await?;
    Ok(Some((world, cable)))
}

/// A controller at the other end of the cable.
fn run_over(cable: &Cable, world: &World, arguments: &[&str]) -> Result<Process> {
    let kubeconfig = cable.kubeconfig(&world.kubeconfig)?;
    let arguments: Vec<&str> = ["run"].into_iter().chain(arguments.iter().copied()).collect();
    Process::everynode_with(world.directory.path(), "run", &arguments, Some(&kubeconfig))
}

async fn updated(world: &World) -> Result<i32> {
    let status = world.daemon_sets().get("a").await?.status.unwrap_or_default();
    Ok(status.updated_number_scheduled.unwrap_or(0))
}

/// C1, C34, C60, C62: connections that are reset, or half closed, again and again during a rollout cost neither a pod nor
/// a second one
#[tokio::test]
async fn a_rollout_survives_connections_that_break_again_and_again() -> Result<()> {
    let Some((world, cable)) = wired(8, &[]).await? else { return Ok(()) };
    let mut controller = run_over(&cable, &world, &["--leader-elect=false"])?;
    world.roll_out(&daemon_set("a")).await?;
    let observer = Observer::start(&world, "a", ONE_BY_ONE).await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    for (index, condition) in
        [Condition::Cut, Condition::HalfClosed].into_iter().cycle().take(6).enumerate()
    {
        let progress = i32::try_from(index)? + 1;
        eventually("the rollout goes on", async || {
            let updated = updated(&world).await?;
            ensure!(updated >= progress, "{updated} pods are new");
            Ok(())
        })
        .await
        .with_context(|| controller.output())?;
        cable.strike(condition);
    }
    world.settled("a").await?;
    let report = observer.finish().await?;
    ensure!(report.created.len() == 8, "{} pods were created for 8 nodes", report.created.len());
    controller.check_running()
}

/// C1, C16, C23, C60: what happens while the server can't be reached is made up for: nodes gone and new, pods deleted,
/// DaemonSets made, even if it is more than the server remembers (410 Gone)
#[tokio::test]
async fn what_happened_during_an_outage_is_made_up_for() -> Result<()> {
    let window = ["--watch-window=30"];
    for (arguments, forgets) in [(&[][..], false), (&window[..], true)] {
        let Some((world, cable)) = wired(5, arguments).await? else { return Ok(()) };
        let flags = ["--leader-elect=false", "--log-level=debug"];
        let mut controller = run_over(&cable, &world, &flags)?;
        world.roll_out(&daemon_set("a")).await?;
        cable.break_for_now(Condition::Cut);
        meanwhile(&world, if forgets { 40 } else { 1 }).await?;
        cable.mend();
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

/// Changes of all four kinds, so many times that the window of each has passed.
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

/// C63: a leader to whom the server does not speak any more gives up; the standby goes on, and the rollout loses nothing
#[tokio::test]
async fn a_leader_whose_connections_hang_gives_up() -> Result<()> {
    let Some((world, cable)) = wired(8, &[]).await? else { return Ok(()) };
    let flags = [
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=300ms",
    ];
    let mut first = run_over(&cable, &world, &flags)?;
    let leader = holder(&world).await?;
    world.roll_out(&daemon_set("a")).await?;
    let observer = Observer::start(&world, "a", ONE_BY_ONE).await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    let mut second = run(&world, &flags)?;
    cable.break_for_now(Condition::Clamped);
    let (status, _) = first.ended().await?;
    ensure!(!status.success() && first.output().contains("no longer leading"), "{status}");
    another_leads(&world, &leader).await?;
    world.settled("a").await?;
    observer.finish().await?;
    second.check_running()
}

/// C1, C62: connections that hang for ever are given up for new ones
#[tokio::test]
async fn connections_that_hang_are_given_up() -> Result<()> {
    let Some((world, cable)) = wired(3, &[]).await? else { return Ok(()) };
    let mut controller = run_over(&cable, &world, &["--leader-elect=false"])?;
    world.roll_out(&daemon_set("a")).await?;
    let observer = Observer::start(&world, "a", ONE_BY_ONE).await?;
    cable.strike(Condition::Clamped);
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    world.settled("a").await.with_context(|| controller.output())?;
    let report = observer.finish().await?;
    ensure!(report.created.len() == 3, "{} pods were created for 3 nodes", report.created.len());
    controller.check_running()
}
