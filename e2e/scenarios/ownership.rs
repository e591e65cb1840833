//! Whose pod is it: labels edited, strangers adopted, pods that end.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::observe::{name_of, node_of, uid, uids};
use crate::world::manifest::{IMAGE, daemon_set, with};
use crate::world::{Setup, World, eventually};

/// C21, C23: a pod whose labels are edited is released and replaced; put back, the older of the two stays
#[tokio::test]
async fn a_pod_leaves_and_rejoins_by_its_labels() -> Result<()> {
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

/// C20, C21, C25: a stranger with the right labels is adopted, and the older pod of its node stays
#[tokio::test]
async fn a_matching_stranger_is_adopted() -> Result<()> {
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
    eventually("the stranger is adopted", async || {
        let pod = world.pods().get("stranger").await?;
        ensure!(uid(&pod) == uid(&stranger), "another one");
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

/// C24, S22: failed pods are replaced with an event each, slower and slower
#[tokio::test]
async fn failed_pods_are_deleted_with_a_back_off() -> Result<()> {
    let Some(world) = World::sandbox(Setup { nodes: 1, ..Setup::default() }).await? else {
        return Ok(());
    };
    let annotations = json!({"sandbox.everynode.dev/lifecycle": "admission-failure"});
    let template = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
    world.create_daemon_set(&with(daemon_set("a"), template)).await?;
    eventually("failed pods are reported", async || {
        let events = world.events().list(&Default::default()).await?.items;
        let reasons: Vec<_> = events.iter().filter_map(|event| event.reason.clone()).collect();
        ensure!(reasons.iter().any(|reason| reason == "FailedDaemonPod"), "{reasons:?}");
        Ok(())
    })
    .await?;
    let pods = world.pods_of("a").await?.len();
    ensure!(pods <= 1, "{pods} pods on one node");
    Ok(())
}

/// C24: a pod that succeeded is replaced at once, with an event
#[tokio::test]
async fn succeeded_pods_are_replaced() -> Result<()> {
    let world = World::cluster(1).await?;
    world.roll_out(&daemon_set("a")).await?;
    let pod = world.pods_of("a").await?.pop().context("there is a pod")?;
    let done = json!({"status": {"phase": "Succeeded"}});
    if world.sandbox.is_none() {
        // A real kubelet would at once report its own truth again.
        return Ok(());
    }
    world.pods().patch_status(&name_of(&pod), &PatchParams::default(), &Patch::Merge(done)).await?;
    eventually("it has a successor", async || {
        let pods = uids(&world, "a").await?;
        ensure!(pods.len() == 1 && !pods.contains(&uid(&pod)), "{pods:?}");
        let events = world.events().list(&Default::default()).await?.items;
        let told = events.iter().any(|event| event.reason.as_deref() == Some("SucceededDaemonPod"));
        ensure!(told, "no event tells of it");
        Ok(())
    })
    .await
}

/// C28, S11: a namespace that is being deleted ends with its DaemonSets and pods, without a quarrel
#[tokio::test]
async fn a_namespace_can_be_deleted_with_all_that_is_in_it() -> Result<()> {
    let Some(world) = World::sandbox(Setup { nodes: 3, ..Setup::default() }).await? else {
        return Ok(());
    };
    world.roll_out(&daemon_set("a")).await?;
    world.kubectl(&["delete", "namespace", &world.namespace, "--timeout=60s"]).await?;
    let left = world.pods().list(&Default::default()).await?.items;
    ensure!(left.is_empty(), "pods are left: {left:?}");
    Ok(())
}

/// C4, C12, C29: a DaemonSet that makes no sense says so, and the others don't notice
#[tokio::test]
async fn a_malformed_daemon_set_disturbs_no_other() -> Result<()> {
    let Some(world) = World::sandbox(Setup { nodes: 2, ..Setup::default() }).await? else {
        return Ok(());
    };
    // An affinity that no server of today would let through, as an older one may have stored it.
    let term = json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["many"]}]});
    let affinity = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
    let bad =
        with(daemon_set("bad"), json!({"spec": {"template": {"spec": {"affinity": affinity}}}}));
    let refused = world.create_daemon_set(&bad).await;
    world.roll_out(&daemon_set("good")).await?;
    if refused.is_ok() {
        let pods = world.pods_of("bad").await?;
        ensure!(
            pods.is_empty(),
            "the term matches nothing, but pods are on {:?}",
            pods.iter().map(node_of).collect::<Vec<_>>()
        );
    }
    Ok(())
}

/// C2: a field that no client library of ours knows reaches the pod and the revision
#[tokio::test]
async fn an_unknown_field_reaches_pod_and_revision() -> Result<()> {
    let Some(world) = World::sandbox(Setup { nodes: 1, ..Setup::default() }).await? else {
        return Ok(());
    };
    let invented =
        json!({"spec": {"template": {"spec": {"inventedIn2031": {"a": [1, null, "x<y"]}}}}});
    let manifest = with(daemon_set("a"), invented);
    let request = http_post(
        &format!("/apis/apps/v1/namespaces/{}/daemonsets?fieldValidation=Ignore", world.namespace),
        &manifest,
    )?;
    let _: Value = world.client.request(request).await?;
    world.settled("a").await?;
    let pods: Value = get(&world, "/api/v1", "pods").await?;
    let revisions: Value = get(&world, "/apis/apps/v1", "controllerrevisions").await?;
    let of_pod = &pods["items"][0]["spec"]["inventedIn2031"]["a"];
    let of_revision =
        &revisions["items"][0]["data"]["spec"]["template"]["spec"]["inventedIn2031"]["a"];
    ensure!(*of_pod == json!([1, null, "x<y"]), "the pod has {of_pod}");
    ensure!(*of_revision == json!([1, null, "x<y"]), "the revision has {of_revision}");
    Ok(())
}

async fn label(world: &World, pod: &str, labels: Value) -> Result<()> {
    let patch = json!({"metadata": {"labels": labels}});
    world.pods().patch(pod, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

async fn get(world: &World, prefix: &str, plural: &str) -> Result<Value> {
    let path = format!("{prefix}/namespaces/{}/{plural}", world.namespace);
    Ok(world.client.request(http::Request::get(path).body(Vec::new())?).await?)
}

fn http_post(path: &str, body: &Value) -> Result<http::Request<Vec<u8>>> {
    let request = http::Request::post(path).header("content-type", "application/json");
    Ok(request.body(serde_json::to_vec(body)?)?)
}
