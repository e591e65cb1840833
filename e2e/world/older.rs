//! A proxy to the API server through which everything is older than it is: commands see a cluster
//! as it will be if nothing happens for a while. It accepts plain HTTP.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use futures::{Stream, StreamExt, stream};
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, HOST};
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use regex::{Captures, Regex};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub(crate) struct OlderCluster {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl OlderCluster {
    /// Forwards requests as the client's user, and makes all times in the answers that much
    /// earlier.
    pub(crate) async fn start(client: kube::Client, by: SignedDuration) -> Result<OlderCluster> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let client = client.clone();
                let service = service_fn(move |request| pass(client.clone(), by, request));
                tokio::spawn(async move {
                    let builder = auto::Builder::new(TokioExecutor::new());
                    // Commands that end break their connections.
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(OlderCluster { address, task })
    }

    /// Writes a kubeconfig for the proxy.
    pub(crate) fn write_kubeconfig(&self, path: &Path, namespace: &str) -> Result<()> {
        let name = "older";
        let document = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": name, "user": {}}],
            "contexts": [{"name": name,
                "context": {"cluster": name, "user": name, "namespace": namespace}}],
        });
        std::fs::write(path, document.to_string()).context("write a kubeconfig")
    }
}

impl Drop for OlderCluster {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Answer = StreamBody<stream::BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

async fn pass(
    client: kube::Client,
    by: SignedDuration,
    request: Request<Incoming>,
) -> Result<Response<Answer>> {
    let (parts, body) = request.into_parts();
    let mut onward = Request::new(Body::from(body.collect().await?.to_bytes()));
    *onward.method_mut() = parts.method;
    *onward.uri_mut() = parts.uri.path_and_query().context("no path")?.as_str().parse()?;
    *onward.headers_mut() = parts.headers;
    onward.headers_mut().remove(HOST);
    onward.headers_mut().remove(ACCEPT_ENCODING);
    let (mut parts, body) = client.send(onward).await?.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    let lines = lines(body).map(move |line| Ok(Frame::data(older(&line, by))));
    Ok(Response::from_parts(parts, StreamBody::new(lines.boxed())))
}

/// The whole lines of an answer, so that no time is cut: of a watch each event, of a list all. An
/// answer that breaks off ends.
fn lines(body: Body) -> impl Stream<Item = Vec<u8>> + Send {
    stream::unfold((body.into_data_stream(), Vec::new()), async |(mut data, mut rest)| {
        loop {
            if let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') {
                let left = rest.split_off(end + 1);
                return Some((rest, (data, left)));
            }
            match data.next().await {
                Some(Ok(bytes)) => rest.extend_from_slice(&bytes),
                Some(Err(_)) | None if rest.is_empty() => return None,
                Some(Err(_)) | None => return Some((rest, (data, Vec::new()))),
            }
        }
    })
}

static TIME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").expect("every run uses it")
});

fn older(text: &[u8], by: SignedDuration) -> Bytes {
    let text = String::from_utf8_lossy(text);
    let shifted = TIME.replace_all(&text, |found: &Captures<'_>| {
        let format = if found.get(1).is_some() { "%FT%T%.6fZ" } else { "%FT%TZ" };
        match found[0].parse::<Timestamp>() {
            Ok(time) => (time - by).strftime(format).to_string(),
            Err(_) => found[0].to_owned(),
        }
    });
    Bytes::from(shifted.into_owned())
}
