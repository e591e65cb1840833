//! Nodes that appear, disappear, flap, and change their labels.

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::observe::{Limits, Observer, same_pods, uids};
use crate::world::manifest::{daemon_set, with};
use crate::world::pod::node_of;
use crate::world::{World, eventually};

/// C13, C16, C34: a node whose taint flaps never has two pods, and has one at the end
#[tokio::test]
async fn a_flapping_taint_never_causes_two_pods() -> Result<()> {
    let world = World::cluster(3).await?;
    world.roll_out(&daemon_set("a")).await?;
    let node = a_node(&world, "a").await?;
    let key = format!("everynode.dev/{}", world.namespace);
    let limits = Limits::ONE_BY_ONE;
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
    let report = observer.finish().await?;
    ensure!(!report.created.is_empty(), "the taint never removed the pod");
    Ok(())
}

async fn flap(world: &World, node: &str, key: &str) -> Result<()> {
    world.kubectl(&["taint", "node", node, &format!("{key}=x:NoExecute")]).await?;
    world.kubectl(&["taint", "node", node, &format!("{key}:NoExecute-")]).await?;
    Ok(())
}

/// C13, C70: with NoSchedule a running pod stays and counts as misscheduled until the taint is
/// removed
#[tokio::test]
async fn with_a_no_schedule_taint_the_pod_stays_and_is_misscheduled() -> Result<()> {
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

/// C12, C16: a node selector follows changes of the node's labels
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

pub(crate) async fn a_node(world: &World, name: &str) -> Result<String> {
    let pods = world.pods_of(name).await?;
    pods.iter().map(node_of).min().context("no pod is on a node")
}

async fn label_node(world: &World, node: &str, labels: Value) -> Result<()> {
    patch_node(world, node, json!({"metadata": {"labels": labels}})).await
}

pub(crate) async fn patch_node(world: &World, node: &str, patch: Value) -> Result<()> {
    world.nodes().patch(node, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}
