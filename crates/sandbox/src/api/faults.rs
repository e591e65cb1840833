//! Requests that go wrong on purpose (S17): asks the [table](crate::fault) what is to happen to a request, and makes it
//! happen. `/debug/faults` shows and changes the rules.

mod body;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::{RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Method, Response, StatusCode};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::access;
use super::link::Link;
use super::respond::{self, Body};
use super::route::Route;
use super::server::{Asked, Call, Server, method_not_allowed};
use super::shared::now;
use crate::authorization::Target;
use crate::fault::{
    CommitLate, Decision, Fault, LoseAnswer, Point, Refusal, Request, Restart, Rule, Table,
    TooMany, WatchError, parse,
};
use crate::status::Status;
use body::Then;

/// How the sandbox's own requests call themselves: no rule ever matches them.
pub const OWN_USER_AGENT: &str = "everynode-sandbox";

/// Maximum number of writes that wait to take effect late.
const LATE_WRITES_MAX: usize = 1_000;

/// The rules in force, and what they have set going.
pub struct Faults {
    table: Mutex<Table>,
    /// Whether the table is worth a look: without rules a request costs one load.
    is_armed: AtomicBool,
    outage: watch::Sender<Option<Instant>>,
    late_writes: Arc<Semaphore>,
}

impl Faults {
    /// # Errors
    /// There are too many rules.
    pub fn new(rules: Vec<Rule>, seed: u64) -> Result<Faults, TooMany> {
        let mut table = Table::new(seed);
        let is_armed = AtomicBool::new(!rules.is_empty());
        table.add(rules, now())?;
        Ok(Faults {
            table: Mutex::new(table),
            is_armed,
            outage: watch::Sender::new(None),
            late_writes: Arc::new(Semaphore::new(LATE_WRITES_MAX)),
        })
    }

    /// Outages of the server as they begin: until when nobody is let in.
    pub fn outages(&self) -> watch::Receiver<Option<Instant>> {
        self.outage.subscribe()
    }

    /// What is to happen to a request; `None`: it is served.
    pub fn decide(&self, asked: &Asked) -> Option<Fault> {
        if !self.is_armed.load(Ordering::Relaxed) || is_exempt(asked) {
            return None;
        }
        let request =
            access::asked(&asked.route, &asked.path, &asked.call.method, &asked.call.parameters);
        let mut table = self.table.lock();
        match table.decide(&described(&request, asked), now()) {
            Decision::Fault(fault) => Some(fault),
            Decision::Serve => {
                self.arm(&table);
                None
            }
        }
    }

    fn arm(&self, table: &Table) {
        self.is_armed.store(!table.is_idle(now()), Ordering::Relaxed);
    }

    /// Answers a request for the rules themselves.
    pub fn answer(&self, call: &Call) -> Result<Response<Body>, Status> {
        let rules = match call.method {
            Method::PUT | Method::POST => {
                let text = std::str::from_utf8(&call.body)
                    .map_err(|_| Status::bad_request("faults: not valid UTF-8"))?;
                parse(text).map_err(|error| Status::bad_request(error.to_string()))?
            }
            Method::GET | Method::DELETE => Vec::new(),
            _ => return Err(method_not_allowed()),
        };
        let mut table = self.table.lock();
        if matches!(call.method, Method::PUT | Method::DELETE) {
            table.clear();
        }
        table.add(rules, now()).map_err(|error| Status::bad_request(error.to_string()))?;
        self.arm(&table);
        Ok(respond::json(StatusCode::OK, &table.to_value()))
    }

    fn begin_outage(&self, restart: &Restart) {
        self.outage.send_replace(Some(Instant::now() + restart.down.to_std()));
    }
}

/// The rules can always be read and changed, and what the sandbox asks of itself is nobody's rehearsal.
fn is_exempt(asked: &Asked) -> bool {
    asked.route == Route::Faults || user_agent(&asked.call).starts_with(OWN_USER_AGENT)
}

fn user_agent(call: &Call) -> &str {
    call.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// A request in the words that rules use.
fn described<'a>(request: &crate::authorization::Request<'a>, asked: &'a Asked) -> Request<'a> {
    let parameters = &asked.call.parameters;
    let verb = request.verb;
    let described = Request {
        verb,
        is_watchlist: verb == "watch" && parameters.send_initial_events == Some(true),
        continues: !parameters.continue_token.is_empty(),
        user: asked.user.as_ref().map_or("", |user| &user.name),
        user_agent: user_agent(&asked.call),
        ..Request::default()
    };
    match request.target {
        Target::Resource { resource, subresource, namespace, name, .. } => {
            Request { resource, subresource, namespace, name, ..described }
        }
        Target::Path(path) => Request { path, ..described },
    }
}

/// Serves a request with a fault.
pub async fn serve(
    server: &Arc<Server>,
    mut asked: Asked,
    fault: Fault,
) -> Result<Response<Body>, Status> {
    let is_watch = asked.call.parameters.watch && asked.call.method == Method::GET;
    let link = asked.link.clone();
    let breaks = |server: &Server, asked: &Asked, point: Point, then: Then| {
        Ok(body::broken(server.serve(asked)?, is_watch, point, then, link.clone()))
    };
    match fault {
        Fault::Error(refusal) => {
            if refusal.after_commit {
                server.serve(&asked)?;
            }
            Ok(refused(&refusal, &asked))
        }
        Fault::LoseAnswer(LoseAnswer { after_commit }) => {
            if after_commit {
                server.serve(&asked)?;
            }
            Err(no_answer(&link).await)
        }
        Fault::CommitLate(late) => commit_late(server, asked, late).await,
        Fault::Cut(point) => breaks(server, &asked, point, Then::Close),
        Fault::Freeze(point) => breaks(server, &asked, point, Then::Freeze),
        Fault::Stall(stall) => breaks(server, &asked, stall.at, Then::Wait(stall.lasts.to_std())),
        Fault::Delay(delay) => {
            wait(server, delay.lasts.to_std()).await;
            server.serve(&asked)
        }
        Fault::WatchError(WatchError { error, at }) => {
            let then = Then::EndWith(body::error_event(&status_of(&error, &asked)));
            breaks(server, &asked, at, then)
        }
        Fault::LateBookmark(late) => {
            asked.call.reading.bookmark_after = Some(late.after.to_std());
            server.serve(&asked)
        }
        Fault::StaleRead(stale) => {
            asked.call.reading.writes_behind = Some(stale.writes_behind);
            server.serve(&asked)
        }
        Fault::InvalidUtf8(object) => Ok(body::spoilt(server.serve(&asked)?, is_watch, object)),
        Fault::Restart(restart) => {
            if restart.after_commit {
                server.serve(&asked)?;
            }
            server.faults.begin_outage(&restart);
            Err(no_answer(&link).await)
        }
    }
}

/// Closes the connection, and with it this request: it never returns.
async fn no_answer(link: &Link) -> Status {
    link.close();
    std::future::pending().await
}

async fn wait(server: &Server, duration: Duration) {
    tokio::select! {
        () = server.shared.stop.cancelled() => {}
        () = tokio::time::sleep(duration) => {}
    }
}

/// Answers now, and writes later.
async fn commit_late(
    server: &Arc<Server>,
    asked: Asked,
    CommitLate { after, error }: CommitLate,
) -> Result<Response<Body>, Status> {
    let Ok(permit) = Arc::clone(&server.faults.late_writes).try_acquire_owned() else {
        let message = "too many writes wait to take effect late";
        return Err(Status::new(crate::status::Reason::TooManyRequests, message));
    };
    let answer = error.map(|error| refused(&error, &asked));
    let link = asked.link.clone();
    let server = Arc::clone(server);
    tokio::spawn(async move {
        let stop = server.shared.stop.clone();
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(after.to_std()) => {}
        }
        if let Err(status) = server.serve(&asked) {
            tracing::debug!(path = asked.path, error = %status, "a late write was refused");
        }
        drop(permit);
    });
    match answer {
        Some(answer) => Ok(answer),
        None => Err(no_answer(&link).await),
    }
}

/// The document of a refusal; 403 in RBAC's words unless the rule has words of its own.
fn status_of(refusal: &Refusal, asked: &Asked) -> serde_json::Value {
    match (&refusal.message, &asked.user) {
        (None, Some(user)) if refusal.code == 403 => {
            let request = access::asked(
                &asked.route,
                &asked.path,
                &asked.call.method,
                &asked.call.parameters,
            );
            access::forbidden(user, &request, "").to_value()
        }
        _ => refusal.to_value(refusal.message()),
    }
}

fn refused(refusal: &Refusal, asked: &Asked) -> Response<Body> {
    let code = StatusCode::from_u16(refusal.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = match refusal.plain_text {
        true => respond::text(code, format!("{}\n", refusal.message())),
        false => respond::json(code, &status_of(refusal, asked)),
    };
    if let Some(seconds) = refusal.retry_after_seconds {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
