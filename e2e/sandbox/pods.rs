//! Pods that only simulated kubelets and a lenient server produce: rejected on admission, or with
//! fields of a later Kubernetes.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::world::manifest::{daemon_set, with};
use crate::world::{Setup, World, eventually};

/// C24, S22: failed pods are replaced with an event each, with growing delays
#[tokio::test]
async fn failed_pods_are_deleted_with_a_back_off() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 1, ..Setup::default() }).await?;
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

/// C2: a field that our client libraries don't know reaches the pod and the revision
#[tokio::test]
async fn an_unknown_field_reaches_pod_and_revision() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 1, ..Setup::default() }).await?;
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

async fn get(world: &World, prefix: &str, plural: &str) -> Result<Value> {
    let path = format!("{prefix}/namespaces/{}/{plural}", world.namespace);
    Ok(world.client.request(http::Request::get(path).body(Vec::new())?).await?)
}

fn http_post(path: &str, body: &Value) -> Result<http::Request<Vec<u8>>> {
    let request = http::Request::post(path).header("content-type", "application/json");
    Ok(request.body(serde_json::to_vec(body)?)?)
}
