//! Taking over from kube-controller-manager: revisions written by Go are kept, and no pod restarts.
//! Requires a cluster whose controller starts later.

use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

use super::separate_process::{bare, run};
use crate::cluster::revisions::only_revision;
use crate::observe::{Limits, Observer, uids};
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch, with};
use crate::world::pod::is_available;
use crate::world::{World, eventually};

/// A hash computed by upstream's FNV, which differs from ours.
const THEIR_HASH: &str = "7d9f8c6b54";

/// C41, C42, C45: revisions and pods of another controller are kept, with their names
#[tokio::test]
async fn a_daemon_set_is_taken_over_without_a_restart() -> Result<()> {
    for (what, change) in [
        ("as Go writes it today", json!({})),
        ("with creationTimestamp: null", json!({"metadata": {"creationTimestamp": null}})),
        ("with empty resources", json!({"resources": {}})),
    ] {
        let world = bare(3).await?;
        take_over(&world, &change).await.map_err(|error| error.context(what))?;
    }
    Ok(())
}

async fn take_over(world: &World, change: &Value) -> Result<()> {
    let ds = world.create_daemon_set(&daemon_set("a")).await?;
    let revision = their_revision(&ds, change)?;
    world.revisions().create(&PostParams::default(), &revision).await?;
    for node in World::node_names(&world.list_nodes().await?) {
        world.pods().create(&PostParams::default(), &their_pod(&ds, &node)?).await?;
    }
    eventually("their pods run", async || {
        let pods = world.pods_of("a").await?;
        ensure!(pods.iter().all(|pod| is_available(pod, 0)), "not yet");
        Ok(())
    })
    .await?;
    let before = uids(world, "a").await?;
    let limits = Limits::without_surge(0);
    let observer = Observer::start(world, "a", limits).await?;
    let controller = run(world, &["--leader-elect=false"])?;
    world.settled("a").await?;
    let report = observer.finish().await?;
    ensure!(report.created.is_empty() && report.deleted.is_empty(), "{report:?}");
    ensure!(uids(world, "a").await? == before, "pods were restarted: {}", controller.output());
    let revisions = world.revisions().list(&ListParams::default()).await?.items;
    let names: Vec<_> = revisions.iter().filter_map(|found| found.metadata.name.clone()).collect();
    ensure!(names == [format!("a-{THEIR_HASH}")], "revisions {names:?}");
    loses_its_revision(world, &names[0]).await?;
    ensure!(uids(world, "a").await? == before, "pods were restarted for a deleted revision");
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    world.settled("a").await?;
    Ok(())
}

/// C41, C46: a deleted current revision is created again with the same name and hash.
async fn loses_its_revision(world: &World, name: &str) -> Result<()> {
    world.revisions().delete(name, &Default::default()).await?;
    let found = eventually("the revision is made again", async || {
        only_revision(world).await?;
        Ok(world.revisions().get(name).await?)
    })
    .await?;
    let labels = found.metadata.labels.unwrap_or_default();
    ensure!(
        labels.get("controller-revision-hash").is_some_and(|hash| hash == THEIR_HASH),
        "{labels:?}"
    );
    world.settled("a").await?;
    Ok(())
}

/// The template as the server serves it, in the form that upstream stores, with a difference
/// without meaning.
fn their_revision(ds: &DaemonSet, change: &Value) -> Result<ControllerRevision> {
    let template = ds.spec.as_ref().map(|spec| serde_json::to_value(&spec.template)).transpose()?;
    let mut template = with(template.unwrap_or_default(), json!({"$patch": "replace"}));
    if change["metadata"].is_object() {
        template["metadata"]["creationTimestamp"] = Value::Null;
    }
    if change["resources"].is_object() {
        template["spec"]["containers"][0]["resources"] = json!({});
    }
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": format!("a-{THEIR_HASH}"),
            "labels": {"app": "a", "controller-revision-hash": THEIR_HASH},
            "annotations": {"deprecated.daemonset.template.generation": "1"},
            "ownerReferences": [owner(ds)],
        },
        "data": {"spec": {"template": template}},
        "revision": 1,
    }))?)
}

fn their_pod(ds: &DaemonSet, node: &str) -> Result<Pod> {
    let mut spec =
        serde_json::to_value(ds.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()))?;
    spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": [node]}]}]}}});
    Ok(serde_json::from_value(json!({
        "metadata": {
            "generateName": "a-",
            "labels": {"app": "a", "controller-revision-hash": THEIR_HASH,
                       "pod-template-generation": "1"},
            "ownerReferences": [owner(ds)],
        },
        "spec": spec,
    }))?)
}

fn owner(ds: &DaemonSet) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": ds.metadata.name,
           "uid": ds.metadata.uid, "controller": true, "blockOwnerDeletion": true})
}
