//! Running pods get the resources of the override of their node.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::cluster::nodes::patch_node;
use crate::observe::uids;
use crate::world::beside::{Beside, RollBack, apply, on_delete, rights_with};
use crate::world::manifest::with;
use crate::world::pod::{label, node_of};
use crate::world::{World, eventually};

const OVERRIDE: &str = "everynode.dev/override";

/// G57: beside the built-in controller overrides of resources change running pods in place, which
/// needs a right of its own; a new pod gets them once it runs, and without them all change back. No
/// revision is made for them, and other fields are refused by name.
#[tokio::test(flavor = "multi_thread")]
async fn running_pods_get_the_resources_of_their_node() -> Result<()> {
    let mut beside = Beside::start(3, RollBack::No).await?;
    let world = &beside.world;
    let key = format!("everynode.dev/{}", world.namespace);
    let nodes = World::node_names(&world.list_nodes().await?);
    for node in &nodes[..2] {
        patch_node(world, node, json!({ "metadata": { "labels": { &*key: "big" } } })).await?;
    }
    let seen = change(world, &key, &nodes[..2]).await;
    for node in &nodes[..2] {
        patch_node(world, node, json!({ "metadata": { "labels": { &*key: null } } })).await?;
    }
    beside.guard.check_running()?;
    seen
}

fn policy(key: &str, fields: &str) -> Value {
    json!(format!(
        "overrides:\n- name: big\n  nodes: {{matchLabels: {{{key}: big}}}}\n  containers: \
         [{{name: main, {fields}}}]\n"
    ))
}

async fn change(world: &World, key: &str, big: &[String]) -> Result<()> {
    let amounts = |memory: &str| json!({ "memory": memory, "cpu": "10m" });
    let resources = json!({ "requests": amounts("64Mi"), "limits": amounts("128Mi") });
    let container = json!([{ "name": "main", "image": crate::world::manifest::IMAGE,
        "resources": resources }]);
    let template = json!({ "spec": { "template": { "spec": { "containers": container } } } });
    world.create_daemon_set(&with(on_delete("agent", "maxUnavailable: 1"), template)).await?;
    world.reaches("agent", "Complete").await?;
    let all = world.pods_of("agent").await?.len();
    let before = uids(world, "agent").await?;

    world.set_policy("agent", policy(key, "env: [{name: A, value: b}]")).await?;
    world.reaches("agent", "InvalidPolicy").await?;
    says(world, "overrides[0].containers[0].env: Forbidden: beside the built-in controller")
        .await?;
    let smaller = policy(key, "resources: {requests: {memory: 32Mi}}");
    world.set_policy("agent", smaller.clone()).await?;
    says(world, "pods cannot be changed in place: ").await?;
    apply(world, &rights_with(world, &["in-place-beside"]).await?).await?;
    have(world, big, "32Mi").await?;
    ensure!(uids(world, "agent").await? == before, "no pod is replaced");

    let mut pods = world.pods_of("agent").await?;
    pods.retain(|pod| big.contains(&node_of(pod)));
    let gone = pods[0].metadata.name.clone().unwrap_or_default();
    world.kubectl(&["delete", "pod", &gone]).await?;
    have(world, big, "32Mi").await?;
    let before = uids(world, "agent").await?;
    ensure!(before.len() == all, "{before:?}");

    world.set_policy("agent", json!("maxUnavailable: 1")).await?;
    have(world, &[], "").await?;
    ensure!(uids(world, "agent").await? == before, "no pod is replaced");
    let revisions = world.kubectl(&["get", "controllerrevisions", "-o", "name"]).await?;
    ensure!(revisions.lines().count() == 1, "{revisions}");
    Ok(())
}

async fn says(world: &World, text: &str) -> Result<()> {
    eventually(&format!("it says {text}"), async || {
        let get = world.everynode(&["rollout", "get", "ds/agent"]).await?.stdout;
        ensure!(get.contains(text), "{get}");
        Ok(())
    })
    .await
}

/// Waits until the pods of these nodes, and no others, have an override with this request.
async fn have(world: &World, nodes: &[String], memory: &str) -> Result<()> {
    let expected: BTreeMap<_, _> =
        nodes.iter().map(|node| (node.clone(), memory.to_owned())).collect();
    eventually("the pods have their override", async || {
        let pods = world.pods_of("agent").await?;
        let own = pods.iter().filter(|pod| label(pod, OVERRIDE).is_some());
        let own: BTreeMap<_, _> = own.map(|pod| (node_of(pod), request_of(pod))).collect();
        ensure!(own == expected, "{own:?}");
        let others = pods.iter().filter(|pod| !own.contains_key(&node_of(pod)));
        ensure!(others.clone().all(|pod| request_of(pod) == "64Mi"), "{pods:?}");
        world.all_available("agent").await
    })
    .await
}

fn request_of(pod: &Pod) -> String {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut requests = containers.filter_map(|it| it.resources.as_ref()?.requests.as_ref());
    requests.next().map(|amounts| amounts["memory"].0.clone()).unwrap_or_default()
}
