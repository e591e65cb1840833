//! Server-side apply with kube-rs. [night](super::night) holds a transcript of kubectl.

use anyhow::{Result, bail, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::world::World;

/// S14: kube-rs applies, sees a conflict with its causes, forces, and gives up a field
#[tokio::test]
async fn kube_rs_applies_objects() -> Result<()> {
    let world = World::cluster(2).await?;
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let applied = |data: Value| {
        let metadata = json!({"name": "settings"});
        Patch::Apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}),
        )
    };
    let mine = PatchParams::apply("mine");
    let created = maps.patch("settings", &mine, &applied(json!({"a": "1", "b": "2"}))).await?;
    let again = maps.patch("settings", &mine, &applied(json!({"a": "1", "b": "2"}))).await?;
    ensure!(created == again, "an apply without a change changes {again:?}");
    let other = PatchParams::apply("other");
    let conflict = maps.patch("settings", &other, &applied(json!({"a": "3"}))).await;
    let Err(kube::Error::Api(status)) = conflict else { bail!("no conflict: {conflict:?}") };
    let message = "Apply failed with 1 conflict: conflict with \"mine\": .data.a";
    ensure!(status.code == 409 && status.message == message, "{status:?}");
    let causes = status.details.map(|details| details.causes).unwrap_or_default();
    let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
    ensure!(fields == [".data.a"] && causes[0].reason == "FieldManagerConflict", "{causes:?}");
    maps.patch("settings", &other.force(), &applied(json!({"a": "3"}))).await?;
    let left = maps.patch("settings", &mine, &applied(json!({}))).await?;
    let data = left.data.unwrap_or_default();
    ensure!(data == [("a".to_owned(), "3".to_owned())].into(), "{data:?}");
    let managers = left.metadata.managed_fields.unwrap_or_default();
    let mut managers: Vec<&str> =
        managers.iter().filter_map(|entry| entry.manager.as_deref()).collect();
    managers.sort_unstable();
    ensure!(managers == ["mine", "other"], "{managers:?}");
    Ok(())
}

/// S14: who applies a scale owns the number of replicas in the object
#[tokio::test]
async fn kube_rs_applies_a_scale() -> Result<()> {
    let world = World::cluster(2).await?;
    let deployments: Api<Deployment> = Api::namespaced(world.client.clone(), &world.namespace);
    let labels = json!({"app": "paused"});
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "paused"},
        "spec": {
            "paused": true,
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    }))?;
    let creator = PostParams { field_manager: Some("creator".into()), ..PostParams::default() };
    deployments.create(&creator, &deployment).await?;
    let scale = json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "paused"},
        "spec": {"replicas": 2},
    });
    let scaler = PatchParams::apply("scaler");
    let conflict = deployments.patch_scale("paused", &scaler, &Patch::Apply(&scale)).await;
    let Err(kube::Error::Api(status)) = conflict else { bail!("no conflict: {conflict:?}") };
    let message = "Apply failed with 1 conflict: conflict with \"creator\" using autoscaling/v1: \
                   .spec.replicas";
    ensure!(status.code == 409 && status.message == message, "{status:?}");
    let scaled = deployments.patch_scale("paused", &scaler.force(), &Patch::Apply(&scale)).await?;
    ensure!(scaled.spec.and_then(|spec| spec.replicas) == Some(2));
    let managers = deployments.get("paused").await?.metadata.managed_fields.unwrap_or_default();
    let entry = managers.iter().find(|entry| entry.manager.as_deref() == Some("scaler"));
    let Some(entry) = entry else { bail!("no entry: {managers:?}") };
    ensure!(entry.subresource.as_deref() == Some("scale"), "{entry:?}");
    let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
    ensure!(fields == Some(&json!({"f:spec": {"f:replicas": {}}})), "{entry:?}");
    Ok(())
}
