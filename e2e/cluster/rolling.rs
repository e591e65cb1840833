//! Rolling updates: budgets, surge, changed templates, undo.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::observe::{Limits, Observer, uids};
use crate::world::manifest::{IMAGE, NEXT_IMAGE, daemon_set, image_patch, never_ready_patch, with};
use crate::world::pod::{is_available, uid};
use crate::world::{World, eventually};

/// C51, C52: with maxUnavailable 2, at most two nodes have no available pod
#[tokio::test]
async fn a_rollout_keeps_to_max_unavailable() -> Result<()> {
    let world = World::cluster(6).await?;
    let strategy = json!({"rollingUpdate": {"maxUnavailable": 2}});
    world.roll_out(&with(daemon_set("a"), json!({"spec": {"updateStrategy": strategy}}))).await?;
    let limits = Limits::without_surge(2);
    let observer = Observer::start(&world, "a", limits).await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    world.settled("a").await?;
    let report = observer.finish().await?;
    ensure!(report.nodes_down_most > 0, "nothing was rolled out");
    Ok(())
}

/// C51: 100% replaces all pods at once
#[tokio::test]
async fn all_may_be_unavailable_at_once() -> Result<()> {
    let world = World::cluster(6).await?;
    let strategy = json!({"rollingUpdate": {"maxUnavailable": "100%"}});
    world.roll_out(&with(daemon_set("a"), json!({"spec": {"updateStrategy": strategy}}))).await?;
    let before = uids(&world, "a").await?;
    let observer = Observer::start(&world, "a", Limits::without_surge(before.len())).await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    world.settled("a").await?;
    let report = observer.finish().await?;
    ensure!(report.nodes_down_most == before.len(), "only {} were", report.nodes_down_most);
    ensure!(uids(&world, "a").await?.is_disjoint(&before), "an old pod is left");
    Ok(())
}

/// C51: a percentage that is a little more than one pod allows two to be unavailable
#[tokio::test]
async fn a_percentage_is_rounded_up() -> Result<()> {
    let world = World::cluster(6).await?;
    let pods = world.roll_out(&daemon_set("a")).await?.status.unwrap_or_default();
    let pods = usize::try_from(pods.desired_number_scheduled)?;
    let percentage = format!("{}%", (100 / pods + 1).min(100));
    let strategy = json!({"rollingUpdate": {"maxUnavailable": percentage}});
    world.patch_daemon_set("a", json!({"spec": {"updateStrategy": strategy}})).await?;
    let observer = Observer::start(&world, "a", Limits::without_surge(2)).await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    world.settled("a").await?;
    let report = observer.finish().await?;
    let down = report.nodes_down_most;
    ensure!(down == pods.min(2), "with {percentage} of {pods} pods, {down} were unavailable");
    Ok(())
}

/// C52: new pods that never become ready stop a rollout at its budget
#[tokio::test]
async fn a_bad_rollout_stops_at_its_budget_and_undo_repairs_it() -> Result<()> {
    let world = World::cluster(5).await?;
    let ds = world.roll_out(&daemon_set("a")).await?;
    let desired = ds.status.map_or(0, |status| status.desired_number_scheduled);
    let before = uids(&world, "a").await?;
    let observer = Observer::start(&world, "a", Limits::ONE_BY_ONE).await?;
    world.patch_daemon_set("a", never_ready_patch()).await?;
    eventually("one pod is replaced by one that is not ready", async || {
        let pods = world.pods_of("a").await?;
        let ready = pods.iter().filter(|pod| is_available(pod, 0)).count();
        ensure!(i32::try_from(ready)? == desired - 1, "{ready} of {desired} are ready");
        let new: Vec<_> = pods.iter().filter(|pod| !before.contains(&uid(pod))).collect();
        ensure!(
            pods.len() == ready + 1 && new.len() == 1,
            "{} pods, {} new",
            pods.len(),
            new.len()
        );
        Ok(())
    })
    .await?;
    world.kubectl(&["rollout", "undo", "ds/a"]).await?;
    world.settled("a").await?;
    let report = observer.finish().await?;
    // Only the failing pod and the one that it replaced changed.
    ensure!(report.created.len() == 2 && report.deleted.len() == 2, "{report:?}");
    Ok(())
}

/// C26, C53: the old pods stay while the surge pods are not ready
#[tokio::test]
async fn a_surge_with_pods_that_are_never_ready_keeps_the_old_ones() -> Result<()> {
    let world = World::cluster(4).await?;
    let strategy = json!({"rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 0}});
    let manifest = with(daemon_set("a"), json!({"spec": {"updateStrategy": strategy}}));
    let ds = world.roll_out(&manifest).await?;
    let desired = usize::try_from(ds.status.map_or(0, |status| status.desired_number_scheduled))?;
    let before = uids(&world, "a").await?;
    world.pods_have_aged("a").await?;
    let limits = Limits::with_surge(0);
    let observer = Observer::start(&world, "a", limits).await?;
    world.patch_daemon_set("a", never_ready_patch()).await?;
    let surge = desired.div_ceil(2);
    eventually("half of the nodes have a second pod", async || {
        let pods = uids(&world, "a").await?;
        ensure!(pods.is_superset(&before), "an old pod is gone");
        ensure!(pods.len() == desired + surge, "{} pods", pods.len());
        Ok(())
    })
    .await?;
    world.patch_daemon_set("a", restore_patch(NEXT_IMAGE)).await?;
    world.settled("a").await?;
    eventually("the pairs are gone", async || {
        let count = world.pods_of("a").await?.len();
        ensure!(count == desired, "{count} pods");
        Ok(())
    })
    .await?;
    let report = observer.finish().await?;
    ensure!(report.created.len() > desired, "{report:?}");
    Ok(())
}

/// C42, C52, C55: a template that changes repeatedly during a rollout ends as last set, always
/// within budget
#[tokio::test]
async fn a_template_changed_during_a_rollout_ends_as_last_set() -> Result<()> {
    let world = World::cluster(6).await?;
    world.roll_out(&daemon_set("a")).await?;
    let observer = Observer::start(&world, "a", Limits::ONE_BY_ONE).await?;
    for image in [NEXT_IMAGE, IMAGE, NEXT_IMAGE, IMAGE, NEXT_IMAGE] {
        let generation = world.patch_daemon_set("a", image_patch(image)).await?.metadata.generation;
        eventually("the change is seen", async || {
            let ds = world.daemon_sets().get("a").await?;
            let observed = ds.status.and_then(|status| status.observed_generation);
            ensure!(observed >= generation, "observed {observed:?} of {generation:?}");
            Ok(())
        })
        .await?;
    }
    world.settled("a").await?;
    observer.finish().await?;
    let revisions = world.revisions().list(&Default::default()).await?.items;
    ensure!(revisions.len() == 2, "two templates make {} revisions", revisions.len());
    for pod in world.pods_of("a").await? {
        let image = pod.spec.and_then(|spec| spec.containers.into_iter().next()?.image);
        ensure!(image.as_deref() == Some(NEXT_IMAGE), "a pod has {image:?}");
    }
    Ok(())
}

/// C42: restoring a template restarts no pod that still has it
#[tokio::test]
async fn undo_keeps_the_pods_that_still_have_the_template() -> Result<()> {
    let world = World::cluster(4).await?;
    let strategy = json!({"type": "OnDelete"});
    world.roll_out(&with(daemon_set("a"), json!({"spec": {"updateStrategy": strategy}}))).await?;
    let before = uids(&world, "a").await?;
    let observer = Observer::start(&world, "a", Limits::ONE_BY_ONE).await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    eventually("the new revision is there", async || {
        let count = world.revisions().list(&Default::default()).await?.items.len();
        ensure!(count == 2, "{count} revisions");
        Ok(())
    })
    .await?;
    world.patch_daemon_set("a", image_patch(IMAGE)).await?;
    world
        .patch_daemon_set("a", json!({"spec": {"updateStrategy": {"type": "RollingUpdate"}}}))
        .await?;
    world.settled("a").await?;
    let report = observer.finish().await?;
    ensure!(report.created.is_empty() && report.deleted.is_empty(), "{report:?}");
    ensure!(uids(&world, "a").await? == before, "pods were restarted");
    let mut numbers: Vec<i64> = Vec::new();
    for revision in world.revisions().list(&Default::default()).await? {
        numbers.push(revision.revision);
    }
    numbers.sort_unstable();
    ensure!(numbers == [2, 3], "the old revision is raised above the other: {numbers:?}");
    Ok(())
}

/// C50: OnDelete replaces a pod when someone deletes it
#[tokio::test]
async fn on_delete_waits_for_the_operator() -> Result<()> {
    let world = World::cluster(3).await?;
    let strategy = json!({"type": "OnDelete"});
    world.roll_out(&with(daemon_set("a"), json!({"spec": {"updateStrategy": strategy}}))).await?;
    let before = uids(&world, "a").await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    eventually("no pod counts as updated", async || {
        let ds = world.daemon_sets().get("a").await?;
        let status = ds.status.unwrap_or_default();
        ensure!(status.observed_generation == ds.metadata.generation, "not observed");
        ensure!(status.updated_number_scheduled.unwrap_or(0) == 0, "{status:?}");
        Ok(())
    })
    .await?;
    ensure!(uids(&world, "a").await? == before, "OnDelete replaced pods without a deletion");
    world.kubectl(&["delete", "pods", "-l", "app=a"]).await?;
    world.settled("a").await?;
    ensure!(uids(&world, "a").await?.is_disjoint(&before), "an old pod is left");
    Ok(())
}

/// C54: with minReadySeconds a new pod counts only after it has been ready for that time, and a
/// rollout waits for it
#[tokio::test]
async fn min_ready_seconds_delay_availability_and_rollouts() -> Result<()> {
    const SECONDS: i32 = 3;
    let world = World::cluster(2).await?;
    let manifest = with(daemon_set("a"), json!({"spec": {"minReadySeconds": SECONDS}}));
    world.create_daemon_set(&manifest).await?;
    let mut ready_first = false;
    let ds = eventually("the pods become available", async || {
        let ds = world.daemon_sets().get("a").await?;
        let status = ds.status.clone().unwrap_or_default();
        let available = status.number_available.unwrap_or(0);
        ready_first |= status.number_ready > available;
        ensure!(available > 0 && available == status.desired_number_scheduled, "{status:?}");
        Ok(ds)
    })
    .await?;
    ensure!(ready_first, "ready and available came together: {:?}", ds.status);
    let limits = Limits::ONE_BY_ONE.with_min_ready_seconds(SECONDS);
    let observer = Observer::start(&world, "a", limits).await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    world.settled("a").await?;
    let report = observer.finish().await?;
    ensure!(report.nodes_down_most == 1, "nothing was rolled out");
    Ok(())
}

/// The template of `daemon_set` with another image, after `never_ready_patch`.
fn restore_patch(image: &str) -> serde_json::Value {
    json!({"spec": {"template": {
        "metadata": {"annotations": {"sandbox.everynode.dev/lifecycle": null}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }}})
}
