//! Somebody agrees that an old pod goes.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use crate::observe::uids;
use crate::world::World;
use crate::world::eventually;
use crate::world::guard::guarded;
use crate::world::manifest::{NEXT_IMAGE, image_patch};

const POLICY: &str = "maxUnavailable: 1\nprepare: {agree: {within: 10s}}\n";

/// G54: no old pod goes before somebody agrees, a node without an answer is set aside and named,
/// and each new pod says when its node is updated
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_replaced_once_somebody_agrees() -> Result<()> {
    let world = World::cluster(3).await?;
    world.roll_out(&guarded("agent", POLICY)).await?;
    world.reaches("agent", "Complete").await?;
    let before = uids(&world, "agent").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    let first = asked(&world, &[]).await?;
    ensure!(uids(&world, "agent").await? == before, "a pod was replaced before somebody agreed");
    let status = world.everynode(&["status", "ds/agent", "--no-wait"]).await?;
    ensure!(status.stdout.contains("somebody must agree that it goes"), "{status:?}");
    let others: Vec<String> =
        nodes(&world).await?.into_keys().filter(|node| *node != first).collect();
    let early = world.everynode(&["rollout", "agree", "ds/agent", "--node", &others[0]]).await?;
    ensure!(early.code == 1 && early.stderr.contains("nobody is asked about"), "{early:?}");

    // Nobody answers for the first one, and the others are agreed about.
    let mut answered = vec![first.clone()];
    while answered.len() <= others.len() {
        let next = asked(&world, &answered).await?;
        let get = world.everynode(&["rollout", "get", "ds/agent"]).await?.ok()?;
        ensure!(get.contains(&format!("nobody has agreed in time for {first}")), "{get}");
        world.everynode(&["rollout", "agree", "ds/agent", "--node", &next]).await?.ok()?;
        answered.push(next);
    }
    world.reaches("agent", "Complete").await?;
    ensure!(nodes(&world).await?[&first].is_none(), "it was replaced without an answer");
    let status = world.everynode(&["status", "ds/agent", "--timeout", "30s"]).await?;
    ensure!(status.code == 0 && status.stdout.contains("1 notAgreed"), "{status:?}");

    world.everynode(&["rollout", "agree", "ds/agent", "--node", &first]).await?.ok()?;
    eventually("each new pod says that its node is updated", async || {
        let nodes = nodes(&world).await?;
        let all = nodes.len() == answered.len() && nodes.values().all(Option::is_some);
        ensure!(all, "{nodes:?}");
        Ok(())
    })
    .await
}

/// The node that somebody is asked about, but for these.
async fn asked(world: &World, except: &[String]) -> Result<String> {
    let mut found = None;
    eventually("somebody is asked about a pod", async || {
        let pods = world.pods_of("agent").await?;
        let mut asked = pods.iter().filter(|pod| {
            let annotations = pod.metadata.annotations.as_ref();
            let is_asked = annotations.is_some_and(|it| it.contains_key("everynode.dev/replacing"));
            is_asked && pod.metadata.deletion_timestamp.is_none()
        });
        let node = asked.find_map(|pod| {
            let node = pod.spec.as_ref()?.node_name.as_ref()?;
            (!except.contains(node)).then(|| node.clone())
        });
        found = Some(node.context("nobody is asked")?);
        Ok(())
    })
    .await?;
    found.context("a node was found")
}

/// The nodes with the revision that their pods say they are updated to.
async fn nodes(world: &World) -> Result<BTreeMap<String, Option<String>>> {
    let pods = world.pods_of("agent").await?.into_iter();
    let nodes = pods.filter_map(|pod| {
        let annotations = pod.metadata.annotations.unwrap_or_default();
        let replaced = annotations.get("everynode.dev/replaced").cloned();
        Some((pod.spec?.node_name?, replaced))
    });
    Ok(nodes.collect())
}
