//! `everynode run` as a separate process on a cluster without a DaemonSet controller.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cluster::kubectl;
use crate::world::process::{Process, everynode_program};
use crate::world::{Setup, World};

/// A cluster without a DaemonSet controller.
pub(crate) async fn bare(nodes: usize) -> Result<World> {
    World::sandbox(Setup { nodes, controller: false, ..Setup::default() }).await
}

/// `everynode run` with the cluster's kubeconfig in the environment.
pub(crate) fn run(world: &World, arguments: &[&str]) -> Result<Process> {
    let arguments: Vec<&str> = ["run"].into_iter().chain(arguments.iter().copied()).collect();
    Process::everynode_with(world.directory.path(), "run", &arguments, Some(&world.kubeconfig))
}

/// C1, C70: the controller in a separate process does the same as the one inside the sandbox
#[tokio::test]
async fn a_separate_controller_does_the_same() -> Result<()> {
    let world = bare(4).await?;
    let mut controller = run(&world, &["--leader-elect=false"])?;
    kubectl::main_path(&world).await.with_context(|| controller.output())?;
    controller.check_running()?;
    let (status, time) = controller.terminate().await?;
    ensure!(status.success(), "SIGTERM ends it with {status}: {}", controller.output());
    ensure!(time.as_secs() < 5, "SIGTERM takes {time:?}");
    Ok(())
}

/// C83: with `--log-format=json` the whole log is JSON, including the error that ends the
/// controller
#[test]
fn the_error_that_ends_a_controller_is_a_line_of_its_log() -> Result<()> {
    let run = |format: &str| -> Result<String> {
        let output = Command::new(everynode_program())
            .args(["run", "--kubeconfig=/nowhere", format])
            .stdin(Stdio::null())
            .output()?;
        ensure!(output.status.code() == Some(1), "{format}: {}", output.status);
        Ok(String::from_utf8(output.stderr)?)
    };
    let text = run("--log-format=text")?;
    ensure!(text.starts_with("error: kubeconfig /nowhere: "), "{text}");
    let json = run("--log-format=json")?;
    let lines: Vec<Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
        .collect::<Result<_>>()?;
    let last = lines.last().context("nothing is logged")?;
    let message = last["message"].as_str().unwrap_or_default();
    ensure!(last["level"] == "ERROR" && message.starts_with("kubeconfig /nowhere: "), "{json}");
    Ok(())
}
