//! The ConfigMaps of a template are part of its revision.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::observe::uids;
use crate::world::guard::guarded;
use crate::world::manifest::with;
use crate::world::pod::node_of;
use crate::world::{World, eventually};

const POLICY: &str = "steps: [{name: canary, upTo: [1], approval: true}]\n\
                      config: {configMaps: snapshot, settle: 2s}\n";

/// G58: another content of a ConfigMap is rolled out by waves, as a copy that cannot be changed;
/// an aborted one goes back to the content before; the one that was good counts at once. Without
/// the ConfigMap nothing begins. The copies go with the DaemonSet.
#[tokio::test(flavor = "multi_thread")]
async fn another_content_of_a_config_map_is_rolled_out_by_waves() -> Result<()> {
    let world = World::cluster(3).await?;
    let agent = agent();
    set_config(&world, "agent-cfg", "good").await?;
    world.roll_out(&agent).await?;
    world.reaches("agent", "Complete").await?;
    let good = contents(&world).await?;
    ensure!(good.len() == 3 && good.values().all(|content| content == "good"), "{good:?}");
    let before = uids(&world, "agent").await?;

    set_config(&world, "agent-cfg", "bad").await?;
    // The content counts once nothing has changed for a while.
    eventually("the condition names the ConfigMap", async || {
        world.stated("agent", "Updating").await
    })
    .await?;
    let status = world.everynode(&["status", "--no-wait", "ds/agent"]).await?;
    ensure!(status.code != 0, "it is rolled out: {}", status.stdout);
    world.reaches("agent", "AwaitingApproval").await?;
    let on_canary = contents(&world).await?;
    let bad = on_canary.values().filter(|content| *content == "bad").count();
    ensure!(bad == 1 && on_canary.len() == 3, "{on_canary:?}");
    let get = world.everynode(&["rollout", "get", "ds/agent"]).await?.ok()?;
    ensure!(get.contains("agent-cfg"), "{get}");
    world.everynode(&["rollout", "abort", "ds/agent"]).await?.ok()?;
    eventually("the canary has the content before", async || {
        ensure!(contents(&world).await? == good, "{:?}", contents(&world).await?);
        world.stated("agent", "Failed").await
    })
    .await?;
    let after = uids(&world, "agent").await?;
    ensure!(before.intersection(&after).count() == 2, "{after:?} after {before:?}");

    set_config(&world, "agent-cfg", "good").await?;
    world.reaches("agent", "Complete").await?;
    ensure!(uids(&world, "agent").await? == after, "the good content restarts nothing");

    let other = json!({"spec": {"template": {"spec": {"volumes": [
        {"name": "config", "configMap": {"name": "agent-cfg-2"}}]}}}});
    world.patch_daemon_set("agent", other).await?;
    world.reaches("agent", "ConfigNotReady").await?;
    let status = world.everynode(&["rollout", "get", "ds/agent"]).await?.stdout;
    ensure!(status.contains("missing ConfigMaps: agent-cfg-2"), "{status}");
    ensure!(uids(&world, "agent").await? == after, "it begins without its ConfigMap");
    set_config(&world, "agent-cfg-2", "new").await?;
    world.reaches("agent", "AwaitingApproval").await?;
    world.everynode(&["rollout", "approve", "ds/agent"]).await?.ok()?;
    world.reaches("agent", "Complete").await?;
    let new = contents(&world).await?;
    ensure!(new.len() == 3 && new.values().all(|content| content == "new"), "{new:?}");

    world.kubectl(&["-n", &world.namespace, "delete", "ds/agent"]).await?;
    eventually("the copies are gone", async || {
        let maps = config_maps(&world).await?;
        let copies: Vec<_> = maps.iter().filter(|map| map["immutable"] == true).collect();
        ensure!(copies.is_empty(), "{copies:?}");
        Ok(())
    })
    .await
}

fn agent() -> Value {
    let volume = json!({"name": "config", "configMap": {"name": "agent-cfg"}});
    let template = json!({"spec": {"template": {"spec": {"volumes": [volume]}}}});
    with(guarded("agent", POLICY), template)
}

async fn set_config(world: &World, name: &str, content: &str) -> Result<()> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": world.namespace}, "data": {"content": content}});
    world.kubectl_with_input(&["apply", "-f", "-"], &map.to_string()).await?.ok()?;
    Ok(())
}

async fn config_maps(world: &World) -> Result<Vec<Value>> {
    let list = world.kubectl(&["-n", &world.namespace, "get", "configmaps", "-o", "json"]).await?;
    let list: Value = serde_json::from_str(&list)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

/// The content of the copy that the pod of each node mounts.
async fn contents(world: &World) -> Result<BTreeMap<String, String>> {
    let maps = config_maps(world).await?;
    let mut contents = BTreeMap::new();
    for pod in world.pods_of("agent").await? {
        let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.clone()).unwrap_or_default();
        let mounted =
            volumes.iter().find_map(|volume| volume.config_map.as_ref()?.name.clone().into());
        let copy = maps.iter().find(|map| map["metadata"]["name"].as_str() == mounted.as_deref());
        let Some(copy) = copy else { continue };
        ensure!(copy["immutable"] == true, "{copy}");
        let content = copy["data"]["content"].as_str().unwrap_or_default();
        contents.insert(node_of(&pod), content.to_owned());
    }
    Ok(contents)
}
