//! Nodes that come, go, flap, and change their labels.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::observe::{Limits, Observer, node_of, same_pods, uids};
use crate::world::manifest::{daemon_set, with};
use crate::world::{Setup, World, eventually};

/// C13, C16, C34: a node flapping between tainted and not never has two pods, and has one in the end
#[tokio::test]
async fn a_flapping_taint_never_doubles_a_pod() -> Result<()> {
    let world = World::cluster(3).await?;
    world.roll_out(&daemon_set("a")).await?;
    let node = a_node(&world, "a").await?;
    let key = format!("everynode.dev/{}", world.namespace);
    let limits = Limits { pods_per_node_max: 1, nodes_down_max: 1 };
    let observer = Observer::start(&world, "a", limits).await?;
    let mut flapped = Ok(());
    for _ in 0..8 {
        flapped = flap(&world, &node, &key).await;
        if flapped.is_err() {
            break;
        }
    }
    flapped?;
    world.settled("a").await?;
    observer.finish().await?;
    Ok(())
}

async fn flap(world: &World, node: &str, key: &str) -> Result<()> {
    world.kubectl(&["taint", "node", node, &format!("{key}=x:NoExecute")]).await?;
    world.kubectl(&["taint", "node", node, &format!("{key}:NoExecute-")]).await?;
    Ok(())
}

/// C13, C70: NoSchedule leaves a running pod where it is and counts it as misscheduled, until the taint goes
#[tokio::test]
async fn a_no_schedule_taint_keeps_the_pod_and_counts_it() -> Result<()> {
    let world = World::cluster(2).await?;
    world.roll_out(&daemon_set("a")).await?;
    let before = uids(&world, "a").await?;
    let node = a_node(&world, "a").await?;
    let key = format!("everynode.dev/{}", world.namespace);
    world.kubectl(&["taint", "node", &node, &format!("{key}=x:NoSchedule")]).await?;
    let counted = eventually("the pod is misscheduled", async || {
        let status = world.daemon_sets().get("a").await?.status.unwrap_or_default();
        ensure!(status.number_misscheduled == 1, "{status:?}");
        Ok(())
    })
    .await;
    world.kubectl(&["taint", "node", &node, &format!("{key}:NoSchedule-")]).await?;
    counted?;
    world.settled("a").await?;
    same_pods(&world, "a", &before).await
}

/// C12, C16: a node selector follows the node's labels
#[tokio::test]
async fn a_node_selector_follows_the_labels() -> Result<()> {
    let world = World::cluster(3).await?;
    let label = format!("everynode.dev/{}", world.namespace);
    let selector =
        json!({"spec": {"template": {"spec": {"nodeSelector": {label.as_str(): "yes"}}}}});
    world.create_daemon_set(&with(daemon_set("a"), selector)).await?;
    let nodes = world.list_nodes().await?;
    let node = World::node_names(&nodes).pop().context("a cluster has nodes")?;
    label_node(&world, &node, json!({label.as_str(): "yes"})).await?;
    let placed = eventually("the labelled node has the pod", async || {
        let pods = world.pods_of("a").await?;
        let nodes: Vec<String> = pods.iter().map(node_of).collect();
        ensure!(nodes == [node.clone()], "pods are on {nodes:?}");
        Ok(())
    })
    .await;
    label_node(&world, &node, json!({label.as_str(): null})).await?;
    placed?;
    same_pods(&world, "a", &Default::default()).await
}

/// C16, C20, C27, S23: a node deleted and recreated under the same name gets a pod of its own
#[tokio::test]
async fn a_node_recreated_under_its_name_gets_a_new_pod() -> Result<()> {
    recreate_a_node(true).await
}

/// C16, C34, S23: recreated before anyone has missed it, it has one pod, old or new, and that is available
#[tokio::test]
async fn a_node_recreated_at_once_has_one_pod() -> Result<()> {
    recreate_a_node(false).await
}

async fn recreate_a_node(wait: bool) -> Result<()> {
    let Some(world) = World::sandbox(Setup { nodes: 3, ..Setup::default() }).await? else {
        return Ok(());
    };
    world.roll_out(&daemon_set("a")).await?;
    let limits = Limits { pods_per_node_max: 1, nodes_down_max: 1 };
    let observer = Observer::start(&world, "a", limits).await?;
    let name = a_node(&world, "a").await?;
    world.nodes().delete(&name, &DeleteParams::default()).await?;
    if wait {
        eventually("the pod is gone", async || {
            let left = world.pods_of("a").await?.iter().any(|pod| node_of(pod) == name);
            ensure!(!left, "it is still there");
            Ok(())
        })
        .await?;
        let ds = world.settled("a").await?;
        ensure!(ds.status.unwrap_or_default().desired_number_scheduled == 2);
    }
    let node: Node = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    world.nodes().create(&PostParams::default(), &node).await?;
    eventually("the node is back in the status", async || {
        let status = world.daemon_sets().get("a").await?.status.unwrap_or_default();
        ensure!(status.desired_number_scheduled == 3, "{status:?}");
        Ok(())
    })
    .await?;
    world.settled("a").await?;
    let report = observer.finish().await?;
    ensure!(!wait || report.created.len() == 1, "{report:?}");
    let pods = world.pods_of("a").await?;
    let here = pods.iter().filter(|pod| node_of(pod) == name).count();
    ensure!(here == 1 && pods.len() == 3, "{here} of {} pods on {name}", pods.len());
    Ok(())
}

/// S23, C16, C70: a node that goes down keeps its pod, not ready; back up, all is available again
#[tokio::test]
async fn a_node_that_goes_down_comes_back_with_its_pod() -> Result<()> {
    let Some(world) = World::sandbox(Setup { nodes: 3, ..Setup::default() }).await? else {
        return Ok(());
    };
    world.roll_out(&daemon_set("a")).await?;
    let before = uids(&world, "a").await?;
    let node = a_node(&world, "a").await?;
    let down =
        |value: Value| json!({"metadata": {"annotations": {"sandbox.everynode.dev/down": value}}});
    patch_node(&world, &node, down(json!("true"))).await?;
    eventually("the node is unreachable", async || {
        let found = world.nodes().get(&node).await?;
        let taints = found.spec.and_then(|spec| spec.taints).unwrap_or_default();
        let has = |effect: &str| {
            taints.iter().any(|t| t.key == "node.kubernetes.io/unreachable" && t.effect == effect)
        };
        ensure!(has("NoSchedule") && has("NoExecute"), "taints {taints:?}");
        let status = world.daemon_sets().get("a").await?.status.unwrap_or_default();
        ensure!(status.number_available == Some(2), "{status:?}");
        Ok(())
    })
    .await?;
    patch_node(&world, &node, down(Value::Null)).await?;
    world.settled("a").await?;
    same_pods(&world, "a", &before).await
}

async fn a_node(world: &World, name: &str) -> Result<String> {
    let pods = world.pods_of(name).await?;
    pods.iter().map(node_of).min().context("no pod is on a node")
}

async fn label_node(world: &World, node: &str, labels: Value) -> Result<()> {
    patch_node(world, node, json!({"metadata": {"labels": labels}})).await
}

async fn patch_node(world: &World, node: &str, patch: Value) -> Result<()> {
    world.nodes().patch(node, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}
