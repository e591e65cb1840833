//! DaemonSets that are deleted during a rollout, with each propagation policy, and recreated with
//! the same name.

use anyhow::{Result, ensure};
use kube::api::{DeleteParams, PropagationPolicy};

use crate::observe::{Limits, Observer, uids};
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch, with};
use crate::world::{World, eventually};

/// C32, C34, S11: background deletion
#[tokio::test]
async fn a_daemon_set_is_deleted_in_the_background_and_recreated() -> Result<()> {
    delete_and_recreate(DeleteParams::background()).await
}

/// C32, C34, S11: foreground deletion
#[tokio::test]
async fn a_daemon_set_is_deleted_in_the_foreground_and_recreated() -> Result<()> {
    delete_and_recreate(DeleteParams::foreground()).await
}

/// Deletes the DaemonSet during a rollout; the next one with the same name ends with only its own
/// pods.
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

/// C21, C32, C42, C45, S11: after orphaning during a rollout, old and new pods stay, and the next
/// DaemonSet with the name adopts all of them. Its template generation is 1, and so is that of the
/// old pods, which are replaced nevertheless, as their hash is that of another template
#[tokio::test]
async fn pods_orphaned_during_a_rollout_are_adopted() -> Result<()> {
    let world = World::cluster(5).await?;
    world.roll_out(&daemon_set("a")).await?;
    start_a_rollout(&world).await?;
    world.kubectl(&["delete", "ds", "a", "--cascade=orphan"]).await?;
    let limits = Limits::ONE_BY_ONE;
    let observer = Observer::start(&world, "a", limits).await?;
    let manifest = with(daemon_set("a"), image_patch(NEXT_IMAGE));
    world.roll_out(&manifest).await?;
    observer.finish().await?;
    for pod in world.pods_of("a").await? {
        let image = pod.spec.and_then(|spec| spec.containers.into_iter().next()?.image);
        ensure!(image.as_deref() == Some(NEXT_IMAGE), "a pod has {image:?}");
    }
    Ok(())
}

/// C21, C32, C42, S11: after orphaning, the pods stay, and the next DaemonSet with the same name
/// adopts them without a restart
#[tokio::test]
async fn orphaned_pods_are_adopted_by_the_next_daemon_set() -> Result<()> {
    let world = World::cluster(3).await?;
    world.roll_out(&daemon_set("a")).await?;
    let before = uids(&world, "a").await?;
    let limits = Limits::without_surge(0);
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

/// Returns the pods while the rollout is under way.
async fn start_a_rollout(world: &World) -> Result<std::collections::BTreeSet<String>> {
    let before = uids(world, "a").await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    eventually("the rollout has started", async || {
        let pods = uids(world, "a").await?;
        ensure!(pods != before, "no pod was replaced yet");
        Ok(pods)
    })
    .await
}
