//! The main features with the real kubectl: apply, get, roll out, taint, add and remove nodes,
//! delete.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::observe::{Limits, Observer};
use crate::world::manifest::{IMAGE, NEXT_IMAGE};
use crate::world::pod::node_of;
use crate::world::{World, deadline, eventually};

const NAME: &str = "fluentd-elasticsearch";

/// C10, C20, C23, C25, C30, C40, C52, C70, S2, S3, S4, S8, S21, S22: the steps that the README
/// describes
#[tokio::test]
async fn an_operator_applies_rolls_and_deletes_a_daemon_set() -> Result<()> {
    main_path(&World::cluster(5).await?).await
}

/// C13, C14, C16, S23: pods are removed when their node is tainted, and created again without the
/// taint
#[tokio::test]
async fn an_operator_taints_cordons_and_replaces_nodes() -> Result<()> {
    let world = World::cluster(4).await?;
    apply(&world).await?;
    taint_and_back(&world).await?;
    cordon_and_back(&world).await?;
    if world.sandbox.is_some() {
        add_and_delete_a_node(&world).await?;
    }
    Ok(())
}

/// The steps, independent of the cluster's controller.
pub(crate) async fn main_path(world: &World) -> Result<()> {
    apply(world).await?;
    tables_have_upstreams_columns(world).await?;
    describe_tells_the_story(world).await?;
    roll(world).await?;
    undo(world).await?;
    delete(world).await
}

pub(crate) async fn apply(world: &World) -> Result<()> {
    let example = include_str!("../../examples/fluentd-elasticsearch.yaml");
    let manifest = example
        .replace("namespace: kube-system", &format!("namespace: {}", world.namespace))
        .replace("k8s.gcr.io/fluentd-elasticsearch:1.20", IMAGE)
        .replace("terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: 1");
    let output = world.kubectl_with_input(&["apply", "-f", "-"], &manifest).await?.ok()?;
    ensure!(output.trim() == format!("daemonset.apps/{NAME} created"), "apply printed {output:?}");
    rolled_out(world).await
}

async fn rolled_out(world: &World) -> Result<()> {
    let timeout = format!("--timeout={}s", deadline().as_secs());
    let output = world.kubectl(&["rollout", "status", "ds", NAME, &timeout]).await?;
    ensure!(output.contains(&format!("daemon set \"{NAME}\" successfully rolled out")), "{output}");
    Ok(())
}

async fn tables_have_upstreams_columns(world: &World) -> Result<()> {
    for (arguments, columns) in [
        (&["get", "ds"][..], "NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE NODE SELECTOR AGE"),
        (&["get", "pods"], "NAME READY STATUS RESTARTS AGE"),
        (&["get", "nodes"], "NAME STATUS ROLES AGE VERSION"),
        (&["get", "controllerrevisions"], "NAME CONTROLLER REVISION AGE"),
    ] {
        let table = world.kubectl(arguments).await?;
        let header = table.lines().next().unwrap_or_default();
        let header = header.split_whitespace().collect::<Vec<_>>().join(" ");
        ensure!(header == columns, "kubectl {arguments:?} prints {header:?}, not {columns:?}");
    }
    let all = world.kubectl(&["get", "ds,pods,nodes"]).await?;
    for prefix in [format!("daemonset.apps/{NAME} "), format!("pod/{NAME}-"), "node/".into()] {
        ensure!(all.contains(&prefix), "kubectl get ds,pods,nodes lacks {prefix:?}:\n{all}");
    }
    let nodes = world.kubectl(&["get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}"]).await?;
    let mut nodes: Vec<&str> = nodes.split_whitespace().collect();
    let count = nodes.len();
    nodes.sort_unstable();
    nodes.dedup();
    ensure!(count == nodes.len() && count > 0, "not one pod per node: {nodes:?}");
    Ok(())
}

async fn describe_tells_the_story(world: &World) -> Result<()> {
    eventually("describe shows the events", async || {
        let text = world.kubectl(&["describe", "ds", NAME]).await?;
        for part in ["Selector:", "Desired Number of Nodes Scheduled:", "SuccessfulCreate"] {
            ensure!(text.contains(part), "describe ds lacks {part:?}:\n{text}");
        }
        Ok(())
    })
    .await
}

async fn roll(world: &World) -> Result<()> {
    let limits = Limits::ONE_BY_ONE;
    let selected = "name";
    let observer = Observer::start_by_label(world, selected, NAME, limits).await?;
    let image = format!("{NAME}={NEXT_IMAGE}");
    world.kubectl(&["set", "image", &format!("ds/{NAME}"), &image]).await?;
    rolled_out(world).await?;
    pods_have_image(world, NEXT_IMAGE).await?;
    let report = observer.finish().await?;
    ensure!(!report.created.is_empty(), "nothing was rolled out");
    Ok(())
}

async fn undo(world: &World) -> Result<()> {
    let history = world.kubectl(&["rollout", "history", "ds", NAME]).await?;
    ensure!(
        history.lines().filter(|line| line.starts_with(char::is_numeric)).count() == 2,
        "{history}"
    );
    world.kubectl(&["rollout", "undo", "ds", NAME]).await?;
    rolled_out(world).await?;
    let image = world.kubectl(&[
        "get",
        "ds",
        NAME,
        "-o",
        "jsonpath={.spec.template.spec.containers[0].image}",
    ]);
    let image = image.await?;
    ensure!(image == IMAGE, "undo restored {image}");
    pods_have_image(world, IMAGE).await
}

async fn pods_have_image(world: &World, expected: &str) -> Result<()> {
    let images =
        world.kubectl(&["get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}"]);
    let images = images.await?;
    let mut images = images.split_whitespace().peekable();
    ensure!(images.peek().is_some(), "there are no pods");
    ensure!(images.all(|image| image == expected), "a pod has another image than {expected}");
    Ok(())
}

async fn delete(world: &World) -> Result<()> {
    world.kubectl(&["delete", "ds", NAME]).await?;
    eventually("no pod is left", async || {
        let pods = world.kubectl(&["get", "pods", "-o", "name"]).await?;
        ensure!(pods.trim().is_empty(), "left: {pods}");
        Ok(())
    })
    .await
}

async fn a_node_with_a_pod(world: &World) -> Result<String> {
    let pods = world.kubectl(&["get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}"]).await?;
    let mut nodes: Vec<&str> = pods.split_whitespace().collect();
    nodes.sort_unstable();
    Ok(nodes.first().copied().unwrap_or_default().to_owned())
}

async fn pods_on(world: &World, node: &str, expected: usize) -> Result<()> {
    eventually(&format!("{expected} pods on {node}"), async || {
        let pods = world.pods().list(&Default::default()).await?.items;
        let here = pods.iter().filter(|pod| node_of(pod) == node).count();
        ensure!(here == expected, "there are {here}");
        Ok(())
    })
    .await
}

async fn taint_and_back(world: &World) -> Result<()> {
    let node = a_node_with_a_pod(world).await?;
    let key = format!("everynode.dev/{}", world.namespace);
    world.kubectl(&["taint", "node", &node, &format!("{key}=x:NoExecute")]).await?;
    let gone = pods_on(world, &node, 0).await;
    world.kubectl(&["taint", "node", &node, &format!("{key}:NoExecute-")]).await?;
    gone?;
    pods_on(world, &node, 1).await?;
    rolled_out(world).await
}

async fn cordon_and_back(world: &World) -> Result<()> {
    let node = a_node_with_a_pod(world).await?;
    world.kubectl(&["cordon", &node]).await?;
    let cordoned = async {
        eventually("the node is reported as cordoned", async || {
            let nodes = world.kubectl(&["get", "node", &node]).await?;
            ensure!(nodes.contains("Ready,SchedulingDisabled"), "{nodes}");
            Ok(())
        })
        .await?;
        pods_on(world, &node, 1).await
    };
    let cordoned = cordoned.await;
    world.kubectl(&["uncordon", &node]).await?;
    cordoned
}

async fn add_and_delete_a_node(world: &World) -> Result<()> {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-added"}});
    let output = world.kubectl_with_input(&["create", "-f", "-"], &node.to_string()).await?.ok()?;
    ensure!(output.trim() == "node/node-added created", "{output}");
    pods_on(world, "node-added", 1).await?;
    rolled_out(world).await?;
    world.kubectl(&["delete", "node", "node-added"]).await?;
    pods_on(world, "node-added", 0).await?;
    rolled_out(world).await
}
