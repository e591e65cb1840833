//! The answers of an API server whose cache is behind the store.

use super::*;
use crate::store::WatchCache;

/// The pod `a` is created, `b` is created, `a` is deleted: the resourceVersion of each.
fn three_writes() -> (Registry, [u64; 3]) {
    let mut registry = registry();
    let a = create(&mut registry, &POD, pod("a")).resource_version();
    let b = create(&mut registry, &POD, pod("b")).resource_version();
    registry.delete(&POD, "default", "a", &DeleteOptions::now(), &options()).expect("it is there");
    let deletion = registry.store().resource_version();
    assert_eq!((b, deletion), (a + 1, a + 2));
    (registry, [a, b, deletion])
}

fn names(list: &List) -> String {
    list.items.iter().map(|pod| pod.name()).collect()
}

/// S6: a list without a resourceVersion shows the newest state, one from any state what the cache
/// has, an exact one its state; a state that the cache has not reached is refused for now.
#[test]
fn the_resource_version_determines_the_state_of_a_list() {
    use ResourceVersionMatch::{Exact, NotOlderThan};
    let (registry, [a, b, deletion]) = three_writes();
    let list = |resource_version, resource_version_match, limit| {
        let options =
            ListOptions { resource_version, resource_version_match, limit, ..Default::default() };
        let list = WatchCache::at(b).list(registry.store(), &POD, &options);
        list.map(|list| (names(&list), list.resource_version)).map_err(|status| status.code())
    };
    let shows = |names: &str, version| Ok((names.to_owned(), version));
    assert_eq!(list(None, None, 0), shows("b", deletion));
    assert_eq!(list(None, None, 1), shows("b", deletion));
    assert_eq!(list(Some(0), None, 0), shows("ab", b));
    assert_eq!(list(Some(0), None, 1), shows("a", b));
    assert_eq!(list(Some(0), Some(NotOlderThan), 0), shows("ab", b));
    assert_eq!(list(Some(a), None, 0), shows("ab", b));
    assert_eq!(list(Some(a), Some(NotOlderThan), 0), shows("ab", b));
    assert_eq!(list(Some(deletion), None, 0), Err(504));
    assert_eq!(list(Some(deletion), Some(NotOlderThan), 0), Err(504));
    assert_eq!(list(Some(a), Some(Exact), 0), shows("a", a));
    assert_eq!(list(Some(a), None, 5), shows("a", a));
    assert_eq!(list(Some(deletion), Some(Exact), 0), shows("b", deletion));
    assert_eq!(list(Some(deletion + 1), Some(Exact), 0), Err(504));
    let future = ListOptions { resource_version: Some(deletion), ..ListOptions::default() };
    let refused = WatchCache::at(b).list(registry.store(), &POD, &future).expect_err("it is newer");
    let details = refused.details.as_ref().expect("details");
    assert_eq!(refused.message, format!("Too large resource version: {deletion}, current: {b}"));
    assert_eq!((refused.reason, details.retry_after_seconds), (Reason::Timeout, 1));
}

/// S6: the pages of a list show the state of its first page, whichever server is asked for them.
#[test]
fn pages_continue_at_any_server() {
    let (registry, [a, b, _]) = three_writes();
    let first = ListOptions { resource_version: Some(0), limit: 1, ..ListOptions::default() };
    let first = WatchCache::at(b).list(registry.store(), &POD, &first).expect("a page");
    let next = ListOptions { continue_token: first.continue_token, ..ListOptions::default() };
    for server in [a, b, b + 1] {
        let rest = WatchCache::at(server).list(registry.store(), &POD, &next).expect("a page");
        assert_eq!((names(&rest).as_str(), rest.resource_version), ("b", b));
    }
}

/// S4: a get without a resourceVersion shows the newest state, else the cache's: an object that it
/// has not seen is absent, and one whose deletion it has not seen is there.
#[test]
fn the_resource_version_determines_the_state_of_a_get() {
    let (mut registry, [a, b, deletion]) = three_writes();
    let patch = merge(json!({"metadata": {"labels": {"app": "new"}}}));
    registry.patch(&POD, "default", "b", &patch, &options()).expect("it is valid");
    let get = |cache, name, version| {
        let pod = WatchCache::at(cache).get(registry.store(), &POD, "default", name, version);
        pod.map(|pod| (pod.label("app").unwrap_or_default().to_owned(), pod.resource_version()))
            .map_err(|status| status.code())
    };
    let shows = |label: &str, version| Ok((label.to_owned(), version));
    assert_eq!(get(b, "a", None), Err(404));
    assert_eq!(get(b, "a", Some(0)), shows("a", a));
    assert_eq!(get(b, "a", Some(b)), shows("a", a));
    assert_eq!(get(b, "a", Some(deletion)), Err(504));
    assert_eq!(get(deletion, "a", Some(0)), Err(404));
    assert_eq!(get(a, "b", Some(0)), Err(404));
    assert_eq!(get(b, "b", Some(0)), shows("a", b));
    assert_eq!(get(b, "b", None), shows("new", deletion + 1));
    assert_eq!(get(deletion + 1, "b", Some(0)), shows("new", deletion + 1));
}

/// S7: a watch gets the changes that the cache has seen, and the rest, once, when it has seen them.
/// One that starts after what the cache has seen waits for it.
#[test]
fn changes_end_where_the_cache_ends() {
    let (registry, [a, b, deletion]) = three_writes();
    let mut cache = WatchCache::at(b);
    let since = |cache: WatchCache, version, limit| {
        let changes = cache.changes_since(registry.store(), &POD, version, limit);
        changes.map(|changes| changes.iter().map(|c| c.resource_version).collect::<Vec<_>>())
    };
    assert_eq!(since(cache, a - 1, 10), Ok(vec![a, b]));
    assert_eq!(since(cache, a - 1, 1), Ok(vec![a]));
    assert_eq!(since(cache, b, 10), Ok(vec![]));
    assert_eq!(since(cache, deletion, 10), Ok(vec![]));
    assert_eq!(cache.reached(registry.store(), &POD), b);
    cache.advance(a);
    assert_eq!(cache, WatchCache::at(b), "a cache goes back");
    cache.advance(deletion);
    assert_eq!(since(cache, b, 10), Ok(vec![deletion]));
    cache.advance(deletion + 100);
    assert_eq!(cache.reached(registry.store(), &POD), deletion, "the future");
}

/// S7: a watch from before the log expires, also where the cache is older still; the cache then
/// continues with the oldest state that the log has.
#[test]
fn a_cache_is_not_older_than_the_log() {
    let (mut registry, [a, b, deletion]) = three_writes();
    registry.store_mut().compact(b);
    let (store, cache) = (registry.store(), WatchCache::at(a));
    assert_eq!(cache.reached(store, &POD), b);
    let any = ListOptions { resource_version: Some(0), ..ListOptions::default() };
    let list = cache.list(store, &POD, &any).expect("a list");
    assert_eq!((names(&list).as_str(), list.resource_version), ("ab", b));
    assert!(cache.get(store, &POD, "default", "a", Some(0)).is_ok());
    assert!(cache.changes_since(store, &POD, a, 10).is_err());
    assert_eq!(cache.changes_since(store, &POD, b, 10).map(|changes| changes.len()), Ok(0));
    let newer = WatchCache::at(deletion);
    assert_eq!(newer.changes_since(store, &POD, b, 10).map(|changes| changes.len()), Ok(1));
}

/// S2, S6: a cache shows Events in both of their forms.
#[test]
fn a_cache_shows_the_requested_form() {
    let mut registry = registry();
    let event = json!({
        "metadata": {"name": "a", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "source": {"component": "kubelet"},
        "reason": "Pulled", "message": "first", "type": "Normal",
    });
    let cache = WatchCache::at(create(&mut registry, &EVENT, event).resource_version());
    let patch = merge(json!({"message": "second"}));
    registry.patch(&EVENT, "default", "a", &patch, &options()).expect("it is valid");
    let newer = cache.get(registry.store(), &EVENTS_EVENT, "default", "a", Some(0));
    assert_eq!(newer.expect("it is there").text(&["note"]), "first");
}
