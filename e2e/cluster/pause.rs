//! Pausing a rollout by annotation, by `everynode rollout`, and while the template is wrong.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::observe::uids;
use crate::world::manifest::{IMAGE, NEXT_IMAGE, daemon_set, image_patch, with};
use crate::world::pod::name_of;
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
        let images = world.images("agent").await?;
        ensure!(images.contains_key(NEXT_IMAGE), "{images:?}");
        Ok(())
    })
    .await?;
    let paused = world.everynode(&["rollout", "pause", "ds/agent"]).await?;
    ensure!(paused.code == 0, "{paused:?}");
    eventually("every pod is available", async || world.all_available("agent").await).await?;
    let before = uids(&world, "agent").await?;
    ensure!(world.images("agent").await?.len() == 2, "it was not paused half-way");
    let status = world.everynode(&["status", "ds/agent", "--fail-fast"]).await?;
    ensure!(status.code == 5 && status.stdout.contains("paused: "), "{status:?}");
    let top = world.everynode(&["top", "-o", "json"]).await?.ok()?;
    ensure!(top.contains(r#""state": "paused""#), "{top}");
    let explained = world.everynode(&["explain", "ds/agent"]).await?.ok()?;
    ensure!(explained.contains("the rollout is paused"), "{explained}");
    let conditions = world.conditions("agent").await?;
    ensure!(conditions["Progressing"] == "Paused", "{conditions}");
    ensure!(uids(&world, "agent").await? == before, "a pod was replaced");
    world.everynode(&["rollout", "resume", "ds/agent"]).await?.ok()?;
    world.settled("agent").await?;
    let images = world.images("agent").await?;
    ensure!(images == [(NEXT_IMAGE.to_owned(), before.len())].into(), "{images:?}");
    let after = world.conditions("agent").await?;
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
        world.all_available("agent").await
    })
    .await?;
    let images = world.images("agent").await?;
    ensure!(images == [(IMAGE.to_owned(), before.len())].into(), "{images:?}");
    Ok(())
}
