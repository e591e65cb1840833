//! Other strategies than `OnDelete`: stated, reported once, and not fought.

use anyhow::{Context, Result, ensure};
use kube::api::ListParams;

use super::waves::CANARY;
use crate::observe::uids;
use crate::world::beside::{Beside, RollBack, on_delete, strategy, without_policy};
use crate::world::eventually;
use crate::world::manifest::{IMAGE, NEXT_IMAGE, image_patch, with};

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
    let count: i32 = reported.map(|e| e.series.as_ref().map_or(1, |series| series.count)).sum();
    ensure!(count == 1, "reported {count} times");
    world.everynode(&["rollout", "approve", "ds/agent"]).await?.ok()?;
    world.reaches("agent", "Complete").await?;
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
