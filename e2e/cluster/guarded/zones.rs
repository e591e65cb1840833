//! Waves by the value of a label, `promote`, and what `plan` and `undo` make of a policy.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::cluster::nodes::patch_node;
use crate::observe::uids;
use crate::world::guard::{guarded, image_of};
use crate::world::manifest::{IMAGE, NEXT_IMAGE, image_patch, with};
use crate::world::pod::node_of;
use crate::world::{World, eventually};

/// G5, G10, G11, G21, G22: zone after zone is updated, the nodes without a zone last; each wave is
/// told, and an approval can be skipped
#[tokio::test(flavor = "multi_thread")]
async fn zone_after_zone_is_updated() -> Result<()> {
    let world = World::cluster(5).await?;
    let key = format!("everynode.dev/{}", world.namespace);
    let nodes = World::node_names(&world.list_nodes().await?);
    let (a, others) = nodes.split_at(nodes.len() / 2);
    let (last, b) = others.split_last().context("a cluster has nodes")?;
    for (zone, nodes) in [("a", a), ("b", b)] {
        for node in nodes {
            patch_node(&world, node, json!({"metadata": {"labels": {key.as_str(): zone}}})).await?;
        }
    }
    let updated = update_by_zone(&world, &key, a, b, last).await;
    for node in &nodes {
        patch_node(&world, node, json!({"metadata": {"labels": {key.as_str(): null}}})).await?;
    }
    updated
}

async fn update_by_zone(
    world: &World,
    key: &str,
    a: &[String],
    b: &[String],
    last: &str,
) -> Result<()> {
    let policy = format!("steps: [{{name: zones, by: {key}, approval: true}}]");
    world.roll_out(&guarded("agent", &policy)).await?;
    world.reaches("agent", "Complete").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    let mut expected: BTreeSet<String> = a.iter().cloned().collect();
    awaits_approval(world, &expected).await?;
    let status = world.everynode(&["status", "ds/agent", "--no-wait", "-o", "json"]).await?;
    let status: Value = serde_json::from_str(&status.stdout)?;
    let nodes = a.len();
    let wave = json!({ "name": "zones/a", "number": 1, "waves": 3, "nodes": nodes,
        "nodesDone": nodes, "states": { "waiting": 0, "updating": 0, "done": nodes, "failed": 0,
            "setAside": {} } });
    ensure!(status["guard"]["wave"] == wave, "{status}");
    let text = world.everynode(&["status", "ds/agent", "--no-wait"]).await?.stdout;
    let line = format!("wave 1 of 3, zones/a: {nodes} of {nodes} nodes done");
    ensure!(text.contains(&line), "{text}");
    world.everynode(&["rollout", "approve", "ds/agent"]).await?.ok()?;
    expected.extend(b.iter().cloned());
    awaits_approval(world, &expected).await?;
    let promoted = world.everynode(&["rollout", "promote", "ds/agent"]).await?.ok()?;
    ensure!(promoted.contains("promoted past wave zones/b"), "{promoted}");
    expected.insert(last.to_owned());
    awaits_approval(world, &expected).await?;
    let get = world.everynode(&["rollout", "get", "ds/agent"]).await?.ok()?;
    ensure!(get.contains("at zones/(unlabelled)"), "{get}");
    world.everynode(&["rollout", "approve", "ds/agent"]).await?.ok()?;
    world.reaches("agent", "Complete").await
}

/// Waits until these nodes have the new template, no others, and the next wave must be approved.
async fn awaits_approval(world: &World, expected: &BTreeSet<String>) -> Result<()> {
    eventually("the zone must be approved", async || {
        let updated = updated_nodes(world).await?;
        ensure!(updated.is_subset(expected), "{updated:?} are updated, not only {expected:?}");
        world.stated("agent", "AwaitingApproval").await?;
        ensure!(updated == *expected, "only {updated:?} of {expected:?} are updated");
        Ok(())
    })
    .await?;
    world.shows_health("agent", "Suspended").await
}

/// The nodes that have a pod of the new template.
pub(super) async fn updated_nodes(world: &World) -> Result<BTreeSet<String>> {
    let pods = world.pods_of("agent").await?;
    Ok(pods.iter().filter(|pod| image_of(pod) == NEXT_IMAGE).map(node_of).collect())
}

/// G11, G22: `plan` names the waves with their nodes, as they come then; `undo` in mid-rollout goes
/// back to the template that was complete before, and replaces only the canary's pod
#[tokio::test(flavor = "multi_thread")]
async fn plan_names_the_waves_and_undo_goes_back_to_the_base() -> Result<()> {
    let world = World::cluster(5).await?;
    let manifest = guarded("agent", super::CANARY);
    world.roll_out(&manifest).await?;
    world.reaches("agent", "Complete").await?;
    let before = uids(&world, "agent").await?;
    let next = with(manifest, image_patch(NEXT_IMAGE)).to_string();
    let planned = world.everynode_with_input(&["plan", "-f", "-"], &next).await?;
    let canary = planned.stdout.lines().find(|line| line.starts_with("canary "));
    let cells: Vec<&str> = canary.unwrap_or_default().split_whitespace().collect();
    ensure!(planned.code == 2 && cells[2..5] == ["2s", "yes", "1"], "{planned:?}");
    let planned = world.everynode_with_input(&["plan", "-f", "-", "-o", "json"], &next).await?;
    let planned: Value = serde_json::from_str(&planned.stdout)?;
    let waves = planned["items"][0]["guardedWaves"].as_array().context("no waves")?;
    let nodes = |wave: &Value| wave["nodes"].as_array().map_or(0, Vec::len);
    let shape: Vec<(&Value, usize)> = waves.iter().map(|w| (&w["name"], nodes(w))).collect();
    let half = before.len().div_ceil(2);
    let expected =
        [(&json!("canary"), 1), (&json!("half"), half - 1), (&Value::Null, before.len() - half)];
    ensure!(shape == expected, "{planned}");
    ensure!(uids(&world, "agent").await? == before, "plan changed something");
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "AwaitingApproval").await?;
    let updated: Vec<String> = updated_nodes(&world).await?.into_iter().collect();
    ensure!(waves[0]["nodes"] == json!(updated), "{updated:?} is updated, not {}", waves[0]);
    let undone = world.everynode(&["undo", "ds/agent"]).await?.ok()?;
    ensure!(undone.contains("rolled back to revision 1"), "{undone}");
    eventually("the canary has gone back", async || {
        let images = world.images("agent").await?;
        ensure!(images == [(IMAGE.to_owned(), before.len())].into(), "{images:?}");
        world.stated("agent", "Complete").await?;
        world.all_available("agent").await
    })
    .await?;
    let same = before.intersection(&uids(&world, "agent").await?).count();
    ensure!(same == before.len() - 1, "{same} of {} pods were left alone", before.len());
    Ok(())
}
