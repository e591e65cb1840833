//! Scheduling constraints of created pods.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::observe::node_of;
use crate::sandbox::placement::affinity;
use crate::world::World;
use crate::world::manifest::{daemon_set, with};

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
