//! Pausing a rollout by annotation, by `everynode rollout`, and while the template is wrong.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::observe::uids;
use crate::world::command::Output;
use crate::world::manifest::{IMAGE, NEXT_IMAGE, daemon_set, image_patch, with};
use crate::world::pod::{is_available, name_of};
use crate::world::process::EVERYNODE;
use crate::world::{World, eventually};

const PAUSED: &str = "everynode.dev/paused";

/// G6, G21, G22: a rollout that is paused half-way replaces no further pod, says so in the
/// DaemonSet's conditions and in every command, and goes on when it is resumed
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_paused_half_way_and_resumed() -> Result<()> {
    let world = World::cluster(5).await?;
    // Each new pod takes some seconds to be available, so that there is time to pause.
    let slow = with(daemon_set("agent"), json!({"spec": {"minReadySeconds": 4}}));
    world.roll_out(&slow).await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    eventually("a pod of the new template runs", async || {
        let images = images(&world, "agent").await?;
        ensure!(images.contains(NEXT_IMAGE), "{images:?}");
        Ok(())
    })
    .await?;
    let paused = everynode(&world, &["rollout", "pause", "ds/agent"]).await?;
    ensure!(paused.code == 0, "{paused:?}");
    eventually("every pod is available", async || all_available(&world, "agent").await).await?;
    let before = uids(&world, "agent").await?;
    let both = BTreeSet::from([IMAGE.to_owned(), NEXT_IMAGE.to_owned()]);
    ensure!(images(&world, "agent").await? == both, "it was not paused half-way");
    let status = everynode(&world, &["status", "ds/agent", "--fail-fast"]).await?;
    ensure!(status.code == 5 && status.stdout.contains("paused: "), "{status:?}");
    let top = everynode(&world, &["top", "-o", "json"]).await?.ok()?;
    ensure!(top.contains(r#""phase": "paused""#), "{top}");
    let explained = everynode(&world, &["explain", "ds/agent"]).await?.ok()?;
    ensure!(explained.contains("the rollout is paused"), "{explained}");
    let conditions = conditions(&world, "agent").await?;
    ensure!(conditions["Progressing"] == "Paused", "{conditions}");
    ensure!(uids(&world, "agent").await? == before, "a pod was replaced");
    everynode(&world, &["rollout", "resume", "ds/agent"]).await?.ok()?;
    world.settled("agent").await?;
    ensure!(images(&world, "agent").await? == BTreeSet::from([NEXT_IMAGE.to_owned()]), "old pods");
    let after = self::conditions(&world, "agent").await?;
    ensure!(after.get("Progressing").is_none(), "{after}");
    Ok(())
}

/// G1, G6, G16: behind a pause, a template whose node selector matches no node deletes nothing, and
/// a node that loses its pod gets the last revision that was rolled out
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_node_selector_behind_a_pause_empties_no_node() -> Result<()> {
    let world = World::cluster(4).await?;
    world.roll_out(&daemon_set("agent")).await?;
    let before = uids(&world, "agent").await?;
    world.kubectl(&["annotate", "ds/agent", &format!("{PAUSED}=true")]).await?;
    let wrong = json!({"spec": {"template": {"spec": {
        "nodeSelector": {"everynode.dev/no-such-label": "x"} }}}});
    let changed = world.patch_daemon_set("agent", wrong).await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    eventually("the new template is observed", async || {
        let observed = world.daemon_sets().get("agent").await?;
        let observed = observed.status.and_then(|status| status.observed_generation);
        ensure!(observed > changed.metadata.generation, "{observed:?}");
        Ok(())
    })
    .await?;
    ensure!(uids(&world, "agent").await? == before, "a pod was deleted");
    let lost = world.pods_of("agent").await?.first().map(name_of).unwrap_or_default();
    world.kubectl(&["delete", "pod", &lost]).await?;
    eventually("the node has a pod again", async || {
        let pods = uids(&world, "agent").await?;
        ensure!(pods.len() == before.len() && pods != before, "{pods:?}");
        all_available(&world, "agent").await
    })
    .await?;
    let images = images(&world, "agent").await?;
    ensure!(images == BTreeSet::from([IMAGE.to_owned()]), "{images:?}");
    Ok(())
}

async fn everynode(world: &World, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(EVERYNODE);
    command.args(arguments).args(["--namespace", &world.namespace]);
    world.finish(command, "").await
}

async fn images(world: &World, name: &str) -> Result<BTreeSet<String>> {
    let pods = world.pods_of(name).await?;
    let specs = pods.into_iter().filter_map(|pod| pod.spec);
    Ok(specs.flat_map(|spec| spec.containers).filter_map(|container| container.image).collect())
}

async fn all_available(world: &World, name: &str) -> Result<()> {
    let ds = world.daemon_sets().get(name).await?;
    let min_ready_seconds = ds.spec.and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    let pods = world.pods_of(name).await?;
    let available = pods.iter().filter(|pod| is_available(pod, min_ready_seconds)).count();
    let desired = usize::try_from(ds.status.unwrap_or_default().desired_number_scheduled)?;
    ensure!(available == desired && pods.len() == desired, "{available} of {desired}");
    Ok(())
}

/// The reasons of the DaemonSet's conditions by their types.
async fn conditions(world: &World, name: &str) -> Result<Value> {
    let status = world.daemon_sets().get(name).await?.status.unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default().into_iter();
    Ok(conditions.map(|condition| (condition.type_, json!(condition.reason))).collect())
}
