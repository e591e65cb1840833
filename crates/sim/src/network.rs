//! The API server as a replica sees it. Requests wait in an outbox until the world takes them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use everynode_controller::api::{Content, Error, Server};
use http::Method;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::view::View;

/// A request in flight.
#[derive(Debug)]
pub struct Request {
    pub method: Method,
    pub path: String,
    pub content: Content,
    pub body: Bytes,
    /// What the sender had seen when it planned the request; `None` for a request without a plan.
    pub view: Option<Arc<View>>,
}

impl Request {
    /// Whether the request can change an object.
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

pub(crate) type Answer = Result<Bytes, Error>;
pub(crate) type Reply = oneshot::Sender<Answer>;

/// The connection of one replica.
#[derive(Clone, Default)]
pub(crate) struct Network {
    outbox: Arc<Mutex<Vec<(Request, Reply)>>>,
    fenced: Arc<AtomicBool>,
    /// The stamp of all requests.
    view: Option<Arc<View>>,
}

impl Network {
    /// Takes the requests that were sent since the last call.
    pub(crate) fn take_requests(&self) -> Vec<(Request, Reply)> {
        std::mem::take(&mut *self.outbox())
    }

    /// Refuses every further write on the replica's side (C63).
    pub(crate) fn fence(&self) {
        self.fenced.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Relaxed)
    }

    /// The same connection, whose requests are stamped with a view.
    pub(crate) fn stamped(&self, view: Arc<View>) -> Self {
        Self { view: Some(view), ..self.clone() }
    }

    async fn send(&self, request: Request) -> Answer {
        let (reply, answer) = oneshot::channel();
        self.outbox().push((request, reply));
        answer.await.unwrap_or_else(|_| Err(Error::Transport("the connection was cut".to_owned())))
    }

    fn outbox(&self) -> MutexGuard<'_, Vec<(Request, Reply)>> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server for Network {
    async fn get(&self, path: &str) -> Answer {
        let (path, body) = (path.to_owned(), Bytes::new());
        let (method, content, view) = (Method::GET, Content::Json, self.view.clone());
        self.send(Request { method, path, content, body, view }).await
    }

    async fn write(&self, method: Method, path: &str, content: Content, body: Bytes) -> Answer {
        if self.is_fenced() {
            return Err(Error::Fenced);
        }
        let (path, view) = (path.to_owned(), self.view.clone());
        self.send(Request { method, path, content, body, view }).await
    }
}
