//! `everynode watch` in a terminal of its own. What it prints without one is in the conversation watch; how it looks in all sizes is
//! held by the program's own tests.

use anyhow::{Result, ensure};
use kube::api::DeleteParams;
use serde_json::json;

use crate::world::manifest::{IMAGE, daemon_set, with};
use crate::world::terminal::Terminal;
use crate::world::{Setup, World, eventually};

const SIZE: (u16, u16) = (90, 28);

async fn world() -> Result<Option<World>> {
    World::sandbox(Setup { nodes: 6, arguments: &["--zones", "3"], ..Setup::default() }).await
}

/// S20: nodes by zone, events, keys, a new size, a DaemonSet that goes and comes, a cluster that goes
#[tokio::test]
async fn the_view_keeps_up_with_the_cluster_and_with_the_person_at_the_keyboard() -> Result<()> {
    let Some(mut world) = world().await? else { return Ok(()) };
    world.roll_out(&daemon_set("agent")).await?;
    let mut terminal = Terminal::start(&world, &["watch", "ds/agent"], SIZE)?;
    for expected in
        ["6 of 6 nodes done", "rolled out", "live", "■ 6 up to date", "SuccessfulCreate"]
    {
        terminal.shows(expected).await?;
    }
    for zone in ["zone-a ■■", "zone-b ■■", "zone-c ■■"] {
        terminal.shows(zone).await?;
    }
    ensure!(terminal.has_colours(), "it has no colours:\n{}", terminal.text());

    terminal.press("?")?;
    terminal.shows("F                 failing").await?;
    terminal.press("?")?;
    terminal.resize((40, 8))?;
    terminal.shows("q quit").await?;
    terminal.resize(SIZE)?;
    terminal.shows("zone-c ■■").await?;

    world.daemon_sets().delete("agent", &DeleteParams::default()).await?;
    terminal.shows("deleted: there is no such DaemonSet").await?;
    // Another selector: its pods are others.
    let label = json!({"matchLabels": {"app": "other"}});
    let template = json!({"metadata": {"labels": {"app": "other"}}});
    let other = json!({"spec": {"selector": label, "template": template}});
    world.create_daemon_set(&with(daemon_set("agent"), other)).await?;
    terminal.shows("■ 6 up to date").await?;

    if let Some(sandbox) = &mut world.sandbox {
        sandbox.terminate().await?;
    }
    terminal.shows("CONNECTION LOST").await?;
    terminal.press("q")?;
    ensure!(terminal.ended().await?.success(), "q is no failure");
    Ok(())
}

/// S22: what holds it up is named with what to do; a signal ends it in order, with the exit code of status
#[tokio::test]
async fn a_stuck_rollout_is_told_and_left_with_the_exit_code_of_status() -> Result<()> {
    let Some(world) = world().await? else { return Ok(()) };
    let annotations = json!({"sandbox.everynode.dev/lifecycle": "pull-failure"});
    let containers = json!([{"name": "main", "image": IMAGE}]);
    let template =
        json!({"metadata": {"annotations": annotations}, "spec": {"containers": containers}});
    world
        .create_daemon_set(&with(daemon_set("agent"), json!({"spec": {"template": template}})))
        .await?;
    let arguments = ["watch", "ds/agent", "--until-done", "--color", "never"];
    let mut terminal = Terminal::start(&world, &arguments, SIZE)?;
    for expected in [
        "F 6 failing",
        "not progressing",
        "stuck: ",
        "node-0001..0006",
        "ImagePull",
        "describe pod agent-",
    ] {
        terminal.shows(expected).await?;
    }
    ensure!(!terminal.has_colours(), "it has colours:\n{}", terminal.text());
    terminal.signal("TERM")?;
    let status = terminal.ended().await?;
    ensure!(status.code() == Some(4), "{status}");
    terminal.shows("0 available").await
}

/// With `--until-done` it ends by itself, and its last word stays to be read
#[tokio::test]
async fn a_rollout_that_is_done_ends_the_watch_that_waits_for_it() -> Result<()> {
    let Some(world) = world().await? else { return Ok(()) };
    world.roll_out(&daemon_set("agent")).await?;
    let mut terminal = Terminal::start(&world, &["watch", "ds/agent", "--until-done"], SIZE)?;
    let status = terminal.ended().await?;
    ensure!(status.success(), "{status}: {}", terminal.text());
    eventually("the last word is there to be read", async || {
        let text = terminal.text();
        ensure!(text.contains("rolled out: 6 of 6 pods updated and available"), "{text}");
        Ok(())
    })
    .await
}
