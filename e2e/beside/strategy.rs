//! Other strategies than `OnDelete`: stated, reported once, and not fought.

use anyhow::{Context, Result, ensure};
use kube::api::ListParams;
use serde_json::{Value, json};

use super::waves::CANARY;
use crate::observe::uids;
use crate::world::beside::{Beside, RollBack, on_delete, strategy, without_policy};
use crate::world::eventually;
use crate::world::manifest::{IMAGE, NEXT_IMAGE, daemon_set, image_patch, with};

/// G18: a switch to RollingUpdate in the middle of a rollout, again and again, is reported once;
/// with OnDelete the rollout goes on
#[tokio::test(flavor = "multi_thread")]
async fn a_switch_to_rolling_update_is_reported_once_and_not_fought() -> Result<()> {
    let mut beside = Beside::start(4, RollBack::No).await?;
    let world = &beside.world;
    world.create_daemon_set(&on_delete("agent", CANARY)).await?;
    world.reaches("agent", "Complete").await.with_context(|| beside.guard.output())?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "AwaitingApproval").await?;
    for _ in 0..3 {
        world.patch_daemon_set("agent", strategy("RollingUpdate")).await?;
        world.reaches("agent", "NotGuarded").await?;
        let status = world.everynode(&["status", "ds/agent", "--no-wait"]).await?;
        let text = status.stdout + &status.stderr;
        ensure!(text.contains("its rollout policy or pause has no effect"), "{text}");
        let set =
            world.daemon_sets().get("agent").await?.spec.and_then(|spec| spec.update_strategy);
        let set = set.and_then(|strategy| strategy.type_);
        ensure!(set.as_deref() == Some("RollingUpdate"), "{set:?}");
        world.settled("agent").await?;
        world.patch_daemon_set("agent", strategy("OnDelete")).await?;
        world.reaches("agent", "AwaitingApproval").await?;
    }
    let rolling = with(on_delete("agent", CANARY), strategy("RollingUpdate"));
    let rolling = with(rolling, image_patch(IMAGE)).to_string();
    let plan = world.everynode_with_input(&["plan", "-f", "-"], &rolling).await?;
    ensure!(plan.stdout.contains("beside it, a rollout policy or pause has an effect"), "{plan:?}");
    let third = "registry.k8s.io/pause:3.8";
    let guarded = with(on_delete("agent", CANARY), image_patch(third)).to_string();
    let plan = world.everynode_with_input(&["plan", "-f", "-"], &guarded).await?;
    ensure!(plan.stdout.contains("canary"), "{plan:?}");
    let events = world.events().list(&ListParams::default()).await?.items;
    let reported = events.iter().filter(|e| e.reason.as_deref() == Some("RolloutNotGuarded"));
    let count: i32 = reported.filter_map(|event| event.deprecated_count).sum();
    ensure!(count == 1, "reported {count} times");
    world.everynode(&["rollout", "approve", "ds/agent"]).await?.ok()?;
    world.reaches("agent", "Complete").await?;
    beside.check()
}

/// G18, G21: a policy whose DaemonSet the built-in controller rolls out is not ready, and `top`
/// says that nobody guards it
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_without_effect_is_not_ready() -> Result<()> {
    let mut beside = Beside::start(3, RollBack::No).await?;
    let world = &beside.world;
    let policy = json!({ "apiVersion": "everynode.dev/v1alpha1", "kind": "RolloutPolicy",
        "metadata": { "name": "agents" },
        "spec": { "daemonSets": { "name": "rolling" },
            "steps": [{ "name": "one", "upTo": [1] }] } });
    eventually("the definition is served", async || {
        world.kubectl_with_input(&["apply", "-f", "-"], &policy.to_string()).await?.ok()
    })
    .await?;
    world.create_daemon_set(&daemon_set("rolling")).await?;
    world.create_daemon_set(&on_delete("guarded", CANARY)).await?;
    world.reaches("rolling", "NotGuarded").await.with_context(|| beside.guard.output())?;
    world.reaches("guarded", "Complete").await?;
    eventually("the policy is not ready", async || {
        let ready = "jsonpath={.status.conditions[?(@.type==\"Ready\")]}";
        let ready = world.kubectl(&["get", "rolloutpolicy", "agents", "-o", ready]).await?;
        let ready: Value = serde_json::from_str(&ready)?;
        ensure!(ready["status"] == "False" && ready["reason"] == "NotGuarded", "{ready}");
        let message = ready["message"].as_str().unwrap_or_default();
        ensure!(message.contains("because spec.updateStrategy.type is not OnDelete"), "{message}");
        Ok(())
    })
    .await?;
    let top = world.everynode(&["top", "-o", "wide"]).await?.ok()?;
    for (name, guarded_by) in [("rolling", "nobody"), ("guarded", "everynode beside")] {
        let mut rows = top.lines().filter(|line| line.split_whitespace().nth(1) == Some(name));
        ensure!(rows.next().is_some_and(|row| row.contains(guarded_by)), "{top}");
    }
    beside.check()
}

/// G2, G18: without a policy nothing is stated, and nothing is deleted, whatever the strategy
#[tokio::test(flavor = "multi_thread")]
async fn without_a_policy_nothing_is_done() -> Result<()> {
    let mut beside = Beside::start(3, RollBack::No).await?;
    let world = &beside.world;
    world.create_daemon_set(&on_delete("agent", CANARY)).await?;
    world.reaches("agent", "Complete").await.with_context(|| beside.guard.output())?;
    world.patch_daemon_set("agent", without_policy()).await?;
    eventually("the conditions are gone", async || {
        let conditions = world.conditions("agent").await?;
        ensure!(conditions.get("Progressing").is_none(), "{conditions}");
        Ok(())
    })
    .await?;
    let before = uids(world, "agent").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    // Another DaemonSet that is guarded shows that the guard has had the time to act.
    world.create_daemon_set(&on_delete("other", CANARY)).await?;
    world.reaches("other", "Complete").await?;
    ensure!(uids(world, "agent").await? == before, "a pod was replaced");
    ensure!(world.images("agent").await? == [(IMAGE.to_owned(), before.len())].into());
    beside.check()
}
