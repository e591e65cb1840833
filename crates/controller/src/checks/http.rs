//! HTTP to the servers that checks ask (G24): one request on a connection of its own, directly to
//! an address that was checked, without proxies and redirects, with no credentials but those that
//! the operator has given for the host (G46), within limits of time and size.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, Join, Take, join};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::task::AbortOnDropHandle;

use super::answer::{Reply, ServerRequest, TIMEOUT};
use super::credentials::Credentials;
use super::hosts::{Hosts, Target};
use super::tls::Tls;
use crate::client::{one_line, user_agent};

/// Timeout of each attempt to connect to one of the addresses of a host.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of addresses of a host that are tried.
const ADDRESSES_MAX: usize = 4;
/// Maximum size of a body that is read.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Maximum size of the head of an answer.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Maximum number of further bytes that a server sends before and around an answer: certificates,
/// and answers 1xx, which could go on for ever.
const OVERHEAD_BYTES_MAX: usize = 128 << 10;

/// A connection that ends after so many bytes from the server.
type LimitedStream = Join<Take<OwnedReadHalf>, OwnedWriteHalf>;

/// A client for the servers that checks ask.
#[derive(Clone, Debug)]
pub struct Http {
    hosts: Hosts,
    tls: Tls,
    credentials: Credentials,
}

impl Http {
    /// A client that may ask these hosts.
    pub fn new(hosts: Hosts, tls: Tls, credentials: Credentials) -> Self {
        Self { hosts, tls, credentials }
    }

    /// The answer to a request.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn send(&self, request: ServerRequest) -> Result<Reply, String> {
        let exchange = timeout(TIMEOUT, self.exchange(request)).await;
        exchange.unwrap_or_else(|_| Err(format!("no answer within {TIMEOUT:?}")))
    }

    async fn exchange(&self, request: ServerRequest) -> Result<Reply, String> {
        let url = request.url.parse();
        let url: Uri = url.map_err(|error| format!("the URL is malformed: {error}"))?;
        let target = Target::from_url(&url)?;
        if let Some(address) = target.address() {
            // Allowing it would not help.
            target.check_address(address)?;
        }
        self.hosts.check(&target)?;
        let credentials = self.credentials.for_host(&target);
        let authorization = match credentials {
            Some(credentials) => credentials.authorization(&target).await?,
            None => None,
        };
        let header = authorization.as_ref().map(|authorization| authorization.header.clone());
        let stream = limited(connect(&target).await?, request.reads_body);
        let reply = if target.is_https {
            let tls = credentials.and_then(|credentials| credentials.tls.as_ref());
            let stream = encrypt(tls.unwrap_or(&self.tls), &target, stream).await?;
            reply(stream, &url, request, header).await?
        } else {
            reply(stream, &url, request, header).await?
        };
        match authorization.is_some_and(|authorization| authorization.is_repeated_in(&reply)) {
            true => {
                Err("the answer has the credentials that were sent, so it is not stated".to_owned())
            }
            false => Ok(reply),
        }
    }
}

async fn encrypt(
    tls: &Tls,
    target: &Target,
    stream: LimitedStream,
) -> Result<TlsStream<LimitedStream>, String> {
    let connector = TlsConnector::from(tls.config()?);
    let name = target.host.clone().try_into();
    let name = name.map_err(|_| format!("{} is no name of a server", target.host))?;
    connector.connect(name, stream).await.map_err(|error| format!("TLS: {error}"))
}

/// Connects to the host. If one of its addresses is not allowed, none is used: a name that leads
/// to an allowed one and to another is not what the operator has in mind.
async fn connect(target: &Target) -> Result<TcpStream, String> {
    let addresses = addresses(target).await?;
    for address in &addresses {
        target.check_address(address.ip())?;
    }
    let mut last = format!("{} has no address", target.host);
    for address in addresses.into_iter().take(ADDRESSES_MAX) {
        // The address that was checked, not the name, which may have another one by now.
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = format!("connect to {address}: {error}"),
            Err(_) => last = format!("connect to {address}: no answer within {CONNECT_TIMEOUT:?}"),
        }
    }
    Err(last)
}

/// Limits what the controller's thread spends on a server that never comes to its answer.
fn limited(stream: TcpStream, reads_body: bool) -> LimitedStream {
    let (read, write) = stream.into_split();
    let body = if reads_body { BODY_BYTES_MAX } else { 0 };
    join(read.take((HEAD_BYTES_MAX + body + OVERHEAD_BYTES_MAX) as u64), write)
}

async fn addresses(target: &Target) -> Result<Vec<SocketAddr>, String> {
    if let Some(address) = target.address() {
        return Ok(vec![SocketAddr::new(address, target.port)]);
    }
    let found: io::Result<Vec<SocketAddr>> =
        lookup_host((target.host.as_str(), target.port)).await.map(Iterator::collect);
    found.map_err(|error| format!("look up {}: {error}", target.host))
}

async fn reply<S>(
    stream: S,
    url: &Uri,
    request: ServerRequest,
    authorization: Option<HeaderValue>,
) -> Result<Reply, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    let (mut sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(|error| one_line(&error))?;
    // It is closed when this function returns, whatever the server still sends.
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let answer = sender.send_request(
        head(url, &request, authorization)?
            .body(Full::new(Bytes::from(request.form.unwrap_or_default())))
            .map_err(|error| format!("the request is malformed: {error}"))?,
    );
    let answer = answer.await.map_err(|error| one_line(&error))?;
    let (parts, body) = answer.into_parts();
    let location = parts.headers.get(header::LOCATION);
    let location = location.map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
    let body = match request.reads_body {
        true => Limited::new(body, BODY_BYTES_MAX).collect().await,
        false => return Ok(Reply { status: parts.status, location, body: Bytes::new() }),
    };
    let body = body.map_err(|error| format!("the answer cannot be read: {}", one_line(&*error)))?;
    Ok(Reply { status: parts.status, location, body: body.to_bytes() })
}

fn head(
    url: &Uri,
    request: &ServerRequest,
    authorization: Option<HeaderValue>,
) -> Result<http::request::Builder, String> {
    let path = url.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let authority = url.authority().ok_or("the URL has no host")?;
    let mut head = Request::builder()
        .method(if request.form.is_some() { Method::POST } else { Method::GET })
        .uri(path)
        .header(header::HOST, authority.as_str())
        .header(header::USER_AGENT, user_agent())
        .header(header::ACCEPT, HeaderValue::from_static("application/json, */*;q=0.5"));
    if let Some(authorization) = authorization {
        head = head.header(header::AUTHORIZATION, authorization);
    }
    if request.form.is_some() {
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        head = head.header(header::CONTENT_TYPE, form);
    }
    Ok(head)
}
