//! Requests to the API server, as bytes in and bytes out.
//!
//! Every write passes the [`Fence`] first (C63). Only requests that the server refuses with 429 are
//! repeated here. After any other failure a write may have happened, and the core decides what
//! follows.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use everynode_core::api::DaemonSetKey;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::client::REQUEST_TIMEOUT;
use crate::lease::Fence;
use crate::outage_log::{self, FailureKind, OutageLog};
use crate::rate_limit::TokenBucket;

/// Why a request failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The server refused the request.
    #[error("{message}")]
    Refused {
        /// The HTTP status code.
        code: u16,
        /// The `reason` of the `Status`, `Unknown` if it has none; empty if the answer is not a
        /// `Status`.
        reason: String,
        /// The `message` of the `Status`, or the HTTP status.
        message: String,
        /// The reasons of the `Status`' causes.
        causes: Vec<String>,
    },
    /// There was no usable answer; the request may have arrived.
    #[error("{0}")]
    Transport(String),
    /// The request was not sent, or its answer was not awaited: the lease could have expired.
    #[error("not sent: the lease could have expired")]
    Fenced,
}

impl Error {
    /// The HTTP status code of the server's answer, if there was one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::Transport(_) | Self::Fenced => None,
        }
    }

    /// True if the server refused the request for this reason.
    pub fn is_reason(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused { reason, .. } if reason == wanted)
    }

    /// True if the server refused the request because the namespace is being deleted (C28).
    pub fn is_namespace_terminating(&self) -> bool {
        match self {
            Self::Refused { causes, .. } => causes.iter().any(|c| c == "NamespaceTerminating"),
            Self::Transport(_) | Self::Fenced => false,
        }
    }

    /// True if a write may have happened, or may still happen, in spite of this error (C35).
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::Refused { code: 429, .. } => false,
            Self::Refused { code: 408, .. } | Self::Transport(_) | Self::Fenced => true,
            Self::Refused { code: 500.., message, .. } => !is_admission_error(message),
            // Without a reason the answer is not a `Status`: a proxy sent it, which may have passed
            // the write on.
            Self::Refused { reason, .. } => reason.is_empty(),
        }
    }

    /// The class of the error as a label of metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Refused { code: 404, .. } => "not_found",
            Self::Refused { code: 409, .. } => "conflict",
            Self::Refused { .. } => "refused",
            Self::Transport(_) => "unreachable",
            Self::Fenced => "fenced",
        }
    }
}

/// True if a webhook failed or refused. Admission precedes storage, so nothing was stored.
fn is_admission_error(message: &str) -> bool {
    message.contains("failed calling webhook") || message.contains("admission webhook")
}

/// The format of a write's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A whole object.
    Json,
    /// A JSON merge patch (RFC 7396).
    MergePatch,
    /// Kubernetes' strategic merge patch.
    StrategicMergePatch,
}

impl Content {
    const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::MergePatch => "application/merge-patch+json",
            Self::StrategicMergePatch => "application/strategic-merge-patch+json",
        }
    }
}

/// Timeout of reads. It is longer than that of writes, because large lists take time.
const LIST_TIMEOUT: Duration = Duration::from_secs(120);
const RETRIES_MAX: u32 = 5;
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);
const RETRY_AFTER_DEFAULT: Duration = Duration::from_secs(1);
/// Maximum time for which a write waits for its answer after the fence has closed.
const FENCE_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The limit that `--kube-api-qps` and `--kube-api-burst` set.
#[derive(Clone, Debug)]
pub struct RateLimit {
    bucket: TokenBucket,
    started: Instant,
}

impl RateLimit {
    /// At most `requests_per_second`, after a burst of `burst` requests.
    pub fn new(requests_per_second: f64, burst: u32) -> Self {
        let interval = Duration::from_secs_f64(1.0 / requests_per_second.max(0.001));
        Self { bucket: TokenBucket::new(interval, burst.max(1)), started: Instant::now() }
    }

    /// Takes a token and returns how long to wait before the next request.
    fn take(&mut self, now: Instant) -> Duration {
        self.bucket.take(now.saturating_duration_since(self.started))
    }
}

/// Maximum number of concurrent requests.
const CONCURRENT_REQUESTS_MAX: usize = 256;

/// A client of the API server that writes only while the fence is open.
#[derive(Clone)]
pub struct Api {
    client: Client,
    fence: Fence,
    requests: Arc<Semaphore>,
    limit: Option<Arc<Mutex<RateLimit>>>,
    outages: OutageLog,
}

/// The API server as the executor uses it. The simulation implements it without a network.
pub trait Server: Clone + Send + Sync + 'static {
    /// The server for the requests of one plan. The simulation compares them with what was known
    /// when the plan was made.
    #[must_use]
    fn for_plan(&self, _daemon_set: &DaemonSetKey) -> Self {
        self.clone()
    }

    /// Reads an object or a list.
    ///
    /// # Errors
    /// If the server refuses the request or does not answer.
    fn get(&self, path: &str) -> impl Future<Output = Result<Bytes, Error>> + Send;

    /// Writes an object.
    ///
    /// # Errors
    /// If the server refuses the request or does not answer, or if the fence is closed.
    fn write(
        &self,
        method: Method,
        path: &str,
        content: Content,
        body: Bytes,
    ) -> impl Future<Output = Result<Bytes, Error>> + Send;
}

impl Server for Api {
    async fn get(&self, path: &str) -> Result<Bytes, Error> {
        let send = || Box::pin(self.exchange(Method::GET, path, Content::Json, Bytes::new()));
        let _permit = self.acquire_permit().await;
        self.report_reachability(retry_while_throttled(LIST_TIMEOUT, send).await)
    }

    async fn write(
        &self,
        method: Method,
        path: &str,
        content: Content,
        body: Bytes,
    ) -> Result<Bytes, Error> {
        // Boxed, so that a request that waits for its permit is small, and so that the state of the
        // exchange is not copied into every future around it.
        let send = || {
            Box::pin(async {
                if !self.fence.permits_writes() {
                    return Err(Error::Fenced.into());
                }
                self.exchange(method.clone(), path, content, body.clone()).await
            })
        };
        let _permit = self.acquire_permit().await;
        self.report_reachability(
            self.while_permitted(retry_while_throttled(REQUEST_TIMEOUT, send)).await,
        )
    }
}

impl Api {
    /// A client with its own limit on concurrent requests.
    pub fn new(client: Client, fence: Fence, limit: Option<RateLimit>) -> Self {
        let requests = Arc::new(Semaphore::new(CONCURRENT_REQUESTS_MAX));
        let limit = limit.map(|limit| Arc::new(Mutex::new(limit)));
        Self { client, fence, requests, limit, outages: OutageLog::default() }
    }

    /// Reports to `outages` whether the server answers.
    #[must_use]
    pub fn reporting_to(mut self, outages: OutageLog) -> Self {
        self.outages = outages;
        self
    }

    /// Reports whether the server answers. The caller reports what it refuses, as that concerns one
    /// object.
    fn report_reachability<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        let subject = "requests";
        match &result {
            Ok(_) => {
                self.outages.answered();
                self.outages.recovered(subject);
            }
            Err(Error::Transport(cause)) => {
                self.outages.failed(subject, FailureKind::Unreachable, cause)
            }
            Err(Error::Refused { code, message, .. })
                if outage_log::failure_kind(Some(*code)) == FailureKind::Unreachable =>
            {
                self.outages.failed(subject, FailureKind::Unreachable, message);
            }
            Err(Error::Refused { .. }) => self.outages.answered(),
            Err(Error::Fenced) => {}
        }
        result
    }

    /// Waits for the limits on the rate and on the number of concurrent requests.
    async fn acquire_permit(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        if let Some(limit) = &self.limit {
            let wait = limit.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
            sleep(wait).await;
        }
        self.requests.acquire().await.ok()
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        content: Content,
        body: Bytes,
    ) -> Result<Bytes, FailedAttempt> {
        let response = self.send(request(method, path, content, body)?).await?;
        let (parts, body) = response.into_parts();
        if parts.status.is_success() {
            return Ok(read_body(body).await?);
        }
        // If the body breaks off, or is too large, the status code is still known.
        let body = read_body(body).await.unwrap_or_default();
        Err(FailedAttempt { error: refusal(parts.status, &body), retry_after: retry_after(&parts) })
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, Error> {
        self.client.send(request).await.map_err(|error| Error::Transport(outage_log::cause(&error)))
    }

    /// Stops waiting for a write when the fence closes, even if nothing else happens.
    async fn while_permitted<T>(
        &self,
        write: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let fence_closes = async {
            while self.fence.permits_writes() {
                sleep(FENCE_CHECK_INTERVAL).await;
            }
        };
        tokio::select! {
            biased;
            () = fence_closes => Err(Error::Fenced),
            result = write => result,
        }
    }
}

/// An error, and when to repeat the request if the server asks for that.
struct FailedAttempt {
    error: Error,
    retry_after: Option<Duration>,
}

impl From<Error> for FailedAttempt {
    fn from(error: Error) -> Self {
        Self { error, retry_after: None }
    }
}

/// Repeats a request while the server answers 429, since it has then not happened. Returns that
/// error when the time limit is reached during a requested pause.
async fn retry_while_throttled<T, F>(
    limit: Duration,
    mut send: impl FnMut() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, FailedAttempt>>,
{
    let deadline = Instant::now() + limit;
    let mut retries_left = RETRIES_MAX;
    loop {
        let Ok(answer) = timeout_at(deadline, send()).await else {
            return Err(Error::Transport(format!("no answer within {limit:?}")));
        };
        let FailedAttempt { error, retry_after } = match answer {
            Ok(answer) => return Ok(answer),
            Err(refusal) => refusal,
        };
        let Some(pause) = retry_after.filter(|_| retries_left > 0) else { return Err(error) };
        retries_left -= 1;
        let at = Instant::now() + pause;
        sleep_until(at.min(deadline)).await;
        if at >= deadline {
            return Err(error);
        }
    }
}

fn retry_after(parts: &http::response::Parts) -> Option<Duration> {
    if parts.status != StatusCode::TOO_MANY_REQUESTS {
        return None;
    }
    let seconds = parts.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let pause = seconds.and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
    Some(pause.unwrap_or(RETRY_AFTER_DEFAULT).min(RETRY_AFTER_MAX))
}

/// # Errors
/// If the path is no URI: a name from the API server has characters that no name has, or is too
/// long. It is reported like the server's own refusal, since nothing was sent.
fn request(
    method: Method,
    path: &str,
    content: Content,
    body: Bytes,
) -> Result<Request<Body>, Error> {
    let uri = path.parse().map_err(|error| Error::Refused {
        code: StatusCode::BAD_REQUEST.as_u16(),
        reason: "BadRequest".to_owned(),
        message: format!("not sent, because its path is not valid: {error}"),
        causes: Vec::new(),
    })?;
    let has_body = !body.is_empty();
    let is_read = method == Method::GET || path.ends_with(DRY_RUN);
    let needs_object = is_read || method == Method::POST;
    let accept = if needs_object { OBJECT } else { METADATA };
    let mut request = Request::new(Body::from(body));
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    headers.insert(header::ACCEPT, header::HeaderValue::from_static(accept));
    if has_body {
        let media_type = header::HeaderValue::from_static(content.media_type());
        headers.insert(header::CONTENT_TYPE, media_type);
    }
    Ok(request)
}

/// Ends the path of a write that is only tried. Its answer says what the object would be.
pub const DRY_RUN: &str = "?dryRun=All";

/// Reads need the whole object, and so do dry runs, and creations, since admission may have changed
/// it (C28). Other writes need only metadata (UID, resourceVersion) back.
const OBJECT: &str = "application/json";
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

async fn read_body(body: Body) -> Result<Bytes, Error> {
    let body = body.collect().await.map_err(|error| Error::Transport(outage_log::cause(&error)))?;
    Ok(body.to_bytes())
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireStatus {
    kind: String,
    code: u16,
    reason: String,
    message: String,
    details: Option<WireDetails>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireDetails {
    causes: Option<Vec<WireCause>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireCause {
    reason: String,
}

fn refusal(status: StatusCode, body: &[u8]) -> Error {
    let wire: WireStatus = serde_json::from_slice(body).unwrap_or_default();
    let message = match outage_log::shortened(&wire.message) {
        "" => status.to_string(),
        message => message.to_owned(),
    };
    // A webhook that refuses a request may leave the reason out.
    let has_reason = !wire.reason.is_empty() || wire.kind != "Status";
    let reason = if has_reason { wire.reason } else { "Unknown".to_owned() };
    let causes = wire.details.and_then(|details| details.causes).unwrap_or_default();
    Error::Refused {
        code: status.as_u16(),
        reason,
        message,
        causes: causes.into_iter().map(|cause| cause.reason).collect(),
    }
}

#[cfg(test)]
mod tests;
