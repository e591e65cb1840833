//! Watchers as clients see them: each follows the protocol at its own pace and must end with the
//! true state.

mod cluster;

use std::collections::BTreeMap;

use crate::registry::Registry;

use super::*;
use crate::http::negotiate::MetaVersion;
use crate::json::{Value, json};
use crate::kind::test_kinds::{ALL, CONFIG_MAP};
use crate::kinds::Kinds;
use crate::selector::LabelSelector;
use crate::store::{DeleteOptions, Options, WriteOptions};

use cluster::{NoPlugins, Plain};

const WINDOW: usize = 2_000;
const WATCHERS: usize = 1_000;
const OBJECTS: usize = 200;
const GROUPS: usize = 50;

fn shared() -> Arc<SharedCluster> {
    let options = Options { seed: 0, window: WINDOW, ..Options::default() };
    let store = Store::new(Kinds::new(ALL), &options);
    let cluster = Plain(Registry::new(store, Box::new(NoPlugins)));
    Arc::new(SharedCluster::new(cluster))
}

fn request(start: WatchStart, group: Option<usize>) -> WatchRequest {
    let labels = group.map_or_else(String::new, |group| format!("group={group}"));
    WatchRequest {
        kind: &CONFIG_MAP,
        selector: Selector {
            labels: LabelSelector::parse(&labels).expect("a good selector"),
            ..Selector::default()
        },
        form: Form::Object,
        include_object: IncludeObject::Metadata,
        start,
        bookmarks: true,
        timeout_seconds: None,
        api_server: ApiServer::default(),
        read_faults: ReadFaults::default(),
    }
}

fn config_map(index: usize, group: usize, round: usize) -> Value {
    json!({
        "metadata": {"name": format!("c{index}"), "labels": {"group": group.to_string()}},
        "data": {"round": round.to_string()},
    })
}

/// Forgets all changes but the latest `kept`.
fn compact(shared: &SharedCluster, kept: u64) {
    shared.write(|cluster, _| {
        let registry = cluster.registry_mut();
        let newest = registry.store().resource_version();
        registry.store_mut().compact(newest.saturating_sub(kept));
    });
}

/// Creates, changes (sometimes into another group) or deletes an object: one write per round.
fn write(shared: &SharedCluster, round: usize) {
    let (index, lap) = (round % OBJECTS, round / OBJECTS);
    let name = format!("c{index}");
    shared.write(|cluster, now| {
        let registry = cluster.registry_mut();
        let options = WriteOptions::at(now);
        let exists = registry.store().find(&CONFIG_MAP, "default", &name).is_some();
        if exists && (index + lap).is_multiple_of(7) {
            registry
                .delete(&CONFIG_MAP, "default", &name, &DeleteOptions::now(), &options)
                .expect("it can be deleted");
        } else if exists {
            let object = config_map(index, (index + lap / 3) % GROUPS, round);
            registry
                .update(&CONFIG_MAP, "default", &name, object, &options)
                .expect("it can be replaced");
        } else {
            let object = config_map(index, index % GROUPS, round);
            registry.create(&CONFIG_MAP, "default", object, &options).expect("it can be created");
        }
    });
}

/// The state of a client that follows the protocol.
struct Client {
    shared: Arc<SharedCluster>,
    group: Option<usize>,
    watcher: Watcher,
    /// Names, with the round of the last write.
    known: BTreeMap<String, String>,
    seen: u64,
    lists: usize,
}

impl Client {
    fn new(shared: &Arc<SharedCluster>, group: Option<usize>) -> Self {
        let start = WatchStart::InitialEvents { end: Some(InitialEnd::Newest) };
        let watcher = Watcher::new(shared, request(start, group)).expect("a watch");
        let shared = Arc::clone(shared);
        Self { shared, group, watcher, known: BTreeMap::new(), seen: 0, lists: 1 }
    }

    /// Reads one chunk; starts again if the watch has ended.
    async fn read(&mut self) {
        let Some(chunk) = self.watcher.next().await else {
            let Self { shared, group, lists, .. } = self;
            let lists = *lists + 1;
            *self = Self { lists, ..Self::new(shared, *group) };
            return;
        };
        assert!(chunk.len() < CHUNK_BYTES + 4096, "a chunk of {} bytes", chunk.len());
        for line in chunk.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.take(&serde_json::from_slice(line).expect("each line is an event"));
        }
    }

    fn take(&mut self, event: &Value) {
        let object = &event["object"];
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => {
                let round = object["data"]["round"].as_str().unwrap_or_default();
                self.known.insert(name, round.to_owned());
            }
            Some("DELETED") => {
                self.known.remove(&name);
            }
            Some("BOOKMARK") => {}
            Some("ERROR") => {
                assert_eq!((&object["code"], &object["reason"]), (&410.into(), &"Expired".into()));
                return;
            }
            other => panic!("an event of type {other:?}"),
        }
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        self.seen = version.parse().expect("a resourceVersion is a number");
    }

    fn truth(&self) -> BTreeMap<String, String> {
        let options = ListOptions {
            selector: request(WatchStart::Now, self.group).selector,
            ..Default::default()
        };
        let list = self.shared.read(|store| store.list(&CONFIG_MAP, &options)).expect("a list");
        let round = |object: &Object| object.text(&["data", "round"]).to_owned();
        list.items.iter().map(|object| (object.name().to_owned(), round(object))).collect()
    }
}

/// S7: a thousand watchers, of which every third is far too slow, with compaction in between. Each
/// ends with the true state, and the slow ones are cut off instead of waited for.
/// `EVERYNODE_WATCH_EVENTS` sets another number of writes than 5,000.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_watchers_reach_the_current_state() {
    let writes = std::env::var("EVERYNODE_WATCH_EVENTS").ok();
    let writes: usize = writes.and_then(|text| text.parse().ok()).unwrap_or(2_000);
    let shared = shared();
    let (progress, _) = tokio::sync::watch::channel(0usize);
    let mut clients = Vec::new();
    for index in 0..WATCHERS {
        // One in a hundred watches everything, the others watch one group each.
        let group = (!index.is_multiple_of(100)).then_some(index % GROUPS);
        let mut client = Client::new(&shared, group);
        let mut progress = progress.subscribe();
        clients.push(tokio::spawn(async move {
            let is_slow = index.is_multiple_of(3);
            while *progress.borrow_and_update() < writes {
                if is_slow {
                    // Read one chunk per thousand writes, and nothing in between.
                    progress.changed().await.expect("the writer is there");
                    client.read().await;
                } else {
                    tokio::select! {
                        changed = progress.changed() => changed.expect("the writer is there"),
                        () = client.read() => {}
                    }
                }
            }
            let truth = client.truth();
            while client.known != truth {
                client.read().await;
            }
            client.lists
        }));
    }
    for round in 0..writes {
        write(&shared, round);
        if round % 1_000 == 999 {
            progress.send_replace(round);
            compact(&shared, 100);
        }
        if round.is_multiple_of(64) {
            tokio::task::yield_now().await;
        }
    }
    progress.send_replace(writes);
    let mut lists = 0;
    for client in clients {
        let ended = tokio::time::timeout(Duration::from_secs(60), client).await;
        lists += ended.expect("it ends").expect("it does not panic");
    }
    assert!(lists > WATCHERS, "slow watchers were cut off and listed again: {lists} lists");
}

fn version(shared: &SharedCluster) -> u64 {
    shared.read(|store| store.resource_version())
}

async fn events(watcher: &mut Watcher) -> Vec<String> {
    let chunk = watcher.next().await.expect("a chunk");
    let line = |line: &[u8]| {
        let event: Value = serde_json::from_slice(line).expect("an event");
        let metadata = &event["object"]["metadata"];
        let name = metadata["name"].as_str().unwrap_or("-");
        let mark = &metadata["annotations"]["k8s.io/initial-events-end"];
        let mark = if *mark == "true" { " initial-events-end" } else { "" };
        format!("{} {name}{mark}", event["type"].as_str().unwrap_or_default())
    };
    chunk.split(|byte| *byte == b'\n').filter(|part| !part.is_empty()).map(line).collect()
}

/// S7: a streaming list consists of the current objects, a bookmark that ends them, and the later
/// changes.
#[tokio::test]
async fn a_streaming_list_ends_with_a_marked_bookmark() {
    let shared = shared();
    write(&shared, 1);
    write(&shared, 2);
    let start = WatchStart::InitialEvents { end: Some(InitialEnd::Newest) };
    let mut watcher = Watcher::new(&shared, request(start, None)).expect("a watch");
    assert_eq!(
        events(&mut watcher).await,
        ["ADDED c1", "ADDED c2", "BOOKMARK - initial-events-end"]
    );
    write(&shared, 3);
    assert_eq!(events(&mut watcher).await, ["ADDED c3"]);
}

/// S7: a consistent streaming list from a cache that is behind begins with what the cache has; the
/// bookmark comes once the cache has seen what the store had at the start, and names its version.
#[tokio::test]
async fn a_streaming_list_ends_when_the_cache_has_caught_up() {
    let shared = shared();
    write(&shared, 1);
    let reached = tokio::sync::watch::Sender::new(version(&shared));
    write(&shared, 2);
    let newest = version(&shared);
    let of = |end| WatchRequest {
        api_server: ApiServer::with_cache(reached.subscribe()),
        ..request(WatchStart::InitialEvents { end }, None)
    };
    let any = Some(InitialEnd::NotOlderThan(0));
    let mut any = Watcher::new(&shared, of(any)).expect("a watch");
    let mut legacy = Watcher::new(&shared, of(None)).expect("a watch");
    let mut consistent = Watcher::new(&shared, of(Some(InitialEnd::Newest))).expect("a watch");
    assert_eq!(events(&mut any).await, ["ADDED c1", "BOOKMARK - initial-events-end"]);
    assert_eq!(events(&mut legacy).await, ["ADDED c1"]);
    assert_eq!(events(&mut consistent).await, ["ADDED c1"]);
    write(&shared, 3);
    reached.send_replace(newest);
    assert_eq!(events(&mut consistent).await, ["ADDED c2", "BOOKMARK - initial-events-end"]);
    assert_eq!(consistent.position, newest);
    reached.send_replace(version(&shared));
    assert_eq!(events(&mut consistent).await, ["ADDED c3"]);
    assert_eq!(events(&mut legacy).await, ["ADDED c2", "ADDED c3"]);
}

/// S7: a watch that comes from a server which knows more gets nothing twice and nothing early, and
/// no bookmark with an older version than its own.
#[tokio::test]
async fn a_watch_waits_for_a_cache_that_is_behind() {
    let shared = shared();
    let reached = tokio::sync::watch::Sender::new(version(&shared));
    write(&shared, 1);
    let known = version(&shared);
    let from_known = WatchRequest {
        api_server: ApiServer::with_cache(reached.subscribe()),
        ..request(WatchStart::After(known), None)
    };
    let mut watcher = Watcher::new(&shared, from_known).expect("a watch");
    watcher.next_bookmark = Instant::now();
    assert_eq!(events(&mut watcher).await, ["BOOKMARK -"]);
    assert_eq!(watcher.position, known);
    write(&shared, 2);
    let early = tokio::time::timeout(Duration::from_millis(20), watcher.next()).await;
    assert!(early.is_err(), "the cache has not seen it yet");
    reached.send_replace(known);
    let early = tokio::time::timeout(Duration::from_millis(20), watcher.next()).await;
    assert!(early.is_err(), "the watcher knows that already");
    reached.send_replace(version(&shared));
    assert_eq!(events(&mut watcher).await, ["ADDED c2"]);
}

/// S4: a watch of table rows sends the column definitions once.
#[tokio::test]
async fn a_watch_sends_the_column_headers_once() {
    let shared = shared();
    write(&shared, 1);
    write(&shared, 2);
    let start = WatchStart::InitialEvents { end: None };
    let form = Form::Table(MetaVersion::V1);
    let table = WatchRequest { form, ..request(start, None) };
    let mut watcher = Watcher::new(&shared, table).expect("a watch");
    let chunk = watcher.next().await.expect("a chunk");
    let columns = |line: &[u8]| {
        let event: Value = serde_json::from_slice(line).expect("an event");
        event["object"]["columnDefinitions"].as_array().map_or(0, Vec::len)
    };
    let lines = chunk.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    assert_eq!(lines.map(columns).collect::<Vec<_>>(), [2, 0]);
}

/// S7: a watch without events gets bookmarks from time to time, without the objects that it does
/// not select.
#[tokio::test]
async fn a_quiet_watch_gets_bookmarks() {
    let shared = shared();
    let mut watcher = Watcher::new(&shared, request(WatchStart::Now, Some(49))).expect("a watch");
    write(&shared, 1);
    watcher.next_bookmark = Instant::now();
    assert_eq!(events(&mut watcher).await, ["BOOKMARK -"]);
    assert_eq!(watcher.position, shared.read(|store| store.resource_version()));
}

/// S7: an object that stops matching is DELETED, one that starts to match is ADDED; a watch from a
/// resourceVersion shows the changes after it.
#[tokio::test]
async fn a_watch_shows_the_transitions_of_its_selector() {
    let shared = shared();
    let start = WatchStart::After(shared.read(|store| store.resource_version()));
    let mut watcher = Watcher::new(&shared, request(start, Some(1))).expect("a watch");
    for group in [1, 2, 1] {
        shared.write(|cluster, now| {
            let registry = cluster.registry_mut();
            let options = WriteOptions::at(now);
            let object = config_map(0, group, group);
            let exists = registry.store().find(&CONFIG_MAP, "default", "c0").is_some();
            if exists {
                registry.update(&CONFIG_MAP, "default", "c0", object, &options).expect("an update");
            } else {
                registry.create(&CONFIG_MAP, "default", object, &options).expect("a creation");
            }
        });
    }
    assert_eq!(events(&mut watcher).await, ["ADDED c0", "DELETED c0", "ADDED c0"]);
}

/// S7: a watch that is older than the log's window gets one error and ends; so does one whose time
/// is over.
#[tokio::test]
async fn a_watch_ends_when_it_expires_or_times_out() {
    let shared = shared();
    for round in 0..10 {
        write(&shared, round);
    }
    compact(&shared, 0);
    let mut watcher = Watcher::new(&shared, request(WatchStart::After(1), None)).expect("a watch");
    assert_eq!(events(&mut watcher).await, ["ERROR -"]);
    assert!(watcher.next().await.is_none());

    let timed = WatchRequest { timeout_seconds: Some(1), ..request(WatchStart::Now, None) };
    let mut watcher = Watcher::new(&shared, timed).expect("a watch");
    assert!(watcher.next().await.is_none());
}

/// S7: a streaming list needs the parameters that upstream requires.
#[test]
fn watch_start_parameters_are_validated_as_upstream() {
    let start = |query: &str| {
        let parameters = super::super::query::parse(query).expect("a query");
        start(&parameters).map_err(|status| status.code())
    };
    let cases = [
        ("", Ok(WatchStart::InitialEvents { end: None })),
        ("resourceVersion=0", Ok(WatchStart::InitialEvents { end: None })),
        ("resourceVersion=7", Ok(WatchStart::After(7))),
        ("resourceVersion=x", Err(422)),
        ("sendInitialEvents=true", Err(422)),
        ("resourceVersionMatch=NotOlderThan", Err(422)),
        ("sendInitialEvents=true&resourceVersionMatch=Exact", Err(422)),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            Ok(WatchStart::InitialEvents { end: Some(InitialEnd::Newest) }),
        ),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=7",
            Ok(WatchStart::InitialEvents { end: Some(InitialEnd::NotOlderThan(7)) }),
        ),
        ("sendInitialEvents=false&resourceVersionMatch=NotOlderThan", Ok(WatchStart::Now)),
    ];
    for (query, expected) in cases {
        assert_eq!(start(query), expected, "{query}");
    }
}
