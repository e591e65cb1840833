//! The arguments of `sandbox --apply`: directories, and objects as `kubectl get` prints them.

use anyhow::{Result, ensure};
use tokio::process::Command;

use crate::world::command::{Output, finish};
use crate::world::manifest::daemon_set;
use crate::world::process::everynode_program;
use crate::world::{Setup, World};

/// S20: what `kubectl get` prints of one cluster is applied to another one, without the fields that
/// its server has set. The server itself refuses these.
#[tokio::test]
async fn exported_objects_are_applied_from_a_directory() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 1, ..Setup::default() }).await?;
    world.roll_out(&daemon_set("agent")).await?;
    let directory = tempfile::tempdir()?;
    let file = |name: &str| directory.path().join(name);
    let namespace = world.kubectl(&["get", "namespace", &world.namespace, "-o", "yaml"]).await?;
    let all = world.kubectl(&["get", "ds,pods,sa,controllerrevisions", "-o", "yaml"]).await?;
    ensure!(all.contains("resourceVersion:") && all.contains("kind: Pod"), "{all}");
    std::fs::write(file("1-namespace.json"), namespace)?;
    std::fs::write(file("2-all.yaml"), &all)?;
    std::fs::write(file("notes.txt"), "not a manifest")?;
    std::fs::create_dir(file("more.yaml"))?;

    let output = sandbox(&directory.path().to_string_lossy(), "").await?;
    ensure!(output.code == 0 && output.stdout.contains("settled: 1 pods available"), "{output:?}");
    let lines = [
        "2-all.yaml: not applied, since servers set these fields: ",
        "resourceVersion",
        "status",
        "uid",
        "skipped: ",
        "is created by its DaemonSet agent",
    ];
    for line in lines {
        ensure!(output.stderr.contains(line), "{line}: {output:?}");
    }

    let exported = world.kubectl(&["get", "ds/agent", "-o", "json"]).await?;
    world.kubectl(&["delete", "ds/agent"]).await?;
    let path = format!("/apis/apps/v1/namespaces/{}/daemonsets", world.namespace);
    // kubectl itself leaves the field out, except here.
    let create = ["create", "--raw", &path, "-f", "-"];
    let strict = world.kubectl_with_input(&create, &exported).await?;
    let refusal = "resourceVersion should not be set on objects to be created";
    ensure!(strict.code == 1 && strict.stderr.contains(refusal), "{strict:?}");

    let empty = tempfile::tempdir()?;
    let output = sandbox(&empty.path().to_string_lossy(), "").await?;
    let refusal = "contains no file that ends with .json, .yaml, .yml";
    ensure!(output.code == 1 && output.stderr.contains(refusal), "{output:?}");
    let pod = world.kubectl(&["get", "sa", "default", "-o", "json"]).await?;
    let output = sandbox("-", &pod.replace(&world.namespace, "default")).await?;
    ensure!(output.code == 0, "{output:?}");
    Ok(())
}

async fn sandbox(path: &str, input: &str) -> Result<Output> {
    let home = tempfile::tempdir()?;
    let mut command = Command::new(everynode_program());
    command.args(["sandbox", "--nodes", "1", "--apply", path, "--exit-when-settled"]);
    finish(command, home.path(), input).await
}
