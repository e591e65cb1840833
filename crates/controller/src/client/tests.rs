//! Which HTTP is spoken, and what is said of a bad kubeconfig.

use std::net::SocketAddr;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use super::*;

/// Answers every request with the version of HTTP that it came by.
async fn server(protocols: &[&str]) -> SocketAddr {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let mut tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key.into())
        .unwrap();
    tls.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let service = hyper::service::service_fn(|request: http::Request<_>| {
                let _: &hyper::body::Incoming = request.body();
                let version = format!("{:?}", request.version());
                std::future::ready(Ok::<_, std::convert::Infallible>(http::Response::new(version)))
            });
            tokio::spawn(async move {
                auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await
            });
        }
    });
    address
}

async fn version_spoken_with(protocols: &[&str]) -> String {
    let address = server(protocols).await;
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.accept_invalid_certs = true;
    let request = http::Request::get("/version").body(Vec::new()).unwrap();
    client(&config).unwrap().request_text(request).await.unwrap()
}

/// With a server that can, all requests share one connection; one that can't is spoken to as it can.
#[tokio::test]
async fn http_2_is_spoken_where_the_server_offers_it() {
    assert_eq!(version_spoken_with(&["h2", "http/1.1"]).await, "HTTP/2.0");
    assert_eq!(version_spoken_with(&["http/1.1"]).await, "HTTP/1.1");
    assert_eq!(version_spoken_with(&[]).await, "HTTP/1.1");
}

/// What is wrong with a kubeconfig is said in one line that names it.
#[tokio::test]
async fn a_bad_kubeconfig_is_named() {
    let location = |path: &str, context: Option<&str>| Location {
        kubeconfig: Some(path.into()),
        context: context.map(str::to_owned),
    };
    let missing = config(&location("/nowhere/kubeconfig", None)).await.unwrap_err().to_string();
    assert!(missing.starts_with("kubeconfig /nowhere/kubeconfig: "), "{missing}");
    assert!(!missing.contains('\n'));
}
