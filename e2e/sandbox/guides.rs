//! Executes the commands of the guides for people who come from other tools, in their order.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::quick_start::{commands, shell};
use crate::world::beside::{Beside, RollBack};
use crate::world::{Setup, World, eventually};

const FROM_EXTENDED_DAEMON_SET: &str = include_str!("../../docs/from-extendeddaemonset.md");
const AGENTS: &str = include_str!("../../docs/agents.md");
const POLICIES: &str = include_str!("../../examples/policies-for-agents.yaml");

/// C21: pods that the controller of an ExtendedDaemonSet leaves are adopted, and replaced in turn
#[tokio::test(flavor = "multi_thread")]
async fn an_extended_daemon_set_becomes_a_daemon_set() -> Result<()> {
    let world = World::sandbox(Setup { nodes: 5, ..Setup::default() }).await?;
    world.kubectl(&["create", "namespace", "demo"]).await?;
    define(&world, "datadoghq.com", "ExtendedDaemonSet", "Namespaced").await?;
    define(&world, "datadoghq.com", "ExtendedDaemonSetReplicaSet", "Namespaced").await?;
    let labels = json!({"extendeddaemonset.datadoghq.com/name": "agent"});
    let set = json!({"apiVersion": "datadoghq.com/v1alpha1", "kind": "ExtendedDaemonSet",
        "metadata": {"name": "agent", "namespace": "demo"}});
    let owner = created(&world, &set).await?;
    let replica_set = json!({"apiVersion": "datadoghq.com/v1alpha1",
        "kind": "ExtendedDaemonSetReplicaSet", "metadata": {"name": "agent-1", "namespace": "demo",
        "labels": labels, "ownerReferences": [owner]}});
    let owner = created(&world, &replica_set).await?;
    for node in 1..=5 {
        created(&world, &pod(node, &owner)).await?;
    }
    created(&world, &deployment()).await?;
    world.kubectl(&["-n", "demo", "wait", "pod", "--all", "--for=condition=Ready"]).await?;

    let directory = world.directory.path().display().to_string();
    for command in commands(FROM_EXTENDED_DAEMON_SET) {
        let command = command.replace("> ", &format!("> {directory}/"));
        execute(&world, &command).await?;
        if command.contains("get pods") {
            let pods = world.kubectl(&["-n", "demo", "get", "pods", "-o", "json"]).await?;
            let pods: Value = serde_json::from_str(&pods)?;
            let pods = pods["items"].as_array().context("a list")?;
            let is_left = |pod: &&Value| pod["metadata"]["ownerReferences"].is_null();
            ensure!(pods.iter().filter(is_left).count() == 5, "they stay: {pods:?}");
        }
    }
    let pods = world.kubectl(&["-n", "demo", "get", "pods", "--no-headers"]).await?;
    ensure!(pods.lines().count() == 5, "one on each node: {pods}");
    Ok(())
}

/// A pod in the manner of those of the controller of ExtendedDaemonSets.
fn pod(node: usize, owner: &Value) -> Value {
    let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In",
        "values": [format!("node-{node:04}")]}]});
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("agent-{node}"), "namespace": "demo",
            "labels": {"app": "agent", "extendeddaemonset.datadoghq.com/name": "agent",
                "extendeddaemonsetreplicaset.datadoghq.com/name": "agent-1"},
            "ownerReferences": [owner]},
        "spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [term]}}},
            "containers": [{"name": "agent", "image": "registry.k8s.io/pause:3.9"}]}})
}

fn deployment() -> Value {
    let labels = json!({"app": "extendeddaemonset"});
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "extendeddaemonset", "namespace": "demo"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "manager", "image": "extendeddaemonset:1"}]}}}})
}

/// G18, G20: the policies of the guide guard agents whose operators state `OnDelete`
#[tokio::test(flavor = "multi_thread")]
async fn agents_of_operators_are_guarded() -> Result<()> {
    let world = Beside::start(6, RollBack::No).await?;
    let Beside { world, .. } = &world;
    for namespace in ["datadog", "calico-system", "gpu-operator"] {
        world.kubectl(&["create", "namespace", namespace]).await?;
    }
    define(world, "datadoghq.com", "DatadogAgent", "Namespaced").await?;
    define(world, "operator.tigera.io", "Installation", "Cluster").await?;
    define(world, "nvidia.com", "ClusterPolicy", "Cluster").await?;
    for (group, kind, name, namespace) in [
        ("datadoghq.com", "DatadogAgent", "datadog", Some("datadog")),
        ("operator.tigera.io", "Installation", "default", None),
        ("nvidia.com", "ClusterPolicy", "cluster-policy", None),
    ] {
        let object = json!({"apiVersion": format!("{group}/v1alpha1"), "kind": kind,
            "metadata": {"name": name, "namespace": namespace}});
        created(world, &object).await?;
    }
    for (name, namespace, labels) in [
        ("datadog-agent", "datadog", json!({})),
        ("cilium", "kube-system", json!({"k8s-app": "cilium"})),
        ("calico-node", "calico-system", json!({})),
        ("nvidia-device-plugin-daemonset", "gpu-operator", json!({})),
        (
            "nvidia-driver-daemonset",
            "gpu-operator",
            json!({"app.kubernetes.io/component": "nvidia-driver"}),
        ),
    ] {
        created(world, &agent(name, namespace, &labels)).await?;
    }
    for command in commands(AGENTS) {
        execute(world, command).await?;
    }
    eventually("all but the driver are guarded", async || {
        let top = world.finish(shell("everynode top --all-namespaces -o wide"), "").await?.ok()?;
        let is_guarded =
            |name| top.lines().any(|line| line.contains(name) && line.contains("everynode beside"));
        for name in ["datadog-agent", "cilium", "calico-node", "nvidia-device-plugin-daemonset"] {
            ensure!(is_guarded(name), "{name}: {top}");
        }
        ensure!(!is_guarded("nvidia-driver-daemonset"), "{top}");
        Ok(())
    })
    .await?;
    ensure!(POLICIES.matches("kind: RolloutPolicy").count() == 4, "each is tried here");
    Ok(())
}

/// A DaemonSet as an operator writes it once it has the strategy.
fn agent(name: &str, namespace: &str, labels: &Value) -> Value {
    let selected = json!({"app": name});
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"selector": {"matchLabels": selected}, "updateStrategy": {"type": "OnDelete"},
            "template": {"metadata": {"labels": selected},
                "spec": {"containers": [{"name": "agent", "image": "agent:1"}]}}}})
}

async fn execute(world: &World, command: &str) -> Result<()> {
    let output = world.finish(shell(command), "").await?;
    let stated = command.rsplit_once("# ends with ").map(|(_, code)| code.parse());
    let expected = stated.transpose()?.unwrap_or(0);
    ensure!(output.code == expected, "{command}: {output:?}");
    Ok(())
}

/// Defines a kind whose objects may have any fields.
async fn define(world: &World, group: &str, kind: &str, scope: &str) -> Result<()> {
    let singular = kind.to_lowercase();
    let plural = match singular.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{singular}s"),
    };
    let name = format!("{plural}.{group}");
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {"group": group, "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": singular},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}]}});
    created(world, &definition).await?;
    let definition = format!("crd/{name}");
    world.kubectl(&["wait", &definition, "--for=condition=Established"]).await?;
    Ok(())
}

/// Creates the object. Returns a reference to it as the controller of another one.
async fn created(world: &World, object: &Value) -> Result<Value> {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    let arguments = ["create", "-f", "-", "-o", "json", "--namespace", namespace];
    let output = world.kubectl_with_input(&arguments, &object.to_string()).await?.ok()?;
    let object: Value = serde_json::from_str(&output)?;
    Ok(json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "controller": true,
        "name": object["metadata"]["name"], "uid": object["metadata"]["uid"]}))
}
