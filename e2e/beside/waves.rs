//! Waves, approval, pause, and people who delete pods.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use kube::api::DeleteParams;

use crate::observe::{Limits, Observer, uids};
use crate::world::beside::{Beside, RollBack, on_delete};
use crate::world::guard::image_of;
use crate::world::manifest::{IMAGE, NEXT_IMAGE, image_patch};
use crate::world::pod::name_of;
use crate::world::{World, eventually};

/// One node, which must be approved, then half of all nodes, then all.
pub(super) const CANARY: &str = "\
steps:
- {name: canary, upTo: [1], bake: 2s, approval: true}
- {name: half, upTo: ['50%']}
maxUnavailable: 1
";

/// G8, G10, G11, G17–G20: one node gets a new template first; a node whose pod somebody deletes
/// gets it, too, which is reported; after an approval all others follow one by one, and no pod is
/// replaced twice
#[tokio::test(flavor = "multi_thread")]
async fn a_canary_is_approved_and_all_nodes_follow_one_by_one() -> Result<()> {
    let mut beside = Beside::start(6, RollBack::No).await?;
    let world = &beside.world;
    world.create_daemon_set(&on_delete("agent", CANARY)).await?;
    world.reaches("agent", "Complete").await.with_context(|| beside.guard.output())?;
    let all = world.pods_of("agent").await?.len();
    let changed = on_delete("agent", CANARY).to_string().replace(IMAGE, NEXT_IMAGE);
    let plan = world.everynode_with_input(&["plan", "-f", "-"], &changed).await?.stdout;
    ensure!(plan.contains("a node that is new or loses its pod gets the new template"), "{plan}");
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "AwaitingApproval").await?;
    ensure!(world.images("agent").await? == images(all - 1, 1));
    let get = world.everynode(&["rollout", "get", "ds/agent"]).await?.ok()?;
    ensure!(get.contains("wave canary must be approved"), "{get}");
    delete_one_old_pod(world).await?;
    eventually("the built-in controller creates a pod of the new template", async || {
        ensure!(world.images("agent").await? == images(all - 2, 2));
        world.all_available("agent").await
    })
    .await?;
    eventually("the leak is reported", async || {
        let get = world.everynode(&["rollout", "get", "ds/agent"]).await?.ok()?;
        ensure!(get.contains("1 node of a later wave got the new template already"), "{get}");
        Ok(())
    })
    .await?;
    let before = uids(world, "agent").await?;
    let observer = Observer::start(world, "agent", Limits::ONE_BY_ONE).await?;
    world.everynode(&["rollout", "approve", "ds/agent"]).await?.ok()?;
    world.settled("agent").await?;
    world.reaches("agent", "Complete").await?;
    let report = observer.finish().await?;
    ensure!(report.created.len() == all - 2, "{report:?}");
    ensure!(uids(world, "agent").await?.intersection(&before).count() == 2);
    beside.check()
}

/// G6, G18: a pause stops the rollout, and a new template supersedes it
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_paused_resumed_and_superseded() -> Result<()> {
    let mut beside = Beside::start(4, RollBack::No).await?;
    let world = &beside.world;
    world.create_daemon_set(&on_delete("agent", CANARY)).await?;
    world.reaches("agent", "Complete").await.with_context(|| beside.guard.output())?;
    world.kubectl(&["annotate", "ds/agent", "everynode.dev/paused=true"]).await?;
    world.reaches("agent", "Paused").await?;
    let before = uids(world, "agent").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    eventually("the built-in controller has acted on the template", async || {
        let status = world.daemon_sets().get("agent").await?;
        let observed = status.status.clone().unwrap_or_default().observed_generation;
        ensure!(observed == status.metadata.generation, "{observed:?}");
        Ok(())
    })
    .await?;
    world.stated("agent", "Paused").await?;
    world.everynode(&["rollout", "resume", "ds/agent"]).await?.ok()?;
    world.reaches("agent", "AwaitingApproval").await?;
    ensure!(uids(world, "agent").await?.intersection(&before).count() == before.len() - 1);
    world.patch_daemon_set("agent", image_patch(IMAGE)).await?;
    world.reaches("agent", "Complete").await?;
    world.settled("agent").await?;
    beside.check()
}

async fn delete_one_old_pod(world: &World) -> Result<()> {
    let pods = world.pods_of("agent").await?;
    let old = pods.iter().rev().find(|pod| image_of(pod) == IMAGE).context("no old pod")?;
    world.pods().delete(&name_of(old), &DeleteParams::default()).await?;
    Ok(())
}

fn images(old: usize, new: usize) -> BTreeMap<String, usize> {
    BTreeMap::from([(IMAGE.to_owned(), old), (NEXT_IMAGE.to_owned(), new)])
}
