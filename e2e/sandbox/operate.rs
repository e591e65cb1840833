//! `everynode status` while the cluster changes. The transcripts `operate` and `rights` cover the
//! rest.

use anyhow::{Context, Result, ensure};
use kube::api::DeleteParams;

use crate::world::manifest::{daemon_set, never_ready_patch, with};
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
        prints(process, "  running, not ready (main): node-0001, node-0002\n").await?;
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
