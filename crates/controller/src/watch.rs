//! Lists and watches one resource, and starts over where it must. [`machine`] decides the next
//! request, [`read`] decodes the answers; this module sends the requests.

mod absence;
mod backoff;
mod chunks;
mod encoding;
mod error;
pub mod machine;
mod problem_log;
pub mod read;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use everynode_core::api::ResourceVersion;
use everynode_k8s::{convert, protobuf};
use futures::{Stream, TryStreamExt};
use http::{Request as HttpRequest, Response, header};
use http_body_util::BodyExt;
use kube::client::Body;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::environment::Environment;
use crate::metrics::{Metrics, ReasonLabels, ResourceLabels};
use crate::outage_log::{FailureKind, OutageLog};
use absence::{Absence, AbsenceReason};
use backoff::Backoff;
use chunks::Chunks;
pub use encoding::Encoded;
use encoding::Encoding;
use error::Error;
pub use machine::Change;
use machine::{End, Machine, Request};
use problem_log::{LogAction, ProblemLog};
use wire::Status;

/// The server ends a watch after this time, or up to twice that at random, so that watches don't
/// all restart at once.
const WATCH_TIMEOUT: Duration = Duration::from_secs(300);
/// Treat the server as dead if a watch outlives its timeout by this much.
const WATCH_GRACE: Duration = Duration::from_secs(15);
/// Timeout of a page, and of the beginning of a watch.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// A watch that ends sooner than this without any event has failed.
const WATCH_DURATION_MIN: Duration = Duration::from_secs(1);
/// A watch that stays open for this long has succeeded, even without any event.
const WATCH_SUCCEEDS_AFTER: Duration = Duration::from_secs(30);
/// Maximum pause that a server may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// The resource to watch.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The plural, for messages and metrics: `pods`.
    pub name: &'static str,
    /// The path of its list: `/api/v1/pods`, `/apis/apps/v1/namespaces/NAME/daemonsets`.
    pub path: String,
}

impl Resource {
    /// The path with a separator for further parameters, since it may have some already.
    fn query(&self) -> String {
        let separator = if self.path.contains('?') { '&' } else { '?' };
        format!("{}{separator}", self.path)
    }

    /// The path and query of a page.
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

/// Decodes the objects of a resource.
pub trait Decode: Send + Sync {
    /// The part of an object that decisions read.
    type Item: Send;

    /// True if the objects are requested in protobuf (C82). A server may still answer in JSON.
    const READS_PROTOBUF: bool = false;

    /// Decodes an object.
    ///
    /// # Errors
    /// If the object does not have its kind's shape. It is then logged and ignored.
    fn decode(&mut self, object: Encoded<'_>) -> Result<Self::Item, convert::Error>;

    /// True if another kind of controller owns the object, so that a list need not hold it (C3).
    fn is_foreign(_item: &Self::Item) -> bool {
        false
    }

    /// A key that is the same for all states of an object and unique within the resource.
    fn key(item: &Self::Item) -> String;
}

/// The list and watch of one resource.
pub struct Watch<D: Decode, E> {
    /// The resource to watch.
    pub resource: Resource,
    /// Decodes its objects.
    pub decoder: D,
    /// Makes the receiver's event from a change.
    pub wrap: Box<dyn Fn(Change<D::Item>) -> E + Send + Sync>,
    /// True if the server may lack the resource, or refuse to list it: there are no objects then,
    /// and the server is asked again later.
    pub is_optional: bool,
    /// The context that it shares with other watches.
    pub context: Arc<WatchContext<E>>,
}

/// The context that all watches of one receiver share.
pub struct WatchContext<E> {
    /// The API server.
    pub client: kube::Client,
    /// Takes the events. A full channel slows the watches down.
    pub sender: mpsc::Sender<E>,
    /// Makes the receiver's event from a change of a connection, if the receiver needs it.
    pub wrap_connection: fn(ConnectionState) -> Option<E>,
    /// For the log.
    pub outages: OutageLog,
    /// Spreads the requests of several watches.
    pub environment: Environment,
    /// Counts restarts and unreadable objects.
    pub metrics: Arc<Metrics>,
}

/// The state of a watch's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// The server answers, for the first time or again. Contains the name of the [`Resource`].
    Connected(&'static str),
    /// The server does not answer, and the request is repeated.
    Lost(RequestFailure),
}

/// A request of a watch that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFailure {
    /// The name of the [`Resource`].
    pub resource: &'static str,
    /// The HTTP status code of the server's answer, if there was one.
    pub code: Option<u16>,
    /// The cause, as a sentence.
    pub message: String,
}

/// The variable state of a watch.
struct Progress<T> {
    machine: Machine<T>,
    backoff: Backoff,
    problem_log: ProblemLog,
    is_connected: bool,
    absence: Absence,
    /// The preferred encoding of answers.
    encoding: Encoding,
}

impl<D: Decode, E> Watch<D, E> {
    /// Watches the resource until the receiver is dropped. Failures are reported and retried with a
    /// back-off.
    pub async fn run(mut self) {
        // Creates the counter, so that the first restart is seen as an increase.
        self.restarts();
        let mut progress = Progress {
            machine: Machine::new(D::is_foreign, D::key),
            backoff: Backoff::default(),
            problem_log: ProblemLog::default(),
            is_connected: false,
            absence: Absence::default(),
            encoding: if D::READS_PROTOBUF { Encoding::Protobuf } else { Encoding::Json },
        };
        loop {
            let Err(error) = self.run_request(&mut progress).await else { continue };
            if matches!(error, Error::ReceiverDropped)
                || self.handle_failure(&error, &mut progress).await.is_err()
            {
                return;
            }
        }
    }

    /// Reports a failure and waits until the next request is due.
    async fn handle_failure(
        &self,
        error: &Error,
        progress: &mut Progress<D::Item>,
    ) -> Result<(), Error> {
        // What claims to be protobuf and is not comes from a server or proxy that has it wrong.
        if error.is_malformed_protobuf() {
            progress.encoding = Encoding::Json;
        }
        if self.is_optional
            && let Some(reason) = progress.absence.reason(error.code())
        {
            return self.handle_absence(reason, error, progress).await;
        }
        let end = error.end();
        let is_failure = is_failure(error, end, &progress.machine.request());
        progress.machine.ended(end);
        let pause = progress
            .backoff
            .failed(progress.machine.is_listing(), self.context.environment.random_fraction());
        let retry_after = error.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX);
        // Count restarts of the watch itself, not outages of the server.
        if !matches!(end, End::RetryLater | End::NoAnswer) {
            self.restarts().inc();
        }
        if is_failure {
            let message = error.to_string();
            // A refusal that may make the resource count as absent is logged when it does.
            if !progress.absence.is_pending() {
                self.context.outages.failed(&self.subject(), error.failure_kind(), &message);
            }
            progress.is_connected = false;
            let failure =
                RequestFailure { resource: self.resource.name, code: error.code(), message };
            self.send_connection_state(ConnectionState::Lost(failure)).await?;
        } else {
            tracing::debug!("{}: {error}", self.subject());
        }
        sleep(pause.max(retry_after)).await;
        Ok(())
    }

    /// Reports that there are no objects, and waits until the server is asked again.
    async fn handle_absence(
        &self,
        reason: AbsenceReason,
        error: &Error,
        progress: &mut Progress<D::Item>,
    ) -> Result<(), Error> {
        let is_listing = progress.machine.is_listing();
        progress.machine.ended(if is_listing { End::RetryLater } else { End::Expired });
        let times = progress.absence.record(reason);
        if times == 0 {
            let name = self.resource.name;
            match reason {
                AbsenceReason::NotInstalled => tracing::info!(
                    "{name} are not installed in this cluster; they are looked for again later"
                ),
                AbsenceReason::Forbidden => tracing::warn!(
                    "{name} do not count, because the right to list and watch them is missing: \
                     {error}; this is tried again later"
                ),
            }
            let version = ResourceVersion(0);
            self.send_change(Change::Reset { items: Vec::new(), version }).await?;
        }
        sleep(absence::pause(times, self.context.environment.random_fraction())).await;
        Ok(())
    }

    /// Sends one request and reads its answer.
    async fn run_request(&mut self, progress: &mut Progress<D::Item>) -> Result<(), Error> {
        match progress.machine.request() {
            Request::Page { limit, continue_token } => {
                self.page(limit, continue_token, progress).await
            }
            Request::Version => self.page(Some(1), None, progress).await,
            Request::StreamingList => {
                let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
                self.stream(query, progress).await
            }
            Request::Watch { since } => self.stream(&since_query(&since), progress).await,
        }
    }

    async fn page(
        &mut self,
        limit: Option<u32>,
        continue_token: Option<String>,
        progress: &mut Progress<D::Item>,
    ) -> Result<(), Error> {
        let uri = self.resource.page(limit, continue_token.as_deref());
        let until = Instant::now() + ANSWER_TIMEOUT;
        let answer = timeout_at(until, self.get(&uri, progress.encoding)).await??;
        let encoding = Encoding::from_headers(answer.headers());
        if progress.machine.is_listing() {
            progress.backoff.list_began();
        }
        let body = timeout_at(until, read_body(answer.into_body())).await??;
        let mut problems = Vec::new();
        let page = match encoding {
            Encoding::Json => read::page(&mut self.decoder, &body, &mut problems),
            Encoding::Protobuf => read::page_of_protobuf(&mut self.decoder, &body, &mut problems),
        };
        self.report_problems(&problems, progress);
        let page = page?;
        if progress.machine.is_endless(&page) {
            return Err(Error::EndlessList);
        }
        self.report_connection(progress).await?;
        match progress.machine.page(page) {
            Some(change) => {
                self.listed(progress);
                self.send_change(change).await
            }
            None => Ok(()),
        }
    }

    /// Reads a watch to its end, which is always an error of some kind.
    async fn stream(&mut self, query: &str, progress: &mut Progress<D::Item>) -> Result<(), Error> {
        let timeout_after = WATCH_TIMEOUT.mul_f64(1.0 + self.context.environment.random_fraction());
        let uri = format!(
            "{}watch=true&allowWatchBookmarks=true&timeoutSeconds={}&{query}",
            self.resource.query(),
            timeout_after.as_secs()
        );
        let opened = Instant::now();
        let answer = timeout(ANSWER_TIMEOUT, self.get(&uri, progress.encoding)).await??;
        let encoding = Encoding::from_headers(answer.headers());
        let body = answer.into_body().into_data_stream().map_err(std::io::Error::other);
        let mut has_events = false;
        if !progress.machine.is_listing() {
            self.report_connection(progress).await?;
        }
        let until = opened + timeout_after + WATCH_GRACE;
        let chunks = Chunks::new(body, until);
        let end = self.read_events(chunks, encoding, progress, &mut has_events).await;
        if !progress.machine.is_listing() && opened.elapsed() >= WATCH_SUCCEEDS_AFTER {
            progress.backoff.watch_succeeded();
        }
        match end {
            Err(Error::Closed) if !has_events && opened.elapsed() < WATCH_DURATION_MIN => {
                Err(Error::ClosedAtOnce)
            }
            end => end,
        }
    }

    async fn read_events(
        &mut self,
        mut chunks: Chunks<impl Stream<Item = std::io::Result<Bytes>> + Unpin>,
        encoding: Encoding,
        progress: &mut Progress<D::Item>,
        has_events: &mut bool,
    ) -> Result<(), Error> {
        let mut problems = Vec::new();
        loop {
            let line = match encoding {
                Encoding::Json => {
                    let line = chunks.line().await?;
                    read::line(&mut self.decoder, &line, &mut problems)
                }
                Encoding::Protobuf => {
                    let frame = chunks.frame().await?;
                    read::frame(&mut self.decoder, &frame, &mut problems)
                }
            };
            self.report_problems(&problems, progress);
            problems.clear();
            let line = line?;
            *has_events = true;
            self.report_connection(progress).await?;
            match progress.machine.line(line) {
                None => progress.backoff.list_began(),
                Some(change) => {
                    match &change {
                        Change::Reset { .. } => self.listed(progress),
                        Change::Applied { .. } | Change::Deleted { .. } | Change::Reached(_) => {
                            progress.backoff.watch_succeeded();
                        }
                    }
                    self.send_change(change).await?;
                }
            }
        }
    }

    /// The answer to a request, unless the server refuses it.
    async fn get(&self, uri: &str, encoding: Encoding) -> Result<Response<Body>, Error> {
        let request = HttpRequest::get(uri)
            .header(header::ACCEPT, encoding.accept())
            .body(Body::empty())
            .map_err(kube::Error::HttpError)?;
        let (parts, body) = self.context.client.send(request).await?.into_parts();
        if parts.status.is_success() {
            return Ok(Response::from_parts(parts, body));
        }
        // If the body breaks off, the status code is still known.
        let body = read_body(body).await.unwrap_or_default();
        let mut status: Status = match Encoding::from_headers(&parts.headers) {
            Encoding::Json => serde_json::from_slice(&body).unwrap_or_default(),
            Encoding::Protobuf => {
                protobuf::status_answer(&body).map(Into::into).unwrap_or_default()
            }
        };
        status.code = parts.status.as_u16();
        let retry_after = parts.headers.get(header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok());
        if let Some(seconds) = retry_after.and_then(|seconds| seconds.parse().ok()) {
            status.details.get_or_insert_default().retry_after_seconds = seconds;
        }
        Err(Error::Refused(status))
    }

    /// Counts what can't be read, and logs it unless there is too much of it (C4).
    fn report_problems(&self, problems: &[String], progress: &mut Progress<D::Item>) {
        let resource = self.resource.name;
        for problem in problems {
            let reason = "Undecodable";
            self.context.metrics.problems.get_or_create(&ReasonLabels { reason }).inc();
            match progress.problem_log.action(Instant::now()) {
                LogAction::Problem => tracing::error!("{resource}: {problem}"),
                LogAction::Limit => tracing::error!(
                    "{resource}: more objects can't be read; for a minute they are only counted, \
                     in everynode_problems_total"
                ),
                LogAction::Nothing => {}
            }
        }
    }

    /// Records that a list is complete.
    fn listed(&self, progress: &mut Progress<D::Item>) {
        progress.backoff.list_completed();
        let was_absent = progress.absence.listed();
        if was_absent {
            tracing::info!("{}: the API is available now", self.resource.name);
        }
    }

    async fn send_change(&self, change: Change<D::Item>) -> Result<(), Error> {
        self.context.sender.send((self.wrap)(change)).await.map_err(|_| Error::ReceiverDropped)
    }

    fn restarts(&self) -> Counter {
        let labels = ResourceLabels { resource: self.resource.name };
        self.context.metrics.watch_restarts.get_or_create_owned(&labels)
    }

    /// The subject of the requests in the log.
    fn subject(&self) -> String {
        format!("list and watch of {}", self.resource.name)
    }

    /// Reports a connection when the server has sent data or accepted a watch.
    async fn report_connection(&self, progress: &mut Progress<D::Item>) -> Result<(), Error> {
        if std::mem::replace(&mut progress.is_connected, true) {
            return Ok(());
        }
        self.context.outages.answered();
        self.context.outages.recovered(&self.subject());
        self.send_connection_state(ConnectionState::Connected(self.resource.name)).await
    }

    async fn send_connection_state(&self, state: ConnectionState) -> Result<(), Error> {
        match (self.context.wrap_connection)(state) {
            Some(event) => {
                self.context.sender.send(event).await.map_err(|_| Error::ReceiverDropped)
            }
            None => Ok(()),
        }
    }
}

/// Watch restarts are routine, and so are pages after a streaming list that the server does not
/// support. Reports only failures.
fn is_failure(error: &Error, end: End, request: &Request) -> bool {
    match end {
        End::Closed | End::Expired | End::Unsupported => false,
        End::RetryLater | End::NoAnswer => true,
        End::Failed => {
            let is_streaming = *request == Request::StreamingList;
            !is_streaming
                || error.failure_kind() == FailureKind::Unreachable
                || matches!(error.code(), Some(401 | 403))
        }
    }
}

/// The query of a watch from a version, which a lying server may have filled with anything.
fn since_query(since: &str) -> String {
    form_urlencoded::Serializer::new(String::new()).append_pair("resourceVersion", since).finish()
}

async fn read_body(body: Body) -> Result<Bytes, kube::Error> {
    Ok(body.collect().await?.to_bytes())
}

#[cfg(test)]
mod tests;
