//! A way to the API server on which single requests go wrong on purpose: plain HTTP in, the client's own connection out.

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

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Answered,
    /// It does not arrive; the answer is this code.
    Refused(u16),
    /// It arrives and has its effect; the connection breaks before the answer.
    Unanswered,
}

pub struct Gateway {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Gateway {
    /// Passes on what comes, as the client's user, and treats each request as `fate` says.
    pub async fn start(
        client: kube::Client,
        fate: impl Fn(&Parts) -> Fate + Send + Sync + 'static,
    ) -> Result<Gateway> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let fate = Arc::new(fate);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (client, fate) = (client.clone(), fate.clone());
                let service =
                    service_fn(move |request| pass(client.clone(), fate.clone(), request));
                tokio::spawn(async move {
                    let builder = auto::Builder::new(TokioExecutor::new());
                    // It ends with an error where an answer is withheld.
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(Gateway { address, task })
    }

    /// A kubeconfig that leads here.
    pub fn kubeconfig(&self, directory: &Path) -> Result<PathBuf> {
        let path = directory.join("gateway.kubeconfig");
        let name = "gateway";
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

impl Drop for Gateway {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(
    client: kube::Client,
    fate: Arc<impl Fn(&Parts) -> Fate>,
    request: Request<Incoming>,
) -> Result<Response<Body>> {
    let (parts, body) = request.into_parts();
    let fate = fate(&parts);
    if let Fate::Refused(code) = fate {
        return refused(code);
    }
    let mut onward = Request::new(Body::from(body.collect().await?.to_bytes()));
    *onward.method_mut() = parts.method;
    *onward.uri_mut() = parts.uri.path_and_query().context("no path")?.as_str().parse()?;
    *onward.headers_mut() = parts.headers;
    onward.headers_mut().remove(http::header::HOST);
    let answer = client.send(onward).await?;
    anyhow::ensure!(fate != Fate::Unanswered, "the answer is withheld");
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
