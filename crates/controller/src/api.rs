//! Requests to the API server, as bytes in and bytes out.
//!
//! Whatever changes something passes the [`Fence`] first (C63). Of failures only the refusals that say
//! "not now" are repeated here: of anything else it is not known whether it has happened, and what
//! follows from it is the core's to decide.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
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
    /// The server's answer.
    #[error("{message}")]
    Refused { code: u16, reason: String, message: String, causes: Vec<String> },
    /// It may have arrived, or not.
    #[error("{0}")]
    Transport(String),
    /// Not sent, or given up: the lease could have expired.
    #[error("not sent: the lease could have expired")]
    Fenced,
}

impl Error {
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::Transport(_) | Self::Fenced => None,
        }
    }

    pub fn is_reason(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused { reason, .. } if reason == wanted)
    }

    /// Refused because the namespace is being deleted (C28).
    pub fn is_namespace_terminating(&self) -> bool {
        matches!(self, Self::Refused { causes, .. } if causes.iter().any(|c| c == "NamespaceTerminating"))
    }

    /// Whether a write may have been done in spite of this, or may be done yet (C35).
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::Refused { code: 429, .. } => false,
            Self::Refused { code: 408, .. } | Self::Transport(_) | Self::Fenced => true,
            Self::Refused { code: 500.., message, .. } => !is_of_admission(message),
            // What has no reason is no `Status`: it comes from a proxy, which may have passed the write on.
            Self::Refused { reason, .. } => reason.is_empty(),
        }
    }

    /// In one word, for metrics.
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

/// Whether a webhook failed or refused: admission comes before storage.
fn is_of_admission(message: &str) -> bool {
    message.contains("failed calling webhook") || message.contains("admission webhook")
}

/// How a write's body is to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    Json,
    MergePatch,
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

/// A list may take the server long.
const LIST_TIMEOUT: Duration = Duration::from_secs(120);
const RETRIES_MAX: u32 = 5;
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);
const RETRY_AFTER_DEFAULT: Duration = Duration::from_secs(1);

/// `--kube-api-qps` and `--kube-api-burst`.
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

    /// How long to wait before the next request.
    fn take(&mut self, now: Instant) -> Duration {
        self.bucket.take(now.saturating_duration_since(self.started))
    }
}

/// So many requests are under way at most; the others wait.
const REQUESTS_MAX: usize = 256;

/// The API server, for reading and fenced writing.
#[derive(Clone)]
pub struct Api {
    client: Client,
    fence: Fence,
    requests: Arc<Semaphore>,
    limit: Option<Arc<Mutex<RateLimit>>>,
    outages: OutageLog,
}

/// What executing plans needs of an API server. The simulation has one of its own.
pub trait Server: Clone + Send + Sync + 'static {
    /// # Errors
    /// As the server refused it, or did not answer.
    fn get(&self, path: &str) -> impl Future<Output = Result<Bytes, Error>> + Send;

    /// # Errors
    /// As the server refused it, or did not answer, or the fence is closed.
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
        let _turn = self.turn().await;
        self.noted(repeated(LIST_TIMEOUT, send).await)
    }

    async fn write(
        &self,
        method: Method,
        path: &str,
        content: Content,
        body: Bytes,
    ) -> Result<Bytes, Error> {
        // Boxed: what waits for its turn is small, and what waits for its answer is not copied into every future around it.
        let send = || {
            Box::pin(async {
                if !self.fence.permits_writes() {
                    return Err(Error::Fenced.into());
                }
                self.exchange(method.clone(), path, content, body.clone()).await
            })
        };
        let _turn = self.turn().await;
        self.noted(self.while_permitted(repeated(REQUEST_TIMEOUT, send)).await)
    }
}

impl Api {
    pub fn new(client: Client, fence: Fence, limit: Option<RateLimit>) -> Self {
        let requests = Arc::new(Semaphore::new(REQUESTS_MAX));
        let limit = limit.map(|limit| Arc::new(Mutex::new(limit)));
        Self { client, fence, requests, limit, outages: OutageLog::default() }
    }

    /// Reports there whether the server answers.
    #[must_use]
    pub fn reporting_to(mut self, outages: OutageLog) -> Self {
        self.outages = outages;
        self
    }

    /// What is refused is reported by whoever asked; that nobody answers is the same for all.
    fn noted<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        let subject = "requests";
        match &result {
            Ok(_) => self.outages.answered(),
            Err(Error::Transport(cause)) => {
                self.outages.failed(subject, FailureKind::Unreachable, cause)
            }
            Err(Error::Refused { code, message, .. })
                if outage_log::failure_kind(Some(*code)) == FailureKind::Unreachable =>
            {
                self.outages.failed(subject, FailureKind::Unreachable, message);
            }
            Err(Error::Refused { .. } | Error::Fenced) => {}
        }
        result
    }

    /// Waits for our own limits.
    async fn turn(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
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
    ) -> Result<Bytes, Refusal> {
        let response = self.send(request(method, path, content, body)).await?;
        let (parts, body) = response.into_parts();
        let body = collected(body).await?;
        if parts.status.is_success() {
            return Ok(body);
        }
        Err(Refusal { error: refusal(parts.status, &body), retry_after: retry_after(&parts) })
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, Error> {
        self.client.send(request).await.map_err(|error| Error::Transport(outage_log::cause(&error)))
    }

    /// Gives a write up when the fence closes under it.
    async fn while_permitted<T>(
        &self,
        write: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut write = pin!(write);
        std::future::poll_fn(|context| {
            if !self.fence.permits_writes() {
                return std::task::Poll::Ready(Err(Error::Fenced));
            }
            write.as_mut().poll(context)
        })
        .await
    }
}

/// An error, and when the server would hear of it again.
struct Refusal {
    error: Error,
    retry_after: Option<Duration>,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self { error, retry_after: None }
    }
}

/// Repeats what the server refused to look at: it asked for that (429), and it has not happened. So when time is up while
/// it is to be left in peace, that is what there is to report.
async fn repeated<T, F>(limit: Duration, mut send: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Refusal>>,
{
    let deadline = Instant::now() + limit;
    let mut retries_left = RETRIES_MAX;
    loop {
        let Ok(answer) = timeout_at(deadline, send()).await else {
            return Err(Error::Transport(format!("no answer within {limit:?}")));
        };
        let Refusal { error, retry_after } = match answer {
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

fn request(method: Method, path: &str, content: Content, body: Bytes) -> Request<Body> {
    let has_body = !body.is_empty();
    let accept = if method == Method::GET { OBJECT } else { METADATA };
    let mut request = Request::new(Body::from(body));
    *request.method_mut() = method;
    *request.uri_mut() = path.parse().expect("paths are made of checked names and encoded queries");
    let headers = request.headers_mut();
    headers.insert(header::ACCEPT, header::HeaderValue::from_static(accept));
    if has_body {
        let media_type = header::HeaderValue::from_static(content.media_type());
        headers.insert(header::CONTENT_TYPE, media_type);
    }
    request
}

/// What is read is read whole; of what is written the answer need only say who it is and how new.
const OBJECT: &str = "application/json";
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

async fn collected(body: Body) -> Result<Bytes, Error> {
    let body = body.collect().await.map_err(|error| Error::Transport(outage_log::cause(&error)))?;
    Ok(body.to_bytes())
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireStatus {
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
    let message = if wire.message.is_empty() { status.to_string() } else { wire.message };
    let causes = wire.details.and_then(|details| details.causes).unwrap_or_default();
    Error::Refused {
        code: status.as_u16(),
        reason: wire.reason,
        message,
        causes: causes.into_iter().map(|cause| cause.reason).collect(),
    }
}

#[cfg(test)]
mod tests;
