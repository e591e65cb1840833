//! Starts and stops a sandbox. Only this module and the API server use the clock, random secrets
//! and I/O.

use std::any::Any;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use everynode_apiserver::http::{self, Limits, SharedCluster, now, tls};
use tokio::net::TcpListener;

use crate::cluster::lifecycle::{self, Lifecycles};
use crate::cluster::{Cluster, Settings};
use crate::json::Value;
use crate::nodes;
use crate::registry::Registry;
use crate::status::Status;
use crate::store;
use crate::{authorization, fault};

mod kubeconfig;
mod manifest;

use kubeconfig::Kubeconfig;

pub use manifest::{AppliedObject, ApplyError, ApplyOutcome};

/// How long a deleted namespace keeps its content.
const NAMESPACE_DELAY_MS: i64 = 2_000;

/// The source of the simulated nodes (S20).
#[derive(Clone, Debug)]
pub enum NodeSource {
    /// Generated nodes named `node-0001` and so on.
    Generated {
        /// The number of nodes.
        nodes: u32,
        /// The number of zones over which the nodes are spread.
        zones: u32,
    },
    /// The output of `kubectl get nodes -o yaml` (or `-o json`) from another cluster.
    Listed {
        /// The name of the list in error messages.
        name: String,
        /// The list.
        text: String,
    },
}

/// The options of a sandbox.
#[derive(Clone, Debug)]
pub struct Options {
    /// The simulated nodes.
    pub nodes: NodeSource,
    /// The address of the server; port 0 selects a free port.
    pub listen: SocketAddr,
    /// The path of the kubeconfig, which is removed at shutdown. By default it is a temporary file.
    pub kubeconfig_out: Option<PathBuf>,
    /// The seed of all randomness except secrets (S24).
    pub seed: u64,
    /// The number of changes that are kept for the watches of each kind (S7).
    pub watch_window: usize,
    /// The interval at which changes that are older than one interval are dropped. As upstream's
    /// `--etcd-compaction-interval`.
    pub compaction_interval: Duration,
    /// The delays with which the watch caches of API servers follow the store: one server for each.
    /// They serve connections in turn. By default there is one server, whose cache is never behind.
    pub api_server_lags: Vec<Duration>,
    /// A YAML file with lifecycles, which take precedence over the built-in ones (S22).
    pub lifecycles: Option<PathBuf>,
    /// The limits of the server.
    pub limits: Limits,
    /// The initial fault rules (S17).
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
            compaction_interval: Duration::from_secs(5 * 60),
            api_server_lags: Vec::new(),
            lifecycles: None,
            limits: Limits::default(),
            faults: Vec::new(),
        }
    }
}

/// An error that prevents the start of a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not available.
    #[error("listen on {address}: {source}")]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The kubeconfig could not be written.
    #[error("write kubeconfig {}: {source}", path.display())]
    Kubeconfig {
        /// The path of the kubeconfig.
        path: PathBuf,
        /// The error.
        source: kubeconfig::WriteError,
    },
    /// The certificates could not be generated.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// A file could not be read.
    #[error("read {}: {source}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The number of nodes or zones is out of range.
    #[error(transparent)]
    Nodes(#[from] nodes::Error),
    /// The list of nodes is invalid.
    #[error("{name}: {source}")]
    NodesListed {
        /// The name of the list.
        name: String,
        /// The error in the list.
        source: nodes::Error,
    },
    /// The file of lifecycles is invalid.
    #[error("{}: {source}", path.display())]
    Lifecycles {
        /// The path of the file.
        path: PathBuf,
        /// The error in the file.
        source: lifecycle::Error,
    },
    /// The default roles could not be created.
    #[error("create roles: {0}")]
    CreateRoles(Status),
    /// The objects of every cluster could not be created.
    #[error("create the objects of every cluster: {0}")]
    CreateObjects(Status),
    /// The initial nodes could not be created.
    #[error("create nodes: {0}")]
    CreateNodes(Status),
    /// There are too many fault rules.
    #[error(transparent)]
    Faults(#[from] fault::TooManyRules),
}

/// A running sandbox. Dropping it stops it; [`shutdown`](Self::shutdown) also waits until it has
/// stopped.
pub struct Sandbox {
    kubeconfig: Kubeconfig,
    server_url: String,
    shared: Arc<SharedCluster>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

/// Starts a sandbox on the current tokio runtime. The server is reachable when this returns.
///
/// # Errors
///
/// The options are invalid, the address is in use, or the kubeconfig can't be written.
pub async fn start(options: Options) -> Result<Sandbox, Error> {
    let shared = Arc::new(SharedCluster::new(cluster(&options)?));
    let address = options.listen;
    let listen_error = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen_error)?;
    let address = listener.local_addr().map_err(listen_error)?;
    let identity = tls::identity(&[address.ip()])?;
    let token = tls::random_token()?;
    let server_url = format!("https://{}", connect_address(address));
    let path = options.kubeconfig_out.unwrap_or_else(|| default_kubeconfig_path(address));
    let text = kubeconfig::render(&server_url, &identity.ca_pem, &token);
    let kubeconfig = kubeconfig::write(path.clone(), &text)
        .map_err(|source| Error::Kubeconfig { path, source })?;
    let settings = http::Settings {
        limits: options.limits,
        faults: options.faults,
        seed: options.seed,
        api_server_lags: options.api_server_lags,
        compaction_interval: options.compaction_interval,
        token,
    };
    let tasks = http::start(&shared, listener, address, identity.server_config, settings)?;
    Ok(Sandbox { kubeconfig, server_url, shared, tasks })
}

/// The initial cluster.
fn cluster(options: &Options) -> Result<Cluster, Error> {
    let nodes = nodes(&options.nodes)?;
    let lifecycles = lifecycles(options.lifecycles.as_deref())?;
    let now = now();
    let settings = store::Options {
        seed: options.seed,
        window: options.watch_window,
        ..store::Options::default()
    };
    let registry = Registry::new(&settings, now);
    let settings = Settings {
        seed: options.seed,
        namespace_delay_ms: NAMESPACE_DELAY_MS,
        ..Settings::default()
    };
    let mut cluster = Cluster::new(registry, settings, lifecycles, now);
    authorization::seed(cluster.registry_mut(), now).map_err(Error::CreateRoles)?;
    cluster.registry_mut().seed(now).map_err(Error::CreateObjects)?;
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
    let text = read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    Lifecycles::parse(&text).map_err(|source| Error::Lifecycles { path: path.to_owned(), source })
}

fn read(path: &Path) -> std::io::Result<String> {
    /// Maximum size of a file with lifecycles.
    const BYTES_MAX: u64 = 16 << 20;
    let mut text = String::new();
    let read = File::open(path)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > BYTES_MAX {
        let limit = BYTES_MAX >> 20;
        return Err(std::io::Error::other(format!("it is larger than {limit} MiB")));
    }
    Ok(text)
}

impl Sandbox {
    /// Starts a sandbox with the default options, for a test: three nodes, and an address of its
    /// own. No controller of DaemonSets is part of it.
    ///
    /// # Errors
    ///
    /// The address or the temporary file of the kubeconfig is not available.
    pub async fn start() -> Result<Sandbox, Error> {
        start(Options::default()).await
    }

    /// The path of the kubeconfig.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig.path
    }

    /// The URL of the server.
    pub fn server_url(&self) -> &str {
        &self.server_url
    }

    /// Applies all documents of a manifest, which can be YAML, JSON or lists. Returns the result
    /// for each object; an error does not prevent the others.
    pub fn apply_manifest(&self, text: &str) -> Vec<AppliedObject> {
        manifest::apply(&self.shared, text)
    }

    /// Creates the objects of another cluster, which keep the annotation of their last apply.
    /// Otherwise as [`apply_manifest`](Self::apply_manifest).
    pub fn copy_objects(&self, text: &str) -> Vec<AppliedObject> {
        manifest::copy(&self.shared, text)
    }

    /// Creates the definition of a custom resource that is part of the program. Validating its
    /// rules takes most of the time in which a sandbox starts, so the tests do that.
    ///
    /// # Errors
    /// If the text is no YAML, or the definition already exists. That it is a valid definition is
    /// not checked.
    pub fn install_definition(&self, text: &str) -> Result<(), ApplyError> {
        manifest::install_definition(&self.shared, text)
    }

    /// Keeps about this share of the nodes in motion from now on: they reboot, are dead, or are
    /// removed and replaced by new nodes (S23).
    pub fn start_churn(&self, percent: u8) {
        self.shared.write(|cluster, now| {
            let cluster: &mut dyn Any = cluster;
            let cluster: &mut Cluster = cluster.downcast_mut().expect("it was made with this type");
            cluster.start_churn(percent, now);
        });
        self.shared.written.notify_one();
    }

    /// Stops the sandbox and waits until it has stopped.
    pub async fn shutdown(mut self) {
        self.shared.stop.cancel();
        for task in std::mem::take(&mut self.tasks) {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the sandbox panicked");
            }
        }
    }

    /// The same for a program that ends then: the operating system takes the memory of the objects
    /// back in less time than freeing them one by one takes.
    pub async fn shutdown_before_exit(self) {
        std::mem::forget(Arc::clone(&self.shared));
        self.shutdown().await;
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

/// An address that clients on this machine can connect to: loopback for an unspecified one.
fn connect_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// A path that is unique on this machine as long as the server uses its port.
fn default_kubeconfig_path(address: SocketAddr) -> PathBuf {
    let file = format!("everynode-sandbox-{}-{}.kubeconfig", std::process::id(), address.port());
    std::env::temp_dir().join(file)
}
