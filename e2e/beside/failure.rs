//! Failures and orders to abort: without the component nodes keep what they have, with it they go
//! back.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::waves::CANARY;
use crate::world::beside::{Beside, RollBack, on_delete};
use crate::world::manifest::{IMAGE, NEXT_IMAGE, image_patch, never_ready_patch};
use crate::world::{World, deadline, eventually, within};

/// G15, G20: an aborted rollout is held, which its condition explains; `everynode undo` takes the
/// nodes back
#[tokio::test(flavor = "multi_thread")]
async fn without_the_component_an_abort_holds_and_undo_goes_back() -> Result<()> {
    let mut beside = Beside::start(4, RollBack::No).await?;
    let world = &beside.world;
    world.create_daemon_set(&on_delete("agent", CANARY)).await?;
    world.reaches("agent", "Complete").await.with_context(|| beside.guard.output())?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "AwaitingApproval").await?;
    world.everynode(&["rollout", "abort", "ds/agent"]).await?.ok()?;
    world.reaches("agent", "Failed").await?;
    let get = world.everynode(&["rollout", "get", "ds/agent"]).await?.ok()?;
    ensure!(get.contains("until somebody undoes the change of the template"), "{get}");
    ensure!(world.images("agent").await?.len() == 2, "a pod was replaced");
    world.everynode(&["undo", "ds/agent"]).await?.ok()?;
    all_have(world, IMAGE).await?;
    world.reaches("agent", "Complete").await?;
    beside.check()
}

/// G15, G20: with the component a failing canary goes back by itself, once: the failed template,
/// applied again, is not fought, and is still failed
#[tokio::test(flavor = "multi_thread")]
async fn with_the_component_a_failing_canary_goes_back_once() -> Result<()> {
    let mut beside = Beside::start(4, RollBack::Allowed).await?;
    let world = &beside.world;
    let policy = "{steps: [{name: canary, upTo: [1]}], failure: {readyWithin: 30s, \
                  rollbackAfter: 0s}}";
    world.create_daemon_set(&on_delete("agent", policy)).await?;
    world.reaches("agent", "Complete").await.with_context(|| beside.guard.output())?;
    world.patch_daemon_set("agent", never_ready_patch()).await?;
    let restored = "the template of the base is restored";
    within(Duration::from_secs(60) + deadline(), restored, async || {
        let ds = world.daemon_sets().get("agent").await?;
        let mark = ds.metadata.annotations.unwrap_or_default();
        ensure!(mark.contains_key("everynode.dev/rolled-back"), "{mark:?}");
        Ok(())
    })
    .await
    .with_context(|| beside.guard.output())?;
    all_have(world, IMAGE).await?;
    world.reaches("agent", "Complete").await?;
    world.patch_daemon_set("agent", never_ready_patch()).await?;
    world.reaches("agent", "Failed").await?;
    let get = world.everynode(&["rollout", "get", "ds/agent"]).await?.ok()?;
    ensure!(get.contains("came again after it was rolled back"), "{get}");
    ensure!(world.images("agent").await? == [(IMAGE.to_owned(), count(world).await?)].into());
    beside.check()
}

async fn count(world: &World) -> Result<usize> {
    Ok(world.pods_of("agent").await?.len())
}

async fn all_have(world: &World, image: &str) -> Result<()> {
    eventually("all nodes have the image", async || {
        world.all_available("agent").await?;
        let expected = BTreeMap::from([(image.to_owned(), count(world).await?)]);
        let images = world.images("agent").await?;
        ensure!(images == expected, "{images:?}");
        Ok(())
    })
    .await
}
