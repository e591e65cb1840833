//! A test of a reconciler, for you to copy: docs/ci.md shows this file.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use everynode_sandbox::Sandbox;
use futures::StreamExt;
use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::wait::await_condition;
use kube::runtime::watcher;
use kube::{Client, Config, Resource, ResourceExt};

/// Keeps a ConfigMap in each namespace.
async fn reconcile(namespace: Arc<Namespace>, client: Arc<Client>) -> kube::Result<Action> {
    let defaults = ConfigMap {
        metadata: ObjectMeta {
            name: Some("defaults".to_owned()),
            owner_references: namespace.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some([("team".to_owned(), namespace.name_any())].into()),
        ..ConfigMap::default()
    };
    let maps = Api::<ConfigMap>::namespaced(Client::clone(&client), &namespace.name_any());
    maps.patch("defaults", &PatchParams::apply("defaults"), &Patch::Apply(defaults)).await?;
    Ok(Action::await_change())
}

async fn run(client: Client) {
    let retry = |_, _: &kube::Error, _| Action::requeue(Duration::from_millis(100));
    Controller::new(Api::<Namespace>::all(client.clone()), watcher::Config::default())
        .owns(Api::<ConfigMap>::all(client.clone()), watcher::Config::default())
        .run(reconcile, retry, Arc::new(client))
        .for_each(async |_| {})
        .await;
}

/// The first three writes of a ConfigMap fail.
const FAULTS: &str = "
faults:
- match: {verbs: [patch], resources: [configmaps]}
  when: {times: 3}
  fault: {error: {code: 500, message: 'etcdserver: request timed out'}}
";

#[tokio::test]
async fn a_namespace_has_its_defaults() -> Result<(), Box<dyn Error>> {
    let sandbox = Sandbox::start().await?;
    let kubeconfig = Kubeconfig::read_from(sandbox.kubeconfig_path())?;
    let options = KubeConfigOptions::default();
    let client = Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &options).await?)?;
    client.request_text(Request::put("/debug/faults").body(FAULTS.into())?).await?;
    tokio::spawn(run(client.clone()));

    let shop = serde_json::from_str(r#"{"metadata": {"name": "shop"}}"#)?;
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &shop).await?;
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "shop");
    let within = Duration::from_secs(10);
    let exists = |map: Option<&ConfigMap>| map.is_some();
    let first = tokio::time::timeout(within, await_condition(maps.clone(), "defaults", exists));
    let first = first.await??.and_then(|map| map.uid());

    maps.delete("defaults", &DeleteParams::default()).await?;
    let is_new = |map: Option<&ConfigMap>| map.is_some_and(|map| map.uid() != first);
    tokio::time::timeout(within, await_condition(maps, "defaults", is_new)).await??;

    let faults: serde_json::Value =
        client.request(Request::get("/debug/faults").body(Vec::new())?).await?;
    assert_eq!(faults["faults"][0]["status"]["fired"], 3);
    Ok(())
}
