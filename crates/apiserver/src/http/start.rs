//! Starts a server: the tasks that serve it, and those of the cluster behind it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::api_server::ApiServers;
use super::fault::Faults;
use super::handler::handle;
use super::limits::Limits;
use super::serve::serve;
use super::server::Server;
use super::shared::{SharedCluster, now};
use crate::fault::{Rule, TooManyRules};

/// The settings of a server.
pub struct Settings {
    /// The limits.
    pub limits: Limits,
    /// The initial fault rules.
    pub faults: Vec<Rule>,
    /// The seed of the probabilities of faults.
    pub seed: u64,
    /// The delay of each API server's watch cache. Without any there is one server without delay.
    pub api_server_lags: Vec<Duration>,
    /// The interval at which changes that are older than one interval are dropped.
    pub compaction_interval: Duration,
    /// The token of the user who may do anything.
    pub token: String,
}

/// Serves a cluster until it is stopped, and lets its components work. Returns the tasks.
///
/// # Errors
/// There are too many fault rules.
pub fn start(
    shared: &Arc<SharedCluster>,
    listener: TcpListener,
    address: SocketAddr,
    tls: Arc<rustls::ServerConfig>,
    settings: Settings,
) -> Result<Vec<JoinHandle<()>>, TooManyRules> {
    let limits = settings.limits.within_file_limit();
    let faults = Faults::new(settings.faults, settings.seed)?;
    let (tls, outages) = (TlsAcceptor::from(tls), faults.outages());
    let (api_servers, mut tasks) = ApiServers::start(&settings.api_server_lags, shared);
    let (token, address) = (settings.token, address.to_string());
    let server = Server::new(Arc::clone(shared), limits, faults, api_servers, token, address);
    let server = Arc::new(server);
    let handle = move |request| handle(Arc::clone(&server), request);
    tasks.extend([
        tokio::spawn(run_components(Arc::clone(shared))),
        tokio::spawn(compact(Arc::clone(shared), settings.compaction_interval)),
        tokio::spawn(serve(listener, tls, limits, handle, outages, shared.stop.clone())),
    ]);
    Ok(tasks)
}

/// Drops old changes, as upstream's compactor does: those up to the newest one of the interval
/// before.
async fn compact(shared: Arc<SharedCluster>, interval: Duration) {
    let mut newest = 0;
    loop {
        tokio::select! {
            () = shared.stop.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
        newest = shared.compact(newest);
    }
}

/// Steps the components after every write, and when work is due.
async fn run_components(shared: Arc<SharedCluster>) {
    /// Maximum sleep without due work, in case the system clock is changed.
    const IDLE: Duration = Duration::from_secs(60);
    while !shared.stop.is_cancelled() {
        let wait = match shared.step().await {
            Some(next) => next.since(now()),
            None => IDLE,
        };
        if wait.is_zero() {
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            () = shared.stop.cancelled() => return,
            () = shared.written.notified() => {}
            () = tokio::time::sleep(wait.min(IDLE)) => {}
        }
    }
}
