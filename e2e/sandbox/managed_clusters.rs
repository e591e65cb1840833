//! Executes the commands of docs/managed-clusters.md, in their order.

use anyhow::{Context, Result, ensure};

use super::quick_start::{commands, shell};
use crate::world::beside::{ACCOUNT, built_in};
use crate::world::process::Process;
use crate::world::{Setup, World};

const PAGE: &str = include_str!("../../docs/managed-clusters.md");
const INSTALLED: &str = "kubectl apply -k deploy/beside";
/// The namespace of the installation.
const NAMESPACE: &str = "everynode";

/// G18, G20, G22: the guide works as it stands. The sandbox runs no Deployments, so the process is
/// started with the rights of its ServiceAccount.
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_guide_work() -> Result<()> {
    let setup = Setup { nodes: 5, controller: false, ..Setup::default() };
    let world = World::sandbox(setup).await?;
    let mut creator = built_in(&world)?;
    let mut guard: Option<Process> = None;
    let commands: Vec<&str> = commands(PAGE).collect();
    ensure!(commands.len() > 18, "only {commands:?}");
    for command in commands {
        let output = world.finish(shell(command), "").await?;
        let stated = command.rsplit_once("# ends with ").map(|(_, code)| code.parse());
        let expected = stated.transpose()?.unwrap_or(0);
        let log = || guard.as_ref().map(Process::output).unwrap_or_default();
        ensure!(output.code == expected, "{command}: {output:?}\n{}", log());
        ensure!(!output.stdout.contains("to be deleted manually"), "{command}: {output:?}");
        if command == INSTALLED {
            let kubeconfig = world.kubeconfig_of(NAMESPACE, ACCOUNT).await?;
            let lease = format!("--leader-elect-resource-namespace={NAMESPACE}");
            let arguments = ["run", "--beside", &lease];
            let directory = world.directory.path();
            let process =
                Process::everynode_with(directory, "beside", &arguments, Some(&kubeconfig))?;
            guard = Some(process);
        }
    }
    guard.context("the guide installs everynode")?.check_running()?;
    creator.check_running()
}
