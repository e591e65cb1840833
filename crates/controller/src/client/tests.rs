//! The HTTP version and the User-Agent of requests, and the errors of bad kubeconfigs.

mod connection;
mod credentials;
mod proxy;

use std::net::SocketAddr;
use std::sync::Arc;

use http::{Request, Response, header};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use proptest::prelude::*;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;

use super::*;
use crate::api::{Api, Server};
use crate::lease::Fence;

/// A self-signed certificate, which the clients of these tests do not verify.
fn tls(protocols: &[&str], clients: Option<Arc<dyn ClientCertVerifier>>) -> TlsAcceptor {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut tls = builder.with_single_cert(vec![cert.der().clone()], key.into()).unwrap();
    tls.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(tls))
}

/// A server with these answers, made from the request and the client's certificate, if any.
async fn server(
    tls: TlsAcceptor,
    answer: impl Fn(&Request<Incoming>, Option<&[u8]>) -> Response<String>
    + Clone
    + Send
    + Sync
    + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (tls, answer) = (tls.clone(), answer.clone());
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let certificates = stream.get_ref().1.peer_certificates();
                let certificate = certificates.map(|chain| chain[0].to_vec());
                let service = hyper::service::service_fn(move |request| {
                    let answer = answer(&request, certificate.as_deref());
                    std::future::ready(Ok::<_, std::convert::Infallible>(answer))
                });
                // Some tests break the connection.
                let _ = auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    address
}

/// A configuration for a server with a self-signed certificate.
fn config_for(url: &str, proxy: Option<Proxy>) -> Config {
    Config { proxy, ..Config::for_test(url) }
}

async fn get(client: &Client) -> kube::Result<String> {
    client.request_text(Request::get("/version").body(Vec::new()).unwrap()).await
}

async fn http_version_with(protocols: &[&str]) -> String {
    let version = |request: &Request<Incoming>, _: Option<&[u8]>| {
        Response::new(format!("{:?}", request.version()))
    };
    let address = server(tls(protocols, None), version).await;
    let config = config_for(&format!("https://{address}"), None);
    get(&client(&config, Pings::default()).unwrap()).await.unwrap()
}

/// HTTP/2, in which all requests share one connection, is used if the server offers it.
#[tokio::test]
async fn http_2_is_used_where_the_server_offers_it() {
    assert_eq!(http_version_with(&["h2", "http/1.1"]).await, "HTTP/2.0");
    assert_eq!(http_version_with(&["http/1.1"]).await, "HTTP/1.1");
    assert_eq!(http_version_with(&[]).await, "HTTP/1.1");
}

/// C83: every request has the User-Agent, whichever part of the program sends it.
#[tokio::test]
async fn every_request_has_the_user_agent() {
    let agent = |request: &Request<Incoming>, _: Option<&[u8]>| {
        let agents = request.headers().get_all(header::USER_AGENT).iter();
        let agents: Vec<&str> = agents.map(|value| value.to_str().unwrap()).collect();
        Response::new(agents.join(" and "))
    };
    let address = server(tls(&["h2"], None), agent).await;
    let config = config_for(&format!("https://{address}"), None);
    let client = client(&config, Pings::default()).unwrap();
    let read = get(&client).await.unwrap();
    let api = Api::new(client, Fence::open(), None);
    let written = api.get("/api/v1/nodes").await.unwrap();
    assert_eq!(read.as_bytes(), written);
    let version = env!("CARGO_PKG_VERSION");
    let rest = read.strip_prefix(&format!("everynode/{version} (")).unwrap();
    let (system, architecture) = rest.strip_suffix(')').unwrap().split_once('/').unwrap();
    assert_eq!(system, std::env::consts::OS);
    assert!(!architecture.is_empty() && architecture != "x86_64", "{architecture}");
}

/// The error of a bad kubeconfig is one line that names it.
#[test]
fn a_bad_kubeconfig_is_named() {
    let location =
        Location { kubeconfig: Some("/nowhere/kubeconfig".into()), ..Location::default() };
    let missing = config(&location).map(|_| ()).unwrap_err().to_string();
    assert!(missing.starts_with("kubeconfig /nowhere/kubeconfig: "), "{missing}");
    assert!(!missing.contains('\n'));
}

/// A kubeconfig, whose values random ones replace.
const KUBECONFIG: &str = "{apiVersion: v1, kind: Config, current-context: c, \
    contexts: [{name: c, context: {cluster: c, user: u, namespace: n}}], \
    clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', tls-server-name: a, \
    insecure-skip-tls-verify: true, certificate-authority-data: '', proxy-url: 'http://a'}}], \
    users: [{name: u, user: {token: t, username: n, password: p, client-certificate-data: '', \
    client-key-data: ''}}]}";

proptest! {
    /// C83: any kubeconfig leads to a client, or to an error in one line that names it or its
    /// cluster.
    #[test]
    fn any_kubeconfig_is_used_or_refused(
        at in any::<prop::sample::Index>(),
        value in r"[a-z0-9:/@.\[\]{}' -]{0,16}|LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==|\PC{0,8}",
    ) {
        let parts: Vec<&str> = KUBECONFIG.split_inclusive([' ', ',', '[', '{', ']', '}']).collect();
        let at = at.index(parts.len());
        let changed = [parts[..at].concat(), value, parts[at + 1..].concat()].concat();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), changed).unwrap();
        let location = Location { kubeconfig: Some(file.path().into()), ..Location::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _guard = runtime.enter();
        let used = config(&location).and_then(|config| client(&config, Pings::default()));
        if let Err(error) = used {
            let error = error.to_string();
            let is_named = ["kubeconfig ", "cluster "].iter().any(|name| error.starts_with(name));
            prop_assert!(is_named && !error.contains('\n'), "{error}");
        }
    }
}

/// C83: messages and metrics name the server without the password in its URL.
#[test]
fn the_password_of_a_url_is_not_stated() {
    let config = config_for("https://user:secret@a.corp:6443/clusters/b/", None);
    assert_eq!(config.server(), "https://a.corp:6443/clusters/b");
    let authority = config.kube.cluster_url.authority().map(host_and_port);
    assert_eq!(authority.as_deref(), Some("a.corp:6443"));
}

/// C83: a redirection is a refusal. The credentials of one server reach no other.
#[tokio::test]
async fn redirections_are_not_followed() {
    let moved = |_: &Request<Incoming>, _: Option<&[u8]>| {
        let response = Response::builder().status(302).header(header::LOCATION, "/elsewhere");
        response.body("moved".to_owned()).unwrap()
    };
    let address = server(tls(&["h2"], None), moved).await;
    let config = config_for(&format!("https://{address}"), None);
    let api = Api::new(client(&config, Pings::default()).unwrap(), Fence::open(), None);
    assert_eq!(api.get("/api/v1/nodes").await.unwrap_err().code(), Some(302));
}

/// C29, C83: of a refusal that is too large the status code still counts, and a long message is
/// shortened.
#[tokio::test]
async fn a_large_refusal_is_read_in_part() {
    for (bytes, message) in [(2 << 20, "500 Internal Server Error"), (50_000, "xxx")] {
        let large = move |_: &Request<Incoming>, _: Option<&[u8]>| {
            let status = format!(r#"{{"kind":"Status","message":"{}"}}"#, "x".repeat(bytes));
            Response::builder().status(500).body(status).unwrap()
        };
        let address = server(tls(&["h2"], None), large).await;
        let config = config_for(&format!("https://{address}"), None);
        let api = Api::new(client(&config, Pings::default()).unwrap(), Fence::open(), None);
        let error = api.get("/api/v1/nodes").await.unwrap_err();
        assert_eq!(error.code(), Some(500));
        let text = error.to_string();
        assert!(text.starts_with(message) && text.len() <= 4096, "{} bytes", text.len());
    }
}
