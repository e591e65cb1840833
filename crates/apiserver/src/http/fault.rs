//! The fault rules of a running server (S17): decides which fault, if any, is injected into a
//! request, injects it, and serves `/debug/faults`, which shows and changes the rules.

mod body;
mod inject;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::USER_AGENT;
use http::{Method, Response, StatusCode};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::access;
use super::call::{AuthorizedCall, Call};
use super::respond::{self, Body, method_not_allowed};
use super::route::Route;
use super::shared::now;
use crate::authorization::{Attributes, RequestTarget};
use crate::fault::{Fault, RequestInfo, Restart, Rule, RuleTable, TooManyRules, parse};
use crate::status::Status;

/// The start of the `User-Agent` of a sandbox's own requests, which no rule ever matches.
pub const OWN_USER_AGENT: &str = "everynode-sandbox";

/// Maximum number of writes that wait to take effect late.
const LATE_WRITES_MAX: usize = 1_000;

/// The rules in force.
pub(crate) struct Faults {
    table: Mutex<RuleTable>,
    /// True if the table can match anything. Without rules, a request costs one atomic load.
    may_fire: AtomicBool,
    outage: watch::Sender<Option<Instant>>,
    late_writes: Arc<Semaphore>,
}

impl Faults {
    /// Starts with `rules`; their probabilities are drawn from `seed`.
    ///
    /// # Errors
    ///
    /// There are too many rules.
    pub(crate) fn new(rules: Vec<Rule>, seed: u64) -> Result<Self, TooManyRules> {
        let mut table = RuleTable::new(seed);
        let may_fire = AtomicBool::new(!rules.is_empty());
        table.add(rules, now())?;
        Ok(Self {
            table: Mutex::new(table),
            may_fire,
            outage: watch::Sender::new(None),
            late_writes: Arc::new(Semaphore::new(LATE_WRITES_MAX)),
        })
    }

    /// Sends the end of each outage when the outage begins.
    pub(crate) fn outages(&self) -> watch::Receiver<Option<Instant>> {
        self.outage.subscribe()
    }

    /// The fault to inject into a request; `None` to serve it as usual.
    pub(crate) fn decide(&self, request: &AuthorizedCall) -> Option<Fault> {
        if !self.may_fire.load(Ordering::Relaxed) || is_exempt(request) {
            return None;
        }
        let attributes = access::attributes_of(request);
        let mut table = self.table.lock();
        let fault = table.decide(&request_info(&attributes, request), now());
        if fault.is_none() {
            self.update_may_fire(&table);
        }
        fault
    }

    fn update_may_fire(&self, table: &RuleTable) {
        self.may_fire.store(!table.is_idle(now()), Ordering::Relaxed);
    }

    /// Handles a request that reads or changes the rules.
    pub(crate) fn handle(&self, call: &Call) -> Result<Response<Body>, Status> {
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
        self.update_may_fire(&table);
        Ok(respond::json(StatusCode::OK, &table.to_value()))
    }

    /// Closes all connections and refuses new ones for the time in `restart`.
    pub(crate) fn begin_outage(&self, restart: &Restart) {
        self.outage.send_replace(Some(Instant::now() + restart.down.to_std()));
    }

    /// A permit for one more late write; `None` if too many wait already.
    pub(crate) fn late_write_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.late_writes).try_acquire_owned().ok()
    }
}

/// The rules can always be read and changed, and no fault disturbs the sandbox's own requests.
fn is_exempt(request: &AuthorizedCall) -> bool {
    request.route == Route::Faults || user_agent(&request.call).starts_with(OWN_USER_AGENT)
}

fn user_agent(call: &Call) -> &str {
    call.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The properties of a request that rules match.
fn request_info<'a>(attributes: &Attributes<'a>, request: &'a AuthorizedCall) -> RequestInfo<'a> {
    let parameters = &request.call.parameters;
    let verb = attributes.verb;
    let info = RequestInfo {
        verb,
        is_watchlist: verb == "watch" && parameters.send_initial_events == Some(true),
        continues: !parameters.continue_token.is_empty(),
        user: request.user.as_ref().map_or("", |user| &user.name),
        user_agent: user_agent(&request.call),
        ..RequestInfo::default()
    };
    match attributes.target {
        RequestTarget::Resource { resource, subresource, namespace, name, .. } => {
            RequestInfo { resource, subresource, namespace, name, ..info }
        }
        RequestTarget::Path(path) => RequestInfo { path, ..info },
    }
}
