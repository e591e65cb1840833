//! Accepts connections, does the TLS handshake and passes requests to a handler, within limits and
//! deadlines.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Connection, ConnectionState};
use super::respond::Body;
use super::stall::StallGuard;

/// Limits on what a client can consume.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of connections; further ones wait in the kernel's backlog.
    pub connections: usize,
    /// Maximum duration of a TLS handshake.
    pub tls_handshake: Duration,
    /// Maximum time from the end of one request to the end of the next one's head. It exceeds the
    /// 90 s for which HTTP clients commonly keep an idle connection, so that the client closes it
    /// first.
    pub request_head: Duration,
    /// Maximum time for the arrival of a request's body.
    pub request_body: Duration,
    /// Maximum size of a request's body in bytes.
    pub request_body_bytes: usize,
    /// Maximum size of a request's head in bytes.
    pub request_head_bytes: u32,
    /// Maximum number of concurrent HTTP/2 streams per connection.
    pub concurrent_streams: u32,
    /// Maximum time without progress while data is written to a client.
    pub stalled_write: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            tls_handshake: Duration::from_secs(10),
            request_head: Duration::from_secs(100),
            request_body: Duration::from_secs(60),
            request_body_bytes: 3 * 1024 * 1024,
            request_head_bytes: 64 * 1024,
            concurrent_streams: 1_000,
            stalled_write: Duration::from_secs(60),
        }
    }
}

/// Time after which a frozen connection is closed.
const FROZEN_MAX: Duration = Duration::from_secs(15 * 60);

/// Serves until `shutdown`, then gives running requests a moment to end.
///
/// `handle` responds to every request, with an error if need be. Each new value of `outages` closes
/// all connections at once and refuses new ones until that time.
pub(crate) async fn serve<H, F>(
    mut listener: TcpListener,
    tls: TlsAcceptor,
    limits: Limits,
    handle: H,
    mut outages: watch::Receiver<Option<Instant>>,
    shutdown: CancellationToken,
) where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(limits.connections));
    let connections = TaskTracker::new();
    let mut signals = StopSignals { shutdown, outage: CancellationToken::new() };
    let mut numbers = 0_usize..;
    loop {
        let accepted = tokio::select! {
            () = signals.shutdown.cancelled() => break,
            // The sender lives as long as the handler.
            Ok(()) = outages.changed() => {
                signals.outage.cancel();
                let until = outages.borrow_and_update().unwrap_or_else(Instant::now);
                match reopen(listener, until, &signals.shutdown).await {
                    Some(reopened) => listener = reopened,
                    None => break,
                }
                signals.outage = CancellationToken::new();
                continue;
            }
            accepted = accept(&listener, &slots) => accepted,
        };
        let Some((stream, slot)) = accepted else { continue };
        let (tls, handle, signals) = (tls.clone(), handle.clone(), signals.clone());
        let client = Connection::new(numbers.next().unwrap_or_default());
        connections.spawn(async move {
            if let Err(error) = connection(stream, client, tls, limits, handle, signals).await {
                tracing::debug!(error, "connection ended");
            }
            drop(slot);
        });
    }
    connections.close();
    let _ = tokio::time::timeout(Duration::from_secs(1), connections.wait()).await;
}

/// Signals that end a connection.
#[derive(Clone)]
struct StopSignals {
    /// Running requests may end first.
    shutdown: CancellationToken,
    /// The connection closes at once, as if the process had been killed.
    outage: CancellationToken,
}

/// Closes the listener and opens another one with the same address at the time `at`. `None` if the
/// server is shut down meanwhile.
async fn reopen(
    listener: TcpListener,
    at: Instant,
    shutdown: &CancellationToken,
) -> Option<TcpListener> {
    const PAUSE: Duration = Duration::from_millis(50);
    let address = listener.local_addr();
    drop(listener);
    let mut wake_at = at;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return None,
            () = tokio::time::sleep_until(wake_at) => {}
        }
        let opened = match &address {
            Ok(address) => TcpListener::bind(address).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match opened {
            Ok(listener) => return Some(listener),
            Err(error) => tracing::warn!(error, "cannot listen again after a restart fault"),
        }
        wake_at = Instant::now() + PAUSE;
    }
}

/// Accepts the next connection, with the permit that it has until it closes.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, slot)),
        Err(error) => {
            // The process has no file descriptors left, or the peer is gone already: retry after a
            // pause.
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

async fn connection<H, F>(
    stream: TcpStream,
    client: Connection,
    tls: TlsAcceptor,
    limits: Limits,
    handle: H,
    signals: StopSignals,
) -> Result<(), String>
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    // Send small frames without waiting for an acknowledgement, because watches consist of them.
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let handshake = tokio::time::timeout(limits.tls_handshake, tls.accept(stream));
    let stream = tokio::select! {
        stream = handshake => stream,
        () = signals.outage.cancelled() => return Ok(()),
    };
    let stream = stream
        .map_err(|_| "TLS handshake timed out".to_owned())?
        .map_err(|error| format!("TLS handshake: {error}"))?;
    let io = TokioIo::new(StallGuard::new(stream, limits.stalled_write, limits.request_head));
    let of_requests = client.clone();
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(of_requests.clone());
        let response = handle(request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    let builder = builder(&limits);
    let mut connection = std::pin::pin!(builder.serve_connection(io, service));
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = signals.shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = signals.outage.cancelled() => return Ok(()),
        state = client.interrupted() => {
            if state == ConnectionState::Frozen {
                frozen(&client, &signals).await;
            }
            return Ok(());
        }
    };
    result.map_err(|error| error.to_string())
}

/// Keeps a frozen connection open without reading from it or writing to it.
async fn frozen(client: &Connection, signals: &StopSignals) {
    tokio::select! {
        () = signals.shutdown.cancelled() => {}
        () = signals.outage.cancelled() => {}
        () = client.closed() => {}
        () = tokio::time::sleep(FROZEN_MAX) => {}
    }
}

fn builder(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.request_head)
        .max_buf_size(limits.request_head_bytes as usize)
        .writev(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(30))
        .max_concurrent_streams(limits.concurrent_streams)
        .max_header_list_size(limits.request_head_bytes)
        .max_send_buf_size(256 * 1024);
    builder
}
