//! Guarded rollouts by a policy in an annotation: waves, bake time, approval, abort, and what
//! happens without a valid policy.

mod agreement;
mod config;
mod images;
mod in_place;
mod night;
mod overrides;
mod snapshots;
mod suggest;
mod windows;
mod zones;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::observe::uids;
use crate::world::guard::guarded;
use crate::world::manifest::{IMAGE, NEXT_IMAGE, image_patch, never_ready_patch, with};
use crate::world::pod::name_of;
use crate::world::{World, deadline, eventually, within};

/// One node, which bakes and must be approved, then half of all nodes, then all.
const CANARY: &str = "\
steps:
- {name: canary, upTo: [1], bake: 2s, approval: true}
- {name: half, upTo: ['50%']}
maxUnavailable: 1
";

/// G1, G5, G8, G10, G11, G21, G22: one node gets a new template first; when it has baked, the
/// rollout waits for an approval, then it goes on to all nodes
#[tokio::test(flavor = "multi_thread")]
async fn a_canary_bakes_is_approved_and_all_nodes_follow() -> Result<()> {
    let world = World::cluster(5).await?;
    world.roll_out(&guarded("agent", CANARY)).await?;
    world.reaches("agent", "Complete").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "AwaitingApproval").await?;
    world.shows_health("agent", "Suspended").await?;
    let all = world.pods_of("agent").await?.len();
    let images = world.images("agent").await?;
    ensure!(images == BTreeMap::from([(IMAGE.to_owned(), all - 1), (NEXT_IMAGE.to_owned(), 1)]));
    let before = uids(&world, "agent").await?;
    let get = world.everynode(&["rollout", "get", "ds/agent"]).await?.ok()?;
    ensure!(get.contains("wave canary must be approved") && get.contains("at canary"), "{get}");
    ensure!(get.contains("policy: annotation everynode.dev/rollout-policy"), "{get}");
    let status = world.everynode(&["status", "ds/agent", "--fail-fast"]).await?;
    ensure!(status.code == 5, "{status:?}");
    let explained = world.everynode(&["explain", "ds/agent"]).await?.ok()?;
    ensure!(explained.contains("its wave is not open"), "{explained}");
    let wrong = world.everynode(&["rollout", "approve", "ds/agent", "--wave", "half"]).await?;
    ensure!(wrong.code == 1 && wrong.stderr.contains("is at wave canary, not half"), "{wrong:?}");
    ensure!(uids(&world, "agent").await? == before, "a pod was replaced without an approval");
    let approved = world.everynode(&["rollout", "approve", "ds/agent"]).await?.ok()?;
    ensure!(approved.contains("wave canary approved"), "{approved}");
    world.settled("agent").await?;
    world.reaches("agent", "Complete").await?;
    ensure!(world.images("agent").await? == BTreeMap::from([(NEXT_IMAGE.to_owned(), all)]));
    let history = world.everynode(&["history", "ds/agent"]).await?.ok()?;
    ensure!(history.contains("current, complete"), "{history}");
    Ok(())
}

/// G11, G16, G18, G21: an aborted rollout goes back to the template that was complete before, also
/// with `OnDelete`; the failed template stays failed until it is promoted
#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_rollout_goes_back_and_stays_failed() -> Result<()> {
    let world = World::cluster(4).await?;
    let on_delete = json!({ "spec": { "updateStrategy": {
        "type": "OnDelete", "rollingUpdate": null } } });
    world.roll_out(&with(guarded("agent", CANARY), on_delete)).await?;
    world.reaches("agent", "Complete").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "AwaitingApproval").await?;
    world.everynode(&["rollout", "abort", "ds/agent"]).await?.ok()?;
    world.reaches("agent", "Failed").await?;
    eventually("every pod is available", async || world.all_available("agent").await).await?;
    let all = world.pods_of("agent").await?.len();
    ensure!(world.images("agent").await? == BTreeMap::from([(IMAGE.to_owned(), all)]));
    let conditions = world.conditions("agent").await?;
    ensure!(conditions["Stalled"] == "Failed", "{conditions}");
    let again = world.everynode(&["rollout", "abort", "ds/agent"]).await?;
    ensure!(again.code == 1 && again.stderr.contains("its phase is Failed"), "{again:?}");
    // The first template again, then the failed one: that is not tried once more.
    world.patch_daemon_set("agent", image_patch(IMAGE)).await?;
    world.reaches("agent", "Complete").await?;
    let before = uids(&world, "agent").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "Failed").await?;
    ensure!(uids(&world, "agent").await? == before, "a failed template was rolled out again");
    world.everynode(&["rollout", "promote", "ds/agent", "--full"]).await?.ok()?;
    eventually("all nodes have it", async || {
        let images = world.images("agent").await?;
        ensure!(images == BTreeMap::from([(NEXT_IMAGE.to_owned(), all)]), "{images:?}");
        world.stated("agent", "Complete").await
    })
    .await
}

/// G15, G35: a template whose pods never become ready fails on its canary, and the canary goes back
/// by itself; what was wrong remains known
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_canary_goes_back_by_itself() -> Result<()> {
    let world = World::cluster(4).await?;
    let policy = "{steps: [{name: canary, upTo: [1]}], failure: {readyWithin: 30s, \
                  rollbackAfter: 0s}}";
    world.roll_out(&guarded("agent", policy)).await?;
    world.reaches("agent", "Complete").await?;
    let before = uids(&world, "agent").await?;
    world.patch_daemon_set("agent", never_ready_patch()).await?;
    within(deadline() + Duration::from_secs(45), "the canary has failed", async || {
        world.stated("agent", "Failed").await
    })
    .await?;
    eventually("every pod is available", async || world.all_available("agent").await).await?;
    let all = before.len();
    ensure!(world.images("agent").await? == BTreeMap::from([(IMAGE.to_owned(), all)]));
    let same = before.intersection(&uids(&world, "agent").await?).count();
    ensure!(same == all - 1, "{same} of {all} pods were left alone");
    let events = world.kubectl(&["get", "events"]).await?;
    ensure!(events.contains("RolloutFailed"), "{events}");
    // Its pod is gone, but not why it failed.
    let get = world.everynode(&["rollout", "get", "ds/agent"]).await?.ok()?;
    ensure!(get.contains("too many nodes failed: "), "{get}");
    // Kubelets that only pretend state no containers.
    ensure!(World::is_external() || get.contains("(container "), "{get}");
    Ok(())
}

/// G45: when all nodes have the new template, the rollout bakes and must be approved as `finally`
/// says, and is complete then
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_complete_when_its_end_is_approved() -> Result<()> {
    let world = World::cluster(3).await?;
    let policy = "{steps: [{name: canary, upTo: [1]}], finally: {bake: 1s, approval: true}}";
    world.roll_out(&guarded("agent", policy)).await?;
    world.reaches("agent", "Complete").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "AwaitingApproval").await?;
    let all = world.pods_of("agent").await?.len();
    ensure!(world.images("agent").await? == BTreeMap::from([(NEXT_IMAGE.to_owned(), all)]));
    let get = world.everynode(&["rollout", "get", "ds/agent"]).await?.ok()?;
    ensure!(get.contains("finally"), "{get}");
    world.everynode(&["rollout", "approve", "ds/agent"]).await?.ok()?;
    world.reaches("agent", "Complete").await
}

/// G1, G7, G10, G16: behind a closed wave a wrong node selector empties no node; without a valid
/// policy nothing is replaced, and nodes that lose their pod get the base
#[tokio::test(flavor = "multi_thread")]
async fn without_a_valid_policy_nothing_is_replaced() -> Result<()> {
    let world = World::cluster(4).await?;
    let gate = "steps: [{name: gate, upTo: [0], approval: true}]";
    world.roll_out(&guarded("agent", gate)).await?;
    world.reaches("agent", "Complete").await?;
    let before = uids(&world, "agent").await?;
    let wrong = json!({"spec": {"template": {"spec": {
        "nodeSelector": {"everynode.dev/no-such-label": "x"} }}}});
    world.patch_daemon_set("agent", wrong).await?;
    world.reaches("agent", "AwaitingApproval").await?;
    world.set_policy("agent", json!("steps: [{name: gate, upTo: [0], aproval: true}]")).await?;
    world.reaches("agent", "InvalidPolicy").await?;
    world.shows_health("agent", "Degraded").await?;
    eventually("an event names the field", async || {
        let events = world.kubectl(&["get", "events"]).await?;
        ensure!(events.contains("steps[0].aproval: unknown field"), "{events}");
        Ok(())
    })
    .await?;
    let promote = world.everynode(&["rollout", "promote", "ds/agent"]).await?;
    ensure!(promote.code == 1, "{promote:?}");
    ensure!(promote.stderr.contains("there is no valid rollout policy"), "{promote:?}");
    world.set_policy("agent", Value::Null).await?;
    eventually("its absence is stated", async || {
        let ds = world.daemon_sets().get("agent").await?;
        let conditions = ds.status.unwrap_or_default().conditions.unwrap_or_default();
        let messages = conditions.into_iter().filter_map(|condition| condition.message);
        let messages: Vec<_> = messages.collect();
        ensure!(messages.iter().any(|message| message.contains("was removed")), "{messages:?}");
        Ok(())
    })
    .await?;
    ensure!(uids(&world, "agent").await? == before, "a pod was replaced or deleted");
    let lost = world.pods_of("agent").await?.first().map(name_of).unwrap_or_default();
    world.kubectl(&["delete", "pod", &lost]).await?;
    eventually("the node has a pod again", async || {
        let pods = uids(&world, "agent").await?;
        ensure!(pods.len() == before.len() && pods != before, "{pods:?}");
        Ok(())
    })
    .await?;
    // A new template that nothing guards is rolled out as ever.
    let right = json!({"spec": {"template": {"spec": { "nodeSelector": null }}}});
    world.patch_daemon_set("agent", right).await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.settled("agent").await?;
    let after = world.conditions("agent").await?;
    ensure!(after.get("Progressing").is_none() && after.get("Stalled").is_none(), "{after}");
    Ok(())
}
