//! Serves `/livez`, `/readyz` and `/metrics` over plain HTTP, by default on loopback.
//!
//! A replica is ready if it leads and its caches are complete, or if it knows that another replica
//! leads. `/readyz` states which.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::lease::Leadership;
use crate::lease::other::Presence;
use crate::metrics::{Metrics, TextFormat};

/// Maximum number of connections: kubelets and Prometheus need a few. The next one closes the
/// oldest, so that probes are answered whatever others hold open.
const CONNECTIONS_MAX: usize = 64;
/// Maximum time that a client takes for the head of a request, or until the next request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum duration of a connection, whose client may not read the response.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause after a connection could not be accepted: the process may have too many files open.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The state that `/readyz` reports.
#[derive(Clone, Debug)]
pub struct Health {
    /// True if all initial lists are complete (C1).
    pub synced: watch::Receiver<bool>,
    /// The role of this replica; `None` without leader election.
    pub role: Option<watch::Receiver<Leadership>>,
    /// The known state of an installation that is the DaemonSet controller itself, beside which
    /// this one does nothing (G18).
    pub presence: watch::Receiver<Presence>,
}

/// The address could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on --http {address}: {source}")]
pub struct ListenError {
    address: SocketAddr,
    source: std::io::Error,
}

/// Starts to listen, so that a port in use is reported at once.
///
/// # Errors
/// If the address can't be listened on.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|source| ListenError { address, source })
}

/// Serves until `shutdown`.
pub async fn serve(
    listener: TcpListener,
    health: Health,
    metrics: Arc<Metrics>,
    shutdown: CancellationToken,
) {
    let router = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz).with_state(health))
        .route("/metrics", get(print_metrics).with_state(metrics));
    accept(&listener, &router, &shutdown).await;
}

async fn accept(listener: &TcpListener, router: &Router, shutdown: &CancellationToken) {
    let mut connections: VecDeque<AbortHandle> = VecDeque::new();
    while let Some(accepted) = shutdown.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, _)) => {
                connections.retain(|connection| !connection.is_finished());
                if connections.len() == CONNECTIONS_MAX
                    && let Some(oldest) = connections.pop_front()
                {
                    oldest.abort();
                }
                let connection = tokio::spawn(serve_connection(stream, router.clone()));
                connections.push_back(connection.abort_handle());
            }
            Err(error) => {
                tracing::error!(%error, "--http accepts no connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match tokio::time::timeout(CONNECTION_TIMEOUT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection of --http ended"),
        Err(timeout) => tracing::debug!(%timeout, "a connection of --http was closed"),
    }
}

async fn readyz(State(health): State<Health>) -> Response {
    let (ready, text) = health.report();
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, text).into_response()
}

impl Health {
    fn report(&self) -> (bool, String) {
        let synced = *self.synced.borrow();
        let caches = match (synced, *self.presence.borrow()) {
            (true, _) => "[+] caches complete",
            (false, Presence::Present) => {
                "[-] another installation is the DaemonSet controller, and holds its lease: this \
                 one does nothing"
            }
            (false, Presence::Unknown | Presence::Absent) => {
                "[-] caches: waiting for the initial lists"
            }
        };
        match self.role.as_ref().map(|role| *role.borrow()) {
            None => (synced, format!("{caches}\n[+] leader election off\n")),
            Some(Leadership::Leading) => (synced, format!("{caches}\n[+] leading\n")),
            // The caches are filled only on leading: a standby would miss the leader's changes.
            Some(Leadership::Standby) => {
                (true, "[+] caches: filled on leading\n[+] standby: another replica leads\n".into())
            }
            Some(Leadership::Unknown) => {
                (false, "[-] leader unknown: the lease can't be read\n".into())
            }
        }
    }
}

async fn print_metrics(State(metrics): State<Arc<Metrics>>, headers: HeaderMap) -> Response {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = TextFormat::accepted(&accept.collect::<Vec<_>>().join(","));
    match metrics.text(format) {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn server() -> SocketAddr {
        let listener = listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/livez", get(|| async { "ok" }));
        let shutdown = CancellationToken::new();
        tokio::spawn(async move { accept(&listener, &router, &shutdown).await });
        address
    }

    /// However many connections a client holds open, the next one is served. The oldest is
    /// closed.
    #[tokio::test]
    async fn idle_connections_keep_nobody_out() {
        let address = server().await;
        let mut idle = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        let mut probe = TcpStream::connect(address).await.unwrap();
        let request = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        probe.write_all(request).await.unwrap();
        let mut response = String::new();
        probe.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 200 OK"), "{response}");
        assert_eq!(idle[0].read(&mut [0]).await.unwrap(), 0, "the oldest is closed");
    }

    /// A client that does not finish the head of its request is disconnected.
    #[tokio::test(start_paused = true)]
    async fn slow_clients_are_disconnected() {
        let address = server().await;
        let started = tokio::time::Instant::now();
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET /livez HTTP/1.1\r\n").await.unwrap();
        let mut response = Vec::new();
        slow.read_to_end(&mut response).await.unwrap();
        assert!(started.elapsed() < CONNECTION_TIMEOUT, "{:?}", started.elapsed());
    }

    /// C1, C63: a replica is not ready before its lists are complete, nor while the leader is
    /// unknown; a standby is ready.
    #[test]
    fn readyz_reports_what_is_missing() {
        use Presence::{Present, Unknown};
        for (synced, presence, role, ready, expected) in [
            (
                false,
                Unknown,
                None,
                false,
                "[-] caches: waiting for the initial lists\n[+] leader election off\n",
            ),
            (
                false,
                Present,
                Some(Leadership::Leading),
                false,
                "[-] another installation is the DaemonSet controller, and holds its lease: this \
                 one does nothing\n[+] leading\n",
            ),
            (true, Unknown, None, true, "[+] caches complete\n[+] leader election off\n"),
            (true, Unknown, Some(Leadership::Leading), true, "[+] caches complete\n[+] leading\n"),
            (
                false,
                Unknown,
                Some(Leadership::Standby),
                true,
                "[+] caches: filled on leading\n[+] standby: another replica leads\n",
            ),
            (
                false,
                Unknown,
                Some(Leadership::Unknown),
                false,
                "[-] leader unknown: the lease can't be read\n",
            ),
        ] {
            let health = Health {
                synced: watch::channel(synced).1,
                role: role.map(|role| watch::channel(role).1),
                presence: watch::channel(presence).1,
            };
            assert_eq!(health.report(), (ready, expected.to_owned()));
        }
    }
}
