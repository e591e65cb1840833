//! Tests of several API servers behind one address, whose watch caches follow the store with
//! delays.

use std::time::{Duration, Instant};

use everynode_sandbox::Options;
use serde_json::{Value, json};

use crate::wire::{Response, Server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Starts an API server for each lag. They serve the requests of the tests in turn, because each
/// request has its own connection.
async fn servers(lags: [Duration; 2]) -> Server {
    Server::start_as(Options { api_server_lags: lags.into(), ..Options::default() }).await
}

async fn create(server: &Server, name: &str) -> u64 {
    let body = json!({"metadata": {"name": name}});
    let created = server.post(MAPS, body.to_string().as_bytes()).await;
    assert_eq!(created.code, 201, "{}", created.body);
    version(&created.json())
}

fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    version.parse().expect("a resourceVersion")
}

/// Returns the names of the objects in a list.
fn names(list: &Response) -> Vec<String> {
    assert_eq!(list.code, 200, "{}", list.body);
    let items = list.json()["items"].as_array().expect("a list").clone();
    items.iter().filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

/// Sends a request to both API servers.
async fn from_both(server: &Server, path: &str) -> [Response; 2] {
    [server.get(path).await, server.get(path).await]
}

/// S6, S17: of two API servers, one never sees a write. From its cache it tells the past; reads
/// that require the newest state, and writes, are the same at both.
#[tokio::test]
async fn a_server_that_lags_tells_the_past_only_from_its_cache() {
    let server = servers([Duration::ZERO, Duration::from_secs(3600)]).await;
    let written = create(&server, "late").await;
    for list in from_both(&server, MAPS).await {
        assert!(names(&list).contains(&"late".to_owned()));
        assert!(version(&list.json()) >= written);
    }
    for (path, expected) in [
        (format!("{MAPS}/late"), [200, 200]),
        (format!("{MAPS}/late?resourceVersion=0"), [200, 404]),
    ] {
        let mut codes = from_both(&server, &path).await.map(|response| response.code);
        codes.sort_unstable();
        assert_eq!(codes, expected, "{path}");
    }
    let lists = from_both(&server, &format!("{MAPS}?resourceVersion=0")).await;
    let past: Vec<_> =
        lists.iter().filter(|list| !names(list).contains(&"late".to_owned())).collect();
    assert_eq!(past.len(), 1, "one server lags");
    assert!(version(&past[0].json()) < written);

    let required = format!("{MAPS}?resourceVersion={written}&resourceVersionMatch=NotOlderThan");
    let mut lists = from_both(&server, &required).await;
    lists.sort_unstable_by_key(|list| list.code);
    assert_eq!(lists.each_ref().map(|list| list.code), [200, 504]);
    let refused = lists[1].json();
    assert_eq!(refused["reason"], "Timeout");
    let message = refused["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.starts_with(&format!("Too large resource version: {written}")), "{message}");

    let change = br#"{"data": {"colour": "red"}}"#;
    let headers = "Content-Type: application/merge-patch+json\r\n";
    for _ in 0..2 {
        let patched = server.request("PATCH", &format!("{MAPS}/late"), headers, change).await;
        assert_eq!(patched.code, 200, "{}", patched.body);
    }
}

/// S7, S17: a watch that reconnects to a server which is behind gets nothing that it has seen, and
/// each later change once, when that server has seen it. A list that must not be older waits.
#[tokio::test]
async fn a_watch_never_goes_back() {
    const LAG: Duration = Duration::from_millis(700);
    let server = servers([LAG, LAG]).await;
    let known = create(&server, "first").await;
    let started = Instant::now();
    let watch = format!("{MAPS}?watch=1&resourceVersion={known}");
    let mut watches = [server.open(&watch).await, server.open(&watch).await];
    let written = create(&server, "second").await;
    for watch in &mut watches {
        watch.until("\"second\"").await;
        assert!(started.elapsed() >= LAG, "the server does not lag");
        let events: Vec<Value> =
            watch.text().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let events: Vec<_> = events.iter().filter(|event| event["type"].is_string()).collect();
        assert_eq!(events.len(), 1, "{}", watch.text());
        assert_eq!(version(&events[0]["object"]), written);
    }
    let third = create(&server, "third").await;
    let required = format!("{MAPS}?resourceVersion={third}&resourceVersionMatch=NotOlderThan");
    for list in from_both(&server, &required).await {
        assert!(names(&list).contains(&"third".to_owned()));
        assert!(version(&list.json()) >= third);
    }
}
