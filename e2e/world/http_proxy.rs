//! An HTTP proxy to the API server on which tests can make single requests fail. It accepts plain
//! HTTP, and sends requests through the client's own connection.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use http::request::Parts;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kube::client::Body;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// How the proxy treats a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    Answered,
    /// The request does not reach the server; the answer has this code.
    Refused(u16),
    /// The request takes effect, but the connection breaks before the answer.
    Unanswered,
}

pub(crate) struct HttpProxy {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl HttpProxy {
    /// Forwards requests as the client's user, and treats each as `outcome` determines.
    pub(crate) async fn start(
        client: kube::Client,
        outcome: impl Fn(&Parts) -> RequestOutcome + Send + Sync + 'static,
    ) -> Result<HttpProxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let outcome = Arc::new(outcome);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (client, outcome) = (client.clone(), outcome.clone());
                let service =
                    service_fn(move |request| pass(client.clone(), outcome.clone(), request));
                tokio::spawn(async move {
                    let builder = auto::Builder::new(TokioExecutor::new());
                    // Serving ends with an error where an answer is withheld.
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(HttpProxy { address, task })
    }

    /// A kubeconfig for the proxy.
    pub(crate) fn kubeconfig(&self, directory: &Path) -> Result<PathBuf> {
        let path = directory.join("proxy.kubeconfig");
        let name = "proxy";
        let document = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": name, "user": {}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        });
        std::fs::write(&path, document.to_string()).context("write a kubeconfig")?;
        Ok(path)
    }
}

impl Drop for HttpProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(
    client: kube::Client,
    outcome: Arc<impl Fn(&Parts) -> RequestOutcome>,
    request: Request<Incoming>,
) -> Result<Response<Body>> {
    let (parts, body) = request.into_parts();
    let outcome = outcome(&parts);
    if let RequestOutcome::Refused(code) = outcome {
        return refused(code);
    }
    let mut onward = Request::new(Body::from(body.collect().await?.to_bytes()));
    *onward.method_mut() = parts.method;
    *onward.uri_mut() = parts.uri.path_and_query().context("no path")?.as_str().parse()?;
    *onward.headers_mut() = parts.headers;
    onward.headers_mut().remove(http::header::HOST);
    // In a task of its own: it takes effect although the sender may be gone.
    let answer = tokio::spawn(async move { client.send(onward).await }).await??;
    anyhow::ensure!(outcome != RequestOutcome::Unanswered, "the answer is withheld");
    Ok(answer)
}

fn refused(code: u16) -> Result<Response<Body>> {
    let reason = if code == 409 { "AlreadyExists" } else { "" };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "message": "refused on purpose", "reason": reason,
    });
    let body = Body::from(status.to_string().into_bytes());
    Ok(Response::builder().status(code).header("content-type", "application/json").body(body)?)
}
