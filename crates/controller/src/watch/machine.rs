//! Decides the requests of a list and watch, and what their answers mean (C1). No I/O.
//!
//! Only complete lists are returned; the objects of one that breaks off are dropped. Streaming
//! lists (`sendInitialEvents`) are tried first. A streaming list that fails is followed by a list
//! in pages, because servers on an old etcd answer every streaming list with an error event. A
//! server that does not support streaming lists is asked only for pages from then on.
//!
//! After an outage the server is asked for its newest version before the watch continues. Etcd may
//! have been restored from a backup: then a watch from a version that the server has yet to reach
//! shows nothing until the server reaches it, and never what happens before.
//!
//! Models: client-go's reflector, kube-runtime's `watcher::State`.

mod initial_events;

use everynode_core::api::ResourceVersion;

use initial_events::InitialEvents;

/// Maximum number of objects on a page.
const PAGE_LIMIT: u32 = 500;
/// Maximum number of pages of a list: five million objects, many times the largest cluster.
const PAGES_MAX: u32 = 10_000;
/// How often a continue token may expire before the list is requested without pages.
const EXPIRATIONS_MAX: u8 = 2;
/// How often a watch may fail at one resourceVersion before a list replaces it.
const FAILURES_MAX: u8 = 3;

/// A change that a watch reports, in the order of the changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// A complete list: all other known objects are gone.
    Reset {
        /// All objects.
        items: Vec<T>,
        /// The version of the list.
        version: ResourceVersion,
    },
    /// An object was created or updated.
    Applied {
        /// Its new state.
        item: T,
        /// The version of the change.
        version: ResourceVersion,
    },
    /// An object was deleted.
    Deleted {
        /// Its last state.
        item: T,
        /// The version of the change.
        version: ResourceVersion,
    },
    /// The watch has reached this version without a change (C60).
    Reached(ResourceVersion),
}

impl<T> Change<T> {
    /// The version that the watch has reached with this change.
    pub const fn version(&self) -> ResourceVersion {
        match self {
            Self::Reset { version, .. }
            | Self::Applied { version, .. }
            | Self::Deleted { version, .. }
            | Self::Reached(version) => *version,
        }
    }

    /// The same change without its objects.
    pub fn without_objects(&self) -> Change<()> {
        let (item, version) = ((), self.version());
        match self {
            Self::Reset { .. } => Change::Reset { items: Vec::new(), version },
            Self::Applied { .. } => Change::Applied { item, version },
            Self::Deleted { .. } => Change::Deleted { item, version },
            Self::Reached(_) => Change::Reached(version),
        }
    }
}

/// The next request to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A page of the list: the first, or the one that the token names. Always of the newest state,
    /// since an older one might lack our own writes.
    Page {
        /// Maximum number of objects; `None` for the list without pages.
        limit: Option<u32>,
        /// The token from the page before; `None` for the first page.
        continue_token: Option<String>,
    },
    /// A watch that starts with all existing objects.
    StreamingList,
    /// The list of one object, for the list's version.
    Version,
    /// A watch of the changes after a version.
    Watch {
        /// The resourceVersion.
        since: String,
    },
}

/// The answer to [`Request::Page`] or [`Request::Version`].
#[derive(Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The objects on the page.
    pub items: Vec<T>,
    /// The resourceVersion of the list.
    pub version: String,
    /// The token for the next page; `None` on the last page.
    pub continue_token: Option<String>,
}

/// One line of a watch. A version is empty if the object has none; the watch then stays at its
/// version.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<T> {
    /// An object was created, or is part of the initial events.
    Added {
        /// Its state.
        item: T,
        /// Its resourceVersion.
        version: String,
    },
    /// An object was updated.
    Modified {
        /// Its new state.
        item: T,
        /// Its resourceVersion.
        version: String,
    },
    /// An object was deleted.
    Deleted {
        /// Its last state.
        item: T,
        /// The resourceVersion of the deletion.
        version: String,
    },
    /// An object that can't be read was created or updated. Its known state is kept.
    Unreadable {
        /// Its resourceVersion.
        version: String,
    },
    /// A bookmark.
    Bookmark {
        /// The version that the watch has reached.
        version: String,
        /// True if it ends the initial events of a streaming list.
        ends_initial_events: bool,
    },
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server ended the watch, as it does from time to time, or the connection broke.
    Closed,
    /// The version to continue from has expired (410), or a list is needed for another reason.
    Expired,
    /// The server does not support the request (400, 422).
    Unsupported,
    /// The same request must be sent again: nothing listens at the server's address, or the server
    /// asks for a pause (429).
    RetryLater,
    /// There was no answer for another reason. It counts as a failure of the server, not of the
    /// watch.
    NoAnswer,
    /// Any other failure: no permission, a server error, an invalid answer.
    Failed,
}

/// The state of a list and watch.
#[derive(Debug)]
pub struct Machine<T> {
    state: State<T>,
    streaming_lists: bool,
    is_foreign: fn(&T) -> bool,
    key: fn(&T) -> String,
}

#[derive(Debug)]
enum State<T> {
    /// `pages`: how many have been read. `expirations`: how often the list has started over because
    /// its token expired.
    Paging {
        items: Vec<T>,
        continue_token: Option<String>,
        pages: u32,
        expirations: u8,
    },
    Streaming {
        items: InitialEvents<T>,
    },
    /// `failures`: consecutive failures at this version. `after_outage`: whether the server may
    /// have an older version.
    Watching {
        since: String,
        failures: u8,
        after_outage: bool,
    },
}

impl<T> State<T> {
    fn watching(since: String) -> Self {
        Self::Watching { since, failures: 0, after_outage: false }
    }
}

impl<T> Machine<T> {
    /// A machine that starts with a streaming list.
    ///
    /// `is_foreign`: whether to leave an object out of lists, because another kind of controller
    /// owns it (C3). `key`: a key that is the same for all states of an object and unique.
    pub fn new(is_foreign: fn(&T) -> bool, key: fn(&T) -> String) -> Self {
        let state = State::Streaming { items: InitialEvents::new(key) };
        Self { state, streaming_lists: true, is_foreign, key }
    }

    /// The next request to send.
    pub fn request(&self) -> Request {
        match &self.state {
            State::Paging { continue_token, expirations, .. } => Request::Page {
                limit: (*expirations < EXPIRATIONS_MAX).then_some(PAGE_LIMIT),
                continue_token: continue_token.clone(),
            },
            State::Streaming { .. } => Request::StreamingList,
            State::Watching { after_outage: true, .. } => Request::Version,
            State::Watching { since, .. } => Request::Watch { since: since.clone() },
        }
    }

    /// True if the next request is part of a list.
    pub fn is_listing(&self) -> bool {
        match self.state {
            State::Paging { .. } | State::Streaming { .. } => true,
            State::Watching { .. } => false,
        }
    }

    /// True if the list of this page has no end: the page leads to itself, or there are too many.
    pub fn is_endless(&self, page: &Page<T>) -> bool {
        match &self.state {
            State::Paging { continue_token, pages, .. } => {
                let is_same = page.continue_token == *continue_token || *pages >= PAGES_MAX;
                page.continue_token.is_some() && is_same
            }
            State::Streaming { .. } | State::Watching { .. } => false,
        }
    }

    /// Takes a page. Returns the list if the page completes it.
    pub fn page(&mut self, page: Page<T>) -> Option<Change<T>> {
        let (items, continue_token) = match &mut self.state {
            State::Paging { items, continue_token, pages, .. } => {
                *pages += 1;
                (items, continue_token)
            }
            State::Watching { since, after_outage, .. } => {
                *after_outage = false;
                if number(&page.version) < number(since) {
                    self.restart();
                }
                return None;
            }
            State::Streaming { .. } => return None,
        };
        items.extend(page.items.into_iter().filter(|item| !(self.is_foreign)(item)));
        if page.continue_token.is_some() {
            *continue_token = page.continue_token;
            return None;
        }
        let items = std::mem::take(items);
        let version = number(&page.version);
        self.state = State::watching(page.version);
        Some(Change::Reset { items, version })
    }

    /// Takes a line of a watch. Returns a change unless the line is part of an incomplete list.
    pub fn line(&mut self, line: Line<T>) -> Option<Change<T>> {
        match &mut self.state {
            State::Paging { .. } => None,
            State::Streaming { items } => {
                let version = collect_initial_event(items, self.is_foreign, line)?;
                let items = items.take();
                let reset = Change::Reset { items, version: number(&version) };
                self.state = State::watching(version);
                Some(reset)
            }
            State::Watching { since, failures, .. } => {
                *failures = 0;
                Some(apply_watch_event(since, line))
            }
        }
    }

    /// The request has ended; [`request`](Self::request) returns the next one.
    pub fn ended(&mut self, end: End) {
        match (&mut self.state, end) {
            (State::Watching { .. }, End::Closed) => {}
            (State::Watching { after_outage, .. }, End::RetryLater | End::NoAnswer) => {
                *after_outage = true;
            }
            // Keep the pages, and send the same request again.
            (State::Paging { .. }, End::RetryLater) => {}
            (State::Watching { failures, after_outage, .. }, End::Failed) => {
                *after_outage = true;
                *failures += 1;
                if *failures >= FAILURES_MAX {
                    self.restart();
                }
            }
            (State::Streaming { items }, End::RetryLater) => {
                items.take();
            }
            (State::Streaming { .. }, End::Unsupported) => {
                self.streaming_lists = false;
                self.restart();
            }
            (State::Streaming { .. }, End::Closed | End::Expired | End::NoAnswer | End::Failed) => {
                self.page_from(0);
            }
            (State::Paging { expirations, .. }, End::Expired) => {
                // Without pages no token can expire, except by an error of the server: start over.
                match *expirations {
                    EXPIRATIONS_MAX.. => self.restart(),
                    expired => self.page_from(expired + 1),
                }
            }
            (
                State::Paging { .. },
                End::Closed | End::Unsupported | End::NoAnswer | End::Failed,
            )
            | (State::Watching { .. }, End::Expired | End::Unsupported) => self.restart(),
        }
    }

    /// Starts a new list; an incomplete one is never returned.
    fn restart(&mut self) {
        if self.streaming_lists {
            self.state = State::Streaming { items: InitialEvents::new(self.key) };
        } else {
            self.page_from(0);
        }
    }

    fn page_from(&mut self, expirations: u8) {
        self.state =
            State::Paging { items: Vec::new(), continue_token: None, pages: 0, expirations };
    }
}

/// Takes a line of a streaming list. Returns the version of the bookmark that completes it.
fn collect_initial_event<T>(
    items: &mut InitialEvents<T>,
    is_foreign: fn(&T) -> bool,
    line: Line<T>,
) -> Option<String> {
    match line {
        Line::Added { item, .. } if is_foreign(&item) => {}
        Line::Added { item, .. } => items.push(item),
        // Most servers send only additions before the end of the initial events.
        Line::Modified { item, .. } if !is_foreign(&item) => items.replace(item),
        Line::Modified { item, .. } | Line::Deleted { item, .. } => items.remove(&item),
        Line::Unreadable { .. } | Line::Bookmark { ends_initial_events: false, .. } => {}
        Line::Bookmark { version, ends_initial_events: true } => return Some(version),
    }
    None
}

/// Takes a line of a watch and advances its version.
fn apply_watch_event<T>(since: &mut String, line: Line<T>) -> Change<T> {
    let mut advance = |version: String| {
        if !version.is_empty() {
            *since = version;
        }
        number(since)
    };
    match line {
        Line::Added { item, version } | Line::Modified { item, version } => {
            Change::Applied { item, version: advance(version) }
        }
        Line::Deleted { item, version } => Change::Deleted { item, version: advance(version) },
        Line::Unreadable { version } | Line::Bookmark { version, .. } => {
            Change::Reached(advance(version))
        }
    }
}

/// Parses a resourceVersion, which is a decimal number since Kubernetes 1.35; zero if it is none.
fn number(version: &str) -> ResourceVersion {
    ResourceVersion(version.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests;
