//! Requirements of Kubernetes' conformance tests for DaemonSets and revisions that no other test
//! here covers.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::observe::{Limits, Observer, uids};
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch, with};
use crate::world::pod::{name_of, uid};
use crate::world::{World, eventually};

/// C40, C42, C46: a revision created manually exists beside the current one, can become current,
/// and the next revision gets a higher number than both
#[tokio::test]
async fn a_revision_created_manually_can_become_current() -> Result<()> {
    let world = World::cluster(2).await?;
    let ds = world.roll_out(&daemon_set("a")).await?;
    let first = revisions(&world, 1).await?.remove(0);
    let second = twin(&ds, &first)?;
    world.revisions().create(&PostParams::default(), &second).await?;
    revisions(&world, 2).await?;
    // The revision must still exist.
    let first = first.metadata.name.unwrap_or_default();
    world.revisions().delete(&first, &DeleteParams::default()).await?;
    let left = revisions(&world, 1).await?.remove(0);
    ensure!(left.metadata.name == second.metadata.name, "left is {:?}", left.metadata.name);
    let mark = json!({"metadata": {"labels": {"marked": "yes"}}});
    let name = left.metadata.name.unwrap_or_default();
    world.revisions().patch(&name, &PatchParams::default(), &Patch::Merge(mark)).await?;
    let change = json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 2}}}});
    world.patch_daemon_set("a", change).await?;
    revisions(&world, 2).await?;
    let marked = ListParams::default().labels("marked=yes");
    world.revisions().delete_collection(&DeleteParams::default(), &marked).await?;
    let last = revisions(&world, 1).await?.remove(0);
    ensure!(last.revision == 3, "its number is {}", last.revision);
    world.settled("a").await?;
    Ok(())
}

/// C42: of two revisions with the same template the later one remains, and no pod restarts
#[tokio::test]
async fn a_duplicate_revision_created_manually_replaces_the_current_one() -> Result<()> {
    let world = World::cluster(2).await?;
    let ds = world.roll_out(&daemon_set("a")).await?;
    let before = uids(&world, "a").await?;
    let second = twin(&ds, &revisions(&world, 1).await?.remove(0))?;
    world.revisions().create(&PostParams::default(), &second).await?;
    revisions(&world, 2).await?;
    let left = revisions(&world, 1).await?.remove(0);
    ensure!(left.metadata.name == second.metadata.name, "left is {:?}", left.metadata.name);
    for pod in world.pods_of("a").await? {
        let labels = pod.metadata.labels.unwrap_or_default();
        ensure!(labels.get(HASH_LABEL).is_some_and(|hash| hash == TWIN), "{labels:?}");
    }
    ensure!(uids(&world, "a").await? == before, "pods were restarted");
    Ok(())
}

/// C70: conditions that others write into the status persist, by update and by patch, whatever the
/// controller writes later
#[tokio::test]
async fn conditions_of_others_stay_in_the_status() -> Result<()> {
    let world = World::cluster(2).await?;
    world.roll_out(&daemon_set("a")).await?;
    eventually("an update of the status is taken", async || {
        let mut ds = world.daemon_sets().get("a").await?;
        let condition = json!({"type": "Updated", "status": "True", "reason": "E2E"});
        let conditions = vec![serde_json::from_value(condition)?];
        ds.status.get_or_insert_default().conditions = Some(conditions);
        world.daemon_sets().replace_status("a", &PostParams::default(), &ds).await?;
        Ok(())
    })
    .await?;
    roll_by_annotation(&world, "1").await?;
    ensure!(condition_types(&world).await? == ["Updated"], "after an update and a rollout");
    let patch = json!({"status": {"conditions": [{"type": "Patched", "status": "True"}]}});
    world.daemon_sets().patch_status("a", &PatchParams::default(), &Patch::Merge(patch)).await?;
    roll_by_annotation(&world, "2").await?;
    ensure!(condition_types(&world).await? == ["Patched"], "after a patch and a rollout");
    Ok(())
}

/// C24: a pod whose phase is set to Failed is replaced, with an event
#[tokio::test]
async fn a_pod_whose_phase_is_set_to_failed_is_replaced() -> Result<()> {
    let world = World::cluster(2).await?;
    world.roll_out(&daemon_set("a")).await?;
    let pod = world.pods_of("a").await?.pop().context("there is a pod")?;
    let failed = json!({"status": {"phase": "Failed"}});
    let patch = Patch::Merge(failed);
    world.pods().patch_status(&name_of(&pod), &PatchParams::default(), &patch).await?;
    eventually("the failed pod is gone", async || {
        let left = world.pods().get_opt(&name_of(&pod)).await?;
        ensure!(left.is_none_or(|left| uid(&left) != uid(&pod)), "it is still there");
        Ok(())
    })
    .await?;
    world.settled("a").await?;
    eventually("an event reports it", async || {
        let events = world.events().list(&ListParams::default()).await?.items;
        let is_reported =
            events.iter().any(|event| event.reason.as_deref() == Some("FailedDaemonPod"));
        ensure!(is_reported, "{} events, none of them", events.len());
        Ok(())
    })
    .await
}

/// C32, S11: deleting a collection of DaemonSets by label deletes their pods, and leaves others
/// alone
#[tokio::test]
async fn a_collection_of_daemon_sets_is_deleted_by_label() -> Result<()> {
    let world = World::cluster(2).await?;
    let labelled = json!({"metadata": {"labels": {"collected": "yes"}}});
    world.roll_out(&daemon_set("kept")).await?;
    world.roll_out(&with(daemon_set("a"), labelled.clone())).await?;
    world.roll_out(&with(daemon_set("b"), labelled)).await?;
    let kept = uids(&world, "kept").await?;
    let selected = ListParams::default().labels("collected=yes");
    world.daemon_sets().delete_collection(&DeleteParams::default(), &selected).await?;
    let left = world.daemon_sets().list(&selected).await?.items;
    ensure!(left.is_empty(), "{} are left", left.len());
    eventually("their pods are gone", async || {
        let pods = [world.pods_of("a").await?, world.pods_of("b").await?].concat();
        ensure!(pods.is_empty(), "{} are left", pods.len());
        Ok(())
    })
    .await?;
    ensure!(uids(&world, "kept").await? == kept, "the third one's pods changed");
    Ok(())
}

/// C26, C53, C54: a surge rollout continues although pods of either revision are deleted, and a
/// node never has two pods of the same revision
#[tokio::test]
async fn a_surge_continues_after_the_deletion_of_its_pods() -> Result<()> {
    let world = World::cluster(4).await?;
    let strategy = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    let spec = json!({"spec": {"minReadySeconds": 1, "updateStrategy": strategy}});
    let ds = world.roll_out(&with(daemon_set("a"), spec)).await?;
    let desired = usize::try_from(ds.status.map_or(0, |status| status.desired_number_scheduled))?;
    let before = uids(&world, "a").await?;
    // A node without an available pod for a moment: the test has deleted its old or its new pod.
    let limits = Limits::with_surge(2).with_min_ready_seconds(1);
    let observer = Observer::start(&world, "a", limits).await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    let new = eventually("a new pod is there", async || {
        let pods = world.pods_of("a").await?;
        pods.into_iter().find(|pod| !before.contains(&uid(pod))).context("all are old")
    })
    .await?;
    let old = world.pods_of("a").await?.into_iter().rev().find(|pod| before.contains(&uid(pod)));
    for pod in old.iter().chain([&new]) {
        world.pods().delete(&name_of(pod), &DeleteParams::default()).await?;
    }
    world.settled("a").await?;
    eventually("one new pod is left on each node", async || {
        let pods = world.pods_of("a").await?;
        ensure!(pods.len() == desired, "{} pods", pods.len());
        ensure!(pods.iter().all(is_next), "one is old");
        Ok(())
    })
    .await?;
    observer.finish().await?;
    Ok(())
}

const HASH_LABEL: &str = "controller-revision-hash";
const TWIN: &str = "made-by-hand";

/// A later revision with the same data.
fn twin(ds: &DaemonSet, revision: &ControllerRevision) -> Result<ControllerRevision> {
    let mut twin: Value = serde_json::to_value(revision)?;
    twin["metadata"] = json!({
        "name": format!("a-{TWIN}"),
        "labels": {"app": "a", HASH_LABEL: TWIN},
        "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "a", "uid": ds.metadata.uid,
            "controller": true, "blockOwnerDeletion": true,
        }],
    });
    twin["revision"] = (revision.revision + 1).into();
    Ok(serde_json::from_value(twin)?)
}

/// Waits until the DaemonSet has this number of revisions.
async fn revisions(world: &World, count: usize) -> Result<Vec<ControllerRevision>> {
    eventually(&format!("there are {count} revisions"), async || {
        let selected = ListParams::default().labels("app=a");
        let found = world.revisions().list(&selected).await?.items;
        ensure!(found.len() == count, "there are {}", found.len());
        Ok(found)
    })
    .await
}

async fn roll_by_annotation(world: &World, value: &str) -> Result<()> {
    let patch = json!({"spec": {"template": {"metadata": {"annotations": {"round": value}}}}});
    world.patch_daemon_set("a", patch).await?;
    world.settled("a").await?;
    Ok(())
}

async fn condition_types(world: &World) -> Result<Vec<String>> {
    let status = world.daemon_sets().get("a").await?.status.unwrap_or_default();
    Ok(status.conditions.into_iter().flatten().map(|condition| condition.type_).collect())
}

fn is_next(pod: &Pod) -> bool {
    let image = pod.spec.as_ref().and_then(|spec| spec.containers.first()?.image.as_deref());
    image == Some(NEXT_IMAGE)
}
