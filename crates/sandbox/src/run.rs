//! Starts and stops a sandbox: the one place where its clock, its randomness and its I/O meet.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::api::serve::{Limits, serve};
use crate::api::{kubeconfig, tls};

/// Where the simulated nodes come from (S20).
#[derive(Clone, Debug)]
pub enum NodeSource {
    /// `node-0001` …, spread evenly over zones.
    Generated { nodes: u32, zones: u32 },
    /// What `kubectl get nodes -o yaml` (or `-o json`) printed of a cluster.
    File(PathBuf),
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
    /// Kubelet lifecycles (YAML) that go before the built-in ones (S22).
    pub lifecycles: Option<PathBuf>,
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            nodes: NodeSource::Generated { nodes: 3, zones: 1 },
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            kubeconfig_out: None,
            seed: 0,
            lifecycles: None,
            limits: Limits::default(),
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
}

/// A running sandbox. Dropping it stops it; `shutdown` also waits for that.
pub struct Sandbox {
    kubeconfig_path: PathBuf,
    kubeconfig_is_ours: bool,
    server_url: String,
    stop: CancellationToken,
    server: Option<tokio::task::JoinHandle<()>>,
}

/// Starts a sandbox on the current tokio runtime. When it returns, the server answers.
pub async fn start(options: Options) -> Result<Sandbox, Error> {
    let address = options.listen;
    let listen_error = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen_error)?;
    let address = listener.local_addr().map_err(listen_error)?;
    let identity = tls::identity(&[address.ip()])?;
    let token = tls::random_token()?;
    let server_url = format!("https://{}", reachable(address));
    let (kubeconfig_path, kubeconfig_is_ours) = match options.kubeconfig_out {
        Some(path) => (path, false),
        None => (default_kubeconfig_path(address), true),
    };
    let text = kubeconfig::render(&server_url, &identity.ca_pem, &token);
    kubeconfig::write(&kubeconfig_path, &text)
        .map_err(|source| Error::Kubeconfig { path: kubeconfig_path.clone(), source })?;
    let stop = CancellationToken::new();
    let server = tokio::spawn(serve(
        listener,
        TlsAcceptor::from(identity.server_config),
        options.limits,
        move |_request| async {
            crate::api::respond::text(http::StatusCode::NOT_FOUND, "404 page not found\n")
        },
        stop.clone(),
    ));
    Ok(Sandbox { kubeconfig_path, kubeconfig_is_ours, server_url, stop, server: Some(server) })
}

impl Sandbox {
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig_path
    }

    pub fn server_url(&self) -> &str {
        &self.server_url
    }

    /// Stops serving and waits until everything has stopped.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        if let Some(server) = self.server.take() {
            let _ = server.await;
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
fn reachable(address: SocketAddr) -> SocketAddr {
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
