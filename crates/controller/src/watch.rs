//! Follows one resource of the cluster: lists it, watches it, and begins anew where it must. The steps are those of
//! [`machine`]; here are the requests and the decoding, straight from the bytes of an object's line.

mod backoff;
pub mod machine;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use everynode_k8s::convert;
use futures::{AsyncBufRead, AsyncBufReadExt};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::client::one_line;
use crate::metrics::{Metrics, ReasonLabels, ResourceLabels};
use backoff::Backoff;
pub use machine::Change;
use machine::{End, Line, Machine, Page, Request};
use wire::{Envelope, EventType, List};

/// Objects on a page of a list.
const PAGE_LIMIT: u32 = 500;
/// The server ends a watch after so long, or up to twice that, so that watches don't all come back at once.
const WATCH_LASTS: Duration = Duration::from_secs(300);
/// A server that has not ended the watch so long after that is not there any more.
const WATCH_GRACE: Duration = Duration::from_secs(15);
/// Longest wait for a page, or for the beginning of a watch.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// What to follow.
#[derive(Clone, Debug)]
pub struct Resource {
    /// `pods`, for messages and metrics.
    pub name: &'static str,
    /// `/api/v1/pods`, `/apis/apps/v1/namespaces/NAME/daemonsets`.
    pub path: String,
}

impl Resource {
    /// Up to where parameters are added: the path may have some of its own.
    fn query(&self) -> String {
        let separator = if self.path.contains('?') { '&' } else { '?' };
        format!("{}{separator}", self.path)
    }
}

/// Turns an object's JSON into what decisions read of it.
pub trait Decode: Send + Sync {
    type Item: Send;

    /// # Errors
    /// The object is not of its kind's shape; it is logged and passed over.
    fn decode(&mut self, json: &[u8]) -> Result<Self::Item, convert::Error>;

    /// Whether it is somebody else's, so that a list need not hold it (C3).
    fn is_foreign(_item: &Self::Item) -> bool {
        false
    }
}

/// One resource, followed.
pub struct Watch<D: Decode, E> {
    pub client: kube::Client,
    pub resource: Resource,
    pub decoder: D,
    /// A full channel slows the watch; it does not fill the memory.
    pub sender: mpsc::Sender<E>,
    /// Makes the receiver's event of a change.
    pub wrap: fn(Change<D::Item>) -> E,
    /// Makes the receiver's event of how the connection does, if it wants to hear of that. The log does.
    pub contact: fn(Contact) -> Option<E>,
    pub metrics: Arc<Metrics>,
}

/// How the connection does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contact {
    /// The server answers; with the name of the [`Resource`].
    Made(&'static str),
    /// It does not, and is asked again.
    Lost(Trouble),
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The name of the [`Resource`].
    pub resource: &'static str,
    /// Of the server's answer, if there was one.
    pub code: Option<u16>,
    pub message: String,
}

impl<D: Decode, E> Watch<D, E> {
    /// Follows the resource until nobody listens any more. Whatever fails is logged and tried again, ever more slowly.
    pub async fn run(mut self) {
        // Counted from zero, so that the first restart is seen as one.
        self.restarts();
        let mut machine = Machine::new(D::is_foreign);
        let mut backoff = Backoff::default();
        loop {
            let Err(error) = self.round(&mut machine, &mut backoff).await else { continue };
            if matches!(error, Error::Unheard) {
                return;
            }
            let end = error.end();
            machine.ended(end);
            let pause = backoff.failed(rand::random());
            self.report(&error, end, pause);
            if self.tell_of_trouble(&error, end).await.is_err() {
                return;
            }
            sleep(pause).await;
        }
    }

    /// One request and its answer.
    async fn round(
        &mut self,
        machine: &mut Machine<D::Item>,
        backoff: &mut Backoff,
    ) -> Result<(), Error> {
        match machine.request() {
            Request::Page { continue_token } => {
                let page = self.page(continue_token).await?;
                backoff.succeeded();
                self.tell_of_contact(Contact::Made(self.resource.name)).await?;
                match machine.page(page) {
                    Some(change) => self.tell(change).await,
                    None => Ok(()),
                }
            }
            Request::StreamingList => {
                let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
                self.follow(query, machine, backoff).await
            }
            Request::Watch { since } => {
                self.follow(&format!("resourceVersion={since}"), machine, backoff).await
            }
        }
    }

    async fn page(&mut self, continue_token: Option<String>) -> Result<Page<D::Item>, Error> {
        let mut uri = format!("{}limit={PAGE_LIMIT}", self.resource.query());
        if let Some(token) = continue_token {
            let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
            uri.push_str("&continue=");
            uri.push_str(&token);
        }
        let text = timeout(ANSWER_WITHIN, self.client.request_text(get(&uri)?)).await??;
        let list: List<'_> = serde_json::from_str(&text)?;
        let objects = list.items.unwrap_or_default();
        let items = objects.iter().filter_map(|object| self.decode(object.get())).collect();
        Ok(Page {
            items,
            version: list.metadata.resource_version.unwrap_or_default(),
            continue_token: list.metadata.continue_token.filter(|token| !token.is_empty()),
        })
    }

    /// Reads a watch to its end, which is always an error of some kind.
    async fn follow(
        &mut self,
        query: &str,
        machine: &mut Machine<D::Item>,
        backoff: &mut Backoff,
    ) -> Result<(), Error> {
        let lasts = WATCH_LASTS.mul_f64(1.0 + rand::random::<f64>());
        let uri = format!(
            "{}watch=true&allowWatchBookmarks=true&timeoutSeconds={}&{query}",
            self.resource.query(),
            lasts.as_secs()
        );
        let until = Instant::now() + lasts + WATCH_GRACE;
        let answer = timeout(ANSWER_WITHIN, self.client.request_stream(get(&uri)?)).await??;
        self.tell_of_contact(Contact::Made(self.resource.name)).await?;
        let mut lines = Box::pin(answer);
        let mut line = Vec::new();
        loop {
            read_line(&mut lines, &mut line, until).await?;
            backoff.succeeded();
            if let Some(change) = self.line(&line)?.and_then(|line| machine.line(line)) {
                self.tell(change).await?;
            }
        }
    }

    /// `None`: a line whose object does not decode.
    fn line(&mut self, json: &[u8]) -> Result<Option<Line<D::Item>>, Error> {
        let (event, object) = match wire::split(json) {
            Some(parts) => parts,
            None => {
                let Envelope { event, object } = serde_json::from_slice(json)?;
                (event, object.get())
            }
        };
        if event == EventType::Error {
            return Err(Error::Status(Box::new(serde_json::from_str(object)?)));
        }
        let version = wire::version(object)?;
        if event == EventType::Bookmark {
            let ends_initial_events = wire::ends_initial_events(object);
            return Ok(Some(Line::Bookmark { version, ends_initial_events }));
        }
        let item = self.decode(object);
        Ok(item.map(|item| match event {
            EventType::Added => Line::Added { item, version },
            EventType::Deleted => Line::Deleted { item, version },
            EventType::Modified | EventType::Bookmark | EventType::Error => {
                Line::Modified { item, version }
            }
        }))
    }

    fn decode(&mut self, json: &str) -> Option<D::Item> {
        match self.decoder.decode(json.as_bytes()) {
            Ok(item) => Some(item),
            Err(error) => {
                let reason = "Undecodable";
                self.metrics.problems.get_or_create(&ReasonLabels { reason }).inc();
                tracing::error!(resource = self.resource.name, %error, "object passed over");
                None
            }
        }
    }

    async fn tell(&self, change: Change<D::Item>) -> Result<(), Error> {
        self.sender.send((self.wrap)(change)).await.map_err(|_| Error::Unheard)
    }

    fn restarts(&self) -> Counter {
        let labels = ResourceLabels { resource: self.resource.name };
        self.metrics.watch_restarts.get_or_create_owned(&labels)
    }

    /// That a watch ends or begins anew is no trouble.
    async fn tell_of_trouble(&self, error: &Error, end: End) -> Result<(), Error> {
        let trouble = match end {
            End::Closed | End::Expired | End::Refused => return Ok(()),
            End::Failed => Trouble {
                resource: self.resource.name,
                code: error.code(),
                message: one_line(error),
            },
        };
        self.tell_of_contact(Contact::Lost(trouble)).await
    }

    async fn tell_of_contact(&self, contact: Contact) -> Result<(), Error> {
        match (self.contact)(contact) {
            Some(event) => self.sender.send(event).await.map_err(|_| Error::Unheard),
            None => Ok(()),
        }
    }

    fn report(&self, error: &Error, end: End, pause: Duration) {
        let resource = self.resource.name;
        self.restarts().inc();
        match end {
            End::Closed | End::Expired | End::Refused => {
                tracing::debug!(resource, %error, "watch begins anew");
            }
            End::Failed => tracing::warn!(resource, %error, ?pause, "can't list or watch"),
        }
    }
}

/// Why a round ended.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the server ended the watch")]
    Closed,
    #[error("no answer in time")]
    Silent(#[from] tokio::time::error::Elapsed),
    #[error("the connection broke: {0}")]
    Read(#[from] std::io::Error),
    #[error(transparent)]
    Request(#[from] kube::Error),
    #[error("{0}")]
    Status(Box<kube::core::Status>),
    #[error("unexpected JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("nobody listens")]
    Unheard,
}

impl Error {
    fn code(&self) -> Option<u16> {
        match self {
            Error::Status(status) | Error::Request(kube::Error::Api(status)) => Some(status.code),
            Error::Closed
            | Error::Silent(_)
            | Error::Read(_)
            | Error::Request(_)
            | Error::Json(_)
            | Error::Unheard => None,
        }
    }

    fn end(&self) -> End {
        match self {
            Error::Closed | Error::Read(_) => End::Closed,
            Error::Status(status) => end_of(status.code),
            Error::Request(kube::Error::Api(status)) => end_of(status.code),
            Error::Request(_) | Error::Silent(_) | Error::Json(_) | Error::Unheard => End::Failed,
        }
    }
}

fn end_of(code: u16) -> End {
    match code {
        410 => End::Expired,
        400 | 422 => End::Refused,
        _ => End::Failed,
    }
}

fn get(uri: &str) -> Result<http::Request<Vec<u8>>, Error> {
    http::Request::get(uri).body(Vec::new()).map_err(|error| kube::Error::HttpError(error).into())
}

/// Reads into a buffer that keeps its memory from line to line.
async fn read_line(
    lines: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    until: Instant,
) -> Result<(), Error> {
    line.clear();
    timeout_at(until, lines.read_until(b'\n', line)).await??;
    // What has no end of line was cut off in the middle.
    if line.ends_with(b"\n") { Ok(()) } else { Err(Error::Closed) }
}
