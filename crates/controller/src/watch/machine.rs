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
#[derive(Debug)]
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
        /// Whether it ends the initial events of a streaming list.
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

    /// Whether the next request is part of a list.
    pub fn is_listing(&self) -> bool {
        match self.state {
            State::Paging { .. } | State::Streaming { .. } => true,
            State::Watching { .. } => false,
        }
    }

    /// Whether the list of this page has no end: the page leads to itself, or there are too many.
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
mod tests {
    use super::*;

    /// A machine for numbers; those from 100 on are foreign.
    fn machine() -> Machine<u8> {
        Machine::new(|number| *number >= 100, u8::to_string)
    }

    fn first_page() -> Request {
        Request::Page { limit: Some(PAGE_LIMIT), continue_token: None }
    }

    fn added(item: u8, version: &str) -> Line<u8> {
        Line::Added { item, version: version.to_owned() }
    }

    fn bookmark(version: &str, ends_initial_events: bool) -> Line<u8> {
        Line::Bookmark { version: version.to_owned(), ends_initial_events }
    }

    fn page(items: &[u8], version: &str, token: Option<&str>) -> Page<u8> {
        Page {
            items: items.to_vec(),
            version: version.to_owned(),
            continue_token: token.map(str::to_owned),
        }
    }

    fn reset(items: &[u8], version: u64) -> Option<Change<u8>> {
        Some(Change::Reset { items: items.to_vec(), version: ResourceVersion(version) })
    }

    fn watching(since: &str) -> Request {
        Request::Watch { since: since.to_owned() }
    }

    /// C1: the objects that streamed in before the server asked for a pause are dropped.
    #[test]
    fn an_incomplete_streaming_list_is_dropped() {
        let mut machine = machine();
        assert_eq!(machine.request(), Request::StreamingList);
        assert_eq!(machine.line(added(1, "5")), None);
        machine.ended(End::RetryLater);
        assert_eq!(machine.request(), Request::StreamingList);
        assert_eq!(machine.line(added(2, "6")), None);
        assert_eq!(machine.line(bookmark("6", false)), None);
        assert_eq!(machine.line(bookmark("9", true)), reset(&[2], 9));
        assert_eq!(machine.request(), watching("9"));
    }

    /// C1: a list in pages that leads back to itself, or on and on, is recognized.
    #[test]
    fn an_endless_list_is_recognized() {
        let paging = || {
            let mut machine = machine();
            machine.ended(End::Unsupported);
            machine
        };
        let mut machine = paging();
        for (token, is_endless) in [("t", false), ("t", true), ("u", false)] {
            assert_eq!(machine.is_endless(&page(&[], "7", Some(token))), is_endless, "{token}");
            machine.page(page(&[], "7", Some(token)));
        }
        assert!(!machine.is_endless(&page(&[], "7", None)));
        let mut machine = paging();
        let next = |number: u32| page(&[], "7", Some(&number.to_string()));
        for number in 0..PAGES_MAX {
            assert!(!machine.is_endless(&next(number)));
            machine.page(next(number));
        }
        assert!(machine.is_endless(&next(PAGES_MAX)));
        assert!(!machine.is_endless(&page(&[], "7", None)));
    }

    /// C1: a streaming list that ends early, except by 429 or a refused connection, is
    /// followed by a list in pages; the next list may stream again.
    #[test]
    fn pages_follow_a_streaming_list_that_ends_early() {
        for end in [End::Closed, End::Expired, End::NoAnswer, End::Failed] {
            let mut machine = machine();
            machine.line(added(1, "5"));
            machine.ended(end);
            assert_eq!(machine.request(), first_page(), "{end:?}");
            machine.ended(End::RetryLater);
            assert_eq!(machine.request(), first_page(), "{end:?}");
            assert_eq!(machine.page(page(&[2], "7", None)), reset(&[2], 7));
            machine.ended(End::Expired);
            assert_eq!(machine.request(), Request::StreamingList, "{end:?}");
            machine.ended(end);
            machine.ended(End::Failed);
            assert_eq!(machine.request(), Request::StreamingList, "{end:?}");
        }
    }

    /// C1: a watch that fails three times at one version is replaced by a list. A closed
    /// watch and an unreachable server are no failures of the watch.
    #[test]
    fn a_watch_that_fails_three_times_is_replaced_by_a_list() {
        let mut machine = machine();
        machine.line(bookmark("10", true));
        for _ in 0..10 {
            machine.ended(End::Closed);
            machine.ended(End::RetryLater);
            machine.ended(End::NoAnswer);
        }
        machine.ended(End::Failed);
        assert_eq!(machine.page(page(&[1], "10", None)), None);
        machine.ended(End::Failed);
        assert_eq!(machine.page(page(&[1], "10", None)), None);
        assert_eq!(machine.request(), watching("10"));
        machine.line(added(1, "11"));
        machine.ended(End::Failed);
        machine.ended(End::RetryLater);
        machine.ended(End::Failed);
        assert_eq!(machine.page(page(&[1], "11", None)), None);
        assert_eq!(machine.request(), watching("11"));
        machine.ended(End::Failed);
        assert_eq!(machine.request(), Request::StreamingList);
    }

    /// C1: after an outage a server with an older version than the watch was restored from a
    /// backup, and is asked for a list; other watches continue.
    #[test]
    fn a_list_follows_a_restore() {
        for end in [End::RetryLater, End::NoAnswer, End::Failed] {
            for (version, next) in
                [("9", Request::StreamingList), ("10", watching("10")), ("12", watching("10"))]
            {
                let mut machine = machine();
                machine.line(bookmark("10", true));
                machine.ended(end);
                assert_eq!(machine.request(), Request::Version, "{end:?}");
                machine.ended(End::Closed);
                assert_eq!(machine.request(), Request::Version, "{end:?}");
                assert_eq!(machine.page(page(&[1], version, Some("t"))), None);
                assert_eq!(machine.request(), next, "{end:?}");
            }
        }
    }

    /// C1: changes, deletions and changes of the owner within a streaming list count.
    #[test]
    fn changes_within_a_streaming_list_count() {
        let mut machine = machine();
        let version = || "6".to_owned();
        for item in [1, 2, 3] {
            machine.line(added(item, "5"));
        }
        machine.line(Line::Modified { item: 2, version: version() });
        machine.line(Line::Deleted { item: 1, version: version() });
        machine.line(Line::Deleted { item: 9, version: version() });
        machine.line(Line::Modified { item: 100, version: version() });
        machine.line(Line::Unreadable { version: version() });
        assert_eq!(machine.line(bookmark("9", true)), reset(&[3, 2], 9));
    }

    /// C1: a list whose token expires starts over, the second time without pages.
    #[test]
    fn a_list_whose_token_expires_twice_is_requested_without_pages() {
        let mut machine = machine();
        machine.ended(End::Failed);
        machine.page(page(&[1], "5", Some("t")));
        machine.ended(End::Expired);
        assert_eq!(machine.request(), first_page());
        machine.page(page(&[1], "6", Some("u")));
        machine.ended(End::Expired);
        assert_eq!(machine.request(), Request::Page { limit: None, continue_token: None });
        machine.ended(End::RetryLater);
        assert_eq!(machine.request(), Request::Page { limit: None, continue_token: None });
        assert_eq!(machine.page(page(&[1, 2], "7", None)), reset(&[1, 2], 7));
    }

    /// C1, C4: an unreadable object advances the watch; one without a version does not.
    #[test]
    fn a_watch_continues_after_an_unreadable_object() {
        let mut machine = machine();
        machine.line(bookmark("10", true));
        let unreadable = Line::Unreadable { version: "11".to_owned() };
        assert_eq!(machine.line(unreadable), Some(Change::Reached(ResourceVersion(11))));
        assert_eq!(machine.request(), watching("11"));
        let applied = Change::Applied { item: 1, version: ResourceVersion(11) };
        assert_eq!(machine.line(added(1, "")), Some(applied));
        assert_eq!(machine.request(), watching("11"));
    }

    /// C1: a server without streaming lists is asked for pages from then on; a list that breaks off
    /// between pages starts over.
    #[test]
    fn pages_replace_unsupported_streaming_lists() {
        let mut machine = machine();
        machine.ended(End::Unsupported);
        assert_eq!(machine.request(), first_page());
        assert_eq!(machine.page(page(&[1, 2], "7", Some("t"))), None);
        let second = Request::Page { limit: Some(500), continue_token: Some("t".to_owned()) };
        assert_eq!(machine.request(), second);
        machine.ended(End::RetryLater);
        assert_eq!(machine.request(), second);
        machine.ended(End::Failed);
        assert_eq!(machine.request(), first_page());
        assert_eq!(machine.page(page(&[3], "8", Some("u"))), None);
        assert_eq!(machine.page(page(&[4], "8", None)), reset(&[3, 4], 8));
        machine.ended(End::Expired);
        assert_eq!(machine.request(), first_page());
    }

    /// C3: lists leave foreign objects out; a watch reports them, as they may have been ours.
    #[test]
    fn a_list_leaves_foreign_objects_out() {
        let mut streaming = machine();
        streaming.line(added(100, "5"));
        streaming.line(added(1, "6"));
        assert_eq!(streaming.line(bookmark("6", true)), reset(&[1], 6));
        let applied = Change::Applied { item: 100, version: ResourceVersion(7) };
        assert_eq!(streaming.line(added(100, "7")), Some(applied));
        let mut paging = machine();
        paging.ended(End::Unsupported);
        assert_eq!(paging.page(page(&[100, 2], "8", Some("t"))), None);
        assert_eq!(paging.page(page(&[3, 101], "8", None)), reset(&[2, 3], 8));
    }

    /// C1, C60: a watch continues where it ended. Events and bookmarks both advance it; after 410
    /// there is a new list.
    #[test]
    fn a_watch_continues_where_it_ended() {
        let mut machine = machine();
        machine.line(bookmark("10", true));
        let applied = Change::Applied { item: 1, version: ResourceVersion(11) };
        assert_eq!(machine.line(added(1, "11")), Some(applied));
        machine.ended(End::Closed);
        assert_eq!(machine.request(), watching("11"));
        assert_eq!(machine.line(bookmark("20", false)), Some(Change::Reached(ResourceVersion(20))));
        machine.ended(End::Closed);
        assert_eq!(machine.request(), watching("20"));
        let deleted = Line::Deleted { item: 1, version: "21".to_owned() };
        let expected = Change::Deleted { item: 1, version: ResourceVersion(21) };
        assert_eq!(machine.line(deleted), Some(expected));
        machine.ended(End::Expired);
        assert_eq!(machine.request(), Request::StreamingList);
        assert_eq!(machine.line(bookmark("30", true)), reset(&[], 30));
    }
}
