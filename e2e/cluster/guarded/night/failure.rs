//! Rollouts that fail because new pods are not ready within half a minute: with surge, and with a
//! fix.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::super::zones::updated_nodes;
use crate::observe::{Limits, Observer, same_pods, uids};
use crate::world::guard::{guarded, image_of};
use crate::world::manifest::{IMAGE, NEXT_IMAGE, image_patch, never_ready_patch, with};
use crate::world::pod::node_of;
use crate::world::{World, deadline, eventually, within};

/// G3, G14, G15, G16: with maxSurge a failing canary goes back by itself, though nobody writes the
/// spec; its old pod has served all the time, and is not replaced
#[tokio::test(flavor = "multi_thread")]
async fn with_surge_a_failing_canary_goes_back_without_an_interruption() -> Result<()> {
    let world = World::cluster(4).await?;
    let policy = "{steps: [{name: canary, upTo: [1]}], failure: {readyWithin: 30s, \
                  rollbackAfter: 0s}}";
    let surge = json!({"spec": {"updateStrategy": {"rollingUpdate": {
        "maxSurge": 1, "maxUnavailable": 0}}}});
    world.roll_out(&with(guarded("agent", policy), surge)).await?;
    world.reaches("agent", "Complete").await?;
    let before = uids(&world, "agent").await?;
    let observer = Observer::start(&world, "agent", Limits::with_surge(0)).await?;
    let changed = world.patch_daemon_set("agent", never_ready_patch()).await?;
    fails(&world).await?;
    eventually("only the old pods are left", async || world.all_available("agent").await).await?;
    same_pods(&world, "agent", &before).await?;
    let after = world.daemon_sets().get("agent").await?;
    ensure!(after.metadata.generation == changed.metadata.generation, "the spec is written");
    let report = observer.finish().await?;
    ensure!(report.created.len() == 1, "not one node got a new pod: {report:?}");
    Ok(())
}

/// G11, G12, G15, G21: without `rollbackAfter` a failed canary keeps its broken pod; a fix goes to
/// that node first, and then to all
#[tokio::test(flavor = "multi_thread")]
async fn a_fix_replaces_what_is_broken_first() -> Result<()> {
    let world = World::cluster(4).await?;
    let policy =
        "{steps: [{name: canary, upTo: [1], approval: true}], failure: {readyWithin: 30s}}";
    world.roll_out(&guarded("agent", policy)).await?;
    world.reaches("agent", "Complete").await?;
    world.patch_daemon_set("agent", never_ready_patch()).await?;
    fails(&world).await?;
    world.shows_health("agent", "Degraded").await?;
    let pods = world.pods_of("agent").await?;
    let broken: Vec<String> =
        pods.iter().filter(|pod| image_of(pod) != IMAGE).map(node_of).collect();
    ensure!(broken.len() == 1, "broken pods are on {broken:?}");
    let status = world.everynode(&["status", "ds/agent", "--fail-fast"]).await?;
    ensure!(status.code == 4 || status.code == 5, "{status:?}");
    let mut fix = image_patch(NEXT_IMAGE);
    fix["spec"]["template"]["metadata"] = json!({ "annotations": null });
    world.patch_daemon_set("agent", fix).await?;
    world.reaches("agent", "AwaitingApproval").await?;
    let updated: Vec<String> = updated_nodes(&world).await?.into_iter().collect();
    ensure!(updated == broken, "{updated:?} got the fix first, not {broken:?}");
    world.everynode(&["rollout", "approve", "ds/agent"]).await?.ok()?;
    world.reaches("agent", "Complete").await?;
    world.shows_health("agent", "Healthy").await?;
    ensure!(world.images("agent").await? == [(NEXT_IMAGE.to_owned(), pods.len())].into());
    Ok(())
}

/// Waits longer than a node may be without an available pod.
async fn fails(world: &World) -> Result<()> {
    within(deadline() + Duration::from_secs(45), "the canary has failed", async || {
        world.stated("agent", "Failed").await
    })
    .await
}
