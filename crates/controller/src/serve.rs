//! Serves `/livez`, `/readyz` and `/metrics` over plain HTTP, by default on loopback.
//!
//! A replica is ready if it leads and its caches are complete, or if it knows that another replica
//! leads. `/readyz` states which.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::lease::Leadership;
use crate::metrics::Metrics;

/// The state that `/readyz` reports.
#[derive(Clone, Debug)]
pub struct Health {
    /// Whether all initial lists are complete (C1).
    pub synced: watch::Receiver<bool>,
    /// The role of this replica; `None` without leader election.
    pub role: Option<watch::Receiver<Leadership>>,
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
    let served = axum::serve(listener, router).with_graceful_shutdown(shutdown.cancelled_owned());
    if let Err(error) = served.await {
        tracing::error!(%error, "the http listener failed");
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
        let caches = if synced {
            "[+] caches complete"
        } else {
            "[-] caches: waiting for the initial lists"
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

async fn print_metrics(State(metrics): State<Arc<Metrics>>) -> Response {
    match metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, Metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C1, C63: a replica is not ready before its lists are complete, nor while the leader is
    /// unknown; a standby is ready.
    #[test]
    fn readyz_reports_what_is_missing() {
        for (synced, role, ready, expected) in [
            (
                false,
                None,
                false,
                "[-] caches: waiting for the initial lists\n[+] leader election off\n",
            ),
            (true, None, true, "[+] caches complete\n[+] leader election off\n"),
            (true, Some(Leadership::Leading), true, "[+] caches complete\n[+] leading\n"),
            (
                false,
                Some(Leadership::Standby),
                true,
                "[+] caches: filled on leading\n[+] standby: another replica leads\n",
            ),
            (
                false,
                Some(Leadership::Unknown),
                false,
                "[-] leader unknown: the lease can't be read\n",
            ),
        ] {
            let health = Health {
                synced: watch::channel(synced).1,
                role: role.map(|role| watch::channel(role).1),
            };
            assert_eq!(health.report(), (ready, expected.to_owned()));
        }
    }
}
