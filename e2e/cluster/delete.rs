//! DaemonSets deleted in mid-rollout, each way, and recreated under the same name.

use anyhow::{Result, ensure};
use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::json;

use crate::observe::{Limits, Observer, uids};
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch, with};
use crate::world::{World, eventually};

/// C32, C34, S11: deleted in the background
#[tokio::test]
async fn deleted_in_the_background_and_recreated() -> Result<()> {
    delete_and_recreate(DeleteParams::background()).await
}

/// C32, C34, S11: deleted in the foreground
#[tokio::test]
async fn deleted_in_the_foreground_and_recreated() -> Result<()> {
    delete_and_recreate(DeleteParams::foreground()).await
}

/// In mid-rollout; the next of the same name ends with pods of its own alone.
async fn delete_and_recreate(how: DeleteParams) -> Result<()> {
    let world = World::cluster(4).await?;
    world.roll_out(&daemon_set("a")).await?;
    let old = start_a_rollout(&world).await?;
    world.daemon_sets().delete("a", &how).await?;
    eventually("the DaemonSet is gone", async || {
        ensure!(world.daemon_sets().get_opt("a").await?.is_none(), "it is still there");
        Ok(())
    })
    .await?;
    if how.propagation_policy == Some(PropagationPolicy::Foreground) {
        let left = uids(&world, "a").await?;
        ensure!(left.is_empty(), "in the foreground the pods go first; left are {left:?}");
    }
    world.roll_out(&daemon_set("a")).await?;
    eventually("the old pods are gone", async || {
        let pods = uids(&world, "a").await?;
        ensure!(pods.is_disjoint(&old), "an old pod is left");
        Ok(())
    })
    .await?;
    let ds = world.settled("a").await?;
    let desired = usize::try_from(ds.status.unwrap_or_default().desired_number_scheduled)?;
    ensure!(uids(&world, "a").await?.len() == desired, "not one pod per node");
    Ok(())
}

/// C21, C32, C42, C45, S11: orphaned in mid-rollout, the pods live on, old and new, and the next one of the name adopts all
/// of them: its template generation is 1, and so is that of the old ones, which counts as up to date
#[tokio::test]
async fn orphaned_in_mid_rollout_and_adopted() -> Result<()> {
    let world = World::cluster(5).await?;
    world.roll_out(&daemon_set("a")).await?;
    start_a_rollout(&world).await?;
    world.kubectl(&["delete", "ds", "a", "--cascade=orphan"]).await?;
    let limits = Limits { pods_per_node_max: 1, nodes_down_max: 1 };
    let observer = Observer::start(&world, "a", limits).await?;
    let manifest = with(daemon_set("a"), image_patch(NEXT_IMAGE));
    world.roll_out(&manifest).await?;
    world
        .patch_daemon_set(
            "a",
            json!({"spec": {"template": {"metadata": {"annotations": {"go": "on"}}}}}),
        )
        .await?;
    world.settled("a").await?;
    observer.finish().await?;
    for pod in world.pods_of("a").await? {
        let image = pod.spec.and_then(|spec| spec.containers.into_iter().next()?.image);
        ensure!(image.as_deref() == Some(NEXT_IMAGE), "a pod has {image:?}");
    }
    Ok(())
}

/// C21, C32, C42, S11: orphaned, the pods live on, and the next DaemonSet of the same name adopts them without a restart
#[tokio::test]
async fn orphaned_pods_are_adopted_by_the_next_of_the_name() -> Result<()> {
    let world = World::cluster(3).await?;
    world.roll_out(&daemon_set("a")).await?;
    let before = uids(&world, "a").await?;
    let limits = Limits { pods_per_node_max: 1, nodes_down_max: 0 };
    let observer = Observer::start(&world, "a", limits).await?;
    world.kubectl(&["delete", "ds", "a", "--cascade=orphan"]).await?;
    eventually("the pods are orphans", async || {
        for pod in world.pods_of("a").await? {
            let owners = pod.metadata.owner_references.unwrap_or_default();
            ensure!(owners.is_empty(), "owned by {owners:?}");
        }
        Ok(())
    })
    .await?;
    world.roll_out(&daemon_set("a")).await?;
    let report = observer.finish().await?;
    ensure!(report.created.is_empty() && report.deleted.is_empty(), "{report:?}");
    ensure!(uids(&world, "a").await? == before, "pods were restarted");
    for pod in world.pods_of("a").await? {
        let owners = pod.metadata.owner_references.unwrap_or_default();
        ensure!(owners.len() == 1 && owners[0].controller == Some(true), "owned by {owners:?}");
    }
    Ok(())
}

/// Returns the pods as they are with the rollout under way.
async fn start_a_rollout(world: &World) -> Result<std::collections::BTreeSet<String>> {
    let before = uids(world, "a").await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    eventually("the rollout is under way", async || {
        let pods = uids(world, "a").await?;
        ensure!(pods != before, "no pod was replaced yet");
        Ok(pods)
    })
    .await
}
