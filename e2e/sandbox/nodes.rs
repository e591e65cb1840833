//! Nodes that go down, are deleted, and return. Requires nodes that the test may stop.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::nodes::{a_node, patch_node};
use crate::observe::{Limits, Observer, same_pods, uids};
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch, with};
use crate::world::pod::{is_available, is_terminating, name_of, node_of, uid};
use crate::world::{Setup, World, eventually};

/// C16, C20, C27, S23: a node that is deleted and recreated with the same name gets a new pod
#[tokio::test]
async fn a_node_recreated_under_its_name_gets_a_new_pod() -> Result<()> {
    recreate_a_node(true).await
}

/// C16, C34, S23: a node that is recreated before its deletion was processed has one available pod,
/// old or new
#[tokio::test]
async fn a_node_recreated_at_once_has_one_pod() -> Result<()> {
    recreate_a_node(false).await
}

async fn recreate_a_node(wait: bool) -> Result<()> {
    let world = World::sandbox(Setup { nodes: 3, ..Setup::default() }).await?;
    world.roll_out(&daemon_set("a")).await?;
    let limits = Limits::ONE_BY_ONE;
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

/// S23, C16, C58, C70: a node that is down keeps its pod, not ready, and an update goes round it;
/// when it recovers, all pods are available again
#[tokio::test]
async fn a_node_that_goes_down_comes_back_with_its_pod() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 3, ..Setup::default() }).await?;
    world.roll_out(&daemon_set("a")).await?;
    let tolerant = json!({"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}});
    world.roll_out(&with(daemon_set("tolerant"), json!({"spec": tolerant}))).await?;
    let before = uids(&world, "a").await?;
    let old = uids(&world, "tolerant").await?;
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
    world.patch_daemon_set("tolerant", image_patch(NEXT_IMAGE)).await?;
    eventually("the other nodes are updated", async || {
        let pods = world.pods_of("tolerant").await?;
        let (left, new): (Vec<_>, Vec<_>) = pods.iter().partition(|pod| old.contains(&uid(pod)));
        let available = new.iter().filter(|pod| is_available(pod, 0)).count();
        ensure!(available == 2, "{available} new pods are available");
        let [left] = left[..] else { anyhow::bail!("{} old pods are left", left.len()) };
        ensure!(node_of(left) == node && !is_terminating(left), "{}", name_of(left));
        Ok(())
    })
    .await?;
    patch_node(&world, &node, down(Value::Null)).await?;
    world.settled("a").await?;
    world.settled("tolerant").await?;
    ensure!(uids(&world, "tolerant").await?.is_disjoint(&old), "an old pod is left");
    same_pods(&world, "a", &before).await
}
