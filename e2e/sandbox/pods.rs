//! Pods that only simulated kubelets and a lenient server produce: rejected on admission, or with
//! fields of a later Kubernetes.

use anyhow::{Context, Result, ensure};
use everynode_core::plan::BACKOFF_ANNOTATION;
use jiff::SignedDuration;
use k8s_openapi::api::events::v1::Event;
use serde_json::{Value, json};

use crate::observe::{Limits, Observer};
use crate::world::faults::FaultSetup;
use crate::world::manifest::{daemon_set, with};
use crate::world::{Setup, World, eventually};

/// C24, S22: pods that fail again and again are deleted after delays that double, each with an
/// event.
#[tokio::test]
async fn failed_pods_are_deleted_with_a_back_off() -> Result<()> {
    let setup = FaultSetup::of(1).await?;
    let world = &setup.world;
    let controller = setup.run(&[])?;
    let observer = Observer::start(world, "a", Limits::without_surge(0)).await?;
    let annotations = json!({"sandbox.everynode.dev/lifecycle": "admission-failure"});
    let template = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
    world.create_daemon_set(&with(daemon_set("a"), template)).await?;
    let deletions = eventually("three failed pods are deleted", async || {
        let deletions = setup.requests("delete", "pods")?;
        ensure!(deletions.len() >= 3, "{} were", deletions.len());
        Ok(deletions)
    })
    .await
    .with_context(|| controller.output())?;
    // A request may arrive a moment after the decision that begins the next delay.
    let lag = SignedDuration::from_millis(500);
    for (pair, seconds) in deletions.windows(2).zip([1, 2]) {
        let gap = pair[1].at.duration_since(pair[0].at);
        let delay = SignedDuration::from_secs(seconds);
        ensure!(gap >= delay - lag, "a deletion comes {gap:?} after another, not {delay:?}");
    }
    observer.finish().await?;
    eventually("events report the failures", async || {
        let mut events = world.events().list(&Default::default()).await?.items;
        events.retain(|event| event.reason.as_deref() == Some("FailedDaemonPod"));
        ensure!(events.iter().all(|event| event.type_.as_deref() == Some("Warning")), "{events:?}");
        let has_backoff = |event: &Event| {
            let annotations = event.metadata.annotations.iter().flatten();
            let is_of_node =
                event.related.as_ref().is_some_and(|it| it.kind.as_deref() == Some("Node"));
            is_of_node && annotations.into_iter().any(|(key, _)| key == BACKOFF_ANNOTATION)
        };
        ensure!(events.iter().all(has_backoff), "{events:?}");
        let count: i32 = events.iter().filter_map(|event| event.deprecated_count).sum();
        ensure!(count >= 3, "{count} failures in {} events", events.len());
        // kubectl sorts by it.
        ensure!(events.iter().all(|event| event.deprecated_last_timestamp.is_some()), "{events:?}");
        Ok(())
    })
    .await
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
