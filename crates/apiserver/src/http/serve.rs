//! Accepts connections, does the TLS handshake and passes requests to a handler, within limits and
//! deadlines.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::ops::RangeFrom;
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
use super::limits::Limits;
use super::respond::Body;
use super::stall::StallGuard;

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
    let mut acceptor = Acceptor::new(&limits);
    let connections = TaskTracker::new();
    let mut signals = StopSignals { shutdown, outage: CancellationToken::new() };
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
            accepted = acceptor.accept(&listener) => accepted,
        };
        let Some((stream, client, slot)) = accepted else { continue };
        let (tls, handle, signals) = (tls.clone(), handle.clone(), signals.clone());
        connections.spawn(async move {
            let result = connection(stream, client.clone(), tls, limits, handle, signals).await;
            if let Err(error) = result {
                tracing::debug!(error, "connection ended");
            }
            client.close();
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

/// Accepts connections as long as there is room for them.
struct Acceptor {
    slots: Arc<Semaphore>,
    unowned: Unowned,
    numbers: RangeFrom<usize>,
    /// True if the last connection could not be accepted.
    is_failing: bool,
}

impl Acceptor {
    fn new(limits: &Limits) -> Self {
        let slots = Arc::new(Semaphore::new(limits.connections));
        Self { slots, unowned: Unowned::default(), numbers: 0.., is_failing: false }
    }

    /// Accepts the next connection, with the permit that it has until it closes.
    async fn accept(
        &mut self,
        listener: &TcpListener,
    ) -> Option<(TcpStream, Connection, OwnedSemaphorePermit)> {
        match listener.accept().await {
            Ok((stream, _)) => {
                self.is_failing = false;
                if self.slots.available_permits() == 0 {
                    self.unowned.close_oldest();
                }
                let slot = Arc::clone(&self.slots).acquire_owned().await.ok()?;
                let connection = Connection::new(self.numbers.next().unwrap_or_default());
                self.unowned.add(connection.clone());
                Some((stream, connection, slot))
            }
            Err(error) => {
                // The process has no file descriptors left, or the peer is gone already: retry
                // after a pause.
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%error, "cannot accept a connection");
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                None
            }
        }
    }
}

/// The connections on which no request had valid credentials, oldest first, and some others.
#[derive(Default)]
struct Unowned {
    connections: VecDeque<Connection>,
    /// The number of connections at which the others are removed.
    full: usize,
}

impl Unowned {
    fn add(&mut self, connection: Connection) {
        if self.connections.len() >= self.full {
            self.connections.retain(|connection| connection.may_be_closed());
            self.full = (2 * self.connections.len()).max(64);
        }
        self.connections.push_back(connection);
    }

    fn close_oldest(&mut self) {
        while let Some(oldest) = self.connections.pop_front() {
            if oldest.may_be_closed() {
                oldest.close();
                return;
            }
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
        () = client.closed() => return Ok(()),
    };
    let stream = stream
        .map_err(|_| "TLS handshake timed out".to_owned())?
        .map_err(|error| format!("TLS handshake: {error}"))?;
    let io = TokioIo::new(StallGuard::new(stream, limits.stalled_write, limits.first_request));
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
        () = client.stalled(limits.stalled_write) => {
            return Err("the client takes nothing of a response".to_owned());
        }
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
