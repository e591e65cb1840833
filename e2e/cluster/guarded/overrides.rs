//! Pods of some nodes differ from the template.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

use crate::cluster::nodes::patch_node;
use crate::world::guard::guarded;
use crate::world::pod::{label, node_of, uid};
use crate::world::{World, eventually};

const OVERRIDE: &str = "everynode.dev/override";

/// G57: the pods of labelled nodes have their override; another one changes these pods only, wave
/// by wave, and a failed one is undone; a node whose label changes gets another pod. `plan` lists
/// the nodes, and what a template does not allow is refused by name.
#[tokio::test(flavor = "multi_thread")]
async fn pods_of_some_nodes_differ_from_the_template() -> Result<()> {
    let world = World::cluster(4).await?;
    let key = format!("everynode.dev/{}", world.namespace);
    let nodes = World::node_names(&world.list_nodes().await?);
    let big = &nodes[..2];
    for node in big {
        patch_node(&world, node, json!({ "metadata": { "labels": { &*key: "big" } } })).await?;
    }
    let seen = differ(&world, &key, &nodes, big).await;
    for node in &nodes {
        patch_node(&world, node, json!({ "metadata": { "labels": { &*key: null } } })).await?;
    }
    seen
}

fn policy(key: &str, fields: &str) -> String {
    format!(
        "steps: [{{name: canary, upTo: [1], bake: 1s}}]\noverrides:\n- name: big\n  settle: 0s\n  \
         nodes: {{matchLabels: {{{key}: big}}}}\n  containers: [{{{fields}}}]\n"
    )
}

async fn differ(world: &World, key: &str, nodes: &[String], big: &[String]) -> Result<()> {
    let workers = |number: u32| {
        policy(key, &format!("name: main, env: [{{name: WORKERS, value: \"{number}\"}}]"))
    };
    world.roll_out(&guarded("agent", &workers(16))).await?;
    world.reaches("agent", "Complete").await?;
    let with = |number: &'static str| big.iter().map(move |node| (node.clone(), number));
    ensure!(workers_of(world).await? == with("16").collect(), "{:?}", workers_of(world).await?);
    let before = uids(world).await?;

    world.set_policy("agent", json!(workers(32))).await?;
    eventually("the override is rolled out", async || {
        let found = workers_of(world).await?;
        ensure!(found == with("32").collect(), "{found:?}");
        world.stated("agent", "Complete").await
    })
    .await?;
    let after = uids(world).await?;
    let is_kept = |node: &&String| before[*node] == after[*node];
    ensure!(nodes.iter().filter(is_kept).eq(&nodes[2..]), "{after:?} after {before:?}");
    let rollout = world.everynode(&["rollout", "get", "ds/agent", "-o", "json"]).await?;
    let rollout: Value = serde_json::from_str(&rollout.stdout)?;
    ensure!(rollout["overrides"][0]["nodes"] == json!(big), "{rollout}");

    world.set_policy("agent", json!(policy(key, "name: mian"))).await?;
    world.reaches("agent", "InvalidPolicy").await?;
    let status = world.everynode(&["rollout", "get", "ds/agent"]).await?.stdout;
    ensure!(status.contains("overrides[0].containers[0].name"), "{status}");
    world.set_policy("agent", json!(workers(32))).await?;
    world.reaches("agent", "Complete").await?;
    ensure!(uids(world).await? == after, "a mistake in the policy restarts nothing");

    let (grown, shrunk) = (&nodes[2], &nodes[0]);
    patch_node(world, grown, json!({ "metadata": { "labels": { key: "big" } } })).await?;
    patch_node(world, shrunk, json!({ "metadata": { "labels": { key: null } } })).await?;
    let expected: BTreeMap<_, _> = [&nodes[1], grown].map(|node| (node.clone(), "32")).into();
    eventually("the pods follow the labels", async || {
        let found = workers_of(world).await?;
        ensure!(found == expected.iter().map(|(node, it)| (node.clone(), *it)).collect());
        world.all_available("agent").await
    })
    .await
}

/// The nodes whose pods have an override, with the value of its variable.
async fn workers_of(world: &World) -> Result<BTreeMap<String, &'static str>> {
    let mut found = BTreeMap::new();
    for pod in world.pods_of("agent").await? {
        let containers: &[Container] = pod.spec.as_ref().map_or(&[], |spec| &spec.containers);
        let env = containers.iter().flat_map(|container| container.env.iter().flatten());
        let value =
            env.filter(|variable| variable.name == "WORKERS").find_map(|it| it.value.clone());
        ensure!(value.is_some() == label(&pod, OVERRIDE).is_some(), "{pod:?}");
        if let Some(value) = value {
            found.insert(node_of(&pod), if value == "16" { "16" } else { "32" });
        }
    }
    Ok(found)
}

/// The UIDs of the pods by their nodes.
async fn uids(world: &World) -> Result<BTreeMap<String, String>> {
    let pods = world.pods_of("agent").await?;
    Ok(pods.iter().map(|pod: &Pod| (node_of(pod), uid(pod))).collect())
}
