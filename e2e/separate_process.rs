//! `everynode run` as a process of its own, beside a cluster that has no DaemonSet controller.

use anyhow::{Context, Result, ensure};

use crate::kubectl;
use crate::world::process::Process;
use crate::world::{Setup, World};

/// A cluster without a DaemonSet controller. None when an external one is tested.
pub async fn bare(nodes: usize) -> Result<Option<World>> {
    World::sandbox(Setup { nodes, controller: false, ..Setup::default() }).await
}

/// `everynode run` with the world's kubeconfig in the environment.
pub fn run(world: &World, arguments: &[&str]) -> Result<Process> {
    let arguments: Vec<&str> = ["run"].into_iter().chain(arguments.iter().copied()).collect();
    Process::everynode_with(world.directory.path(), "run", &arguments, Some(&world.kubeconfig))
}

/// C1, C70: the controller as a process of its own does what the one inside the sandbox does
#[tokio::test]
async fn a_controller_of_its_own_does_the_same() -> Result<()> {
    let Some(world) = bare(4).await? else { return Ok(()) };
    let mut controller = run(&world, &["--leader-elect=false"])?;
    kubectl::main_path(&world).await.with_context(|| controller.output())?;
    controller.check_running()?;
    let (status, time) = controller.terminate().await?;
    ensure!(status.success(), "SIGTERM ends it with {status}: {}", controller.output());
    ensure!(time.as_secs() < 5, "SIGTERM takes {time:?}");
    Ok(())
}
