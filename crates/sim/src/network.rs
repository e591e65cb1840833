//! The network between replicas and API servers. Requests wait in a queue until the world takes
//! them; the controller's own HTTP client sends them and reads the answers.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use everynode_controller::api::{Api, Content, Error, Server};
use everynode_controller::lease::Fence;
use everynode_core::api::DaemonSetKey;
use everynode_sandbox::json::Value;
use http::{Method, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use tokio::sync::{mpsc, oneshot};

use crate::response::{Answer, AnswerBody};
use crate::view::View;

/// A request in flight.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    pub path: String,
    pub content: Content,
    /// True if the answer shall contain the metadata of the object alone.
    pub wants_metadata: bool,
    pub body: Bytes,
    /// How many leaders its role had had, if the process was frozen after it had checked its fence
    /// and before the request left its socket.
    pub in_socket_since: Option<u64>,
    /// The view from which the plan of this request was made. `None` for requests of no plan.
    pub view: Option<Arc<View>>,
}

impl Request {
    /// True if the request can change an object.
    pub fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    /// Changes the body of the request.
    pub fn change(&mut self, change: impl FnOnce(&mut Value)) {
        let mut body = serde_json::from_slice(&self.body).unwrap_or_default();
        change(&mut body);
        self.body = body.to_string().into();
    }
}

/// Takes the answer. If it is dropped, the request is never answered.
pub(crate) type Reply = oneshot::Sender<Answer>;

/// A message of a replica to the world.
#[derive(Debug)]
pub(crate) enum Message {
    /// A replica sends a request.
    Request { replica: u64, request: Request, reply: Reply },
    /// The process of a replica ended.
    Ended { replica: u64, result: String },
}

/// Takes the messages of all replicas.
pub(crate) type Outbox = mpsc::UnboundedSender<Message>;

/// A connection of a replica.
#[derive(Clone)]
pub(crate) struct Connection {
    replica: u64,
    outbox: Outbox,
    view: Option<Arc<View>>,
}

impl Connection {
    /// A client of a replica for requests that belong to no plan.
    pub(crate) fn client(replica: u64, outbox: Outbox) -> Client {
        Client::new(Self { replica, outbox, view: None }, "default")
    }
}

impl tower::Service<http::Request<Body>> for Connection {
    type Response = http::Response<AnswerBody>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let Self { replica, outbox, view } = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
            let content = content(&parts);
            let wants_metadata = wants_metadata(&parts);
            let method = parts.method;
            let in_socket_since = None;
            let request =
                Request { method, path, content, wants_metadata, body, in_socket_since, view };
            let (reply, answer) = oneshot::channel();
            // The world outlives all replicas except at its end, when no answer matters.
            let _ = outbox.send(Message::Request { replica, request, reply });
            match answer.await {
                Ok(answer) => answer,
                Err(_) => std::future::pending().await,
            }
        })
    }
}

fn wants_metadata(parts: &http::request::Parts) -> bool {
    let accept = parts.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("as=PartialObjectMetadata;"))
}

fn content(parts: &http::request::Parts) -> Content {
    match parts.headers.get(header::CONTENT_TYPE).map(header::HeaderValue::as_bytes) {
        Some(b"application/merge-patch+json") => Content::MergePatch,
        Some(b"application/strategic-merge-patch+json") => Content::StrategicMergePatch,
        _ => Content::Json,
    }
}

/// The views of the plans in execution. There is at most one plan for each DaemonSet.
pub(crate) type Views = Arc<Mutex<BTreeMap<DaemonSetKey, Arc<View>>>>;

/// The API server as the executor of a replica uses it: each plan has its own connection, whose
/// requests carry the plan's view.
#[derive(Clone)]
pub(crate) struct PlanServer {
    replica: u64,
    outbox: Outbox,
    fence: Fence,
    views: Views,
    api: Api,
}

impl PlanServer {
    pub(crate) fn new(replica: u64, outbox: Outbox, fence: Fence, views: Views) -> Self {
        let client = Connection::client(replica, outbox.clone());
        let api = Api::new(client, fence.clone(), None);
        Self { replica, outbox, fence, views, api }
    }
}

/// Locks a mutex of a single-threaded simulation.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server for PlanServer {
    fn for_plan(&self, daemon_set: &DaemonSetKey) -> Self {
        let view = lock(&self.views).get(daemon_set).cloned();
        let connection = Connection { replica: self.replica, outbox: self.outbox.clone(), view };
        let client = Client::new(connection, "default");
        Self { api: Api::new(client, self.fence.clone(), None), ..self.clone() }
    }

    async fn get(&self, path: &str) -> Result<Bytes, Error> {
        self.api.get(path).await
    }

    async fn write(
        &self,
        method: Method,
        path: &str,
        content: Content,
        body: Bytes,
    ) -> Result<Bytes, Error> {
        self.api.write(method, path, content, body).await
    }
}
