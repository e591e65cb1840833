//! The steps of a list and watch, without I/O: what to ask for next, and what an answer means (C1).
//!
//! A list is handed on only when it is complete; what arrived of one that broke off is forgotten. Streaming lists
//! (`sendInitialEvents`) are tried first; a server that refuses them is asked for pages from then on.
//! Models: client-go's reflector, kube-runtime's `watcher::State`.

use everynode_core::name::ResourceVersion;

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
    /// writes.
    Page { continue_token: Option<String> },
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

/// One line of a watch.
#[derive(Debug)]
pub enum Line<T> {
    Added { item: T, version: String },
    Modified { item: T, version: String },
    Deleted { item: T, version: String },
    Bookmark { version: String, ends_initial_events: bool },
}

/// Why a request came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server ended the watch, as it does from time to time, or the connection broke.
    Closed,
    /// 410: the point to go on from is no longer known.
    Expired,
    /// The server does not understand the request (400, 422).
    Refused,
    /// Anything else: no connection, no permission, a server error.
    Failed,
}

/// Where a list and watch stands.
#[derive(Debug)]
pub struct Machine<T> {
    state: State<T>,
    streaming_lists: bool,
    is_foreign: fn(&T) -> bool,
}

#[derive(Debug)]
enum State<T> {
    Paging { items: Vec<T>, continue_token: Option<String> },
    Streaming { items: Vec<T> },
    Watching { since: String },
}

impl<T> Machine<T> {
    /// `is_foreign`: what is somebody else's, and so left out of lists (C3).
    pub fn new(is_foreign: fn(&T) -> bool) -> Self {
        let state = State::Streaming { items: Vec::new() };
        Self { state, streaming_lists: true, is_foreign }
    }

    pub fn request(&self) -> Request {
        match &self.state {
            State::Paging { continue_token, .. } => {
                Request::Page { continue_token: continue_token.clone() }
            }
            State::Streaming { .. } => Request::StreamingList,
            State::Watching { since } => Request::Watch { since: since.clone() },
        }
    }

    /// Takes a page; the last one completes the list.
    pub fn page(&mut self, page: Page<T>) -> Option<Change<T>> {
        let State::Paging { items, continue_token } = &mut self.state else { return None };
        items.extend(page.items.into_iter().filter(|item| !(self.is_foreign)(item)));
        if page.continue_token.is_some() {
            *continue_token = page.continue_token;
            return None;
        }
        let items = std::mem::take(items);
        let version = number(&page.version);
        self.state = State::Watching { since: page.version };
        Some(Change::Reset { items, version })
    }

    /// Takes a line of a watch.
    pub fn line(&mut self, line: Line<T>) -> Option<Change<T>> {
        match &mut self.state {
            State::Paging { .. } => None,
            State::Streaming { items } => match line {
                Line::Added { item, .. } | Line::Modified { item, .. } => {
                    if !(self.is_foreign)(&item) {
                        items.push(item);
                    }
                    None
                }
                // Before the end of the initial events a server sends nothing else.
                Line::Deleted { .. } | Line::Bookmark { ends_initial_events: false, .. } => None,
                Line::Bookmark { version, ends_initial_events: true } => {
                    let items = std::mem::take(items);
                    let reset = Change::Reset { items, version: number(&version) };
                    self.state = State::Watching { since: version };
                    Some(reset)
                }
            },
            State::Watching { since } => {
                let (change, version) = match line {
                    Line::Added { item, version } | Line::Modified { item, version } => {
                        (Change::Applied { item, version: number(&version) }, version)
                    }
                    Line::Deleted { item, version } => {
                        (Change::Deleted { item, version: number(&version) }, version)
                    }
                    Line::Bookmark { version, .. } => (Change::Reached(number(&version)), version),
                };
                *since = version;
                Some(change)
            }
        }
    }

    /// The request came to its end; [`request`](Self::request) says what is next.
    pub fn ended(&mut self, end: End) {
        match (&self.state, end) {
            (State::Watching { .. }, End::Closed | End::Failed) => {}
            (State::Streaming { .. }, End::Refused) => {
                self.streaming_lists = false;
                self.restart();
            }
            (
                State::Paging { .. } | State::Streaming { .. } | State::Watching { .. },
                End::Closed | End::Expired | End::Refused | End::Failed,
            ) => self.restart(),
        }
    }

    /// Begins a new list; a half one is never handed on.
    fn restart(&mut self) {
        self.state = if self.streaming_lists {
            State::Streaming { items: Vec::new() }
        } else {
            State::Paging { items: Vec::new(), continue_token: None }
        };
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
        Machine::new(|number| *number >= 100)
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

    /// C1: what streamed in before the connection broke is no list.
    #[test]
    fn a_streaming_list_counts_when_it_is_complete() {
        let mut machine = machine();
        assert_eq!(machine.request(), Request::StreamingList);
        assert_eq!(machine.line(added(1, "5")), None);
        machine.ended(End::Closed);
        assert_eq!(machine.request(), Request::StreamingList);
        assert_eq!(machine.line(added(2, "6")), None);
        assert_eq!(machine.line(bookmark("6", false)), None);
        assert_eq!(machine.line(bookmark("9", true)), reset(&[2], 9));
        assert_eq!(machine.request(), watching("9"));
    }

    /// C1: a server without streaming lists is asked for pages, then and ever after; a list that breaks off between
    /// pages begins anew.
    #[test]
    fn pages_take_over_where_streaming_is_refused() {
        let mut machine = machine();
        machine.ended(End::Refused);
        assert_eq!(machine.request(), Request::Page { continue_token: None });
        assert_eq!(machine.page(page(&[1, 2], "7", Some("t"))), None);
        assert_eq!(machine.request(), Request::Page { continue_token: Some("t".to_owned()) });
        machine.ended(End::Expired);
        assert_eq!(machine.request(), Request::Page { continue_token: None });
        assert_eq!(machine.page(page(&[3], "8", Some("u"))), None);
        assert_eq!(machine.page(page(&[4], "8", None)), reset(&[3, 4], 8));
        machine.ended(End::Expired);
        assert_eq!(machine.request(), Request::Page { continue_token: None });
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
