//! `/livez`, `/readyz` and `/metrics` over plain HTTP, on loopback unless told otherwise.
//!
//! Ready means: this replica leads and its caches are complete, or it knows that another one leads. It says which.

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

/// What the handlers read. The senders are with those who know.
#[derive(Clone, Debug)]
pub struct Health {
    /// All initial lists are complete (C1).
    pub synced: watch::Receiver<bool>,
    /// `None` without leader election.
    pub role: Option<watch::Receiver<Leadership>>,
}

/// The address could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on --http {address}: {source}")]
pub struct ListenError {
    address: SocketAddr,
    source: std::io::Error,
}

/// Listens, so that a taken port is known at once.
///
/// # Errors
/// [`ListenError`] names the address.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|source| ListenError { address, source })
}

/// Answers until `shutdown`.
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
            // What another replica changes meanwhile would be missing: caches begin with leading.
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

    /// C1, C63: not ready before the lists are complete, nor while nobody knows who leads; a standby is ready.
    #[test]
    fn readiness_says_what_it_waits_for() {
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
