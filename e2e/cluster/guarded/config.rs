//! ConfigMaps whose names stay while their content changes.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::observe::uids;
use crate::world::World;
use crate::world::guard::guarded;
use crate::world::manifest::with;

const CANARY: &str = "steps: [{name: canary, upTo: [1], approval: true}]\n";
const NOT_RESTORED: &str = "going back does not restore ConfigMap agent-cfg";

/// G53: `plan`, the condition and `undo` say that going back does not restore a ConfigMap whose
/// name stays while its checksum changes; a policy that requires other names holds the rollout
#[tokio::test(flavor = "multi_thread")]
async fn configuration_that_going_back_does_not_restore_is_named() -> Result<()> {
    let world = World::cluster(3).await?;
    for name in ["agent-cfg", "agent-cfg-3"] {
        world.kubectl(&["-n", &world.namespace, "create", "configmap", name]).await?;
    }
    let agent = |config: Value| with(guarded("agent", CANARY), config);
    world.roll_out(&agent(config("agent-cfg", "1"))).await?;
    world.reaches("agent", "Complete").await?;
    let changed = agent(config("agent-cfg", "2")).to_string();
    let planned = world.everynode_with_input(&["plan", "-f", "-"], &changed).await?;
    ensure!(planned.code == 2 && planned.stdout.contains(NOT_RESTORED), "{planned:?}");
    world.patch_daemon_set("agent", config("agent-cfg", "2")).await?;
    world.reaches("agent", "AwaitingApproval").await?;
    let get = world.everynode(&["rollout", "get", "ds/agent"]).await?.ok()?;
    ensure!(get.contains(NOT_RESTORED), "{get}");
    let undone = world.everynode(&["undo", "ds/agent", "--dry-run"]).await?;
    ensure!(undone.code == 0 && undone.stderr.contains(NOT_RESTORED), "{undone:?}");
    world.everynode(&["rollout", "abort", "ds/agent"]).await?.ok()?;
    world.reaches("agent", "Failed").await?;

    world.set_policy("agent", json!(format!("{CANARY}config: {{require: hashedNames}}"))).await?;
    let before = uids(&world, "agent").await?;
    world.patch_daemon_set("agent", config("agent-cfg", "3")).await?;
    world.reaches("agent", "MutableConfig").await?;
    let status = world.everynode(&["status", "ds/agent", "--fail-fast"]).await?;
    ensure!(status.code == 5 && status.stdout.contains(NOT_RESTORED), "{status:?}");
    ensure!(uids(&world, "agent").await? == before, "a pod was replaced although it is held");
    world.patch_daemon_set("agent", config("agent-cfg-3", "3")).await?;
    world.reaches("agent", "AwaitingApproval").await?;
    let get = world.everynode(&["rollout", "get", "ds/agent"]).await?.ok()?;
    ensure!(!get.contains("does not restore"), "{get}");
    let undone = world.everynode(&["undo", "ds/agent", "--dry-run"]).await?;
    ensure!(undone.code == 0 && !undone.stderr.contains("does not restore"), "{undone:?}");
    Ok(())
}

/// Pods with a volume of a ConfigMap, and a checksum of its content.
fn config(name: &str, checksum: &str) -> Value {
    json!({"spec": {"template": {
        "metadata": {"annotations": {"checksum/config": checksum}},
        "spec": {"volumes": [{"name": "config", "configMap": {"name": name}}]},
    }}})
}
