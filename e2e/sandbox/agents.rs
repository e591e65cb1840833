//! The manifests of popular node agents, unmodified: applied with kubectl, rolled out by the
//! controller.

use std::path::Path;

use anyhow::{Result, ensure};
use kube::api::{Api, ListParams};

use crate::world::process::everynode_program;
use crate::world::{Setup, World, command, eventually};

const AGENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/agents");

/// S3, S9, S13, S22: kubectl applies whole manifests, with a warning for each kind on which nothing
/// acts, and all agents become available
#[tokio::test]
async fn popular_node_agents_are_applied_and_settle() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 3, ..Setup::default() }).await?;
    let output = world.try_kubectl(&["apply", "--namespace=", "-f", AGENTS]).await?;
    ensure!(output.code == 0, "every kind is kept: {output:?}");
    for warning in ["keeps Services", "keeps CSIDrivers"] {
        ensure!(output.stderr.contains(warning), "{warning:?} is missing: {}", output.stderr);
    }
    ensure!(!output.stderr.contains("PodDisruptionBudgets"), "{}", output.stderr);
    let created = output.stdout.lines().filter(|line| line.starts_with("daemonset.apps/")).count();
    ensure!(created == 10, "{created} DaemonSets: {}", output.stdout);
    let daemon_sets: Api<k8s_openapi::api::apps::v1::DaemonSet> = Api::all(world.client.clone());
    eventually("nine agents run on all nodes, and one on none", async || {
        let list = daemon_sets.list(&ListParams::default()).await?;
        let available: Vec<i32> = list
            .iter()
            .filter_map(|daemon_set| daemon_set.status.as_ref())
            .filter(|status| status.observed_generation.is_some())
            .map(|status| status.number_available.unwrap_or(0))
            .collect();
        let everywhere = available.iter().filter(|count| **count == 3).count();
        ensure!((available.len(), everywhere) == (10, 9), "{available:?}");
        Ok(())
    })
    .await?;
    let again = world.try_kubectl(&["apply", "--namespace=", "-f", AGENTS]).await?;
    ensure!(again.stdout.contains("daemonset.apps/cilium unchanged"), "{}", again.stdout);
    Ok(())
}

/// S12, S20: --apply skips kinds that are not served, and the other objects settle
#[tokio::test]
async fn a_sandbox_that_applies_the_agents_itself_settles() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut command = tokio::process::Command::new(everynode_program());
    command.args(["sandbox", "--nodes", "2", "--exit-when-settled", "--timeout", "50s"]);
    let mut files: Vec<_> = std::fs::read_dir(Path::new(AGENTS))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    for file in &files {
        command.arg("--apply").arg(file);
    }
    let output = command::finish(command, directory.path(), "").await?;
    ensure!(output.code == 0, "{output:?}");
    Ok(())
}
