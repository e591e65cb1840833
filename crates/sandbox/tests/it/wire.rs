//! A client that sends bytes over TLS, so that a test can send what an ordinary client never sends.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everynode_sandbox::{AppliedObject, Limits, Options, Sandbox, start};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) struct Server {
    sandbox: Sandbox,
    token: String,
    connector: TlsConnector,
}

pub(crate) struct Response {
    pub code: u16,
    pub head: String,
    pub body: String,
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// The timeout of each exchange.
const DEADLINE: Duration = Duration::from_secs(20);

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with(Limits::default()).await
    }

    pub(crate) async fn start_with(limits: Limits) -> Self {
        Self::start_as(Options { limits, ..Options::default() }).await
    }

    pub(crate) async fn start_as(options: Options) -> Self {
        let sandbox = start(options).await.expect("a sandbox");
        let text = std::fs::read_to_string(sandbox.kubeconfig_path()).expect("a kubeconfig");
        let document: Value = serde_json::from_str(&text).expect("a kubeconfig of ours is JSON");
        let token = document["users"][0]["user"]["token"].as_str().expect("a token").to_owned();
        Self { sandbox, token, connector: connector(&document) }
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        self.sandbox.kubeconfig_path()
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn address(&self) -> &str {
        self.sandbox.server_url().trim_start_matches("https://")
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.request("GET", path, "", b"").await
    }

    /// Sends a GET request with another token.
    pub(crate) async fn read_with(&self, token: &str, path: &str) -> Response {
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
        self.send(head.as_bytes()).await
    }

    /// Returns a token of a service account in the namespace `default`.
    pub(crate) async fn token_of(&self, account: &str) -> String {
        let path = format!("/api/v1/namespaces/default/serviceaccounts/{account}/token");
        let issued = self.post(&path, b"{}").await.json();
        issued["status"]["token"].as_str().expect("a token").to_owned()
    }

    /// Sends a request with another token.
    pub(crate) async fn send_with(
        &self,
        token: &str,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Response {
        let (body, length) = (body.to_string(), body.to_string().len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
        );
        self.send(&[head.as_bytes(), body.as_bytes()].concat()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &[u8]) -> Response {
        self.request("POST", path, "Content-Type: application/json\r\n", body).await
    }

    pub(crate) fn apply(&self, manifest: &str) -> Vec<AppliedObject> {
        self.sandbox.apply_manifest(manifest)
    }

    pub(crate) async fn read_as(&self, path: &str, accept: &str) -> Response {
        self.request("GET", path, &format!("Accept: {accept}\r\n"), b"").await
    }

    /// Sends a well-formed request with the token; each of the `headers` ends with CRLF.
    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> Response {
        let (token, length) = (&self.token, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{headers}\
             Content-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        self.send(&[head.as_bytes(), body].concat()).await
    }

    /// Returns the head of a request without a body, after which the connection closes.
    pub(crate) fn head(&self, method: &str, path: &str) -> Vec<u8> {
        let token = &self.token;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
             Connection: close\r\n\r\n"
        );
        head.into()
    }

    /// Sends a GET request whose response is read as a stream.
    pub(crate) async fn open(&self, path: &str) -> Stream {
        let mut stream = self.connect().await;
        stream.write_all(&self.head("GET", path)).await.expect("a connection");
        stream.flush().await.expect("a connection");
        Stream { stream, text: String::new() }
    }

    /// Sends bytes and reads one response.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Response {
        let text = tokio::time::timeout(DEADLINE, self.exchange(bytes, true));
        let text = text.await.expect("a response in time");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { unchunk(body) } else { body.to_owned() };
        Response { code, head: head.to_owned(), body }
    }

    /// Sends bytes and reads until the server closes the connection.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> String {
        let text = tokio::time::timeout(DEADLINE, self.exchange(bytes, false));
        text.await.expect("the server closes in time")
    }

    /// Sends bytes without TLS and reads until the server closes the connection.
    pub(crate) async fn plain(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect_plain().await;
        stream.write_all(bytes).await.expect("a connection");
        let mut response = Vec::new();
        let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut response));
        // A reset counts as closed.
        let _ = read.await.expect("the server closes in time");
        response
    }

    pub(crate) async fn connect_plain(&self) -> TcpStream {
        TcpStream::connect(self.address()).await.expect("a connection")
    }

    pub(crate) async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = self.connect_plain().await;
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        self.connector.connect(name, stream).await.expect("a TLS connection")
    }

    async fn exchange(&self, bytes: &[u8], one_response: bool) -> String {
        let mut stream = self.connect().await;
        // The server may refuse the request before it has read all bytes.
        let _ = stream.write_all(bytes).await;
        let _ = stream.flush().await;
        let mut response = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        while let Some(length) = read(&mut stream, &mut buffer).await {
            response.extend_from_slice(&buffer[..length]);
            if one_response && is_whole(&response) {
                break;
            }
        }
        String::from_utf8_lossy(&response).into_owned()
    }
}

/// A response that is read as a stream.
pub(crate) struct Stream {
    stream: TlsStream<TcpStream>,
    text: String,
}

impl Stream {
    /// The text received so far.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Reads until the text contains `wanted`.
    pub(crate) async fn until(&mut self, wanted: &str) {
        while !self.text.contains(wanted) {
            assert!(self.more().await, "the response ends before {wanted}: {}", self.text);
        }
    }

    /// Reads more of the response; returns false if the connection is closed.
    pub(crate) async fn more(&mut self) -> bool {
        let mut buffer = vec![0; 64 * 1024];
        let read = tokio::time::timeout(DEADLINE, read(&mut self.stream, &mut buffer));
        let length = read.await.expect("something in time");
        self.text.push_str(&String::from_utf8_lossy(&buffer[..length.unwrap_or(0)]));
        length.is_some()
    }
}

/// Returns a connector that trusts the certificate authority in a kubeconfig.
pub(crate) fn connector(kubeconfig: &Value) -> TlsConnector {
    let authority = &kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"];
    let mut roots = rustls::RootCertStore::empty();
    let pem = decode(authority.as_str().expect("a certificate"));
    roots.add(CertificateDer::from_pem_slice(&pem).expect("PEM")).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

async fn read(stream: &mut TlsStream<TcpStream>, buffer: &mut [u8]) -> Option<usize> {
    stream.read(buffer).await.ok().filter(|length| *length > 0)
}

/// Returns whether a response with a Content-Length is complete.
fn is_whole(response: &[u8]) -> bool {
    let text = String::from_utf8_lossy(response);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
    });
    length.is_some_and(|length| body.len() >= length)
}

fn unchunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap_or(0);
        let Some(chunk) = rest.get(..length).filter(|chunk| !chunk.is_empty()) else { break };
        whole.push_str(chunk);
        body = rest[length..].trim_start_matches("\r\n");
    }
    whole
}

/// Decodes Base64, as kubeconfigs use it.
fn decode(text: &str) -> Vec<u8> {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut bytes) = (0usize, 0, Vec::new());
    for digit in text.chars().filter_map(|digit| ALPHABET.find(digit)) {
        bits = bits << 6 | digit;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).expect("eight bits"));
        }
    }
    bytes
}
