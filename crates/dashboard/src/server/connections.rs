//! The connections of browsers, and of whoever else reaches the port: how many there may be, and
//! for how long they may be silent.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

/// Maximum number of connections, a quarter of the files that a process may usually have open. The
/// next one closes the oldest, first of those without credentials.
pub(super) const CONNECTIONS_MAX: usize = 256;
/// Maximum time that a client takes for the head of a request, or until the next request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long open connections may take to end when the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after a connection could not be accepted: the process may have too many files open.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The trust in a connection, which it gains with the first request that has the cookie.
#[derive(Clone, Debug, Default)]
pub(super) struct Trust(Arc<AtomicBool>);

impl Trust {
    /// A request had the cookie.
    pub(super) fn gain(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_gained(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct Connection {
    task: AbortHandle,
    trust: Trust,
}

/// Serves connections until `shutdown`, and those that are open then for a moment more.
pub(super) async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) {
    let mut tasks = JoinSet::new();
    let mut open: VecDeque<Connection> = VecDeque::new();
    while let Some(accepted) = shutdown.run_until_cancelled(listener.accept()).await {
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        while tasks.try_join_next().is_some() {}
        open.retain(|connection| !connection.task.is_finished());
        if open.len() >= CONNECTIONS_MAX {
            close_oldest(&mut open);
        }
        let trust = Trust::default();
        let router = router.clone().layer(Extension(trust.clone()));
        let task = tasks.spawn(serve_connection(stream, router, shutdown.clone()));
        open.push_back(Connection { task, trust });
    }
    let ended = async { while tasks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, ended).await;
}

fn close_oldest(open: &mut VecDeque<Connection>) {
    let untrusted = open.iter().position(|connection| !connection.trust.is_gained());
    if let Some(oldest) = open.remove(untrusted.unwrap_or(0)) {
        oldest.task.abort();
    }
}

async fn serve_connection(stream: TcpStream, router: Router, shutdown: CancellationToken) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    tokio::select! {
        // An error is the browser's: it knows that the connection has ended.
        _ = connection.as_mut() => return,
        () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
