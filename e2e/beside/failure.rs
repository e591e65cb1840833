//! Orders to abort: without the component nodes keep what they have.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use super::waves::CANARY;
use crate::world::beside::{Beside, RollBack, on_delete};
use crate::world::manifest::{IMAGE, NEXT_IMAGE, image_patch};
use crate::world::{World, eventually};

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

pub(super) async fn count(world: &World) -> Result<usize> {
    Ok(world.pods_of("agent").await?.len())
}

pub(super) async fn all_have(world: &World, image: &str) -> Result<()> {
    eventually("all nodes have the image", async || {
        world.all_available("agent").await?;
        let expected = BTreeMap::from([(image.to_owned(), count(world).await?)]);
        let images = world.images("agent").await?;
        ensure!(images == expected, "{images:?}");
        Ok(())
    })
    .await
}
