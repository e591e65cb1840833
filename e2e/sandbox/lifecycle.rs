//! The behaviour of `everynode sandbox` for its user: output, input, and exit.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::world::command::finish;
use crate::world::process::{Process, everynode_program};
use crate::world::{Setup, World, eventually};

/// S1: the path of the kubeconfig is printed, only its owner may read it, and Ctrl-C ends the
/// sandbox and removes the file
#[tokio::test]
async fn the_kubeconfig_is_printed_and_removed_at_the_end() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut sandbox = Process::everynode(directory.path(), "sandbox", &["sandbox"])?;
    let named = eventually("the kubeconfig is named", async || {
        let output = sandbox.output();
        let line = output.lines().find_map(|line| line.trim().strip_prefix("export KUBECONFIG="));
        Ok(line.with_context(|| format!("no line names it:\n{output}"))?.to_owned())
    });
    let named = named.await?;
    let mode = std::fs::metadata(&named)?.permissions().mode();
    ensure!(mode & 0o777 == 0o600, "the mode of {named} is {mode:o}");
    let mut command = Command::new(std::env::var("KUBECTL").unwrap_or_else(|_| "kubectl".into()));
    command.args(["--kubeconfig", &named, "get", "nodes", "-o", "name"]);
    let nodes = finish(command, directory.path(), "").await?;
    ensure!(nodes.stdout.lines().count() == 3, "{nodes:?}");
    sandbox.signal("INT")?;
    let (status, _) = sandbox.ended().await?;
    ensure!(status.success(), "{status}: {}", sandbox.output());
    ensure!(!Path::new(&named).exists(), "{named} is left behind");
    Ok(())
}

/// S20: the nodes of a real cluster can be read from standard input
#[tokio::test]
async fn nodes_are_read_from_standard_input() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut command = Command::new(everynode_program());
    command.args(["sandbox", "--nodes-from", "-", "--exit-when-settled"]);
    let listed = "\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: ip-10-0-1-7, labels: {topology.kubernetes.io/zone: eu-1a}}
- apiVersion: v1
  kind: Node
  metadata: {name: ip-10-0-2-9, labels: {topology.kubernetes.io/zone: eu-1b}}
";
    let output = finish(command, directory.path(), listed).await?;
    ensure!(output.code == 0, "{output:?}");
    for (node, zone) in [("ip-10-0-1-7", "eu-1a"), ("ip-10-0-2-9", "eu-1b")] {
        let row = output.stdout.lines().find(|line| line.starts_with(node));
        ensure!(row.is_some_and(|row| row.contains(zone)), "{}", output.stdout);
    }
    Ok(())
}

const FAULTS: &str = "\
faults:
- match: {resources: [nodes], userAgents: [kubectl*]}
  when: {times: 1}
  fault: {error: {code: 422, reason: Invalid, message: not today}}
";

/// S17: fault rules are read at the start, and kubectl shows, replaces, extends and clears them
#[tokio::test]
async fn fault_rules_are_managed_with_kubectl() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("faults.yaml").to_string_lossy().into_owned();
    std::fs::write(&file, FAULTS)?;
    let setup = Setup { nodes: 2, arguments: &["--faults", &file], ..Setup::default() };
    let world = World::sandbox(setup).await?;
    let refused = world.try_kubectl(&["get", "nodes"]).await?;
    ensure!(refused.code != 0 && refused.stderr.contains("not today"), "{refused:?}");
    world.kubectl(&["get", "nodes"]).await?;
    let fired = async || {
        let text = world.kubectl(&["get", "--raw", "/debug/faults"]).await?;
        let rules: serde_json::Value = serde_json::from_str(&text)?;
        let rules = rules["faults"].as_array().context("no list")?.clone();
        Ok::<_, anyhow::Error>(
            rules.iter().map(|rule| rule["status"]["fired"].clone()).collect::<Vec<_>>(),
        )
    };
    ensure!(fired().await? == [1], "{:?}", fired().await?);
    world.kubectl(&["create", "--raw", "/debug/faults", "-f", &file]).await?;
    ensure!(fired().await? == [1, 0], "{:?}", fired().await?);
    world.kubectl(&["replace", "--raw", "/debug/faults", "-f", &file]).await?;
    ensure!(fired().await? == [0], "{:?}", fired().await?);
    ensure!(world.try_kubectl(&["get", "nodes"]).await?.code != 0, "it is not in force");
    std::fs::write(&file, "faults: [{fault: {error: {code: 20}}}]")?;
    let refused = world.try_kubectl(&["replace", "--raw", "/debug/faults", "-f", &file]).await?;
    ensure!(refused.stderr.contains("faults[0].fault.error.code"), "{refused:?}");
    world.kubectl(&["delete", "--raw", "/debug/faults"]).await?;
    ensure!(fired().await?.is_empty(), "{:?}", fired().await?);
    Ok(())
}

/// S17: the sandbox tolerates an outage while it waits for its DaemonSets
#[tokio::test]
async fn a_sandbox_settles_in_spite_of_an_outage() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("faults.yaml").to_string_lossy().into_owned();
    let rule = "{match: {verbs: [watch], resources: [nodes]}, when: {times: 1}, \
                fault: {restart: {down: 1s, forbidden: 500ms}}}";
    std::fs::write(&file, format!("faults: [{rule}]"))?;
    let manifest = crate::world::manifest::daemon_set("a").to_string();
    let mut command = Command::new(everynode_program());
    command.args(["sandbox", "--faults", &file, "--apply", "-", "--exit-when-settled"]);
    let output = finish(command, directory.path(), &manifest).await?;
    ensure!(output.code == 0 && output.stdout.contains("settled: 3 pods"), "{output:?}");
    ensure!(output.stderr.contains("the API server is unreachable"), "no outage: {output:?}");
    Ok(())
}
