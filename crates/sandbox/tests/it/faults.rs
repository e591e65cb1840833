//! Tests of the fault rules, as clients see their effects on the wire.

use std::time::{Duration, Instant};

use everynode_sandbox::{NodeSource, OWN_USER_AGENT, Options, fault, start};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::wire::{Response, Server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const RULES: &str = "/debug/faults";
/// The query of a streaming list.
const WATCH_LIST: &str = "watch=1&allowWatchBookmarks=true&sendInitialEvents=true\
    &resourceVersionMatch=NotOlderThan";

/// Starts a server with fault rules.
async fn faulty_server(rules: &str) -> Server {
    let server = Server::start().await;
    set_rules(&server, rules).await;
    server
}

/// Replaces the fault rules.
async fn set_rules(server: &Server, rules: &str) {
    let response = server.request("PUT", RULES, "", rules.as_bytes()).await;
    assert_eq!(response.code, 200, "{rules}: {}", response.body);
}

async fn create(server: &Server, name: &str) -> Response {
    let body = json!({"metadata": {"name": name}, "data": {"colour": "red"}});
    server.post(MAPS, body.to_string().as_bytes()).await
}

async fn code_of(server: &Server, name: &str) -> u16 {
    server.get(&format!("{MAPS}/{name}")).await.code
}

/// Returns how often each rule has fired.
async fn fired(server: &Server) -> Vec<u64> {
    let rules = server.get(RULES).await.json();
    let rules = rules["faults"].as_array().expect("a list").clone();
    rules.iter().map(|rule| rule["status"]["fired"].as_u64().expect("a number")).collect()
}

fn events(response: &str) -> Vec<Value> {
    let lines = response.lines().filter_map(|line| serde_json::from_str(line).ok());
    lines.filter(|line: &Value| line["type"].is_string()).collect()
}

/// S17: authorized clients set, add, read and clear the rules; a rule's status counts how often it
/// has fired.
#[tokio::test]
async fn rules_are_changed_while_the_server_runs() {
    let one =
        "faults: [{match: {resources: [nodes]}, when: {times: 1}, fault: {error: {code: 503}}}]";
    let server = faulty_server(one).await;
    assert_eq!(server.get("/api/v1/nodes").await.code, 503);
    assert_eq!(server.get("/api/v1/nodes").await.code, 200);
    assert_eq!(fired(&server).await, [1]);
    let more =
        r#"{"faults": [{"match": {"resources": ["pods"]}, "fault": {"error": {"code": 500}}}]}"#;
    assert_eq!(server.post(RULES, more.as_bytes()).await.code, 200);
    assert_eq!(fired(&server).await, [1, 0], "the first rule keeps its status");
    let shown = server.get(RULES).await;
    set_rules(&server, &shown.body).await;
    assert_eq!(fired(&server).await, [0, 0], "the rules as returned can be set again");
    let cleared = server.request("DELETE", RULES, "", b"").await;
    assert_eq!((cleared.code, cleared.json()), (200, json!({"faults": []})));
    assert_eq!(server.get("/api/v1/pods").await.code, 200);

    let account = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let token = server.post(account, b"{}").await.json()["status"]["token"].clone();
    let refused = server.read_with(token.as_str().expect("a token"), RULES).await;
    assert_eq!(refused.code, 403);
    let anonymous = server.send(b"GET /debug/faults HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(anonymous.code, 401);
}

/// S12, S17: invalid rules are refused with the index and field of the error, and change nothing.
#[tokio::test]
async fn invalid_rules_are_refused() {
    let server = faulty_server("faults: [{fault: {delay: {lasts: 1ms}}}]").await;
    let many = "- {fault: {cut: {}}}\n".repeat(100);
    for (rules, expected) in [
        ("faults: [{fault: {error: {code: 200}}}]".to_owned(), "faults[0].fault.error.code: 200"),
        ("faults: [{fault: {cut: {after: 3}}}]".to_owned(), "faults[0].fault.cut.after: unknown"),
        ("x".to_owned(), "faults: "),
        (format!("faults: [] #{}", "x".repeat(300_000)), "faults: longer than"),
        (format!("faults:\n{many}"), "faults: too many rules: 101"),
    ] {
        let refused = server.post(RULES, rules.as_bytes()).await;
        assert_eq!(refused.code, 400, "{expected}");
        let message = refused.json()["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.starts_with(expected), "{message}");
    }
    assert_eq!(server.post(RULES, b"\xff").await.code, 400);
    assert_eq!(server.request("PATCH", RULES, "", b"{}").await.code, 405);
    assert_eq!(fired(&server).await.len(), 1);
    let rules = fault::parse("faults: [{fault: {cut: {}}}]").expect("rules");
    let nodes = NodeSource::Generated { nodes: 1, zones: 1 };
    let faults = vec![rules[0].clone(); 101];
    let error = start(Options { faults, nodes, ..Options::default() }).await.err();
    assert_eq!(
        error.map(|error| error.to_string()).as_deref(),
        Some("faults: too many rules: 101, the maximum is 100")
    );
}

/// S17: an error is returned before the write takes effect or after it; an error of the registry
/// takes precedence.
#[tokio::test]
async fn an_error_comes_before_the_write_or_after_it() {
    let rules = "
faults:
- {match: {verbs: [create]}, when: {times: 1}, fault: {error: {code: 500}}}
- {match: {verbs: [create]}, when: {times: 1}, fault: {error: {code: 504, afterCommit: true}}}
- match: {verbs: [create], resources: [configmaps]}
  when: {times: 1}
  fault: {error: {code: 500, afterCommit: true}}
- match: {verbs: [delete]}
  when: {times: 1}
  fault:
    error:
      {code: 500, reason: InternalError, message: 'etcdserver: leader changed', afterCommit: true}
";
    let server = faulty_server(rules).await;
    assert_eq!((create(&server, "a").await.code, code_of(&server, "a").await), (500, 404));
    let late = create(&server, "a").await;
    assert_eq!((late.code, late.json()["reason"].clone()), (504, json!("Timeout")));
    assert_eq!(code_of(&server, "a").await, 200);
    assert_eq!(create(&server, "a").await.code, 409, "the write has not taken effect");
    let deleted = server.request("DELETE", &format!("{MAPS}/a"), "", b"").await;
    assert_eq!((deleted.code, code_of(&server, "a").await), (500, 404));
    assert_eq!(deleted.json()["message"], "etcdserver: leader changed");
    assert_eq!(fired(&server).await, [1, 1, 1, 1]);
}

/// S17: instead of a response that is lost, the connection closes, whether the write took effect or
/// not.
#[tokio::test]
async fn a_lost_response_closes_the_connection() {
    let rules = "
faults:
- {match: {verbs: [create]}, when: {times: 1}, fault: {loseAnswer: {}}}
- {match: {verbs: [create]}, when: {times: 1}, fault: {loseAnswer: {afterCommit: true}}}
";
    let server = faulty_server(rules).await;
    for (name, expected) in [("a", 404), ("b", 200)] {
        assert_eq!(create(&server, name).await.code, 0, "a response was sent");
        assert_eq!(code_of(&server, name).await, expected, "{name}");
    }
}

/// S17: a write takes effect after the client received an error, or lost its connection.
#[tokio::test]
async fn a_write_takes_effect_late() {
    let rules = "
faults:
- match: {verbs: [create]}
  when: {times: 1}
  fault: {commitLate: {after: 300ms, error: {code: 504}}}
- {match: {verbs: [create]}, when: {times: 1}, fault: {commitLate: {after: 300ms}}}
";
    let server = faulty_server(rules).await;
    for (name, code) in [("a", 504), ("b", 0)] {
        assert_eq!(create(&server, name).await.code, code);
        assert_eq!(code_of(&server, name).await, 404, "{name} exists already");
        eventually(async || code_of(&server, name).await == 200).await;
    }
}

/// S17: 403 has the message of RBAC, 429 a Retry-After header, and a proxy's error no Status.
#[tokio::test]
async fn errors_look_as_in_a_real_cluster() {
    let rules = "
faults:
- {match: {resources: [pods]}, fault: {error: {code: 403}}}
- {match: {resources: [nodes]}, fault: {error: {code: 429, retryAfterSeconds: 3}}}
- {match: {nonResourceURLs: [/version]}, fault: {error: {code: 502, plainText: true}}}
";
    let server = faulty_server(rules).await;
    let message = "pods is forbidden: User \"everynode-sandbox\" cannot list resource \"pods\" in \
        API group \"\" at the cluster scope";
    let refused = server.get("/api/v1/pods").await;
    assert_eq!((refused.code, refused.json()["message"].clone()), (403, json!(message)));
    let refused = server.get("/api/v1/nodes").await;
    assert_eq!((refused.code, refused.json()["reason"].clone()), (429, json!("TooManyRequests")));
    assert_eq!(refused.json()["details"]["retryAfterSeconds"], 3);
    assert!(refused.head.to_ascii_lowercase().contains("retry-after: 3"), "{}", refused.head);
    let refused = server.get("/version").await;
    assert_eq!((refused.code, refused.body.as_str()), (502, "Bad Gateway\n"));
    let own = format!("User-Agent: {OWN_USER_AGENT}/1\r\n");
    assert_eq!(server.request("GET", "/api/v1/pods", &own, b"").await.code, 200);
}

/// S6, S17: a list fails at its second page with the configured code.
#[tokio::test]
async fn a_list_fails_midway() {
    let rules = "
faults:
- {match: {verbs: [list], continue: true}, when: {times: 1}, fault: {error: {code: 410}}}
- {match: {verbs: [list], continue: true}, when: {times: 1}, fault: {error: {code: 500}}}
";
    let server = faulty_server(rules).await;
    let first = server.get("/api/v1/nodes?limit=1").await;
    assert_eq!(first.code, 200);
    let token = first.json()["metadata"]["continue"].as_str().expect("a token").to_owned();
    let second = format!("/api/v1/nodes?limit=1&continue={token}");
    let expired = server.get(&second).await;
    assert_eq!((expired.code, expired.json()["reason"].clone()), (410, json!("Expired")));
    assert_eq!(server.get(&second).await.code, 500);
    assert_eq!(server.get(&second).await.code, 200);
}

/// S17: a list or watch response is cut after the configured number of objects or bytes, without
/// its regular end.
#[tokio::test]
async fn a_response_is_cut() {
    let server =
        faulty_server("faults: [{match: {verbs: [list]}, fault: {cut: {objects: 1}}}]").await;
    let half = server.raw(&server.head("GET", "/api/v1/nodes")).await;
    assert!(half.contains("node-0001") && !half.contains("node-0002"), "{half}");
    assert!(!half.ends_with("0\r\n\r\n"), "the list is complete");
    set_rules(&server, "faults: [{match: {verbs: [watch]}, fault: {cut: {objects: 2}}}]").await;
    let half = server.raw(&server.head("GET", "/api/v1/nodes?watch=1")).await;
    assert_eq!(events(&half).len(), 2, "{half}");
    set_rules(&server, "faults: [{match: {verbs: [get]}, fault: {cut: {bytes: 10}}}]").await;
    let half = server.raw(&server.head("GET", "/api/v1/nodes/node-0001")).await;
    assert!(half.contains("\r\n\r\nA\r\n{"), "a chunk of ten bytes: {half}");
}

/// S17: a frozen connection stays open without any data; other connections are not affected.
#[tokio::test]
async fn a_connection_freezes() {
    let rules =
        "faults: [{match: {verbs: [watch]}, when: {times: 1}, fault: {freeze: {objects: 3}}}]";
    let server = faulty_server(rules).await;
    let mut frozen = server.open("/api/v1/nodes?watch=1").await;
    frozen.until("node-0003").await;
    let mut other = server.open("/api/v1/nodes?watch=1").await;
    other.until("node-0003").await;
    touch(&server, "node-0001").await;
    other.until("touched").await;
    let more = tokio::time::timeout(Duration::from_millis(300), frozen.until("touched")).await;
    assert!(more.is_err(), "the connection continues or was closed");
}

/// S17: a stalled watch pauses for the configured time and then continues where it stopped.
#[tokio::test]
async fn a_watch_stalls() {
    let rules =
        "faults: [{match: {verbs: [watch]}, fault: {stall: {lasts: 700ms, at: {objects: 3}}}}]";
    let server = faulty_server(rules).await;
    let started = Instant::now();
    let mut watch = server.open("/api/v1/nodes?watch=1").await;
    watch.until("node-0003").await;
    touch(&server, "node-0001").await;
    watch.until("touched").await;
    assert!(started.elapsed() >= Duration::from_millis(700));
}

/// S7, S17: a streaming list with code 200 ends with an ERROR event, as the first event or later; a
/// watch does so after the configured time.
#[tokio::test]
async fn a_watch_ends_with_an_error_event() {
    let message = "a watch stream was requested by the client but the required storage feature \
        RequestWatchProgress is disabled";
    let list = format!("/api/v1/nodes?{WATCH_LIST}");
    let server = Server::start().await;
    for (at, before) in [("{}", 0), ("{objects: 2}", 2)] {
        let rules = format!(
            "faults: [{{match: {{verbs: [watchlist]}}, fault: {{watchError: {{error: {{code: 500, \
             message: '{message}'}}, at: {at}}}}}}}]"
        );
        set_rules(&server, &rules).await;
        let response = server.raw(&server.head("GET", &list)).await;
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        let mut events = events(&response);
        let last = events.pop().expect("an event");
        assert_eq!((events.len(), &last["type"]), (before, &json!("ERROR")));
        assert_eq!(last["object"]["code"], 500);
        assert_eq!(last["object"]["message"], message);
        assert!(events.iter().all(|event| event["type"] == "ADDED"));
    }
    let rules = "
faults:
- match: {verbs: [watch]}
  fault: {watchError: {error: {code: 410}, at: {time: 200ms}}}
";
    set_rules(&server, rules).await;
    let response = server.raw(&server.head("GET", "/api/v1/nodes?watch=1")).await;
    let last = events(&response).pop().expect("an event");
    assert_eq!((&last["type"], &last["object"]["reason"]), (&json!("ERROR"), &json!("Expired")));
}

/// S7, S17: live events, deletions too, may precede a late bookmark, whose resourceVersion covers
/// them.
#[tokio::test]
async fn live_events_come_before_a_late_bookmark() {
    let server = faulty_server("faults: [{fault: {lateBookmark: {after: 700ms}}}]").await;
    assert_eq!(create(&server, "a").await.code, 201);
    let path = format!("{MAPS}?{WATCH_LIST}");
    let mut watch = server.open(&path).await;
    watch.until("ADDED").await;
    let deleted = server.request("DELETE", &format!("{MAPS}/a"), "", b"").await;
    assert_eq!(deleted.code, 200);
    watch.until("initial-events-end").await;
    let events = events(watch.text());
    let types: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap_or("")).collect();
    assert_eq!(types, ["ADDED", "DELETED", "BOOKMARK"]);
    let version = |event: &Value| {
        let version = event["object"]["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        version.parse::<u64>().expect("a number")
    };
    assert!(version(&events[2]) >= version(&events[1]));
}

/// S6, S17: a stale read returns an older state from the store's history, and a watch from it the
/// missing changes.
#[tokio::test]
async fn a_read_is_stale() {
    const MAPS_MAX: usize = 30;
    let server = Server::start().await;
    for index in 0..MAPS_MAX {
        assert_eq!(create(&server, &format!("m{index}")).await.code, 201);
    }
    let last = format!("m{}", MAPS_MAX - 1);
    // Nodes renew their leases meanwhile, so not all of the 15 writes are ConfigMaps.
    set_rules(
        &server,
        "faults: [{match: {resources: [configmaps]}, fault: {staleRead: {writesBehind: 15}}}]",
    )
    .await;
    let list = server.get(MAPS).await.json();
    let shown = list["items"].as_array().map_or(0, Vec::len);
    assert!(shown > 0 && shown < MAPS_MAX, "{shown} of {MAPS_MAX}");
    assert_eq!((code_of(&server, "m0").await, code_of(&server, &last).await), (200, 404));
    let version = list["metadata"]["resourceVersion"].as_str().expect("it has one");
    let mut watch = server.open(&format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    watch.until(&format!("\"{last}\"")).await;
    assert_eq!(events(watch.text()).len(), MAPS_MAX - shown);
    let path = format!("{MAPS}?{WATCH_LIST}");
    let mut watch = server.open(&path).await;
    watch.until("initial-events-end").await;
    watch.until(&format!("\"{last}\"")).await;
    let all = watch.text();
    let end = all.find("initial-events-end").expect("a bookmark");
    assert!(all.find(&format!("\"{last}\"")).expect("it") > end, "the streaming list is stale");
    assert_eq!(server.request("DELETE", RULES, "", b"").await.code, 200);
    assert_eq!(code_of(&server, &last).await, 200);
}

/// S17: an object contains invalid UTF-8 in get, list and watch responses; other objects are not
/// changed.
#[tokio::test]
async fn an_object_is_invalid_utf8() {
    let server = Server::start().await;
    assert_eq!(create(&server, "a").await.code, 201);
    assert_eq!(create(&server, "b").await.code, 201);
    set_rules(
        &server,
        "faults: [{fault: {invalidUtf8: {namespace: default, name: a, text: red}}}]",
    )
    .await;
    let one = server.get(&format!("{MAPS}/a")).await.body;
    assert!(one.contains("\u{fffd}ed"), "{one}");
    assert!(!server.get(&format!("{MAPS}/b")).await.body.contains('\u{fffd}'));
    let mut watch = server.open(&format!("{MAPS}?watch=1")).await;
    watch.until("\"name\":\"b\"").await;
    for text in [server.get(MAPS).await.body, watch.text().to_owned()] {
        assert_eq!(text.matches('\u{fffd}').count(), 1, "{text}");
        assert!(text.contains("\"red\""), "the other object was changed");
    }
}

/// S17: a restart closes all connections; then the server refuses connections for a while, returns
/// 403 for a while, and continues with the same objects.
#[tokio::test]
async fn a_server_restarts() {
    let rules = "
faults:
- match: {verbs: [create]}
  when: {times: 1}
  fault: {restart: {down: 700ms, forbidden: 700ms, afterCommit: true}}
";
    let server = faulty_server(rules).await;
    let mut watch = server.open("/api/v1/nodes?watch=1").await;
    watch.until("node-0003").await;
    assert_eq!(create(&server, "a").await.code, 0, "a response was sent");
    assert!(!watch.more().await, "the watch is still open");
    assert!(TcpStream::connect(server.address()).await.is_err(), "the server still listens");
    eventually(async || TcpStream::connect(server.address()).await.is_ok()).await;
    assert_eq!(code_of(&server, "a").await, 403);
    assert_eq!(server.get(RULES).await.code, 200, "the rules can be changed even now");
    eventually(async || code_of(&server, "a").await == 200).await;
}

async fn touch(server: &Server, node: &str) {
    let patch = br#"{"metadata": {"annotations": {"touched": "yes"}}}"#;
    let headers = "Content-Type: application/merge-patch+json\r\n";
    let path = format!("/api/v1/nodes/{node}");
    assert_eq!(server.request("PATCH", &path, headers, patch).await.code, 200);
}

async fn eventually(check: impl AsyncFn() -> bool) {
    const DEADLINE: Duration = Duration::from_secs(20);
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    let started = Instant::now();
    while !check().await {
        assert!(started.elapsed() < DEADLINE, "not in time");
        ticks.tick().await;
    }
}
