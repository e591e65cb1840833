//! Renews credentials: after an answer 401 they are read again, and the request is sent once more.
//!
//! Exec plugins, token files and kubeconfigs change while a process runs, and not all of them
//! report when their credentials expire. Callers see nothing of a renewal unless the server also
//! refuses the new credentials.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::Incoming;
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceExt};

use super::Config;
use super::auth_error;
use super::connection::{self, Http, Opened, Pings};
use super::limit::{self, LimitedBody};

/// The server's answer, or an answer made here.
type Answer = Response<Either<LimitedBody, Full<Bytes>>>;

/// Minimum interval between two renewals if the server accepted the last credentials.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum interval between two renewals if the server refused the last credentials.
const RENEWAL_INTERVAL_WHILE_REFUSED: Duration = Duration::from_secs(10);
/// How long before they expire credentials are renewed, as kube does.
const EXPIRY_MARGIN: SignedDuration = SignedDuration::from_secs(60);
const REFUSED: &str = "the server refused the credentials";
/// Maximum number of bytes to read of a refusal.
const REFUSAL_BYTES_MAX: usize = 1 << 16;

/// Sends requests to the API server and renews the credentials when it refuses them.
#[derive(Clone)]
pub(super) struct RenewingClient(Arc<Inner>);

struct Inner {
    config: Config,
    pings: Pings,
    session: RwLock<Arc<Session>>,
    /// When credentials were last renewed. The holder of the lock renews them.
    renewed_at: Mutex<Option<Instant>>,
}

/// Sends requests with fixed credentials.
struct Session {
    http: Http,
    expires: Option<Timestamp>,
    /// True if the server has accepted the credentials.
    is_accepted: AtomicBool,
}

impl RenewingClient {
    pub(super) fn new(config: Config, pings: Pings, opened: Opened) -> Self {
        let session = RwLock::new(Arc::new(Session::new(opened)));
        Self(Arc::new(Inner { config, pings, session, renewed_at: Mutex::new(None) }))
    }
}

impl Service<Request<Body>> for RenewingClient {
    type Response = Answer;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Answer, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let shared = self.0.clone();
        request.headers_mut().insert(header::USER_AGENT, shared.config.user_agent.clone());
        Box::pin(async move { shared.exchange(request).await })
    }
}

impl Inner {
    async fn exchange(&self, request: Request<Body>) -> Result<Answer, BoxError> {
        let mut session = self.session();
        if session.is_expiring()
            && let Some(renewed) = self.renewed(&session, "the credentials expire").await?
        {
            session = renewed;
        }
        let uri = request.uri().clone();
        let limited = |answer: Response<Incoming>| {
            let bytes_max = limit::bytes_max(&uri, answer.status().is_success());
            answer.map(|body| Either::Left(limit::limited(body, bytes_max)))
        };
        let again = copy(&request);
        let refused = match self.send(&session, request).await? {
            answer if answer.status() == StatusCode::UNAUTHORIZED => answer,
            answer => return Ok(limited(answer)),
        };
        let renewed = match again {
            Some(request) => {
                self.renewed(&session, REFUSED).await.map(|session| Some((session?, request)))
            }
            None => Ok(None),
        };
        match renewed {
            Ok(Some((session, request))) => match self.send(&session, request).await? {
                answer if answer.status() == StatusCode::UNAUTHORIZED => {
                    Ok(self.refusal(answer, None).await)
                }
                answer => Ok(limited(answer)),
            },
            Ok(None) => Ok(self.refusal(refused, None).await),
            Err(cause) => Ok(self.refusal(refused, Some(&cause)).await),
        }
    }

    async fn send(
        &self,
        session: &Session,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, BoxError> {
        let answer = session.http.clone().oneshot(request).await;
        let answer = answer.map_err(|error| match error.downcast_ref() {
            Some(error) => auth_error::describe_auth(error).into(),
            None => error,
        })?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            session.is_accepted.store(true, Ordering::Relaxed);
        }
        Ok(answer)
    }

    fn session(&self) -> Arc<Session> {
        self.session.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A session newer than the last one. `None` if the last renewal was too recent.
    async fn renewed(
        &self,
        last: &Arc<Session>,
        why: &str,
    ) -> Result<Option<Arc<Session>>, String> {
        let mut renewed_at = self.renewed_at.lock().await;
        let current = self.session();
        if !Arc::ptr_eq(&current, last) {
            return Ok(Some(current));
        }
        let was_accepted = current.is_accepted.load(Ordering::Relaxed);
        let interval = if was_accepted { RENEWAL_INTERVAL } else { RENEWAL_INTERVAL_WHILE_REFUSED };
        if renewed_at.is_some_and(|at| at.elapsed() < interval) {
            return Ok(None);
        }
        *renewed_at = Some(Instant::now());
        let (config, pings) = (self.config.clone(), self.pings);
        // It reads files and waits for the exec plugin.
        let renewal =
            tokio::task::spawn_blocking(move || connection::open(&config.reload()?, pings));
        let opened = renewal.await.map_err(|error| error.to_string())??;
        tracing::info!(credentials = %self.config.credentials(), "{why}; they were renewed");
        let session = Arc::new(Session::new(opened));
        *self.session.write().unwrap_or_else(PoisonError::into_inner) = session.clone();
        Ok(Some(session))
    }

    /// An answer 401 whose message names the source of the credentials.
    async fn refusal(&self, answer: Response<Incoming>, cause: Option<&str>) -> Answer {
        let (mut parts, body) = answer.into_parts();
        let answer = Limited::new(body, REFUSAL_BYTES_MAX).collect().await;
        let answer = answer.map(|body| body.to_bytes()).unwrap_or_default();
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        let mut message =
            format!("the server does not accept the credentials of {}", self.config.credentials());
        if let Some(cause) = cause {
            message = format!("{message}, and they can't be renewed: {cause}");
        }
        if let Some(detail) = answer["message"].as_str().filter(|text| *text != "Unauthorized") {
            message = format!("{message}: {detail}");
        }
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": "Unauthorized", "code": 401,
        });
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Response::from_parts(parts, Either::Right(Full::from(status.to_string())))
    }
}

impl Session {
    fn new(Opened { http, expires }: Opened) -> Self {
        Self { http, expires, is_accepted: AtomicBool::new(false) }
    }

    /// True if the credentials expire before a request is answered for certain.
    fn is_expiring(&self) -> bool {
        self.expires.is_some_and(|expires| Timestamp::now() + EXPIRY_MARGIN >= expires)
    }
}

/// A copy of the request. `None` if its body can be sent only once, which none of ours is.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}
