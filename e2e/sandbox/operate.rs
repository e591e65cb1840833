//! `everynode status` while the cluster changes, and what cron needs of `top`. The transcripts
//! `operate` and `rights` cover the rest.

use anyhow::{Context, Result, ensure};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::world::manifest::{daemon_set, image_patch, never_ready_patch, with};
use crate::world::process::Process;
use crate::world::{Setup, World, eventually};

/// C32: status prints what it waits for, and that the DaemonSet was deleted; it waits for a cluster
/// that is unreachable.
#[tokio::test]
async fn status_survives_a_lost_connection_and_ends_with_the_daemon_set() -> Result<()> {
    let mut world = World::sandbox(Setup { nodes: 2, ..Setup::default() }).await?;
    for name in ["first", "second"] {
        world.create_daemon_set(&with(daemon_set(name), never_ready_patch())).await?;
    }
    let mut first = status(&world, "ds/first")?;
    let mut second = status(&world, "ds/second")?;
    for process in [&first, &second] {
        prints(process, "  running, not ready (main) on 2 nodes: node-0001, node-0002\n").await?;
    }

    world.daemon_sets().delete("first", &DeleteParams::default()).await?;
    let (ended, _) = first.ended().await?;
    ensure!(ended.code() == Some(1), "{ended}: {}", first.output());
    prints(&first, &format!("error: daemonset {}/first was deleted\n", world.namespace)).await?;

    let sandbox = world.sandbox.as_mut().context("the world is a sandbox")?;
    sandbox.terminate().await?;
    prints(&second, "; retrying\n").await?;
    second.check_running()
}

/// The exit code of `top` is that of the worst DaemonSet that it lists.
#[tokio::test]
async fn tops_exit_code_is_that_of_the_worst_daemon_set() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 1, ..Setup::default() }).await?;
    world.roll_out(&labelled("done", json!({}))).await?;
    check_top(&world, &[], 0).await?;
    world.create_daemon_set(&with(labelled("slow", json!({})), never_ready_patch())).await?;
    check_top(&world, &[], 3).await?;
    let paused = json!({"metadata": {"annotations": {"everynode.dev/paused": "true"}}});
    world.roll_out(&labelled("paused", json!({}))).await?;
    world.patch_daemon_set("paused", with(paused, never_ready_patch())).await?;
    check_top(&world, &[], 5).await?;
    let missing = image_patch("example.com/does-not-exist:1.0");
    world.create_daemon_set(&labelled("stuck", missing)).await?;
    check_top(&world, &[], 4).await?;
    check_top(&world, &["-l", "team=done"], 0).await?;
    check_top(&world, &["-l", "team in (slow,done)"], 3).await?;
    let top = world.everynode(&["top", "-l", "team=done"]).await?;
    ensure!(top.code == 0 && top.stdout.lines().count() == 2, "{top:?}");
    let unparsable = world.everynode(&["top", "-l", "team=(x"]).await?;
    ensure!(unparsable.code == 1, "{unparsable:?}");
    ensure!(world.everynode(&["top"]).await?.code == 0, "without the option it is 0");
    Ok(())
}

async fn check_top(world: &World, arguments: &[&str], code: i32) -> Result<()> {
    eventually(&format!("the exit code is {code}"), async || {
        let arguments = [&["top", "--exit-code"], arguments].concat();
        let top = world.everynode(&arguments).await?;
        ensure!(top.code == code, "{top:?}");
        Ok(())
    })
    .await
}

fn labelled(name: &str, patch: Value) -> Value {
    with(with(daemon_set(name), json!({"metadata": {"labels": {"team": name}}})), patch)
}

fn status(world: &World, name: &str) -> Result<Process> {
    let arguments = ["status", name, "--namespace", &world.namespace];
    Process::everynode_with(world.directory.path(), "status", &arguments, Some(&world.kubeconfig))
}

async fn prints(process: &Process, expected: &str) -> Result<()> {
    eventually(&format!("status prints {expected:?}"), async || {
        let output = process.output();
        ensure!(output.contains(expected), "it printed {output}");
        Ok(())
    })
    .await
}
