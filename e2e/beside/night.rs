//! Failures that show after half a minute (`make night`): with the component nodes go back.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::failure::{all_have, count};
use crate::world::beside::{Beside, RollBack, on_delete};
use crate::world::manifest::{IMAGE, never_ready_patch};
use crate::world::{deadline, within};

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
