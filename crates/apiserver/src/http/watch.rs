//! Watches: streams of changes from the store's log (S7).
//!
//! A watcher is a position in the log without a buffer. It reads the next changes when its client
//! has received the earlier ones. A watcher whose position is older than the log gets 410 and ends.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::time::Instant;

use super::api_server::ApiServer;
use super::call::ReadFaults;
use super::negotiate::Form;
use super::protobuf;
use super::query::{IncludeObject, Parameters};
use super::render::{self, ColumnHeaders};
use super::respond::{self, Body};
use super::shared::SharedCluster;
use crate::json::Value;
use crate::kind::Kind;
use crate::object::Object;
use crate::selector::Selector;
use crate::status::Status;
use crate::store::{Action, Change, Expired, ListOptions, Store, watch_event};

/// The parameters of a watch.
pub(crate) struct WatchRequest {
    pub kind: &'static Kind,
    pub selector: Selector,
    pub form: Form,
    pub include_object: IncludeObject,
    pub start: WatchStart,
    pub bookmarks: bool,
    pub timeout_seconds: Option<u64>,
    pub api_server: ApiServer,
    pub read_faults: ReadFaults,
}

/// The start of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchStart {
    /// After this resourceVersion.
    After(u64),
    /// From the objects in the API server's cache, as ADDED events; with `end` a bookmark ends
    /// them.
    InitialEvents { end: Option<InitialEnd> },
    /// From the next write.
    Now,
}

/// The state that the bookmark which ends the initial events must have reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitialEnd {
    /// That of the store when the watch starts.
    Newest,
    /// This resourceVersion.
    NotOlderThan(u64),
}

/// Default duration of a watch. Upstream's is random, at least half an hour.
const TIMEOUT_SECONDS: u64 = 45 * 60;
/// Maximum duration; it can be added to an instant without overflow.
const TIMEOUT_SECONDS_MAX: u64 = 7 * 24 * 3600;
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of changes that one read of the log returns.
const CHANGES_PER_READ: usize = 256;
/// Size at which a chunk is sent.
const CHUNK_BYTES: usize = 64 * 1024;

/// The start of a watch with these parameters.
pub(crate) fn start(parameters: &Parameters) -> Result<WatchStart, Status> {
    let requested = match parameters.resource_version.as_str() {
        "" => None,
        text => Some(text.parse::<u64>().map_err(|_| {
            invalid_options(format!(
                "resourceVersion: Invalid value: {text:?}: invalid resourceVersion"
            ))
        })?),
    };
    let matching = parameters.resource_version_match.as_str();
    match parameters.send_initial_events {
        None if !matching.is_empty() => Err(invalid_options(
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless \
             sendInitialEvents is provided",
        )),
        None => Ok(match requested {
            None | Some(0) => WatchStart::InitialEvents { end: None },
            Some(requested) => WatchStart::After(requested),
        }),
        Some(_) if matching.is_empty() => Err(invalid_options(
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting \
             resourceVersionMatch to NotOlderThan",
        )),
        Some(_) if matching != "NotOlderThan" => Err(invalid_options(format!(
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting \
             resourceVersionMatch to NotOlderThan, not {matching:?}"
        ))),
        Some(true) => {
            let end = requested.map_or(InitialEnd::Newest, InitialEnd::NotOlderThan);
            Ok(WatchStart::InitialEvents { end: Some(end) })
        }
        Some(false) => Ok(requested
            .filter(|requested| *requested > 0)
            .map_or(WatchStart::Now, WatchStart::After)),
    }
}

/// 422 for invalid options of a list or watch; the cause is `FIELD: MESSAGE`.
pub(crate) fn invalid_options(cause: impl Into<String>) -> Status {
    Status::invalid_options("ListOptions", &[cause.into()])
}

/// The streaming response of a watch.
pub(crate) fn response(
    shared: &Arc<SharedCluster>,
    request: WatchRequest,
) -> Result<Response<Body>, Status> {
    let media_type = match request.form {
        Form::Protobuf => protobuf::WATCH_MEDIA_TYPE,
        Form::Object | Form::Table(_) | Form::PartialObjectMetadata(_) => respond::JSON,
    };
    let watcher = Watcher::new(shared, request)?;
    let chunks = stream::unfold(watcher, |mut watcher| async move {
        let chunk = watcher.next().await?;
        Some((Ok(Frame::data(chunk)), watcher))
    });
    let mut response = respond::full(StatusCode::OK, media_type, Bytes::new());
    *response.body_mut() = StreamBody::new(chunks).boxed_unsync();
    Ok(response)
}

/// The watch of one client.
pub(crate) struct Watcher {
    shared: Arc<SharedCluster>,
    request: WatchRequest,
    updates: tokio::sync::watch::Receiver<u64>,
    /// Initial objects that have not been sent yet.
    initial: VecDeque<Arc<Object>>,
    /// The bookmark after the initial events, until it is sent.
    initial_bookmark: Option<InitialBookmark>,
    /// The resourceVersion up to which all changes have been read.
    position: u64,
    headers: ColumnHeaders,
    deadline: Instant,
    next_bookmark: Instant,
    finished: bool,
}

/// Changes that a watch has not read yet.
struct NewChanges {
    changes: Vec<Arc<Change>>,
    /// The resourceVersion up to which these are all.
    reached: u64,
    /// True if the kind is still served.
    is_served: bool,
}

/// The conditions on which the bookmark that ends the initial events is sent.
struct InitialBookmark {
    /// The time before which it is not sent, until that has passed.
    not_before: Option<Instant>,
    /// The resourceVersion up to which all changes must have been read.
    not_older_than: u64,
}

/// The resourceVersion from which a watch reads changes, and the objects that it sends before.
fn initial_state(
    store: &Store,
    request: &WatchRequest,
) -> Result<(u64, VecDeque<Arc<Object>>), Status> {
    match request.start {
        WatchStart::After(position) => Ok((position, VecDeque::new())),
        WatchStart::Now => Ok((store.resource_version(), VecDeque::new())),
        WatchStart::InitialEvents { .. } => {
            let cache = request.read_faults.cache(store, &request.api_server, None);
            let (selector, any) = (request.selector.clone(), Some(0));
            let options = ListOptions { selector, resource_version: any, ..ListOptions::default() };
            let list = cache.list(store, request.kind, &options)?;
            Ok((list.resource_version, list.items.into()))
        }
    }
}

impl Watcher {
    pub(crate) fn new(shared: &Arc<SharedCluster>, request: WatchRequest) -> Result<Self, Status> {
        // Subscribe before reading the position, so that no write is missed.
        let updates = request.api_server.subscribe(shared, request.kind);
        let (state, newest) =
            shared.read(|store| (initial_state(store, &request), store.resource_version()));
        let (position, initial) = state?;
        let seconds = request.timeout_seconds.filter(|seconds| *seconds > 0);
        let seconds = seconds.unwrap_or(TIMEOUT_SECONDS).min(TIMEOUT_SECONDS_MAX);
        let now = Instant::now();
        let initial_bookmark = match request.start {
            WatchStart::InitialEvents { end: Some(end) } if request.bookmarks => {
                let not_older_than = match end {
                    InitialEnd::Newest => newest,
                    InitialEnd::NotOlderThan(requested) => requested,
                };
                let not_before = request.read_faults.bookmark_after.map(|delay| now + delay);
                Some(InitialBookmark { not_before, not_older_than })
            }
            _ => None,
        };
        Ok(Self {
            shared: Arc::clone(shared),
            updates,
            initial,
            initial_bookmark,
            position,
            headers: ColumnHeaders::Included,
            deadline: now + Duration::from_secs(seconds),
            next_bookmark: now + BOOKMARK_INTERVAL,
            finished: false,
            request,
        })
    }

    /// The next chunk of the stream; `None` when the watch ends.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        let mut chunk = BytesMut::new();
        loop {
            if self.finished || self.shared.stop.is_cancelled() {
                return None;
            }
            self.updates.borrow_and_update();
            if self.fill(&mut chunk).await || !chunk.is_empty() {
                return Some(chunk.freeze());
            }
            if self.finished {
                return None;
            }
            let shared = Arc::clone(&self.shared);
            let bookmark_at = self.initial_bookmark.as_ref().and_then(|end| end.not_before);
            tokio::select! {
                // The sender lives as long as the server: an error means that the server stops.
                changed = self.updates.changed() => changed.ok()?,
                () = shared.stop.cancelled() => return None,
                () = tokio::time::sleep_until(self.deadline) => return None,
                () = tokio::time::sleep_until(bookmark_at.unwrap_or(self.deadline)),
                    if bookmark_at.is_some() => {}
                () = tokio::time::sleep_until(self.next_bookmark), if self.request.bookmarks => {
                    self.next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
                    self.bookmark(&mut chunk, false);
                }
            }
        }
    }

    /// Appends pending events to the chunk; returns true if the chunk should be sent at once.
    async fn fill(&mut self, chunk: &mut BytesMut) -> bool {
        while let Some(object) = self.initial.pop_front() {
            self.event(chunk, Action::Added, &object);
            if chunk.len() >= CHUNK_BYTES {
                return true;
            }
        }
        self.end_initial_events(chunk);
        loop {
            let NewChanges { changes, reached, is_served } = match self.new_changes().await {
                Ok(found) => found,
                Err(expired) => {
                    self.finished = true;
                    let status = Status::expired(expired.to_string());
                    self.frame(chunk, "ERROR", &status.to_value());
                    return true;
                }
            };
            if changes.is_empty() {
                self.position = self.position.max(reached);
                self.end_initial_events(chunk);
                // As upstream: a watch ends with the definition of its kind.
                self.finished = !is_served;
                return false;
            }
            for change in &changes {
                self.position = change.resource_version;
                if let Some(event) = watch_event(self.request.kind, change, &self.request.selector)
                {
                    self.event(chunk, event.action, &event.object);
                }
                if chunk.len() >= CHUNK_BYTES {
                    return true;
                }
            }
        }
    }

    /// The changes after those that were read.
    async fn new_changes(&self) -> Result<NewChanges, Expired> {
        let WatchRequest { kind, api_server, .. } = &self.request;
        let _entered = self.shared.turn_of_requests().await;
        self.shared.read(|store| {
            let cache = api_server.cache(store);
            let changes = cache.changes_since(store, kind, self.position, CHANGES_PER_READ)?;
            let (reached, is_served) = (cache.reached(store, kind), store.kinds().serves(kind));
            Ok(NewChanges { changes, reached, is_served })
        })
    }

    /// Appends the bookmark that ends the initial events if it is due.
    fn end_initial_events(&mut self, chunk: &mut BytesMut) {
        let Some(bookmark) = &mut self.initial_bookmark else { return };
        bookmark.not_before = bookmark.not_before.filter(|at| *at > Instant::now());
        if bookmark.not_before.is_none() && bookmark.not_older_than <= self.position {
            self.initial_bookmark = None;
            self.bookmark(chunk, true);
        }
    }

    fn event(&mut self, chunk: &mut BytesMut, action: Action, object: &Object) {
        let WatchRequest { kind, form, include_object, .. } = &self.request;
        let bytes = render::event_object(kind, object, *form, *include_object, self.headers);
        self.headers = ColumnHeaders::Omitted;
        let name = match action {
            Action::Added => "ADDED",
            Action::Modified => "MODIFIED",
            Action::Deleted => "DELETED",
        };
        event_frame(chunk, *form, name, &bytes);
    }

    fn bookmark(&mut self, chunk: &mut BytesMut, ends_initial: bool) {
        let WatchRequest { kind, form, .. } = &self.request;
        let object = render::bookmark(kind, *form, self.position, ends_initial);
        self.frame(chunk, "BOOKMARK", &object);
    }

    fn frame(&self, chunk: &mut BytesMut, name: &str, document: &Value) {
        let form = self.request.form;
        event_frame(chunk, form, name, &render::event_document(document, form));
    }
}

fn event_frame(chunk: &mut BytesMut, form: Form, name: &str, object: &[u8]) {
    if form == Form::Protobuf {
        chunk.put(&protobuf::watch_event(name, object)[..]);
        return;
    }
    chunk.reserve(object.len() + 40);
    chunk.put(&b"{\"type\":\""[..]);
    chunk.put(name.as_bytes());
    chunk.put(&b"\",\"object\":"[..]);
    chunk.put(object);
    chunk.put(&b"}\n"[..]);
}

#[cfg(test)]
mod tests;
