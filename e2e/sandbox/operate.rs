//! `everynode status` while things change under it. What the operator's commands print otherwise is in the conversations
//! operate and rights.

use anyhow::{Context, Result, ensure};
use kube::api::DeleteParams;

use crate::world::manifest::{daemon_set, never_ready_patch, with};
use crate::world::process::Process;
use crate::world::{Setup, World, eventually};

/// C32: it says what it waits for, and that the DaemonSet is gone; a cluster that is gone is waited for.
#[tokio::test]
async fn status_outlives_the_connection_but_not_the_daemon_set() -> Result<()> {
    let Some(mut world) = World::sandbox(Setup { nodes: 2, ..Setup::default() }).await? else {
        return Ok(());
    };
    for name in ["first", "second"] {
        world.create_daemon_set(&with(daemon_set(name), never_ready_patch())).await?;
    }
    let mut first = status(&world, "ds/first")?;
    let mut second = status(&world, "ds/second")?;
    for process in [&first, &second] {
        says(process, "  running, not ready (main): node-0001, node-0002\n").await?;
    }

    world.daemon_sets().delete("first", &DeleteParams::default()).await?;
    let (ended, _) = first.ended().await?;
    ensure!(ended.code() == Some(1), "{ended}: {}", first.output());
    says(&first, &format!("error: daemonset {}/first was deleted\n", world.namespace)).await?;

    let sandbox = world.sandbox.as_mut().context("the world is a sandbox")?;
    sandbox.terminate().await?;
    says(&second, "; retrying\n").await?;
    second.check_running()
}

fn status(world: &World, name: &str) -> Result<Process> {
    let arguments = ["status", name, "--namespace", &world.namespace];
    Process::everynode_with(world.directory.path(), "status", &arguments, Some(&world.kubeconfig))
}

async fn says(process: &Process, expected: &str) -> Result<()> {
    eventually(&format!("status says {expected:?}"), async || {
        let output = process.output();
        ensure!(output.contains(expected), "it says {output}");
        Ok(())
    })
    .await
}
