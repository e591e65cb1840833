//! `everynode top -w` on a terminal, and in a pipe.

use anyhow::{Result, ensure};
use kube::api::DeleteParams;

use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch};
use crate::world::process::Process;
use crate::world::terminal::Terminal;
use crate::world::{Setup, World, eventually};

const SIZE: (u16, u16) = (100, 24);
const BROKEN: &str = "example.com/does-not-exist:1.0";

/// From the list to a stuck DaemonSet and back; a rollback from there needs a yes.
#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_daemon_set_is_found_watched_and_rolled_back() -> Result<()> {
    let mut world = World::sandbox(Setup { nodes: 3, ..Setup::default() }).await?;
    for name in ["broken", "calm"] {
        world.roll_out(&daemon_set(name)).await?;
    }
    let mut terminal = Terminal::start(&world, &["top", "-w"], SIZE)?;
    terminal.shows("2 done").await?;
    ensure!(terminal.has_colours(), "it has no colours:\n{}", terminal.text());
    world.patch_daemon_set("broken", image_patch(BROKEN)).await?;
    terminal.shows("1 stuck").await?;
    let is_stuck = |line: &str| line.contains("/broken") && line.contains("ImagePullBackOff");
    terminal.comes_to_show("the cause", |text| text.lines().any(is_stuck)).await?;

    terminal.press("/calm\r")?;
    terminal.shows("filter: calm").await?;
    terminal.comes_to_show("only calm", |text| !text.contains("/broken")).await?;
    terminal.press("\u{1b}")?;
    terminal.shows("/broken").await?;
    terminal.resize((60, 16))?;
    terminal.shows("/broken").await?;
    terminal.resize(SIZE)?;

    terminal.press("g\r")?;
    terminal.shows("held up").await?;
    terminal.shows("F 1 failing").await?;
    terminal.press("\u{1b}")?;
    terminal.shows("1 stuck").await?;

    terminal.press("u")?;
    terminal.shows("broken to revision 1").await?;
    terminal.press("n")?;
    terminal.shows("not rolled back").await?;
    ensure!(image(&world).await? == BROKEN, "a no is no yes");
    terminal.press("u")?;
    terminal.shows("broken to revision 1").await?;
    terminal.press("y")?;
    terminal.shows("rolled back to revision 1").await?;
    ensure!(image(&world).await? != BROKEN, "it is not rolled back");
    terminal.shows("2 done").await?;

    if let Some(sandbox) = &mut world.sandbox {
        sandbox.terminate().await?;
    }
    terminal.shows("CONNECTION LOST").await?;
    terminal.press("\u{3}")?;
    ensure!(terminal.ended().await?.success(), "Ctrl-C is no failure");
    Ok(())
}

async fn image(world: &World) -> Result<String> {
    world
        .kubectl(&["get", "ds/broken", "-o", "jsonpath={.spec.template.spec.containers[0].image}"])
        .await
}

/// Ctrl-C leaves the list, and also the view of a DaemonSet opened from it, with a clean terminal.
#[tokio::test(flavor = "multi_thread")]
async fn the_terminal_is_clean_afterwards() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 1, ..Setup::default() }).await?;
    world.roll_out(&daemon_set("agent")).await?;
    for keys in ["\u{3}", "q"] {
        for opens in [false, true] {
            let mut terminal = Terminal::start(&world, &["top", "--watch"], SIZE)?;
            terminal.shows("/agent").await?;
            if opens {
                terminal.press("\r")?;
                terminal.shows("1 of 1 node done").await?;
            }
            terminal.press(keys)?;
            ensure!(terminal.ended().await?.success(), "it failed");
            ensure!(!terminal.text().contains("agent"), "left over: {}", terminal.text());
        }
    }
    Ok(())
}

/// In a pipe the rows that change are printed.
#[tokio::test(flavor = "multi_thread")]
async fn in_a_pipe_changes_are_printed() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 2, ..Setup::default() }).await?;
    world.roll_out(&daemon_set("agent")).await?;
    let arguments = ["top", "-w", "--namespace", &world.namespace];
    let directory = world.directory.path();
    let mut top = Process::everynode_with(directory, "top", &arguments, Some(&world.kubeconfig))?;
    prints(&top, "agent").await?;
    ensure!(top.output().matches("NAMESPACE").count() == 1, "{}", top.output());
    world.patch_daemon_set("agent", image_patch(BROKEN)).await?;
    prints(&top, "stuck").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.daemon_sets().delete("agent", &DeleteParams::default()).await?;
    prints(&top, "agent was deleted").await?;
    ensure!(top.output().matches("NAMESPACE").count() == 1, "{}", top.output());
    let (status, _) = top.terminate().await?;
    ensure!(status.success(), "{status}");
    let json = world.everynode(&["top", "-w", "-o", "json"]).await?;
    ensure!(json.code == 2, "{json:?}");
    Ok(())
}

async fn prints(process: &Process, expected: &str) -> Result<()> {
    eventually(&format!("top prints {expected:?}"), async || {
        let output = process.output();
        ensure!(output.contains(expected), "it printed {output}");
        Ok(())
    })
    .await
}
