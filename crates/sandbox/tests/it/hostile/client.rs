//! The server as clients see it, and a client that sends one request.

use std::time::Duration;

use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::wire;

pub(crate) type Stream = TlsStream<TcpStream>;

/// Maximum time that a hostile client waits for something.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The address of the server, and the tokens of its users.
#[derive(Clone)]
pub(crate) struct Target {
    address: String,
    connector: TlsConnector,
    /// Of the one who may do everything.
    pub admin: String,
    pub tenant: String,
    pub stranger: String,
    pub friend: String,
}

impl Target {
    pub(crate) fn of_kubeconfig(text: &str) -> Self {
        let document: Value = serde_json::from_str(text).expect("a kubeconfig of ours is JSON");
        let url = document["clusters"][0]["cluster"]["server"].as_str().expect("a URL");
        let token = document["users"][0]["user"]["token"].as_str().expect("a token");
        let mut target = Self {
            address: url.trim_start_matches("https://").to_owned(),
            connector: wire::connector(&document),
            admin: token.to_owned(),
            tenant: String::new(),
            stranger: String::new(),
            friend: String::new(),
        };
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            target.tenant = target.token_of("default", "tenant").await;
            target.stranger = target.token_of("default", "stranger").await;
            target.friend = target.token_of("friend", "friend").await;
        });
        target
    }

    async fn token_of(&self, namespace: &str, account: &str) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let (_, body) = self.ask("POST", &path, b"{}").await;
        let document: Value = serde_json::from_slice(&body).expect("JSON");
        document["status"]["token"].as_str().expect("a token").to_owned()
    }

    /// Opens a connection; `None` if the server does not accept it in time.
    pub(crate) async fn connect(&self) -> Option<Stream> {
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        let connect = async {
            let stream = TcpStream::connect(&self.address).await.ok()?;
            stream.set_nodelay(true).ok()?;
            self.connector.connect(name, stream).await.ok()
        };
        tokio::time::timeout(PATIENCE, connect).await.ok()?
    }

    /// Sends a request of the administrator; returns the status code and the body.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = self.connect().await.expect("a connection");
        let admin = &self.admin;
        ask(&mut stream, admin, method, path, "application/json", body).await.expect("an answer")
    }
}

/// Sends a request on an open connection; returns the status code and the body, or `None` if the
/// connection ends before.
pub(crate) async fn ask(
    stream: &mut Stream,
    token: &str,
    method: &str,
    path: &str,
    content_type: &str,
    body: &[u8],
) -> Option<(u16, Vec<u8>)> {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).await.ok()?;
    stream.flush().await.ok()?;
    answer(stream).await
}

/// Reads one response with a Content-Length, or the head of another one.
pub(crate) async fn answer(stream: &mut Stream) -> Option<(u16, Vec<u8>)> {
    let mut received = Vec::new();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let end = received.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&received[..end]).to_ascii_lowercase();
            let code = head.split(' ').nth(1)?.parse().ok()?;
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
            if received.len() >= end + 4 + length {
                return Some((code, received[end + 4..end + 4 + length].to_vec()));
            }
            let missing = end + 4 + length - received.len();
            buffer.resize(missing.clamp(16 * 1024, 1024 * 1024), 0);
        }
        let read = stream.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        received.extend_from_slice(&buffer[..read]);
    }
}
