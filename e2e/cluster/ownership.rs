//! Ownership of pods: edited labels, adopted pods, pods that end.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::observe::{Limits, Observer, uids};
use crate::world::manifest::{IMAGE, daemon_set, with};
use crate::world::pod::{name_of, node_of, uid};
use crate::world::{World, eventually};

/// C21, C23: a pod whose labels are edited is released and replaced; if the labels are restored,
/// the older pod stays
#[tokio::test]
async fn a_pod_is_released_and_adopted_by_its_labels() -> Result<()> {
    let world = World::cluster(3).await?;
    world.roll_out(&daemon_set("a")).await?;
    let before = uids(&world, "a").await?;
    let pod = world.pods_of("a").await?.pop().context("the DaemonSet has pods")?;
    let (name, node) = (name_of(&pod), node_of(&pod));
    world.pods_have_aged("a").await?;
    label(&world, &name, json!({"app": "debug"})).await?;
    eventually("the pod is released and has a successor", async || {
        let left = world.pods().get(&name).await?;
        let owners = left.metadata.owner_references.unwrap_or_default();
        ensure!(owners.is_empty(), "it is still owned by {owners:?}");
        let here = world.pods_of("a").await?;
        ensure!(here.iter().any(|other| node_of(other) == node), "no successor on {node}");
        Ok(())
    })
    .await?;
    label(&world, &name, json!({"app": "a"})).await?;
    eventually("the older one stays, the successor goes", async || {
        let pods = uids(&world, "a").await?;
        ensure!(pods == before, "there are {pods:?}, not {before:?}");
        Ok(())
    })
    .await?;
    let owners = world.pods().get(&name).await?.metadata.owner_references.unwrap_or_default();
    ensure!(owners.len() == 1, "it was not adopted again: {owners:?}");
    Ok(())
}

/// C20, C21, C25: a pod with matching labels is adopted, and the older pod of its node stays
#[tokio::test]
async fn a_matching_pod_is_adopted() -> Result<()> {
    let world = World::cluster(2).await?;
    let node =
        World::node_names(&world.list_nodes().await?).pop().context("a cluster has nodes")?;
    let stranger: Pod = serde_json::from_value(json!({
        "metadata": {"name": "stranger", "labels": {"app": "a"}},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 1,
                 "containers": [{"name": "main", "image": IMAGE}]},
    }))?;
    let stranger = world.pods().create(&PostParams::default(), &stranger).await?;
    world
        .create_daemon_set(&with(
            daemon_set("a"),
            json!({"spec": {"updateStrategy": {"type": "OnDelete"}}}),
        ))
        .await?;
    eventually("the pod is adopted", async || {
        let pod = world.pods().get("stranger").await?;
        ensure!(uid(&pod) == uid(&stranger), "another pod");
        let owners = pod.metadata.owner_references.unwrap_or_default();
        ensure!(
            owners.iter().any(|owner| owner.name == "a" && owner.controller == Some(true)),
            "{owners:?}"
        );
        let here = world.pods_of("a").await?.iter().filter(|pod| node_of(pod) == node).count();
        ensure!(here == 1, "{here} pods on {node}");
        Ok(())
    })
    .await
}

/// C24: a pod that succeeded is replaced at once, with an event
#[tokio::test]
async fn succeeded_pods_are_replaced() -> Result<()> {
    let world = World::cluster(1).await?;
    world.roll_out(&daemon_set("a")).await?;
    let before = world.pods_of("a").await?;
    let pod = before.last().context("there is a pod")?;
    let done = json!({"status": {"phase": "Succeeded"}});
    world.pods().patch_status(&name_of(pod), &PatchParams::default(), &Patch::Merge(done)).await?;
    eventually("it has a successor", async || {
        let pods = uids(&world, "a").await?;
        ensure!(pods.len() == before.len() && !pods.contains(&uid(pod)), "{pods:?}");
        let events = world.events().list(&Default::default()).await?.items;
        let is_reported =
            events.iter().any(|event| event.reason.as_deref() == Some("SucceededDaemonPod"));
        ensure!(is_reported, "no event reports it");
        Ok(())
    })
    .await
}

/// C28, S11: the deletion of a namespace removes its DaemonSets and pods
#[tokio::test]
async fn a_namespace_can_be_deleted_with_its_daemon_sets() -> Result<()> {
    let world = World::cluster(3).await?;
    world.roll_out(&daemon_set("a")).await?;
    world.kubectl(&["delete", "namespace", &world.namespace, "--timeout=60s"]).await?;
    let left = world.pods().list(&Default::default()).await?.items;
    ensure!(left.is_empty(), "pods are left: {left:?}");
    let left = world.daemon_sets().list(&Default::default()).await?.items;
    ensure!(left.is_empty(), "DaemonSets are left: {left:?}");
    Ok(())
}

/// C4, C12, C29: an invalid DaemonSet is reported, and other DaemonSets are not affected
#[tokio::test]
async fn a_malformed_daemon_set_does_not_affect_others() -> Result<()> {
    let world = World::cluster(2).await?;
    // The API server accepts an affinity whose value is not a number; the scheduler can't place
    // such a pod.
    let term = json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["many"]}]});
    let affinity = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
    let bad =
        with(daemon_set("bad"), json!({"spec": {"template": {"spec": {"affinity": affinity}}}}));
    let of_bad = Observer::start(&world, "bad", Limits::without_surge(0)).await?;
    let of_good = Observer::start(&world, "good", Limits::without_surge(0)).await?;
    world.create_daemon_set(&bad).await?;
    world.roll_out(&daemon_set("good")).await?;
    eventually("an event names the field", async || {
        let events = world.events().list(&Default::default()).await?.items;
        let reported = events.iter().find(|event| {
            event.reason.as_deref() == Some("InvalidNodeAffinity")
                && event.regarding.as_ref().is_some_and(|r| r.name.as_deref() == Some("bad"))
        });
        let note = reported.and_then(|event| event.note.clone()).context("no such event")?;
        ensure!(note.contains("nodeSelectorTerms[0]"), "{note}");
        Ok(())
    })
    .await?;
    let pods = of_bad.finish().await?.created;
    ensure!(pods.is_empty(), "the term matches nothing, but there are {pods:?}");
    let report = of_good.finish().await?;
    let count = world.pods_of("good").await?.len();
    ensure!(report.created.len() == count && report.deleted.is_empty(), "{report:?}");
    Ok(())
}

async fn label(world: &World, pod: &str, labels: Value) -> Result<()> {
    let patch = json!({"metadata": {"labels": labels}});
    world.pods().patch(pod, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}
