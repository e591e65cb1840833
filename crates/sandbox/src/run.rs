//! Starts and stops a sandbox: the one place where its clock, its randomness and its I/O meet.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::api::faults::Faults;
use crate::api::handler::handle;
use crate::api::serve::{Limits, serve};
use crate::api::server::Server;
use crate::api::shared::{SharedCluster, now};
use crate::api::{kubeconfig, tls};
use crate::authorization;
use crate::cluster::lifecycle::{self, Lifecycles};
use crate::cluster::{Cluster, Settings};
use crate::fault;
use crate::nodes;
use crate::registry::Registry;
use crate::status::Status;
use crate::store;

mod manifest;

pub use manifest::{AppliedObject, ApplyError, ApplyOutcome};

/// Where the simulated nodes come from (S20).
#[derive(Clone, Debug)]
pub enum NodeSource {
    /// `node-0001` …, spread evenly over zones.
    Generated { nodes: u32, zones: u32 },
    /// What `kubectl get nodes -o yaml` (or `-o json`) printed of a cluster, and what errors call it.
    Listed { name: String, text: String },
}

/// What a sandbox is started with.
#[derive(Clone, Debug)]
pub struct Options {
    pub nodes: NodeSource,
    /// Port 0 picks a free one.
    pub listen: SocketAddr,
    /// Where the kubeconfig goes; a file in the temporary directory, removed at shutdown, if none.
    pub kubeconfig_out: Option<PathBuf>,
    /// All randomness but secrets comes from it (S24).
    pub seed: u64,
    /// Changes of a kind that a watch can go back (S7).
    pub watch_window: usize,
    /// Kubelet lifecycles (YAML) that go before the built-in ones (S22).
    pub lifecycles: Option<PathBuf>,
    pub limits: Limits,
    /// Which requests go wrong, and how (S17).
    pub faults: Vec<fault::Rule>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: NodeSource::Generated { nodes: 3, zones: 1 },
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            kubeconfig_out: None,
            seed: 0,
            watch_window: store::Options::default().window,
            lifecycles: None,
            limits: Limits::default(),
            faults: Vec::new(),
        }
    }
}

/// Why a sandbox did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("listen on {address}: {source}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("write kubeconfig {}: {source}", path.display())]
    Kubeconfig { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Tls(#[from] tls::Error),
    #[error("read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Nodes(#[from] nodes::Error),
    #[error("{name}: {source}")]
    NodesListed { name: String, source: nodes::Error },
    #[error("{}: {source}", path.display())]
    Lifecycles { path: PathBuf, source: lifecycle::Error },
    #[error("create roles: {0}")]
    CreateRoles(Status),
    #[error("create nodes: {0}")]
    CreateNodes(Status),
    #[error(transparent)]
    Faults(#[from] fault::TooManyRules),
}

/// A running sandbox. Dropping it stops it; `shutdown` also waits for that.
pub struct Sandbox {
    kubeconfig_path: PathBuf,
    kubeconfig_is_ours: bool,
    server_url: String,
    shared: Arc<SharedCluster>,
    stop: CancellationToken,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

/// Starts a sandbox on the current tokio runtime. When it returns, the server answers.
pub async fn start(options: Options) -> Result<Sandbox, Error> {
    let stop = CancellationToken::new();
    let shared = Arc::new(SharedCluster::new(cluster(&options)?, stop.clone()));
    let address = options.listen;
    let listen_error = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen_error)?;
    let address = listener.local_addr().map_err(listen_error)?;
    let identity = tls::identity(&[address.ip()])?;
    let token = tls::random_token()?;
    let server_url = format!("https://{}", dialable(address));
    let (kubeconfig_path, kubeconfig_is_ours) = match options.kubeconfig_out {
        Some(path) => (path, false),
        None => (default_kubeconfig_path(address), true),
    };
    let text = kubeconfig::render(&server_url, &identity.ca_pem, &token);
    kubeconfig::write(&kubeconfig_path, &text)
        .map_err(|source| Error::Kubeconfig { path: kubeconfig_path.clone(), source })?;
    let faults = Faults::new(options.faults, options.seed)?;
    let outages = faults.outages();
    let address = address.to_string();
    let server = Server::new(Arc::clone(&shared), options.limits, faults, token, address);
    let server = Arc::new(server);
    let tasks = vec![
        tokio::spawn(run_components(Arc::clone(&shared))),
        tokio::spawn(serve(
            listener,
            TlsAcceptor::from(identity.server_config),
            options.limits,
            move |request| handle(Arc::clone(&server), request),
            outages,
            stop.clone(),
        )),
    ];
    Ok(Sandbox { kubeconfig_path, kubeconfig_is_ours, server_url, shared, stop, tasks })
}

/// The cluster as it is before anyone has spoken to it.
fn cluster(options: &Options) -> Result<Cluster, Error> {
    let nodes = nodes(&options.nodes)?;
    let lifecycles = lifecycles(options.lifecycles.as_deref())?;
    let now = now();
    let settings = store::Options { seed: options.seed, window: options.watch_window };
    let registry = Registry::new(&settings, now);
    let settings = Settings { seed: options.seed, ..Settings::default() };
    let mut cluster = Cluster::new(registry, settings, lifecycles, now);
    authorization::seed(cluster.registry_mut(), now).map_err(Error::CreateRoles)?;
    cluster.add_nodes(nodes, now).map_err(Error::CreateNodes)?;
    Ok(cluster)
}

fn nodes(source: &NodeSource) -> Result<Vec<Value>, Error> {
    match source {
        NodeSource::Generated { nodes, zones } => Ok(nodes::generate(*nodes, *zones)?),
        NodeSource::Listed { name, text } => {
            nodes::parse(text).map_err(|source| Error::NodesListed { name: name.clone(), source })
        }
    }
}

fn lifecycles(path: Option<&Path>) -> Result<Lifecycles, Error> {
    let Some(path) = path else { return Ok(Lifecycles::built_in()) };
    let text = std::fs::read_to_string(path)
        .map_err(|source| Error::Read { path: path.to_owned(), source })?;
    Lifecycles::parse(&text).map_err(|source| Error::Lifecycles { path: path.to_owned(), source })
}

/// Steps the actors: after every write, and when something of theirs is due.
async fn run_components(shared: Arc<SharedCluster>) {
    /// Nothing is due: look again then, in case the machine's clock was set.
    const IDLE: Duration = Duration::from_secs(60);
    /// After so long requests get the lock for half of that, if there were any: each waits for one step at most, but
    /// steps are longer than requests.
    const TURN: Duration = Duration::from_millis(10);
    let mut busy = Duration::ZERO;
    while !shared.stop.is_cancelled() {
        let began = Instant::now();
        let wait = match shared.step() {
            Some(next) => next.since(now()),
            None => IDLE,
        };
        busy += began.elapsed();
        if wait.is_zero() {
            let is_over = busy >= TURN;
            if is_over && shared.was_requested() {
                tokio::time::sleep(busy / 2).await;
            } else {
                tokio::task::yield_now().await;
            }
            if is_over {
                busy = Duration::ZERO;
            }
            continue;
        }
        busy = Duration::ZERO;
        tokio::select! {
            () = shared.stop.cancelled() => return,
            () = shared.written.notified() => {}
            () = tokio::time::sleep(wait.min(IDLE)) => {}
        }
    }
}

impl Sandbox {
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig_path
    }

    pub fn server_url(&self) -> &str {
        &self.server_url
    }

    /// Applies each document of a manifest (YAML or JSON, lists too), and tells of each what came
    /// of it: one that is refused does not keep the others.
    pub fn apply_manifest(&self, text: &str) -> Vec<AppliedObject> {
        manifest::apply(&self.shared, text)
    }

    /// Stops serving and waits until everything has stopped.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        for task in std::mem::take(&mut self.tasks) {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the sandbox failed");
            }
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.stop.cancel();
        if self.kubeconfig_is_ours {
            let _ = std::fs::remove_file(&self.kubeconfig_path);
        }
    }
}

/// An address that a client on this machine can dial: an unspecified one means loopback.
fn dialable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Unique on this machine for as long as the server holds its port.
fn default_kubeconfig_path(address: SocketAddr) -> PathBuf {
    let file = format!("everynode-sandbox-{}-{}.kubeconfig", std::process::id(), address.port());
    std::env::temp_dir().join(file)
}
