//! Tests of the limits on connections, requests, bodies and responses of each client.

use std::time::{Duration, Instant};

use everynode_sandbox::{Limits, Share};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::wire::Server;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// S12: idle connections without a valid request give way to a new one; one with a valid request
/// stays.
#[tokio::test]
async fn a_new_connection_closes_the_oldest_one_without_credentials() {
    let server = Server::start_with(Limits { connections: 3, ..Limits::default() }).await;
    let mut watch = server.open(&format!("{MAPS}?watch=1")).await;
    watch.until("200 OK").await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(server.connect_plain().await);
    }
    assert_eq!(server.get("/api/v1/nodes").await.code, 200);
    let map = br#"{"metadata":{"name":"m"}}"#;
    assert_eq!(server.post(MAPS, map).await.code, 201);
    watch.until("ADDED").await;
}

/// S12: a client with too many watches gets 429, with the time after which to retry; another
/// client does not.
#[tokio::test]
async fn a_client_with_too_many_watches_is_told_to_retry() {
    let watches = Share { client: 2, total: 3 };
    let server = Server::start_with(Limits { watches, ..Limits::default() }).await;
    let path = format!("{MAPS}?watch=1");
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut watch = server.open(&path).await;
        watch.until("200 OK").await;
        open.push(watch);
    }
    let refused = server.get(&path).await;
    assert_eq!(refused.code, 429);
    assert!(refused.head.to_ascii_lowercase().contains("retry-after: 1"), "{}", refused.head);
    let message = "Too many requests, please try again later.";
    assert_eq!(refused.json()["message"], message);
    assert_eq!(server.get(MAPS).await.code, 200, "other requests are not watches");
    let other = "Impersonate-User: ann\r\nImpersonate-Group: system:masters\r\n";
    let short = format!("{path}&timeoutSeconds=1");
    assert_eq!(server.request("GET", &short, other, b"").await.code, 200);
    open.pop();
    let started = Instant::now();
    while server.get(&short).await.code != 200 {
        assert!(started.elapsed() < Duration::from_secs(10), "a closed watch counts");
    }
}

/// S12: the bodies of a client, finished or not, have a limit together.
#[tokio::test]
async fn unfinished_bodies_have_a_limit_together() {
    let body_bytes = Share { client: 100_000, total: 1_000_000 };
    let server = Server::start_with(Limits { body_bytes, ..Limits::default() }).await;
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\
         Content-Length: 90000\r\n\r\n",
        server.token()
    );
    let mut unfinished = server.connect().await;
    unfinished.write_all(&[head.as_bytes(), &[b' '; 80_000]].concat()).await.expect("a connection");
    unfinished.flush().await.expect("a connection");
    let map = format!(r#"{{"metadata":{{"name":"m"}},"data":{{"k":"{}"}}}}"#, "x".repeat(30_000));
    let send = async || server.post(MAPS, map.as_bytes()).await.code;
    let started = Instant::now();
    while send().await != 429 {
        assert!(started.elapsed() < Duration::from_secs(10), "an unfinished body does not count");
    }
    drop(unfinished);
    while !matches!(send().await, 201 | 409) {
        assert!(started.elapsed() < Duration::from_secs(20), "an aborted body counts");
    }
}

/// S12: a client of HTTP/2 that never opens the window of a stream loses its connection.
#[tokio::test]
async fn a_response_that_nobody_takes_ends_the_connection() {
    let stalled_write = Duration::from_millis(500);
    let server = Server::start_with(Limits { stalled_write, ..Limits::default() }).await;
    let mut stream = server.connect().await;
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| -> Vec<u8> {
        let length = u16::try_from(payload.len()).expect("a short frame").to_be_bytes();
        [&[0, length[0], length[1], kind, flags, 0, 0, 0, stream], payload].concat()
    };
    let mut block = Vec::new();
    for (name, value) in [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/api/v1/nodes"),
        ("authorization", &format!("Bearer {}", server.token())),
    ] {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).expect("a short text"));
            block.extend_from_slice(text.as_bytes());
        }
    }
    // SETTINGS with an initial window of 0, and HEADERS with the end of the stream.
    let settings = frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let request = frame(1, 5, 1, &block);
    let bytes = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &settings, &request].concat();
    stream.write_all(&bytes).await.expect("a connection");
    stream.flush().await.expect("a connection");
    let mut received = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut received));
    let _ = read.await.expect("the server closes the connection");
    assert!(received.len() > 50, "the headers of the response come");
}

/// S12: a client of HTTP/1.1 that is still sending its body sees the refusal.
#[tokio::test]
async fn a_refusal_arrives_although_its_body_is_not_read() {
    let server = Server::start().await;
    let mut stream = server.connect().await;
    let head = format!("POST {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("a connection");
    stream.write_all(&[b' '; 200_000]).await.expect("the server reads on");
    let mut answer = vec![0; 1000];
    let read = stream.read(&mut answer).await.expect("an answer");
    let answer = String::from_utf8_lossy(&answer[..read]);
    assert!(answer.starts_with("HTTP/1.1 401 Unauthorized"), "{answer}");
}
