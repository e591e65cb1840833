//! Follows one resource of the cluster: lists it, watches it, and begins anew where it must. The steps are those of
//! [`machine`], the decoding is [`read`]'s; here are the requests.

mod backoff;
mod error;
pub mod machine;
pub mod read;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everynode_k8s::convert;
use futures::{AsyncBufRead, AsyncBufReadExt, TryStreamExt};
use http::{Request as HttpRequest, Response, header};
use http_body_util::BodyExt;
use kube::client::Body;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::metrics::{Metrics, ReasonLabels, ResourceLabels};
use crate::outage_log::{FailureKind, OutageLog};
use backoff::Backoff;
use error::Error;
pub use machine::Change;
use machine::{End, Machine, Request};
use wire::Status;

/// The server ends a watch after so long, or up to twice that, so that watches don't all come back at once.
const WATCH_LASTS: Duration = Duration::from_secs(300);
/// A server that has not ended the watch so long after that is not there any more.
const WATCH_GRACE: Duration = Duration::from_secs(15);
/// Longest wait for a page, or for the beginning of a watch.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// A watch that brings nothing and ends sooner than this has failed.
const WATCH_LASTS_MIN: Duration = Duration::from_secs(1);
/// One that stays open for so long is of use, even if it brings nothing.
const OF_USE_AFTER: Duration = Duration::from_secs(30);
/// Longest pause that a server may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

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

    /// What to ask a page for.
    fn page(&self, limit: Option<u32>, continue_token: Option<&str>) -> String {
        let query = self.query();
        let start = query.len();
        let mut query = form_urlencoded::Serializer::for_suffix(query, start);
        if let Some(limit) = limit {
            query.append_pair("limit", &limit.to_string());
        }
        if let Some(token) = continue_token {
            query.append_pair("continue", token);
        }
        query.finish()
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

    /// The same for all states of an object, and for no other one of its kind.
    fn key(item: &Self::Item) -> String;
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
    pub contact: fn(ConnectionState) -> Option<E>,
    /// For the log.
    pub outages: OutageLog,
    pub metrics: Arc<Metrics>,
}

/// How the connection does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// The server answers, for the first time or again; with the name of the [`Resource`].
    Connected(&'static str),
    /// It does not, and is asked again.
    Lost(RequestFailure),
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFailure {
    /// The name of the [`Resource`].
    pub resource: &'static str,
    /// Of the server's answer, if there was one.
    pub code: Option<u16>,
    pub message: String,
}

/// What changes in the course of a watch.
struct Progress<T> {
    machine: Machine<T>,
    backoff: Backoff,
    has_contact: bool,
}

impl<D: Decode, E> Watch<D, E> {
    /// Follows the resource until nobody listens any more. Whatever fails is reported and tried again, ever more slowly.
    pub async fn run(mut self) {
        // Counted from zero, so that the first restart is seen as one.
        self.restarts();
        let mut progress = Progress {
            machine: Machine::new(D::is_foreign, D::key),
            backoff: Backoff::default(),
            has_contact: false,
        };
        loop {
            let Err(error) = self.round(&mut progress).await else { continue };
            if matches!(error, Error::Unheard) || self.failed(&error, &mut progress).await.is_err()
            {
                return;
            }
        }
    }

    /// Reports a failure, and waits until it is time to ask again.
    async fn failed(&self, error: &Error, progress: &mut Progress<D::Item>) -> Result<(), Error> {
        let end = error.end();
        let is_trouble = is_trouble(error, end, &progress.machine.request());
        progress.machine.ended(end);
        let pause = progress.backoff.failed(progress.machine.is_listing(), rand::random());
        let asked = error.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX);
        // That the server is away says nothing about watches.
        if !matches!(end, End::Unavailable | End::Unreachable) {
            self.restarts().inc();
        }
        if is_trouble {
            let message = error.to_string();
            self.outages.failed(&self.subject(), error.failure_kind(), &message);
            progress.has_contact = false;
            let trouble =
                RequestFailure { resource: self.resource.name, code: error.code(), message };
            self.tell_of_contact(ConnectionState::Lost(trouble)).await?;
        } else {
            tracing::debug!("{}: {error}", self.subject());
        }
        sleep(pause.max(asked)).await;
        Ok(())
    }

    /// One request and its answer.
    async fn round(&mut self, progress: &mut Progress<D::Item>) -> Result<(), Error> {
        match progress.machine.request() {
            Request::Page { limit, continue_token } => {
                self.page(limit, continue_token, progress).await
            }
            Request::StreamingList => {
                let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
                self.follow(query, progress).await
            }
            Request::Watch { since } => {
                self.follow(&format!("resourceVersion={since}"), progress).await
            }
        }
    }

    async fn page(
        &mut self,
        limit: Option<u32>,
        continue_token: Option<String>,
        progress: &mut Progress<D::Item>,
    ) -> Result<(), Error> {
        let uri = self.resource.page(limit, continue_token.as_deref());
        let body = timeout(ANSWER_WITHIN, self.body(&uri)).await??;
        progress.backoff.list_began();
        let mut problems = Vec::new();
        let page = read::page(&mut self.decoder, &body, &mut problems);
        self.report(&problems);
        let page = page?;
        self.has_contact(progress).await?;
        match progress.machine.page(page) {
            Some(change) => {
                progress.backoff.list_completed();
                self.tell(change).await
            }
            None => Ok(()),
        }
    }

    /// Reads a watch to its end, which is always an error of some kind.
    async fn follow(&mut self, query: &str, progress: &mut Progress<D::Item>) -> Result<(), Error> {
        let lasts = WATCH_LASTS.mul_f64(1.0 + rand::random::<f64>());
        let uri = format!(
            "{}watch=true&allowWatchBookmarks=true&timeoutSeconds={}&{query}",
            self.resource.query(),
            lasts.as_secs()
        );
        let opened = Instant::now();
        let answer = timeout(ANSWER_WITHIN, self.answer(&uri)).await??;
        let body = answer.into_body().into_data_stream().map_err(std::io::Error::other);
        let mut has_lines = false;
        if !progress.machine.is_listing() {
            self.has_contact(progress).await?;
        }
        let until = opened + lasts + WATCH_GRACE;
        let end = self.lines(body.into_async_read(), until, progress, &mut has_lines).await;
        if !progress.machine.is_listing() && opened.elapsed() >= OF_USE_AFTER {
            progress.backoff.watch_was_of_use();
        }
        match end {
            Err(Error::Closed) if !has_lines && opened.elapsed() < WATCH_LASTS_MIN => {
                Err(Error::ClosedAtOnce)
            }
            end => end,
        }
    }

    async fn lines(
        &mut self,
        body: impl AsyncBufRead,
        until: Instant,
        progress: &mut Progress<D::Item>,
        has_lines: &mut bool,
    ) -> Result<(), Error> {
        let mut body = Box::pin(body);
        let (mut bytes, mut problems) = (Vec::new(), Vec::new());
        loop {
            read_line(&mut body, &mut bytes, until).await?;
            let line = read::line(&mut self.decoder, &bytes, &mut problems);
            self.report(&problems);
            problems.clear();
            let line = line?;
            *has_lines = true;
            self.has_contact(progress).await?;
            match progress.machine.line(line) {
                None => progress.backoff.list_began(),
                Some(change) => {
                    match &change {
                        Change::Reset { .. } => progress.backoff.list_completed(),
                        Change::Applied { .. } | Change::Deleted { .. } | Change::Reached(_) => {
                            progress.backoff.watch_was_of_use();
                        }
                    }
                    self.tell(change).await?;
                }
            }
        }
    }

    async fn body(&self, uri: &str) -> Result<Bytes, Error> {
        Ok(collected(self.answer(uri).await?.into_body()).await?)
    }

    /// The answer to a request, unless it is a refusal.
    async fn answer(&self, uri: &str) -> Result<Response<Body>, Error> {
        let request = HttpRequest::get(uri).body(Body::empty()).map_err(kube::Error::HttpError)?;
        let (parts, body) = self.client.send(request).await?.into_parts();
        if parts.status.is_success() {
            return Ok(Response::from_parts(parts, body));
        }
        // Of an answer that breaks off, the code is left.
        let body = collected(body).await.unwrap_or_default();
        let mut status: Status = serde_json::from_slice(&body).unwrap_or_default();
        status.code = parts.status.as_u16();
        let asked = parts.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        if let Some(seconds) = asked.and_then(|seconds| seconds.parse().ok()) {
            status.details.get_or_insert_default().retry_after_seconds = seconds;
        }
        Err(Error::Refused(status))
    }

    /// C4: what can't be read is logged and counted.
    fn report(&self, problems: &[String]) {
        for problem in problems {
            let reason = "Undecodable";
            self.metrics.problems.get_or_create(&ReasonLabels { reason }).inc();
            tracing::error!("{}: {problem}", self.resource.name);
        }
    }

    async fn tell(&self, change: Change<D::Item>) -> Result<(), Error> {
        self.sender.send((self.wrap)(change)).await.map_err(|_| Error::Unheard)
    }

    fn restarts(&self) -> Counter {
        let labels = ResourceLabels { resource: self.resource.name };
        self.metrics.watch_restarts.get_or_create_owned(&labels)
    }

    /// What requests are made for, in the log.
    fn subject(&self) -> String {
        format!("list and watch of {}", self.resource.name)
    }

    /// The server has sent something of use, or lets a watch go on.
    async fn has_contact(&self, progress: &mut Progress<D::Item>) -> Result<(), Error> {
        if std::mem::replace(&mut progress.has_contact, true) {
            return Ok(());
        }
        self.outages.answered();
        self.outages.recovered(&self.subject());
        self.tell_of_contact(ConnectionState::Connected(self.resource.name)).await
    }

    async fn tell_of_contact(&self, contact: ConnectionState) -> Result<(), Error> {
        match (self.contact)(contact) {
            Some(event) => self.sender.send(event).await.map_err(|_| Error::Unheard),
            None => Ok(()),
        }
    }
}

/// That a watch ends or begins anew is no trouble, nor that a list comes in pages because the server can't stream it.
fn is_trouble(error: &Error, end: End, request: &Request) -> bool {
    match end {
        End::Closed | End::Expired | End::Refused => false,
        End::Unavailable | End::Unreachable => true,
        End::Failed => {
            let is_streaming = *request == Request::StreamingList;
            !is_streaming
                || error.failure_kind() == FailureKind::Unreachable
                || matches!(error.code(), Some(401 | 403))
        }
    }
}

async fn collected(body: Body) -> Result<Bytes, kube::Error> {
    Ok(body.collect().await?.to_bytes())
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

#[cfg(test)]
mod tests;
