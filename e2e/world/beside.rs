//! A cluster whose built-in controller creates the pods, and `everynode run --beside` with exactly
//! the rights of deploy/beside.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::process::Command;

use super::account::LOG_REQUESTS;
use super::guard::{POLICY, guarded};
use super::manifest::with;
use super::process::Process;
use super::{Setup, World};

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy");
/// The ServiceAccount of deploy/beside.
pub(crate) const ACCOUNT: &str = "everynode-beside";

/// The writes that the role of deploy/beside allows.
const WRITES: [&str; 8] = [
    "patch daemonsets/status.apps",
    "patch controllerrevisions.apps",
    "delete pods",
    "patch rolloutpolicies/status.everynode.dev",
    "patch clusterrolloutpolicies/status.everynode.dev",
    "create events",
    "patch events",
    "create leases.coordination.k8s.io",
];

/// The optional component, which lets a failed rollout go back: not installed, or installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RollBack {
    No,
    Allowed,
}

impl RollBack {
    const fn components(self) -> &'static [&'static str] {
        match self {
            RollBack::No => &[],
            RollBack::Allowed => &["roll-back"],
        }
    }
}

/// The cluster with both controllers.
pub(crate) struct Beside {
    pub world: World,
    /// `None` on an existing cluster, which has its own.
    pub built_in: Option<Process>,
    pub guard: Process,
    roll_back: RollBack,
}

impl Beside {
    /// Starts both. On an existing cluster its built-in DaemonSet controller must run.
    pub(crate) async fn start(nodes: usize, roll_back: RollBack) -> Result<Beside> {
        let world = if World::is_external() {
            World::cluster(nodes).await?
        } else {
            let arguments = &LOG_REQUESTS;
            World::sandbox(Setup { nodes, controller: false, arguments }).await?
        };
        let built_in = world.sandbox.is_some().then(|| built_in(&world)).transpose()?;
        let rights = rights(&world, roll_back).await?;
        apply(&world, &rights).await?;
        let guard = guard(&world, roll_back).await?;
        Ok(Beside { world, built_in, guard, roll_back })
    }

    /// Checks that the guard runs, and that it has sent no write that its role does not allow.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.guard.check_running()?;
        if self.world.sandbox.is_none() {
            return Ok(());
        }
        for request in self.world.requests_of(&self.world.namespace, ACCOUNT)? {
            ensure!(request.allowed, "refused: {request:?}");
            let right = format!("{} {}", request.verb, request.resource);
            let is_allowed = WRITES.contains(&&*right)
                || right == "update leases.coordination.k8s.io"
                || right == "patch daemonsets.apps" && self.roll_back == RollBack::Allowed;
            ensure!(!request.is_write() || is_allowed, "{right}");
        }
        Ok(())
    }
}

/// A controller that does what the built-in one does.
pub(crate) fn built_in(world: &World) -> Result<Process> {
    let arguments = ["run", "--ignore-policies", "--leader-elect=false"];
    Process::everynode_with(world.directory.path(), "built-in", &arguments, Some(&world.kubeconfig))
}

/// `everynode run --beside` as its ServiceAccount.
pub(crate) async fn guard(world: &World, roll_back: RollBack) -> Result<Process> {
    let kubeconfig = world.kubeconfig_of(&world.namespace, ACCOUNT).await?;
    let lease = format!("--leader-elect-resource-namespace={}", world.namespace);
    let mut arguments = vec!["run", "--beside", &lease];
    if roll_back == RollBack::Allowed {
        arguments.push("--roll-back");
    }
    Process::everynode_with(world.directory.path(), "beside", &arguments, Some(&kubeconfig))
}

/// The objects of deploy/beside in the test's namespace, except those that run a pod.
pub(crate) async fn rights(world: &World, roll_back: RollBack) -> Result<Vec<Value>> {
    rights_with(world, roll_back.components()).await
}

/// The same with these components of deploy/components.
pub(crate) async fn rights_with(world: &World, components: &[&str]) -> Result<Vec<Value>> {
    let mut documents = manifests_with(world, components).await?;
    documents.retain(|document| {
        document["kind"] != "Deployment" && document["kind"] != "PodDisruptionBudget"
    });
    Ok(documents)
}

/// The objects of deploy/beside in the test's namespace.
pub(crate) async fn manifests(world: &World, roll_back: RollBack) -> Result<Vec<Value>> {
    manifests_with(world, roll_back.components()).await
}

async fn manifests_with(world: &World, components: &[&str]) -> Result<Vec<Value>> {
    let overlay = tempfile::tempdir()?;
    let copied =
        std::process::Command::new("cp").args(["-R", DEPLOY]).arg(overlay.path()).status()?;
    ensure!(copied.success(), "cp of deploy/ ended with {copied}");
    let components: Vec<String> =
        components.iter().map(|name| format!("../deploy/components/{name}")).collect();
    let kustomization = json!({ "resources": ["../deploy/beside"], "components": components,
        "namespace": world.namespace });
    let directory = overlay.path().join("overlay");
    std::fs::create_dir(&directory)?;
    std::fs::write(directory.join("kustomization.yaml"), kustomization.to_string())?;
    let kubectl = std::env::var_os("KUBECTL").map_or_else(|| PathBuf::from("kubectl"), Into::into);
    let mut command = Command::new(kubectl);
    command.arg("kustomize").arg(&directory);
    let rendered = world.finish(command, "").await?.ok()?;
    let documents = rendered.split("\n---\n").map(serde_saphyr::from_str);
    documents.collect::<Result<_, _>>().context("deploy/beside renders to YAML")
}

pub(crate) async fn apply(world: &World, documents: &[Value]) -> Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": documents});
    let arguments = ["apply", "--namespace=", "-f", "-"];
    world.kubectl_with_input(&arguments, &list.to_string()).await?.ok().map(drop)
}

/// A DaemonSet with the strategy `OnDelete` whose rollouts this policy guards.
pub(crate) fn on_delete(name: &str, policy: &str) -> Value {
    with(guarded(name, policy), strategy("OnDelete"))
}

/// The patch that sets the update strategy.
pub(crate) fn strategy(r#type: &str) -> Value {
    json!({ "spec": { "updateStrategy": { "type": r#type, "rollingUpdate": null } } })
}

/// The annotation without the policy.
pub(crate) fn without_policy() -> Value {
    json!({ "metadata": { "annotations": { POLICY: null } } })
}
