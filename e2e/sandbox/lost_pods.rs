//! Pods that another client deletes again and again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use crate::observe::uids;
use crate::world::manifest::{daemon_set, with};
use crate::world::pod::{name_of, node_of, uid};
use crate::world::{POLL_INTERVAL, Setup, World, eventually};

/// How long the pods are deleted.
const DELETED_FOR: Duration = Duration::from_secs(9);
/// Maximum number of pods in that time: the first two at once, and others 1, 2, and 4 s later.
const PODS_MAX: usize = 6;

/// C23: a node whose pods are deleted before they are ready gets new ones after a delay that grows,
/// with an event. The other pods stay.
#[tokio::test]
async fn pods_that_are_deleted_again_and_again_are_created_with_a_delay() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 2, ..Setup::default() }).await?;
    let annotations = json!({"sandbox.everynode.dev/lifecycle": "never-ready"});
    let template = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
    world.create_daemon_set(&with(daemon_set("a"), template)).await?;
    let has_both = async || {
        let pods = world.pods_of("a").await?;
        ensure!(pods.len() == 2, "{} pods", pods.len());
        Ok(pods)
    };
    let first = eventually("there are pods", has_both).await?.pop().context("there is a pod")?;
    let before = uids(&world, "a").await?;
    let node = node_of(&first);
    let at_once = DeleteParams::default().grace_period(0);
    let mut deleted = BTreeSet::new();
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    let started = Instant::now();
    while started.elapsed() < DELETED_FOR {
        ticks.tick().await;
        let pods = world.pods_of("a").await?;
        for pod in pods.iter().filter(|pod| node_of(pod) == node) {
            if deleted.insert(uid(pod)) {
                world.pods().delete(&name_of(pod), &at_once).await?;
            }
        }
    }
    ensure!(deleted.len() > 1, "no other pod was created on {node}");
    ensure!(deleted.len() <= PODS_MAX, "{} pods were created on {node}", deleted.len());
    eventually("an event names the node", async || {
        let events = world.events().list(&ListParams::default()).await?.items;
        let names_node = |note: &String| note.contains(&node);
        let is_named = events.iter().any(|event| {
            event.reason.as_deref() == Some("PodsLost") && event.note.iter().any(names_node)
        });
        ensure!(is_named, "{} events, none of them", events.len());
        Ok(())
    })
    .await?;
    eventually("each node has a pod", has_both).await?;
    let after = uids(&world, "a").await?;
    ensure!(after.len() == before.len(), "{} pods", after.len());
    let left = before.difference(&after).count();
    ensure!(left == 1, "{left} of the first pods are gone");
    Ok(())
}
