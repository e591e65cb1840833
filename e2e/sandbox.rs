//! `everynode sandbox` as its user meets it: what it says, what it reads, and how it ends.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::world::command::finish;
use crate::world::eventually;
use crate::world::process::{EVERYNODE, Process};

/// S1: it says where its kubeconfig is, which is its owner's alone; Ctrl-C ends it, and the file with it
#[tokio::test]
async fn the_kubeconfig_is_named_and_gone_at_the_end() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut sandbox = Process::everynode(directory.path(), "sandbox", &["sandbox"])?;
    let named = eventually("the kubeconfig is named", async || {
        let output = sandbox.output();
        let line = output.lines().find_map(|line| line.trim().strip_prefix("export KUBECONFIG="));
        Ok(line.with_context(|| format!("no line names it:\n{output}"))?.to_owned())
    });
    let named = named.await?;
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

/// S20: the nodes of a real cluster come from standard input as well as from a file
#[tokio::test]
async fn nodes_are_read_from_standard_input() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut command = Command::new(EVERYNODE);
    command.args(["sandbox", "--nodes-from", "-", "--exit-when-settled"]);
    let listed = "\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: ip-10-0-1-7, labels: {topology.kubernetes.io/zone: eu-1a}}}
- {apiVersion: v1, kind: Node, metadata: {name: ip-10-0-2-9, labels: {topology.kubernetes.io/zone: eu-1b}}}
";
    let output = finish(command, directory.path(), listed).await?;
    ensure!(output.code == 0, "{output:?}");
    for (node, zone) in [("ip-10-0-1-7", "eu-1a"), ("ip-10-0-2-9", "eu-1b")] {
        let row = output.stdout.lines().find(|line| line.starts_with(node));
        ensure!(row.is_some_and(|row| row.contains(zone)), "{}", output.stdout);
    }
    Ok(())
}
