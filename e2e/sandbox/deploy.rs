//! The manifests under deploy/: they are valid, and grant only the permissions that the controller
//! uses.

mod beside;
mod priority;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Service, ServiceAccount};
use k8s_openapi::api::flowcontrol::v1::FlowSchema;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::world::command::finish;
use crate::world::{Setup, World, eventually};

const COMPONENTS: [&str; 8] = [
    "control-plane",
    "single",
    "monitoring",
    "namespace-node-selectors",
    "check-jobs",
    "config",
    "in-place",
    "order-rights",
];
const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy");

fn documents(text: &str) -> Result<Vec<Value>> {
    text.split("\n---\n").map(|text| Ok(serde_saphyr::from_str(text)?)).collect()
}

/// A copy of deploy/, with a directory for overlays beside it.
struct Overlay(tempfile::TempDir);

impl Overlay {
    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// The base with these components, as in a user's kustomization.
    async fn of(components: &[&str]) -> Result<Vec<Value>> {
        let overlay = Overlay(tempfile::tempdir()?);
        overlay.copy()?;
        let knows_components = knows_components(overlay.0.path()).await?;
        let directory = match components {
            [component] if !knows_components => {
                overlay.old_style(&format!("deploy/components/{component}"))?
            }
            _ => overlay.new_style(components)?,
        };
        let rendered = finish(kustomize(&directory), overlay.0.path(), "").await?.ok()?;
        documents(&rendered)
    }

    fn copy(&self) -> Result<()> {
        let mut copy = std::process::Command::new("cp");
        let copied = copy.args(["-R", DEPLOY]).arg(self.path("")).status()?;
        ensure!(copied.success(), "cp of deploy/ ended with {copied}");
        Ok(())
    }

    fn new_style(&self, components: &[&str]) -> Result<PathBuf> {
        let directory = self.path("overlay");
        std::fs::create_dir(&directory)?;
        let components: Vec<String> =
            components.iter().map(|name| format!("../deploy/components/{name}")).collect();
        let kustomization = json!({"resources": ["../deploy/base"], "components": components});
        std::fs::write(directory.join("kustomization.yaml"), kustomization.to_string())?;
        Ok(directory)
    }

    /// The component as an overlay for kustomize 2.
    fn old_style(&self, component: &str) -> Result<PathBuf> {
        let file = self.path(component).join("kustomization.yaml");
        let mut content: Value = serde_saphyr::from_str(&std::fs::read_to_string(&file)?)?;
        let patches = content["patches"].as_array().cloned().unwrap_or_default();
        let patches: Vec<&Value> = patches.iter().map(|patch| &patch["path"]).collect();
        let resources = content["resources"].take();
        let kustomization = json!({
            "bases": ["../../base"], "resources": resources, "patchesStrategicMerge": patches,
        });
        std::fs::write(&file, kustomization.to_string())?;
        Ok(self.path(component))
    }
}

/// True if kubectl contains kustomize 2 (before 1.21), which does not support components.
async fn knows_components(home: &Path) -> Result<bool> {
    Ok(minor_version(home).await? >= 21)
}

async fn minor_version(home: &Path) -> Result<u32> {
    let mut command = kubectl();
    command.args(["version", "--client", "--output=json"]);
    let version: Value = serde_json::from_str(&finish(command, home, "").await?.ok()?)?;
    let minor = version["clientVersion"]["minor"].as_str().context("kubectl has no version")?;
    Ok(minor.trim_end_matches('+').parse()?)
}

/// The base in another namespace, as the component for that describes; in kube-system if kubectl
/// does not support components.
async fn in_own_namespace() -> Result<(&'static str, Vec<Value>)> {
    let overlay = Overlay(tempfile::tempdir()?);
    if minor_version(overlay.0.path()).await? < 22 {
        return Ok(("kube-system", Overlay::of(&["own-namespace"]).await?));
    }
    overlay.copy()?;
    let namespace = "agents";
    let component = "../deploy/components/own-namespace";
    for (name, kustomization) in [
        ("moved", json!({"resources": ["../deploy/base"], "namespace": namespace})),
        ("overlay", json!({"resources": ["../moved"], "components": [component]})),
    ] {
        std::fs::create_dir(overlay.path(name))?;
        let file = overlay.path(name).join("kustomization.yaml");
        std::fs::write(file, kustomization.to_string())?;
    }
    let rendered = finish(kustomize(&overlay.path("overlay")), overlay.0.path(), "").await?.ok()?;
    Ok((namespace, documents(&rendered)?))
}

fn kubectl() -> Command {
    Command::new(std::env::var_os("KUBECTL").unwrap_or_else(|| OsString::from("kubectl")))
}

fn kustomize(directory: &Path) -> Command {
    let mut command = kubectl();
    command.arg("kustomize").arg(directory);
    command
}

async fn base() -> Result<Vec<Value>> {
    let home = tempfile::tempdir()?;
    let command = kustomize(&Path::new(DEPLOY).join("base"));
    documents(&finish(command, home.path(), "").await?.ok()?)
}

fn file(name: &str) -> Result<Vec<Value>> {
    documents(&std::fs::read_to_string(Path::new(DEPLOY).join(name))?)
}

fn one<K: DeserializeOwned>(documents: &[Value], kind: &str) -> Result<K> {
    let found = documents.iter().find(|document| document["kind"] == kind);
    Ok(serde_json::from_value(found.with_context(|| format!("no {kind}"))?.clone())?)
}

fn container(documents: &[Value]) -> Result<Container> {
    pod(documents)?.containers.into_iter().next().context("no container")
}

fn pod(documents: &[Value]) -> Result<PodSpec> {
    let deployment: Deployment = one(documents, "Deployment")?;
    deployment.spec.and_then(|spec| spec.template.spec).context("no pod spec")
}

/// The arguments as the kubelet passes them, with `$(NAME)` replaced.
fn arguments(container: &Container) -> Vec<String> {
    let mut arguments = container.args.clone().unwrap_or_default();
    for variable in container.env.iter().flatten() {
        let placeholder = format!("$({})", variable.name);
        for argument in &mut arguments {
            *argument = argument.replace(&placeholder, variable.value.as_deref().unwrap_or(""));
        }
    }
    arguments
}

#[tokio::test]
async fn the_single_file_is_the_rendered_base() -> Result<()> {
    let file = std::fs::read_to_string(Path::new(DEPLOY).join("everynode.yaml"))?;
    ensure!(
        documents(&file)? == base().await?,
        "deploy/everynode.yaml is not what deploy/base renders to: make manifest"
    );
    Ok(())
}

fn starts_with_known_options(container: &Container) -> Result<()> {
    let arguments = arguments(container);
    let help = std::process::Command::new(crate::world::process::everynode_program())
        .args(&arguments)
        .arg("--help")
        .output()?;
    ensure!(help.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&help.stderr));
    Ok(())
}

/// Fails if a field is unknown to its type, and so would be lost.
fn round_trip<K: DeserializeOwned + serde::Serialize>(document: &Value) -> Result<()> {
    let typed: K = serde_json::from_value(document.clone())?;
    let back = integral(serde_json::to_value(typed)?);
    ensure!(back == *document, "{document} is {back} for the API");
    Ok(())
}

/// The value with whole numbers as such: limits in schemas are floats in Rust.
fn integral(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() < 9e15 => json!(float as i64),
            _ => Value::Number(number),
        },
        Value::Array(items) => items.into_iter().map(integral).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| (key, integral(value))).collect()
        }
        other => other,
    }
}

#[tokio::test]
async fn every_field_is_known_to_its_kind() -> Result<()> {
    let mut documents = base().await?;
    for component in COMPONENTS {
        documents.extend(Overlay::of(&[component]).await?);
    }
    documents.extend(in_own_namespace().await?.1);
    documents.extend(file("static-pod-flow-schemas.yaml")?);
    for document in &documents {
        match document["kind"].as_str().unwrap_or_default() {
            "Deployment" => round_trip::<Deployment>(document)?,
            "Service" => round_trip::<Service>(document)?,
            "ServiceAccount" => round_trip::<ServiceAccount>(document)?,
            "PodDisruptionBudget" => round_trip::<PodDisruptionBudget>(document)?,
            "ClusterRole" => round_trip::<ClusterRole>(document)?,
            "ClusterRoleBinding" => round_trip::<ClusterRoleBinding>(document)?,
            "Role" => round_trip::<Role>(document)?,
            "RoleBinding" => round_trip::<RoleBinding>(document)?,
            "CustomResourceDefinition" => round_trip::<CustomResourceDefinition>(document)?,
            "ValidatingAdmissionPolicy" => round_trip::<ValidatingAdmissionPolicy>(document)?,
            "ValidatingAdmissionPolicyBinding" => {
                round_trip::<ValidatingAdmissionPolicyBinding>(document)?;
            }
            "FlowSchema" => round_trip::<FlowSchema>(document)?,
            // Custom resources, whose types belong to prometheus-operator.
            "ServiceMonitor" | "PrometheusRule" => {}
            other => anyhow::bail!("no type for {other}"),
        }
    }
    Ok(())
}

/// A control-plane node with its taint, not initialized by its cloud provider yet, and without
/// network.
async fn take_the_network_away(world: &World) -> Result<()> {
    let node = World::node_names(&world.list_nodes().await?).pop().context("no node")?;
    world.kubectl(&["taint", "node", &node, "CriticalAddonsOnly=true:NoExecute"]).await?;
    let effect = "=true:NoSchedule";
    for key in
        ["node-role.kubernetes.io/control-plane", "node.cloudprovider.kubernetes.io/uninitialized"]
    {
        world.kubectl(&["taint", "node", &node, &format!("{key}{effect}")]).await?;
    }
    // The sandbox derives this node's taint from the condition.
    let condition =
        json!({"type": "NetworkUnavailable", "status": "True", "reason": "NoRouteCreated"});
    let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
    world.nodes().patch_status(&node, &PatchParams::default(), &patch).await?;
    eventually("the node is tainted for its network", async || {
        let taints = world.nodes().get(&node).await?.spec.and_then(|spec| spec.taints);
        let keys: Vec<String> = taints.into_iter().flatten().map(|taint| taint.key).collect();
        ensure!(keys.len() == 4, "its taints are {keys:?}");
        Ok(())
    })
    .await
}

/// All objects except custom resources, whose definitions prometheus-operator installs, and
/// FlowSchemas, which the sandbox does not serve.
#[tokio::test]
async fn the_api_server_accepts_every_manifest_in_a_dry_run() -> Result<()> {
    let setup = Setup { nodes: 1, controller: false, ..Setup::default() };
    let world = World::sandbox(setup).await?;
    let dry_run = async |documents: &[Value]| {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": documents}).to_string();
        let arguments = ["--namespace=", "apply", "--dry-run=server", "-f", "-"];
        world.kubectl_with_input(&arguments, &list).await
    };
    let mut rendered = vec![base().await?];
    for component in COMPONENTS {
        rendered.push(Overlay::of(&[component]).await?);
    }
    for name in ["everynode.yaml", "static-pod.yaml"] {
        rendered.push(file(name)?);
    }
    let unserved = ["monitoring.coreos.com/v1"];
    for mut documents in rendered {
        documents
            .retain(|document| !unserved.iter().any(|version| document["apiVersion"] == **version));
        let output = dry_run(&documents).await?.ok()?;
        ensure!(output.lines().count() == documents.len(), "{output} for {documents:?}");
        // A sandbox has the definitions of policies from its start.
        let is_accepted = |line: &str| {
            line.ends_with(" created (server dry run)")
                || line.starts_with("customresourcedefinition.apiextensions.k8s.io/")
        };
        ensure!(output.lines().all(is_accepted), "{output}");
    }
    let mut wrong = base().await?;
    for document in &mut wrong {
        match document["kind"].as_str() {
            Some("Deployment") => document["spec"]["selector"]["matchLabels"]["x"] = json!("y"),
            Some("PodDisruptionBudget") => document["spec"]["maxUnavailable"] = json!("all"),
            _ => {}
        }
    }
    let refused = dry_run(&wrong).await?.stderr;
    for cause in ["`selector` does not match template `labels`", "spec.maxUnavailable: Invalid"] {
        ensure!(refused.contains(cause), "{refused}");
    }
    Ok(())
}

/// The sandbox runs no Deployments, so their pod template is created as a pod, and validated.
#[tokio::test]
async fn the_pod_runs_on_a_node_without_network() -> Result<()> {
    let setup = Setup { nodes: 1, controller: false, ..Setup::default() };
    let world = World::sandbox(setup).await?;
    let documents = base().await?;
    let template = one::<Deployment>(&documents, "Deployment")?.spec.context("no spec")?.template;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "spec": template.spec,
        "metadata": {"name": "everynode", "namespace": "kube-system"},
    });
    let served = |document: &&Value| {
        document["kind"] != "Deployment" && document["kind"] != "PodDisruptionBudget"
    };
    let account: Vec<&Value> = documents.iter().filter(served).collect();
    take_the_network_away(&world).await?;
    for (what, item) in [("account", json!(account)), ("pod", json!([pod]))] {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": item}).to_string();
        let arguments = ["--namespace=", "apply", "-f", "-"];
        let output = world.kubectl_with_input(&arguments, &list).await?.ok().context(what)?;
        ensure!(!output.is_empty(), "kubectl did nothing");
    }
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), "kube-system");
    eventually("the pod runs", async || {
        let status = pods.get("everynode").await?.status.unwrap_or_default();
        ensure!(status.phase.as_deref() == Some("Running"), "{status:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_deployment_uses_valid_options() -> Result<()> {
    starts_with_known_options(&container(&base().await?)?)
}

#[tokio::test]
async fn on_the_control_plane_it_uses_the_nodes_own_api_server() -> Result<()> {
    let documents = Overlay::of(&["control-plane"]).await?;
    let pod = pod(&documents)?;
    let affinity = pod.affinity.clone().context("no affinity")?;
    ensure!(affinity.node_affinity.is_some() && affinity.pod_anti_affinity.is_some());
    let variables = pod.containers[0].env.clone().unwrap_or_default();
    let host = variables.iter().find(|variable| variable.name == "KUBERNETES_SERVICE_HOST");
    let source = host.and_then(|variable| variable.value_from.clone()).unwrap_or_default();
    ensure!(source.field_ref.is_some_and(|field| field.field_path == "status.hostIP"));
    starts_with_known_options(&container(&documents)?)
}

/// The container settings of both forms must be equal.
#[tokio::test]
async fn the_static_pod_has_the_security_settings_of_the_deployment() -> Result<()> {
    let file = std::fs::read_to_string(Path::new(DEPLOY).join("static-pod.yaml"))?;
    let alone: Pod = serde_saphyr::from_str(&file)?;
    let alone = alone.spec.context("no spec")?;
    starts_with_known_options(&alone.containers[0])?;
    let deployed = pod(&base().await?)?;
    ensure!(alone.security_context == deployed.security_context);
    let (alone, deployed) = (&alone.containers[0], &deployed.containers[0]);
    ensure!(alone.security_context == deployed.security_context);
    ensure!(alone.resources == deployed.resources && alone.image == deployed.image);
    ensure!(alone.liveness_probe == deployed.liveness_probe);
    ensure!(alone.readiness_probe == deployed.readiness_probe);
    ensure!(alone.startup_probe == deployed.startup_probe);
    Ok(())
}

/// In another namespace, the lease is where the role permits it, and nothing else changes.
#[tokio::test]
async fn in_another_namespace_the_lease_moves_too() -> Result<()> {
    let (namespace, moved) = in_own_namespace().await?;
    let role: Role = one(&moved, "Role")?;
    ensure!(role.metadata.namespace.as_deref() == Some(namespace), "{role:?}");
    let moved = container(&moved)?;
    starts_with_known_options(&moved)?;
    let (moved_arguments, base) = (arguments(&moved), container(&base().await?)?);
    let (last, others) = moved_arguments.split_last().context("no arguments")?;
    ensure!(*others == *arguments(&base), "{others:?}");
    ensure!(last.starts_with("--leader-elect-resource-namespace="), "{last}");
    let variables = moved.env.iter().flatten();
    let mut sources =
        variables.filter_map(|variable| variable.value_from.as_ref()?.field_ref.as_ref());
    ensure!(sources.any(|field| field.field_path == "metadata.namespace"), "{:?}", moved.env);
    Ok(())
}

#[tokio::test]
async fn the_image_has_the_manifests_user_and_version() -> Result<()> {
    let script = std::fs::read_to_string(Path::new(DEPLOY).join("image.sh"))?;
    let pod = pod(&base().await?)?;
    let user = pod.security_context.and_then(|context| context.run_as_user).context("no user")?;
    let option = format!("--config.user {user}:{user} ");
    ensure!(script.contains(&option), "the manifest has {user}");
    let version = format!("everynode:{}", env!("CARGO_PKG_VERSION"));
    ensure!(pod.containers[0].image.as_deref() == Some(&*version), "the version is {version}");
    Ok(())
}

#[tokio::test]
async fn a_cluster_of_one_node_gets_one_replica() -> Result<()> {
    let deployment: Deployment = one(&Overlay::of(&["single"]).await?, "Deployment")?;
    ensure!(deployment.spec.and_then(|spec| spec.replicas) == Some(1));
    Ok(())
}

/// The component adds the option, and changes no other argument. The base has the permission, which
/// policies need, too.
#[tokio::test]
async fn the_component_for_node_selectors_adds_the_option() -> Result<()> {
    let (base, documents) = (base().await?, Overlay::of(&["namespace-node-selectors"]).await?);
    starts_with_known_options(&container(&documents)?)?;
    let mut expected = arguments(&container(&base)?);
    expected.push("--namespace-node-selectors".to_owned());
    let found = arguments(&container(&documents)?);
    ensure!(found == expected, "its arguments are {found:?}");
    let reads_namespaces = |documents: &[Value]| {
        let roles = documents.iter().filter(|document| document["kind"] == "ClusterRole");
        roles.filter(|role| role["rules"].to_string().contains("\"namespaces\"")).count()
    };
    ensure!(reads_namespaces(&base) == 1 && reads_namespaces(&documents) == 1, "{documents:?}");
    Ok(())
}

#[tokio::test]
async fn prometheus_finds_the_metrics_of_every_replica() -> Result<()> {
    let documents = Overlay::of(&["monitoring"]).await?;
    let container = container(&documents)?;
    starts_with_known_options(&container)?;
    ensure!(arguments(&container).contains(&"--http=0.0.0.0:10261".to_owned()));
    let service: Service = one(&documents, "Service")?;
    let spec = service.spec.context("no spec")?;
    let deployment: Deployment = one(&documents, "Deployment")?;
    let labels = deployment.spec.and_then(|spec| spec.template.metadata).and_then(|m| m.labels);
    ensure!(spec.selector == labels, "the Service selects {:?}, not {labels:?}", spec.selector);
    let port = spec.ports.and_then(|ports| ports.into_iter().next()).context("no port")?;
    let target = container.ports.unwrap_or_default();
    ensure!(target[0].name == port.name && target[0].container_port == port.port);
    let monitor: Value = one(&documents, "ServiceMonitor")?;
    let selected = serde_json::to_value(service.metadata.labels)?;
    ensure!(monitor["spec"]["selector"]["matchLabels"] == selected);
    ensure!(monitor["spec"]["endpoints"][0]["port"] == serde_json::to_value(port.name)?);
    let _: Value = one(&documents, "PrometheusRule")?;
    Ok(())
}

#[tokio::test]
async fn the_roles_grant_no_wildcard_and_no_secret() -> Result<()> {
    let documents = base().await?;
    let cluster_role: ClusterRole = one(&documents, "ClusterRole")?;
    let role: Role = one(&documents, "Role")?;
    let rules = cluster_role.rules.into_iter().flatten().chain(role.rules.into_iter().flatten());
    for PolicyRule { resources, verbs, .. } in rules {
        for word in resources.into_iter().flatten().chain(verbs) {
            ensure!(word != "*" && word != "secrets", "a role grants {word}");
        }
    }
    Ok(())
}
