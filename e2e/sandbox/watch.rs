//! `everynode watch` in a terminal. The transcript `watch` covers its output without one; unit
//! tests cover the screens of all sizes.

use anyhow::{Result, ensure};
use kube::api::DeleteParams;
use serde_json::json;

use crate::world::manifest::{IMAGE, daemon_set, with};
use crate::world::process::everynode_program;
use crate::world::terminal::Terminal;
use crate::world::{Setup, World, eventually};

const SIZE: (u16, u16) = (90, 28);

async fn world() -> Result<World> {
    World::sandbox(Setup { nodes: 6, arguments: &["--zones", "3"], ..Setup::default() }).await
}

/// S20: nodes by zone, events, keys, a new size, a DaemonSet that is deleted and recreated, a lost
/// connection
#[tokio::test]
async fn the_view_follows_the_cluster_and_the_keys() -> Result<()> {
    let mut world = world().await?;
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
    terminal.shows("F  failing").await?;
    terminal.press("?")?;
    terminal.resize((40, 8))?;
    terminal.shows("q quit").await?;
    terminal.resize(SIZE)?;
    terminal.shows("zone-c ■■").await?;

    world.daemon_sets().delete("agent", &DeleteParams::default()).await?;
    terminal.shows("deleted: there is no such DaemonSet").await?;
    // The new DaemonSet has another selector, and so other pods.
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

/// S22: a held-up rollout is shown with the next step; a signal ends the command with the exit code
/// of status
#[tokio::test]
async fn a_stuck_rollout_is_shown_and_ends_with_the_exit_code_of_status() -> Result<()> {
    let world = world().await?;
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

/// Ctrl-Z returns to the shell, whose screen is as it was, and `fg` to the view, which takes keys
#[tokio::test]
async fn ctrl_z_suspends_the_view_and_fg_continues_it() -> Result<()> {
    let world = world().await?;
    world.roll_out(&daemon_set("agent")).await?;
    let mut terminal = Terminal::with(&world, "bash", &["--norc", "--noprofile", "-i"], SIZE)?;
    let watch = format!("{} watch ds/agent -n {}", everynode_program(), world.namespace);
    terminal.press(&format!("{watch}\r"))?;
    terminal.shows("q quit").await?;
    terminal.press("\u{1a}")?;
    terminal.shows("Stopped").await?;
    terminal.press("echo $((40 + 2))\r")?;
    terminal.shows("\n42").await?;
    terminal.press("fg\r")?;
    for expected in ["6 of 6 nodes done", "q quit"] {
        terminal.shows(expected).await?;
    }
    terminal.press("?")?;
    terminal.shows("F  failing").await?;
    terminal.press("q")?;
    terminal.shows("\n42").await?;
    terminal.press("exit\r")?;
    ensure!(terminal.ended().await?.success(), "q is no failure");
    Ok(())
}

/// With `--until-done` the command ends when the rollout is done, and leaves the result on the
/// terminal
#[tokio::test]
async fn watch_until_done_ends_with_the_rollout() -> Result<()> {
    let world = world().await?;
    world.roll_out(&daemon_set("agent")).await?;
    let mut terminal = Terminal::start(&world, &["watch", "ds/agent", "--until-done"], SIZE)?;
    let status = terminal.ended().await?;
    ensure!(status.success(), "{status}: {}", terminal.text());
    eventually("the result is on the terminal", async || {
        let text = terminal.text();
        ensure!(text.contains("rolled out: 6 of 6 pods updated and available"), "{text}");
        Ok(())
    })
    .await
}
