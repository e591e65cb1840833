//! Guarded rollouts that take a minute and longer (`make night`): the pace over restarts of the
//! controller, and many nodes that die.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::json;

use super::super::guarded::{PACED_WITHIN, kill, start};
use super::super::separate_process::bare;
use crate::observe::{Limits, Observer};
use crate::world::guard::{guarded, image_of};
use crate::world::manifest::{NEXT_IMAGE, image_patch, with};
use crate::world::pod::{is_available, is_terminating, node_of, uid};
use crate::world::{Setup, World, eventually, within};

/// G5: the rollout begins on no more nodes within a minute than its policy allows, also with a
/// controller that starts in the middle of it
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_starts_anew_keeps_the_pace() -> Result<()> {
    let world = bare(4).await?;
    let mut controller = start(&world)?;
    let all_at_once = json!({"spec": {"updateStrategy": {"rollingUpdate": {
        "maxUnavailable": "100%"}}}});
    let manifest = with(guarded("agent", "podsPerMinute: 2"), all_at_once);
    world.create_daemon_set(&manifest).await?;
    world.reaches("agent", "Complete").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    for updated in [2, 4] {
        within(PACED_WITHIN, "the rollout goes on", async || {
            let images = world.images("agent").await?;
            ensure!(images.get(NEXT_IMAGE) == Some(&updated), "{images:?}");
            world.all_available("agent").await
        })
        .await?;
        // The next one knows what this one has begun.
        kill(&mut controller).await?;
        controller = start(&world)?;
    }
    let pods = world.pods_of("agent").await?.into_iter();
    let mut created: Vec<_> = pods.filter_map(|pod| pod.metadata.creation_timestamp).collect();
    created.sort_unstable();
    let after = created.iter().map(|at| at.0.duration_since(created[0].0).as_secs());
    let after: Vec<i64> = after.collect();
    ensure!(after[2] >= 59, "seconds after the first new pod: {after:?}");
    controller.check_running()
}

/// G13, G14, G15: of 300 nodes 30 are dead before a rollout and 10 die in it: all others are
/// updated, within the budget, and the pods of the 30 are left alone until these nodes are back
#[tokio::test(flavor = "multi_thread")]
async fn dead_nodes_do_not_hold_up_a_rollout() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 300, ..Setup::default() }).await?;
    let policy = "{steps: [{name: tenth, upTo: ['10%'], approval: true}], maxUnavailable: 10%, \
                  failure: {maxNodes: 10, readyWithin: 30s}}";
    // Without its tolerations, no pod would be wanted on a node that is down.
    let spec = json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": "50%"}},
        "template": {"spec": {"tolerations": [{"operator": "Exists"}]}}});
    world.roll_out(&with(guarded("agent", policy), json!({ "spec": spec }))).await?;
    world.reaches("agent", "Complete").await?;
    let nodes = World::node_names(&world.list_nodes().await?);
    let dead_before: BTreeSet<&String> = nodes.iter().step_by(10).collect();
    set_down(&world, &dead_before, true).await?;
    are_available(&world, 270).await?;
    let kept = pods_on(&world, &dead_before).await?;
    // Those that die come on top of those that are being replaced.
    let observer = Observer::start(&world, "agent", Limits::without_surge(30 + 10)).await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "AwaitingApproval").await?;
    // Five that have a new pod, and the five that come last.
    let live = nodes.iter().filter(|node| !dead_before.contains(node));
    let dying: BTreeSet<&String> = live.clone().take(5).chain(live.rev().take(5)).collect();
    set_down(&world, &dying, true).await?;
    are_available(&world, 260).await?;
    world.everynode(&["rollout", "approve", "ds/agent"]).await?.ok()?;
    eventually("all other nodes are updated", async || {
        let pods = world.pods_of("agent").await?;
        let updated = pods.iter().filter(|pod| image_of(pod) == NEXT_IMAGE && is_available(pod, 0));
        ensure!(updated.clone().count() == 260, "{} are", updated.count());
        Ok(())
    })
    .await?;
    let left = pods_on(&world, &dead_before).await?;
    ensure!(left == kept, "of {} pods on dead nodes {} are left", kept.len(), left.len());
    // The nodes that died with a new pod may have died of it.
    world.stated("agent", "Updating").await?;
    observer.finish().await?;
    set_down(&world, &dying, false).await?;
    set_down(&world, &dead_before, false).await?;
    world.reaches("agent", "Complete").await?;
    eventually("every node is updated", async || {
        let images = world.images("agent").await?;
        ensure!(images == [(NEXT_IMAGE.to_owned(), 300)].into(), "{images:?}");
        world.all_available("agent").await
    })
    .await
}

async fn are_available(world: &World, expected: usize) -> Result<()> {
    eventually("nodes are down", async || {
        let pods = world.pods_of("agent").await?;
        let available = pods.iter().filter(|pod| is_available(pod, 0)).count();
        ensure!(available == expected, "{available} pods are available");
        Ok(())
    })
    .await
}

async fn set_down(world: &World, nodes: &BTreeSet<&String>, is_down: bool) -> Result<()> {
    let annotation = "sandbox.everynode.dev/down";
    let change = if is_down { format!("{annotation}=true") } else { format!("{annotation}-") };
    let nodes = nodes.iter().map(|node| node.as_str());
    let arguments: Vec<&str> = ["annotate", "nodes"].into_iter().chain(nodes).collect();
    world.kubectl(&[&arguments[..], &[change.as_str()]].concat()).await.map(drop)
}

/// The UIDs of the pods on these nodes that are not terminating.
async fn pods_on(world: &World, nodes: &BTreeSet<&String>) -> Result<BTreeSet<String>> {
    let pods = world.pods_of("agent").await?.into_iter();
    let pods = pods.filter(|pod| nodes.contains(&node_of(pod)) && !is_terminating(pod));
    Ok(pods.map(|pod| uid(&pod)).collect())
}
