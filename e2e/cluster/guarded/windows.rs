//! Windows: outside of them a rollout replaces nothing and says when it goes on.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::observe::uids;
use crate::world::World;
use crate::world::guard::guarded;
use crate::world::manifest::{NEXT_IMAGE, image_patch, with};

/// A policy with a window of these minutes from now on, on each day, in UTC.
pub(super) fn policy(minutes: std::ops::Range<i64>) -> String {
    let time = |minutes| {
        let at = jiff::Timestamp::now() + jiff::SignedDuration::from_mins(minutes);
        at.strftime("%H:%M").to_string()
    };
    let (from, to) = (time(minutes.start), time(minutes.end));
    format!("windows: [{{from: \"{from}\", to: \"{to}\"}}]")
}

/// G5, G11, G21, G22: outside of its windows a rollout replaces nothing; the condition, one event,
/// commands and the forecast say when the next one opens, `status` goes on waiting, and another
/// policy takes effect at once
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_waits_for_its_window() -> Result<()> {
    let world = World::cluster(3).await?;
    world.roll_out(&guarded("agent", &policy(120..240))).await?;
    world.reaches("agent", "Complete").await?;
    let before = uids(&world, "agent").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "OutsideWindow").await?;
    world.shows_health("agent", "Suspended").await?;
    let opens = "the rollout begins in the next window, at 20";
    for command in [
        &["rollout", "get", "ds/agent"][..],
        &["explain", "ds/agent"],
        &["status", "ds/agent", "--no-wait", "-o", "json"],
        &["top"],
    ] {
        let output = world.everynode(command).await?;
        ensure!(output.stdout.contains(opens), "{command:?}: {output:?}");
    }
    let explained = world.everynode(&["explain", "ds/agent"]).await?.ok()?;
    ensure!(explained.contains("kept until a window of the rollout opens"), "{explained}");
    let status = world.everynode(&["status", "ds/agent", "--fail-fast", "--timeout", "2s"]).await?;
    ensure!(status.code == 3, "{status:?}");
    ensure!(uids(&world, "agent").await? == before, "a pod was replaced outside of the window");
    let reasons = world.kubectl(&["get", "events", "-o", "jsonpath={.items[*].reason}"]).await?;
    let told = reasons.split(' ').filter(|reason| *reason == "RolloutOutsideWindow").count();
    ensure!(told == 1, "{reasons}");

    let third = with(guarded("agent", &policy(120..240)), image_patch("image:3")).to_string();
    let forecast = world.everynode_with_input(&["plan", "-f", "-", "-o", "json"], &third).await?;
    let forecast: Value = serde_json::from_str(&forecast.stdout)?;
    let forecast = &forecast["items"][0];
    let starts = forecast["guardedWaves"][0]["startsAfterSeconds"].as_u64().unwrap_or_default();
    ensure!((7000..=7200).contains(&starts), "{forecast}");
    let risks = forecast["risks"].to_string();
    ensure!(risks.contains("no window of the rollout policy is open"), "{risks}");

    world.set_policy("agent", policy(-60..60).into()).await?;
    world.settled("agent").await?;
    world.reaches("agent", "Complete").await
}
