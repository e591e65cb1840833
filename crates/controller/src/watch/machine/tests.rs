//! The machine without a server: which request follows which answer.

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
