//! Many DaemonSets at the same time.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::world::manifest::{daemon_set, with};
use crate::world::{Setup, World, eventually};

const DAEMON_SETS: usize = 100;
const NODES: usize = 100;
const GROUPS: usize = 10;

/// C10, C12, C23: a hundred DaemonSets with ten different selectors on a hundred nodes
/// each have their pods on the right nodes
#[tokio::test]
async fn a_hundred_daemon_sets_each_cover_their_nodes() -> Result<()> {
    let setup = Setup { nodes: NODES, ..Setup::default() };
    let world = World::sandbox(setup).await?;
    for (index, name) in World::node_names(&world.list_nodes().await?).iter().enumerate() {
        let labels = json!({"metadata": {"labels": {"group": format!("g{}", index % GROUPS)}}});
        world.nodes().patch(name, &PatchParams::default(), &Patch::Merge(labels)).await?;
    }
    for index in 0..DAEMON_SETS {
        let name = format!("agent-{index}");
        let selector = json!({"group": format!("g{}", index % GROUPS)});
        let patch = json!({"spec": {"template": {"spec": {"nodeSelector": selector}}}});
        let ds = serde_json::from_value(with(daemon_set(&name), patch))?;
        world.daemon_sets().create(&PostParams::default(), &ds).await?;
    }
    eventually("all DaemonSets are available", async || {
        for ds in world.daemon_sets().list(&Default::default()).await? {
            let status = ds.status.unwrap_or_default();
            let full =
                status.number_available.unwrap_or(0) == 10 && status.desired_number_scheduled == 10;
            ensure!(full, "{:?}: {status:?}", ds.metadata.name);
        }
        Ok(())
    })
    .await?;
    let mut per_pair: BTreeMap<(String, String), usize> = BTreeMap::new();
    for pod in world.pods().list(&Default::default()).await? {
        let app = pod.metadata.labels.and_then(|mut labels| labels.remove("app"));
        let node = pod.spec.and_then(|spec| spec.node_name);
        *per_pair.entry((app.unwrap_or_default(), node.unwrap_or_default())).or_default() += 1;
    }
    ensure!(per_pair.len() == DAEMON_SETS * NODES / GROUPS, "{} pairs", per_pair.len());
    ensure!(per_pair.values().all(|count| *count == 1), "a node has two: {per_pair:?}");
    Ok(())
}
