//! The cluster of one test: a sandbox process that ends with the test, or a namespace on an
//! existing cluster.

pub(crate) mod account;
pub(crate) mod argo_cd;
pub(crate) mod beside;
pub(crate) mod browser;
pub(crate) mod command;
pub(crate) mod faults;
pub(crate) mod guard;
pub(crate) mod http_proxy;
pub(crate) mod manifest;
pub(crate) mod older;
pub(crate) mod pod;
pub(crate) mod process;
pub(crate) mod prometheus;
mod rollout;
pub(crate) mod tcp_proxy;
pub(crate) mod terminal;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use process::{Permit, Process};

/// Maximum time to wait for an expected event.
const DEADLINE: Duration = Duration::from_secs(60);

/// The same on an external cluster, whose nodes pull images and start containers.
const EXTERNAL_DEADLINE: Duration = Duration::from_secs(300);

/// The time between two checks of a condition that no watch reports.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The longest such time.
const POLL_INTERVAL_MAX: Duration = Duration::from_millis(300);

const EXTERNAL: &str = "EVERYNODE_E2E_KUBECONFIG";

pub(crate) struct World {
    pub client: kube::Client,
    pub kubeconfig: PathBuf,
    /// The test's own namespace, which exists.
    pub namespace: String,
    pub directory: tempfile::TempDir,
    pub sandbox: Option<Process>,
    _permit: Permit,
}

/// The options of a sandbox.
pub(crate) struct Setup<'a> {
    pub nodes: usize,
    pub controller: bool,
    pub arguments: &'a [&'a str],
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Setup { nodes: 4, controller: true, arguments: &[] }
    }
}

impl World {
    /// A cluster with a running controller: a sandbox with this number of nodes, or the external
    /// cluster.
    pub(crate) async fn cluster(nodes: usize) -> Result<World> {
        let permit = Permit::acquire();
        match std::env::var_os(EXTERNAL) {
            Some(kubeconfig) => World::connect(permit, None, temporary()?, kubeconfig.into()).await,
            None => World::start(permit, Setup { nodes, ..Setup::default() }).await,
        }
    }

    /// A namespace on the cluster of this kubeconfig.
    pub(crate) async fn on(kubeconfig: &Path) -> Result<World> {
        World::connect(Permit::acquire(), None, temporary()?, kubeconfig.to_owned()).await
    }

    /// True if tests run on an existing cluster.
    pub(crate) fn is_external() -> bool {
        std::env::var_os(EXTERNAL).is_some()
    }

    /// A sandbox, for tests that depend on one, whether or not an external cluster is tested.
    pub(crate) async fn sandbox(setup: Setup<'_>) -> Result<World> {
        World::start(Permit::acquire(), setup).await
    }

    async fn start(permit: Permit, setup: Setup<'_>) -> Result<World> {
        let directory = temporary()?;
        let kubeconfig = directory.path().join("kubeconfig");
        let nodes = setup.nodes.to_string();
        let path = kubeconfig.to_string_lossy().into_owned();
        let mut arguments = vec!["sandbox", "--kubeconfig-out", &path];
        if !setup.arguments.contains(&"--nodes-from") {
            arguments.extend(["--nodes", &nodes]);
        }
        if !setup.controller {
            arguments.push("--no-controller");
        }
        arguments.extend(setup.arguments);
        let mut sandbox = Process::everynode(directory.path(), "sandbox", &arguments)?;
        eventually("the sandbox writes its kubeconfig", async || {
            sandbox.check_running()?;
            anyhow::ensure!(kubeconfig.exists(), "there is no {}", kubeconfig.display());
            Ok(())
        })
        .await?;
        World::connect(permit, Some(sandbox), directory, kubeconfig).await
    }

    async fn connect(
        permit: Permit,
        sandbox: Option<Process>,
        directory: tempfile::TempDir,
        kubeconfig: PathBuf,
    ) -> Result<World> {
        let client = client(&kubeconfig).await?;
        let namespace = process::unique("e2e");
        let world = World { client, kubeconfig, namespace, directory, sandbox, _permit: permit };
        world.create_namespace(&world.namespace).await?;
        if world.sandbox.is_none() {
            world.default_service_account().await?;
        }
        Ok(world)
    }

    /// Waits for the ServiceAccount without which the API server rejects pods.
    async fn default_service_account(&self) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.namespace);
        eventually("the namespace has its ServiceAccount", async || {
            accounts.get("default").await?;
            Ok(())
        })
        .await
    }

    pub(crate) async fn create_namespace(&self, name: &str) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        // The example mounts host directories, which a cluster may forbid by default.
        let labels = json!({"pod-security.kubernetes.io/enforce": "privileged"});
        let metadata = json!({"name": name, "labels": labels});
        let namespace = serde_json::from_value(json!({"metadata": metadata}))?;
        eventually("the cluster takes a namespace", async || {
            Ok(namespaces.create(&PostParams::default(), &namespace).await?)
        })
        .await?;
        Ok(())
    }

    pub(crate) fn daemon_sets(&self) -> Api<DaemonSet> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn revisions(&self) -> Api<ControllerRevision> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(crate) fn events(&self) -> Api<Event> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) async fn create_daemon_set(&self, manifest: &Value) -> Result<DaemonSet> {
        let ds = serde_json::from_value(manifest.clone()).context("the test's own manifest")?;
        Ok(self.daemon_sets().create(&PostParams::default(), &ds).await?)
    }

    /// Applies a JSON merge patch.
    pub(crate) async fn patch_daemon_set(&self, name: &str, patch: Value) -> Result<DaemonSet> {
        let daemon_sets = self.daemon_sets();
        Ok(daemon_sets.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    /// The DaemonSet's pods by their `app` label, including terminating ones, sorted by name.
    pub(crate) async fn pods_of(&self, name: &str) -> Result<Vec<Pod>> {
        let selected = ListParams::default().labels(&format!("app={name}"));
        let mut pods = self.pods().list(&selected).await?.items;
        pods.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        Ok(pods)
    }

    /// Waits until no pod of the DaemonSet was created in the current or the previous second.
    /// Creation timestamps have whole seconds, and the name decides between pods of the same
    /// second.
    pub(crate) async fn pods_have_aged(&self, name: &str) -> Result<()> {
        eventually("the pods are two seconds old", async || {
            for pod in self.pods_of(name).await? {
                let created = pod.metadata.creation_timestamp.context("no creation time")?.0;
                let age = jiff::Timestamp::now().duration_since(created);
                anyhow::ensure!(age.as_secs() >= 2, "one is {age:?} old");
            }
            Ok(())
        })
        .await
    }

    /// Creates a DaemonSet and waits until it is rolled out.
    pub(crate) async fn roll_out(&self, manifest: &Value) -> Result<DaemonSet> {
        let created = self.create_daemon_set(manifest).await?;
        self.settled(created.metadata.name.as_deref().unwrap_or_default()).await
    }

    pub(crate) fn node_names(nodes: &[Node]) -> Vec<String> {
        nodes.iter().filter_map(|node| node.metadata.name.clone()).collect()
    }

    /// All nodes of the sandbox, or the nodes of the external cluster that accept any pod. Tests
    /// restore nodes to their original state.
    pub(crate) async fn list_nodes(&self) -> Result<Vec<Node>> {
        let mut nodes = self.nodes().list(&ListParams::default()).await?.items;
        nodes.retain(|node| self.sandbox.is_some() || is_open(node));
        Ok(nodes)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.sandbox.is_some() {
            if let (true, Some(sandbox)) = (std::thread::panicking(), &self.sandbox) {
                eprintln!("--- output of the sandbox:\n{}", sandbox.output());
            }
            return;
        }
        // Deletes the namespace of the external cluster. It uses its own runtime, since the test's
        // may be shutting down.
        let (kubeconfig, namespace) = (self.kubeconfig.clone(), self.namespace.clone());
        let cleaner = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let namespaces: Api<Namespace> = Api::all(client(&kubeconfig).await?);
                namespaces.delete(&namespace, &DeleteParams::default()).await?;
                Result::<()>::Ok(())
            })
        });
        if let Ok(Err(error)) = cleaner.join() {
            eprintln!("namespace {} is left behind: {error:#}", self.namespace);
        }
    }
}

fn is_open(node: &Node) -> bool {
    node.spec.as_ref().is_none_or(|spec| {
        spec.unschedulable != Some(true) && spec.taints.as_ref().is_none_or(Vec::is_empty)
    })
}

pub(crate) fn deadline() -> Duration {
    if std::env::var_os(EXTERNAL).is_some() { EXTERNAL_DEADLINE } else { DEADLINE }
}

/// Repeats the check until it succeeds; fails with its last error at the deadline.
pub(crate) async fn eventually<T>(what: &str, check: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    within(deadline(), what, check).await
}

pub(crate) async fn within<T>(
    deadline: Duration,
    what: &str,
    mut check: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let started = std::time::Instant::now();
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    loop {
        ticks.tick().await;
        match check().await {
            Ok(value) => return Ok(value),
            Err(error) if started.elapsed() >= deadline => {
                return Err(error.context(format!("not in {deadline:?}: {what}")));
            }
            Err(_) => {}
        }
        // What takes long is asked for less often.
        ticks.reset_after((started.elapsed() / 10).clamp(POLL_INTERVAL, POLL_INTERVAL_MAX));
    }
}

pub(crate) async fn client(kubeconfig: &Path) -> Result<kube::Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}

fn temporary() -> Result<tempfile::TempDir> {
    Ok(tempfile::Builder::new().prefix("everynode-e2e-").tempdir()?)
}
