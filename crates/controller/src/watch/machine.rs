//! The steps of a list and watch, without I/O: what to ask for next, and what an answer means (C1).
//!
//! A list is handed on only when it is complete; what arrived of one that broke off is forgotten. Streaming lists
//! (`sendInitialEvents`) are tried first. One that comes to nothing is followed by a list in pages, because servers rely
//! on that: those on an old etcd answer each streaming list with an error event. A server that does not know streaming
//! lists is asked for pages from then on.
//! Models: client-go's reflector, kube-runtime's `watcher::State`.

mod gathered;

use everynode_core::api::ResourceVersion;

use gathered::Gathered;

/// Objects on a page of a list.
const PAGE_LIMIT: u32 = 500;
/// As often a continue token may expire before the list is asked for in one piece.
const EXPIRATIONS_MAX: u8 = 2;
/// As often a watch may fail at one version before a list takes its place.
const FAILURES_MAX: u8 = 3;

/// What a watch tells, in the order in which it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// All objects that there are; others that were known are gone.
    Reset {
        items: Vec<T>,
        version: ResourceVersion,
    },
    Applied {
        item: T,
        version: ResourceVersion,
    },
    /// `item` is the last state.
    Deleted {
        item: T,
        version: ResourceVersion,
    },
    /// Nothing changed up to here (C60).
    Reached(ResourceVersion),
}

impl<T> Change<T> {
    /// How far the watch has come with it.
    pub const fn version(&self) -> ResourceVersion {
        match self {
            Self::Reset { version, .. }
            | Self::Applied { version, .. }
            | Self::Deleted { version, .. }
            | Self::Reached(version) => *version,
        }
    }
}

/// What to ask the API server for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first page, or the one that the token names. Always of the newest state: an old one could hide our own
    /// writes. `limit`: objects on the page; `None`: the list in one piece.
    Page { limit: Option<u32>, continue_token: Option<String> },
    /// A watch that begins with everything there is.
    StreamingList,
    /// What happened since.
    Watch { since: String },
}

/// An answer to [`Request::Page`].
#[derive(Debug)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub version: String,
    /// `None` on the last page.
    pub continue_token: Option<String>,
}

/// One line of a watch. The version of an object is empty if it has none: then the watch has come no further.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<T> {
    Added {
        item: T,
        version: String,
    },
    Modified {
        item: T,
        version: String,
    },
    Deleted {
        item: T,
        version: String,
    },
    /// An object that can't be read was added or modified: what is known of it stays as it is.
    Unreadable {
        version: String,
    },
    Bookmark {
        version: String,
        ends_initial_events: bool,
    },
}

/// Why a request came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server ended the watch, as it does from time to time, or the connection broke.
    Closed,
    /// The point to go on from is no longer known (410), or a list is needed for another reason.
    Expired,
    /// The server does not understand the request (400, 422).
    Refused,
    /// Nobody listens at the server's address, or it asks for a pause (429): the same request is made again.
    Unavailable,
    /// There was no answer for another reason. A watch has not failed by that: it is the server that is away.
    Unreachable,
    /// Anything else: no permission, a server error, an answer that makes no sense.
    Failed,
}

/// Where a list and watch stands.
#[derive(Debug)]
pub struct Machine<T> {
    state: State<T>,
    streaming_lists: bool,
    is_foreign: fn(&T) -> bool,
    key: fn(&T) -> String,
}

#[derive(Debug)]
enum State<T> {
    /// `expirations`: how often the list has begun anew because its token had expired.
    Paging {
        items: Vec<T>,
        continue_token: Option<String>,
        expirations: u8,
    },
    Streaming {
        items: Gathered<T>,
    },
    /// `failures`: in a row, at this version.
    Watching {
        since: String,
        failures: u8,
    },
}

impl<T> Machine<T> {
    /// `is_foreign`: what is somebody else's, and so left out of lists (C3). `key`: the same for all states of an object,
    /// and for no other one.
    pub fn new(is_foreign: fn(&T) -> bool, key: fn(&T) -> String) -> Self {
        let state = State::Streaming { items: Gathered::new(key) };
        Self { state, streaming_lists: true, is_foreign, key }
    }

    pub fn request(&self) -> Request {
        match &self.state {
            State::Paging { continue_token, expirations, .. } => Request::Page {
                limit: (*expirations < EXPIRATIONS_MAX).then_some(PAGE_LIMIT),
                continue_token: continue_token.clone(),
            },
            State::Streaming { .. } => Request::StreamingList,
            State::Watching { since, .. } => Request::Watch { since: since.clone() },
        }
    }

    /// Whether a list is yet to be completed.
    pub fn is_listing(&self) -> bool {
        match self.state {
            State::Paging { .. } | State::Streaming { .. } => true,
            State::Watching { .. } => false,
        }
    }

    /// Takes a page; the last one completes the list.
    pub fn page(&mut self, page: Page<T>) -> Option<Change<T>> {
        let State::Paging { items, continue_token, .. } = &mut self.state else { return None };
        items.extend(page.items.into_iter().filter(|item| !(self.is_foreign)(item)));
        if page.continue_token.is_some() {
            *continue_token = page.continue_token;
            return None;
        }
        let items = std::mem::take(items);
        let version = number(&page.version);
        self.state = State::Watching { since: page.version, failures: 0 };
        Some(Change::Reset { items, version })
    }

    /// Takes a line of a watch.
    pub fn line(&mut self, line: Line<T>) -> Option<Change<T>> {
        match &mut self.state {
            State::Paging { .. } => None,
            State::Streaming { items } => {
                let version = gather(items, self.is_foreign, line)?;
                let items = items.take();
                let reset = Change::Reset { items, version: number(&version) };
                self.state = State::Watching { since: version, failures: 0 };
                Some(reset)
            }
            State::Watching { since, failures } => {
                *failures = 0;
                Some(follow(since, line))
            }
        }
    }

    /// The request came to its end; [`request`](Self::request) says what is next.
    pub fn ended(&mut self, end: End) {
        match (&mut self.state, end) {
            (State::Watching { .. }, End::Closed | End::Unavailable | End::Unreachable) => {}
            // The pages that came are kept, and the next one is asked for again.
            (State::Paging { .. }, End::Unavailable) => {}
            (State::Watching { failures, .. }, End::Failed) => {
                *failures += 1;
                if *failures >= FAILURES_MAX {
                    self.restart();
                }
            }
            (State::Streaming { items }, End::Unavailable) => {
                items.take();
            }
            (State::Streaming { .. }, End::Refused) => {
                self.streaming_lists = false;
                self.restart();
            }
            (
                State::Streaming { .. },
                End::Closed | End::Expired | End::Unreachable | End::Failed,
            ) => {
                self.page_from(0);
            }
            (State::Paging { expirations, .. }, End::Expired) => {
                // Asked for in one piece, nothing can expire but by mistake of the server: then all begins anew.
                match *expirations {
                    EXPIRATIONS_MAX.. => self.restart(),
                    expired => self.page_from(expired + 1),
                }
            }
            (State::Paging { .. }, End::Closed | End::Refused | End::Unreachable | End::Failed)
            | (State::Watching { .. }, End::Expired | End::Refused) => self.restart(),
        }
    }

    /// Begins a new list; a half one is never handed on.
    fn restart(&mut self) {
        if self.streaming_lists {
            self.state = State::Streaming { items: Gathered::new(self.key) };
        } else {
            self.page_from(0);
        }
    }

    fn page_from(&mut self, expirations: u8) {
        self.state = State::Paging { items: Vec::new(), continue_token: None, expirations };
    }
}

/// Takes a line of a streaming list. Returns the version of the line that completes it.
fn gather<T>(items: &mut Gathered<T>, is_foreign: fn(&T) -> bool, line: Line<T>) -> Option<String> {
    match line {
        Line::Added { item, .. } if is_foreign(&item) => {}
        Line::Added { item, .. } => items.push(item),
        // Most servers send nothing but additions before the end of the initial events.
        Line::Modified { item, .. } if !is_foreign(&item) => items.put(item),
        Line::Modified { item, .. } | Line::Deleted { item, .. } => items.remove(&item),
        Line::Unreadable { .. } | Line::Bookmark { ends_initial_events: false, .. } => {}
        Line::Bookmark { version, ends_initial_events: true } => return Some(version),
    }
    None
}

/// Takes a line of a watch, which has then come as far.
fn follow<T>(since: &mut String, line: Line<T>) -> Change<T> {
    let mut reach = |version: String| {
        if !version.is_empty() {
            *since = version;
        }
        number(since)
    };
    match line {
        Line::Added { item, version } | Line::Modified { item, version } => {
            Change::Applied { item, version: reach(version) }
        }
        Line::Deleted { item, version } => Change::Deleted { item, version: reach(version) },
        Line::Unreadable { version } | Line::Bookmark { version, .. } => {
            Change::Reached(reach(version))
        }
    }
}

/// Resource versions are decimal numbers since 1.35; zero if this one is none.
fn number(version: &str) -> ResourceVersion {
    ResourceVersion(version.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of numbers, those from 100 on foreign.
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

    /// C1: what streamed in before the server asked for a pause is no list.
    #[test]
    fn a_streaming_list_counts_when_it_is_complete() {
        let mut machine = machine();
        assert_eq!(machine.request(), Request::StreamingList);
        assert_eq!(machine.line(added(1, "5")), None);
        machine.ended(End::Unavailable);
        assert_eq!(machine.request(), Request::StreamingList);
        assert_eq!(machine.line(added(2, "6")), None);
        assert_eq!(machine.line(bookmark("6", false)), None);
        assert_eq!(machine.line(bookmark("9", true)), reset(&[2], 9));
        assert_eq!(machine.request(), watching("9"));
    }

    /// C1: finding 1. A streaming list that ends early, for any reason but 429 or a refused connection, is followed by a
    /// list in pages; the next list may stream again.
    #[test]
    fn pages_follow_a_streaming_list_that_ends_early() {
        for end in [End::Closed, End::Expired, End::Unreachable, End::Failed] {
            let mut machine = machine();
            machine.line(added(1, "5"));
            machine.ended(end);
            assert_eq!(machine.request(), first_page(), "{end:?}");
            machine.ended(End::Unavailable);
            assert_eq!(machine.request(), first_page(), "{end:?}");
            assert_eq!(machine.page(page(&[2], "7", None)), reset(&[2], 7));
            machine.ended(End::Expired);
            assert_eq!(machine.request(), Request::StreamingList, "{end:?}");
            machine.ended(end);
            machine.ended(End::Failed);
            assert_eq!(machine.request(), Request::StreamingList, "{end:?}");
        }
    }

    /// C1: finding 5. A watch that fails three times at one version begins with a list; that it is closed, or that the
    /// server is not there, is no failure of the watch.
    #[test]
    fn a_list_takes_the_place_of_a_watch_that_fails_again_and_again() {
        let mut machine = machine();
        machine.line(bookmark("10", true));
        for _ in 0..10 {
            machine.ended(End::Closed);
            machine.ended(End::Unavailable);
            machine.ended(End::Unreachable);
        }
        machine.ended(End::Failed);
        machine.ended(End::Failed);
        assert_eq!(machine.request(), watching("10"));
        machine.line(added(1, "11"));
        machine.ended(End::Failed);
        machine.ended(End::Unavailable);
        machine.ended(End::Failed);
        assert_eq!(machine.request(), watching("11"));
        machine.ended(End::Failed);
        assert_eq!(machine.request(), Request::StreamingList);
    }

    /// C1: finding 7. What is changed, deleted or handed to somebody else before a streaming list is complete counts.
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

    /// C1: finding 19. A list whose token expires begins anew, and comes in one piece the next time.
    #[test]
    fn a_list_whose_token_expires_twice_comes_in_one_piece() {
        let mut machine = machine();
        machine.ended(End::Failed);
        machine.page(page(&[1], "5", Some("t")));
        machine.ended(End::Expired);
        assert_eq!(machine.request(), first_page());
        machine.page(page(&[1], "6", Some("u")));
        machine.ended(End::Expired);
        assert_eq!(machine.request(), Request::Page { limit: None, continue_token: None });
        machine.ended(End::Unavailable);
        assert_eq!(machine.request(), Request::Page { limit: None, continue_token: None });
        assert_eq!(machine.page(page(&[1, 2], "7", None)), reset(&[1, 2], 7));
    }

    /// C1, C4: finding 5. An object that can't be read moves the watch on; one without a version leaves it where it is.
    #[test]
    fn a_watch_goes_on_behind_what_can_not_be_read() {
        let mut machine = machine();
        machine.line(bookmark("10", true));
        let unreadable = Line::Unreadable { version: "11".to_owned() };
        assert_eq!(machine.line(unreadable), Some(Change::Reached(ResourceVersion(11))));
        assert_eq!(machine.request(), watching("11"));
        let applied = Change::Applied { item: 1, version: ResourceVersion(11) };
        assert_eq!(machine.line(added(1, "")), Some(applied));
        assert_eq!(machine.request(), watching("11"));
    }

    /// C1: a server without streaming lists is asked for pages, then and ever after; a list that breaks off between
    /// pages begins anew.
    #[test]
    fn pages_take_over_where_streaming_is_refused() {
        let mut machine = machine();
        machine.ended(End::Refused);
        assert_eq!(machine.request(), first_page());
        assert_eq!(machine.page(page(&[1, 2], "7", Some("t"))), None);
        let second = Request::Page { limit: Some(500), continue_token: Some("t".to_owned()) };
        assert_eq!(machine.request(), second);
        machine.ended(End::Unavailable);
        assert_eq!(machine.request(), second);
        machine.ended(End::Failed);
        assert_eq!(machine.request(), first_page());
        assert_eq!(machine.page(page(&[3], "8", Some("u"))), None);
        assert_eq!(machine.page(page(&[4], "8", None)), reset(&[3, 4], 8));
        machine.ended(End::Expired);
        assert_eq!(machine.request(), first_page());
    }

    /// C3: neither kind of list gathers what is somebody else's; a watch tells of it, for it may have been ours.
    #[test]
    fn a_list_does_not_gather_what_is_foreign() {
        let mut streaming = machine();
        streaming.line(added(100, "5"));
        streaming.line(added(1, "6"));
        assert_eq!(streaming.line(bookmark("6", true)), reset(&[1], 6));
        let applied = Change::Applied { item: 100, version: ResourceVersion(7) };
        assert_eq!(streaming.line(added(100, "7")), Some(applied));
        let mut paging = machine();
        paging.ended(End::Refused);
        assert_eq!(paging.page(page(&[100, 2], "8", Some("t"))), None);
        assert_eq!(paging.page(page(&[3, 101], "8", None)), reset(&[2, 3], 8));
    }

    /// C1, C60: a watch goes on where it was; events and bookmarks both move that point; after 410 there is a new list.
    #[test]
    fn a_watch_goes_on_where_it_broke_off() {
        let mut machine = machine();
        machine.line(bookmark("10", true));
        let applied = Change::Applied { item: 1, version: ResourceVersion(11) };
        assert_eq!(machine.line(added(1, "11")), Some(applied));
        machine.ended(End::Failed);
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
