//! HTTP to one API server: TLS, proxies, HTTP/2, credentials, and pings.
//!
//! kube's own stack speaks HTTP/1.1, which needs a connection for every concurrent write. This one
//! also offers HTTP/2, with pings that detect a dead connection under a watch.

use std::time::Duration;

use http::uri::Scheme;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_rustls::{
    FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream,
};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use jiff::Timestamp;
use kube::client::{Body, ConfigExt};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower::timeout::Timeout;
use tower::timeout::error::Elapsed;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder, ServiceExt};

use super::buffered::Buffered;
use super::proxy::{Protocol, Proxy, with_port};
use super::{Config, REQUEST_TIMEOUT, auth_error, exec, one_line};

/// How fast a dead connection is detected. After `interval` without data a ping is sent; without an
/// answer within `timeout` the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pings {
    /// The time without data before a ping.
    pub interval: Duration,
    /// The time to wait for the answer to a ping.
    pub timeout: Duration,
    /// True if pings are sent while no request is active, so that the next one finds a live
    /// connection.
    pub while_idle: bool,
}

impl Default for Pings {
    /// A dead connection is detected before a request on it times out, so that a retry uses a new
    /// connection.
    fn default() -> Self {
        let (interval, timeout) = (Duration::from_secs(10), Duration::from_secs(5));
        Self { interval, timeout, while_idle: false }
    }
}

impl Pings {
    /// Refuses pings that would leave a request no time for a second connection.
    ///
    /// # Errors
    /// A sentence that names the options.
    pub fn check(&self) -> Result<(), String> {
        let Self { interval, timeout, .. } = *self;
        if interval.is_zero() || timeout.is_zero() || interval + timeout >= REQUEST_TIMEOUT {
            return Err(format!(
                "--http2-ping-interval ({interval:?}) and --http2-ping-timeout ({timeout:?}) \
                 must be greater than 0 and together less than the timeout of a request, \
                 {REQUEST_TIMEOUT:?}"
            ));
        }
        Ok(())
    }
}

/// Sends requests to one server, with the credentials that were read when it was made.
pub(super) type Http = BoxCloneSyncService<Request<Body>, Response<Incoming>, BoxError>;

/// A stream to the server, or to the proxy before it.
type Stream = MaybeHttpsStream<Buffered<TokioIo<TcpStream>>>;
type Transport = BoxCloneSyncService<Uri, Stream, BoxError>;

const TCP_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a whole connection attempt, including the proxy and TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of TCP keepalive probes before the connection is closed. HTTP/1.1 has no pings.
const KEEPALIVE_RETRIES: u32 = 3;
/// The resolution of TCP keepalive times.
const KEEPALIVE_UNIT: Duration = Duration::from_secs(1);
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// More than all watches can leave unread, so that none of them blocks another stream.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// A client, and when its credentials expire, if that is known and nothing renews them before.
pub(super) struct Opened {
    pub http: Http,
    pub expires: Option<Timestamp>,
}

/// Makes a client. It does not connect yet, but runs the exec plugin and waits for it.
///
/// # Errors
/// If certificates, keys or credentials can't be used.
pub(super) fn open(config: &Config, pings: Pings) -> Result<Opened, String> {
    let mut kube = config.kube.clone();
    let expires = exec::replace(&mut kube.auth_info)?;
    let failed = |error: kube::Error| auth_error::describe(&error);
    let authorization = kube.auth_layer().map_err(failed)?;
    let tls = kube.rustls_client_config().map_err(failed)?;
    let client = Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(pings.interval)
        .http2_keep_alive_timeout(pings.timeout)
        .http2_keep_alive_while_idle(pings.while_idle)
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .build::<_, Body>(connector(config, tls, pings)?);
    let service = ServiceBuilder::new()
        .layer(kube.base_uri_layer())
        .option_layer(authorization)
        .layer(kube.extra_headers_layer().map_err(failed)?)
        .map_err(BoxError::from)
        .service(client);
    let http = BoxCloneSyncService::new(service.map_err(BoxError::from));
    Ok(Opened { http, expires })
}

fn connector(
    config: &Config,
    tls: ClientConfig,
    pings: Pings,
) -> Result<BoxCloneSyncService<Uri, MaybeHttpsStream<Stream>, BoxError>, String> {
    let transport = transport(config.proxy.as_ref(), &tls, pings);
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.kube.tls_server_name {
        let name = name.clone().try_into();
        let name = name.map_err(|_| "tls-server-name is not a DNS name".to_owned())?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let connector: HttpsConnector<Transport> =
        builder.enable_http1().enable_http2().wrap_connector(transport);
    let connector = Timeout::new(connector, CONNECT_TIMEOUT).map_err(|error| {
        let is_late = error.is::<Elapsed>();
        if is_late { format!("no connection within {CONNECT_TIMEOUT:?}").into() } else { error }
    });
    Ok(BoxCloneSyncService::new(connector))
}

fn transport(proxy: Option<&Proxy>, tls: &ClientConfig, pings: Pings) -> Transport {
    let tcp = tcp(pings).map_response(Buffered::new);
    let Some(proxy) = proxy else {
        let direct = tcp.map_response(MaybeHttpsStream::Http).map_err(BoxError::from);
        return BoxCloneSyncService::new(direct);
    };
    let named = proxy.to_string();
    let failed = move |error: BoxError| -> BoxError {
        Box::new(ProxyError { proxy: named.clone(), cause: one_line(&*error) })
    };
    let address = proxy.address().clone();
    // A tunnel without a port leads to port 443.
    let explicit = |server: Uri| match server.scheme() == Some(&Scheme::HTTP) {
        true => with_port(server, 80),
        false => server,
    };
    match proxy.protocol {
        Protocol::Http => {
            // As in kubectl, an https proxy is verified with the cluster's certificate authority.
            let tls = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
            let mut tunnel = Tunnel::new(address, tls.enable_http1().wrap_connector(tcp));
            if let Some(credentials) = proxy.basic_credentials() {
                tunnel = tunnel.with_auth(credentials);
            }
            let tunnel = tunnel.map_request(explicit).map_err(BoxError::from).map_err(failed);
            BoxCloneSyncService::new(tunnel)
        }
        Protocol::Socks5 => {
            let mut socks = SocksV5::new(address, tcp);
            if let Some((user, password)) = proxy.raw_credentials() {
                socks = socks.with_auth(user, password);
            }
            let socks = socks.map_request(explicit).map_response(MaybeHttpsStream::Http);
            BoxCloneSyncService::new(socks.map_err(BoxError::from).map_err(failed))
        }
    }
}

/// An error with its cause in its text, so that the innermost cause names the proxy, too.
#[derive(Debug, thiserror::Error)]
#[error("proxy {proxy}: {cause}")]
struct ProxyError {
    proxy: String,
    cause: String,
}

pub(super) fn tcp(pings: Pings) -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(TCP_CONNECT_TIMEOUT));
    tcp.set_keepalive(Some(pings.interval.max(KEEPALIVE_UNIT)));
    tcp.set_keepalive_interval(Some((pings.timeout / KEEPALIVE_RETRIES).max(KEEPALIVE_UNIT)));
    tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    tcp
}
