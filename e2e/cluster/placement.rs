//! Scheduling constraints of created pods.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::revisions::only_revision;
use crate::sandbox::placement::affinity;
use crate::world::World;
use crate::world::manifest::{daemon_set, with};
use crate::world::pod::{
    GENERATION_ANNOTATION, GENERATION_LABEL, HASH_LABEL, label, name_of, node_of,
};

/// C30: a created pod has its DaemonSet as owner, and the metadata of its template and revision
#[tokio::test]
async fn a_created_pod_has_owner_labels_and_annotations() -> Result<()> {
    let world = World::cluster(1).await?;
    let metadata = json!({"labels": {"tier": "node"}, "annotations": {"note": "<kept>"}});
    let manifest = with(daemon_set("a"), json!({"spec": {"template": {"metadata": metadata}}}));
    let ds = world.roll_out(&manifest).await?;
    let revision = world.revisions().get(&only_revision(&world).await?).await?;
    let pod = world.pods_of("a").await?.pop().context("there is a pod")?;
    ensure!(pod.metadata.generate_name.as_deref() == Some("a-"), "{:?}", pod.metadata);
    ensure!(name_of(&pod).starts_with("a-"), "{:?}", pod.metadata);
    let owners = serde_json::to_value(&pod.metadata.owner_references)?;
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "a",
                        "uid": ds.metadata.uid, "controller": true, "blockOwnerDeletion": true}]);
    ensure!(owners == owner, "{owners}");
    let annotations = pod.metadata.annotations.clone().unwrap_or_default();
    ensure!(annotations.get("note").is_some_and(|note| note == "<kept>"), "{annotations:?}");
    let hash = revision.metadata.labels.and_then(|mut labels| labels.remove(HASH_LABEL));
    let generation = ds.metadata.annotations.and_then(|mut all| all.remove(GENERATION_ANNOTATION));
    for (key, value) in [
        ("app", Some("a")),
        ("tier", Some("node")),
        (HASH_LABEL, hash.as_deref()),
        (GENERATION_LABEL, generation.as_deref()),
    ] {
        let found = label(&pod, key);
        ensure!(found == value, "the label {key} is {found:?}, not {value:?}");
    }
    ensure!(hash.is_some(), "its revision has no hash");
    Ok(())
}

/// C14, C30: a created pod is pinned to its node, and has each default toleration once
#[tokio::test]
async fn a_created_pod_is_pinned_and_has_default_tolerations() -> Result<()> {
    let world = World::cluster(1).await?;
    let key = "node.kubernetes.io/not-ready";
    let own = json!([{"key": key, "operator": "Exists", "effect": "NoExecute"}]);
    let preferred = json!([{"weight": 1, "preference": {"matchExpressions": [
        {"key": "kubernetes.io/os", "operator": "Exists"}]}}]);
    let spec = json!({
        "tolerations": own,
        "affinity": {"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": preferred}},
    });
    world.roll_out(&with(daemon_set("a"), json!({"spec": {"template": {"spec": spec}}}))).await?;
    let pod = world.pods_of("a").await?.pop().context("there is a pod")?;
    let affinity = affinity(&pod).context("it has no affinity")?;
    let pinned = json!([{"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": [node_of(&pod)]}]}]);
    ensure!(affinity["required"]["nodeSelectorTerms"] == pinned, "{affinity}");
    ensure!(affinity["preferred"] == preferred, "{affinity}");
    let tolerations = pod.spec.and_then(|spec| spec.tolerations).unwrap_or_default();
    let mut seen: Vec<(String, String)> = tolerations
        .into_iter()
        .map(|toleration| {
            (toleration.key.unwrap_or_default(), toleration.effect.unwrap_or_default())
        })
        .filter(|(key, _)| key.starts_with("node.kubernetes.io/"))
        .collect();
    seen.sort_unstable();
    let expected: Vec<(String, String)> = [
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("not-ready", "NoExecute"),
        ("pid-pressure", "NoSchedule"),
        ("unreachable", "NoExecute"),
        ("unschedulable", "NoSchedule"),
    ]
    .map(|(key, effect)| (format!("node.kubernetes.io/{key}"), effect.to_owned()))
    .to_vec();
    ensure!(seen == expected, "{seen:?}");
    Ok(())
}
