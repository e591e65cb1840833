//! Rollouts that do not end: `top`, `status` and `explain` name the same cause.

use anyhow::{Result, ensure};
use serde_json::json;
use tokio::process::Command;

use crate::world::command::Output;
use crate::world::manifest::{daemon_set, with};
use crate::world::process::everynode_program;
use crate::world::{World, eventually};

const FINALIZER: &str = "example.com/hold";

/// C28: a pod that the API server refuses is stuck, and its cause is told at once
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_service_account_is_named() -> Result<()> {
    let world = World::cluster(3).await?;
    let spec = json!({"serviceAccountName": "not-there"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"},
        "spec": {"serviceAccountName": "not-there", "containers": [{"name": "c", "image": "i"}]}});
    let arguments = ["create", "--dry-run=server", "-f", "-"];
    if world.kubectl_with_input(&arguments, &pod.to_string()).await?.code == 0 {
        eprintln!("left out: this API server runs without the admission of service accounts");
        return Ok(());
    }
    let template = json!({"spec": {"template": {"spec": spec}}});
    world.create_daemon_set(&with(daemon_set("agent"), template)).await?;
    let cause = "serviceaccount \"not-there\" not found";
    let status = run(&world, &["status", "ds/agent", "--fail-fast", "--timeout", "1m"]).await?;
    ensure!(status.code == 4 && status.stdout.contains(cause), "status: {status:?}");
    ensure!(status.stderr.contains("gave up: the rollout is stuck"), "status: {status:?}");
    let top = run(&world, &["top"]).await?.ok()?;
    ensure!(top.contains("stuck") && top.contains(cause), "top: {top}");
    let explained = run(&world, &["explain", "ds/agent"]).await?.ok()?;
    ensure!(explained.contains("not created") && explained.contains(cause), "{explained}");
    let names = run(&world, &["explain", "ds/agent", "-o", "name"]).await?.ok()?;
    ensure!(names.lines().count() >= 3, "explain -o name: {names}");
    Ok(())
}

/// C32: finalizers that hold a DaemonSet are named, and its rollout is stuck
#[tokio::test(flavor = "multi_thread")]
async fn finalizers_are_named() -> Result<()> {
    let world = World::cluster(3).await?;
    world.roll_out(&daemon_set("agent")).await?;
    let held = format!("{{\"metadata\":{{\"finalizers\":[\"{FINALIZER}\"]}}}}");
    let free = "{\"metadata\":{\"finalizers\":null}}";
    world.kubectl(&["patch", "ds/agent", "--type=merge", "-p", &held]).await?;
    world.kubectl(&["delete", "ds/agent", "--wait=false"]).await?;
    shows(&world, &format!("being deleted; finalizers: {FINALIZER}"), true).await?;
    let status = run(&world, &["status", "ds/agent", "--fail-fast", "--timeout", "1m"]).await?;
    ensure!(status.code == 4 && !status.stdout.contains("no controller"), "{status:?}");
    let top = run(&world, &["top"]).await?.ok()?;
    ensure!(top.contains("deleting"), "{top}");
    world.kubectl(&["patch", "ds/agent", "--type=merge", "-p", free]).await?;
    Ok(())
}

/// Waits until each of the commands shows the text. `top` shows only the cause of the most nodes.
pub(crate) async fn shows(world: &World, text: &str, in_top: bool) -> Result<()> {
    let commands: [&[&str]; 3] =
        [&["explain", "ds/agent"], &["status", "ds/agent", "--no-wait"], &["top"]];
    for command in commands.into_iter().take(if in_top { 3 } else { 2 }) {
        eventually(&format!("everynode {} shows {text}", command.join(" ")), async || {
            let shown = run(world, command).await?;
            ensure!(shown.stdout.contains(text), "{shown:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

async fn run(world: &World, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(everynode_program());
    command.args(arguments).args(["--namespace", &world.namespace]);
    world.finish(command, "").await
}
