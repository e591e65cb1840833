//! `everynode sandbox --from-context` copies a cluster, and only reads it.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::world::account::LOG_REQUESTS;
use crate::world::command::finish;
use crate::world::manifest::{NEXT_IMAGE, daemon_set, image_patch, with};
use crate::world::process::{Process, everynode_program};
use crate::world::{Setup, World, eventually};

/// The context in the kubeconfig of every sandbox.
const CONTEXT: &str = "everynode-sandbox";

const PREREQUISITES: &str = "\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: agents}
value: 1000
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: agent}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {password: secret}
---
apiVersion: everynode.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: agents}
spec: {daemonSets: {selector: {matchLabels: {guarded: 'yes'}}}, maxUnavailable: 1}
";

/// A DaemonSet on one of three nodes, with two revisions, and all that it names.
async fn prepare(world: &World) -> Result<()> {
    world.kubectl_with_input(&["apply", "-f", "-"], PREREQUISITES).await?.ok()?;
    let node = World::node_names(&world.list_nodes().await?).remove(1);
    world.kubectl(&["label", "node", &node, "disk=fast"]).await?;
    let spec = json!({"spec": {"template": {"spec": {
        "nodeSelector": {"disk": "fast"},
        "serviceAccountName": "agent",
        "priorityClassName": "agents",
    }}}});
    let manifest =
        with(with(daemon_set("a"), json!({"metadata": {"finalizers": ["e2e/a"]}})), spec);
    world.roll_out(&manifest).await?;
    world.patch_daemon_set("a", image_patch(NEXT_IMAGE)).await?;
    world.settled("a").await?;
    Ok(())
}

/// S20: nodes, DaemonSets with their revisions, and what they name are those of the cluster, which
/// is only read, and manifests change what runs in the copy
#[tokio::test]
async fn a_cluster_is_copied_into_a_sandbox() -> Result<()> {
    let setup = Setup { nodes: 3, arguments: &LOG_REQUESTS, ..Setup::default() };
    let world = World::sandbox(setup).await?;
    prepare(&world).await?;
    let original = world.administrator("copier").await?;
    let directory = world.directory.path();
    let (out, change) = (directory.join("copy.kubeconfig"), directory.join("change.yaml"));
    let namespace = world.namespace.as_str();
    let annotated = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "later", "namespace": namespace}, "data": {}});
    std::fs::write(&change, annotated.to_string())?;
    let (out, change) = (out.to_string_lossy(), change.to_string_lossy());
    let arguments =
        ["sandbox", "--from-context", CONTEXT, "--kubeconfig-out", &out, "--apply", &change];
    let sandbox = Process::everynode_with(directory, "copy", &arguments, Some(&original))?;
    eventually("the copy has settled", async || {
        let output = sandbox.output();
        ensure!(output.contains("Next, in another terminal"), "{output}");
        Ok(())
    })
    .await?;
    let output = sandbox.output();
    for line in [
        "copied from context everynode-sandbox: 1 DaemonSets with 2 revisions, ",
        "settled: 1 pods available",
        "configmap/later created",
    ] {
        ensure!(output.contains(line), "no {line:?} in\n{output}");
    }
    ensure!(!output.contains("not copied"), "{output}");

    let copy = async |arguments: &[&str]| -> Result<Value> {
        let mut command = Command::new(std::env::var("KUBECTL").unwrap_or("kubectl".into()));
        command.args(["--kubeconfig", &out, "-n", namespace, "-o", "json"]).args(arguments);
        Ok(serde_json::from_str(&finish(command, directory, "").await?.ok()?)?)
    };
    let of_world = async |arguments: &[&str]| -> Result<Value> {
        let arguments: Vec<&str> = [arguments, &["-o", "json"]].concat();
        Ok(serde_json::from_str(&world.kubectl(&arguments).await?)?)
    };
    let get = ["get", "daemonset", "a"];
    let (copied, original) = (copy(&get).await?, of_world(&get).await?);
    ensure!(copied["spec"] == original["spec"], "{copied:#}\n{original:#}");
    ensure!(copied["metadata"]["finalizers"].is_null(), "{copied:#}");
    let annotations = |object: &Value| object["metadata"]["annotations"].clone();
    ensure!(annotations(&copied) == annotations(&original), "{copied:#}\n{original:#}");
    for (arguments, pointer) in [
        (&["get", "nodes", "-l", "disk=fast"][..], "/items/0/metadata/name"),
        (&["get", "priorityclass", "agents"], "/value"),
        (&["get", "serviceaccount", "agent"], "/metadata/name"),
        (&["get", "rolloutpolicy", "agents"], "/spec"),
    ] {
        let (copied, original) = (copy(arguments).await?, of_world(arguments).await?);
        let found = (copied.pointer(pointer), original.pointer(pointer));
        ensure!(found.0.is_some() && found.0 == found.1, "{arguments:?}: {found:?}");
    }
    let secrets = copy(&["get", "secrets"]).await?;
    ensure!(secrets["items"] == json!([]), "{secrets:#}");
    let mut history = Command::new(everynode_program());
    history.args(["history", "a", "-n", namespace, "--kubeconfig", &out, "-o", "json"]);
    let history: Value = serde_json::from_str(&finish(history, directory, "").await?.ok()?)?;
    ensure!(history.to_string().contains(NEXT_IMAGE), "{history:#}");
    let revisions = copy(&["get", "controllerrevisions"]).await?;
    let revisions = revisions["items"].as_array().context("no list")?.len();
    ensure!(revisions == 2, "{revisions} revisions instead of the copied ones");

    let requests = world.requests_of(namespace, "copier")?;
    let others: Vec<_> = requests.iter().filter(|request| request.verb != "list").collect();
    ensure!(others.is_empty() && !requests.is_empty(), "{others:?}");
    ensure!(requests.iter().all(|request| request.resource != "secrets"), "{requests:?}");
    Ok(())
}

/// S20: without some permissions, the copy says what it lacks, and has what its pods need
#[tokio::test]
async fn a_copy_needs_few_permissions() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 3, ..Setup::default() }).await?;
    prepare(&world).await?;
    let namespace = world.namespace.as_str();
    world.kubectl(&["create", "serviceaccount", "reader"]).await?;
    let subject = format!("--serviceaccount={namespace}:reader");
    let role = "--resource=nodes,daemonsets.apps";
    world.kubectl(&["create", "clusterrole", "reader", "--verb=list", role]).await?;
    let role = "--clusterrole=reader";
    world.kubectl(&["create", "clusterrolebinding", "reader", role, &subject]).await?;
    let kubeconfig = world.kubeconfig_of(namespace, "reader").await?;
    let run = async |kubeconfig: &std::path::Path| {
        let mut command = Command::new(everynode_program());
        command.args(["sandbox", "--from-context", CONTEXT, "--exit-when-settled", "--kubeconfig"]);
        finish(
            {
                command.arg(kubeconfig);
                command
            },
            world.directory.path(),
            "",
        )
        .await
    };
    let output = run(&kubeconfig).await?;
    ensure!(output.code == 0 && output.stdout.contains("settled: 1 pods"), "{output:?}");
    for missing in ["priorityclasses", "serviceaccounts", "controllerrevisions"] {
        let said = output
            .stderr
            .lines()
            .any(|line| line.starts_with("the copy is incomplete: ") && line.contains(missing));
        ensure!(said, "nothing about {missing}: {}", output.stderr);
    }
    world.kubectl(&["delete", "clusterrolebinding", "reader"]).await?;
    let output = run(&kubeconfig).await?;
    ensure!(output.code == 1 && output.stderr.contains("list nodes"), "{output:?}");
    Ok(())
}
