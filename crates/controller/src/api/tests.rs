//! Requests that the server refuses, and writes while the fence is closed.

use super::*;
use crate::environment::Environment;

use std::sync::atomic::{AtomicUsize, Ordering};

/// A server that answers each request with the next status and `Retry-After`, and repeats the last.
fn server(answers: &'static [(u16, Option<&'static str>)]) -> (Client, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = requests.clone();
    let service = tower::service_fn(move |_: Request<Body>| {
        let turn = count.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        let (status, retry_after) = answers[turn];
        let mut response = Response::builder().status(status);
        if let Some(seconds) = retry_after {
            response = response.header(header::RETRY_AFTER, seconds);
        }
        let response = response.body(Body::from(b"{}".to_vec()));
        std::future::ready(response.map_err(|error| Box::new(error) as tower::BoxError))
    });
    (Client::new(service, "default"), requests)
}

async fn write(client: Client, fence: Fence) -> Result<Bytes, Error> {
    let api = Api::new(client, fence, None);
    api.write(Method::POST, "/api/v1/namespaces/ns/pods", Content::Json, "{}".into()).await
}

/// C72: a rate limit lets a burst through, then delays requests.
#[test]
fn a_rate_limit_delays_requests_beyond_the_burst() {
    let mut limit = RateLimit::new(10.0, 3);
    let now = Instant::now();
    let waits: Vec<u128> = (0..5).map(|_| limit.take(now).as_millis()).collect();
    assert_eq!(waits, [0, 0, 0, 100, 200]);
    assert_eq!(limit.take(now + Duration::from_secs(9)).as_millis(), 0);
}

/// C28: a refusal because of a terminating namespace is recognized.
#[test]
fn a_terminating_namespace_is_recognized() {
    let body = br#"{"kind":"Status","code":403,"reason":"Forbidden","message":"no",
        "details":{"causes":[{"reason":"NamespaceTerminating","field":"metadata.namespace"}]}}"#;
    let error = refusal(StatusCode::FORBIDDEN, body);
    assert!(error.is_namespace_terminating());
    assert!(error.is_reason("Forbidden"));
    assert_eq!(error.to_string(), "no");
    assert!(!refusal(StatusCode::FORBIDDEN, b"<html>").is_namespace_terminating());
}

/// C63: nothing is sent while the fence is closed.
#[tokio::test]
async fn nothing_is_sent_while_the_fence_is_closed() {
    let (client, requests) = server(&[(200, None)]);
    let result = write(client, Fence::closed(Environment::default())).await;
    assert!(matches!(result, Err(Error::Fenced)), "{result:?}");
    assert_eq!(requests.load(Ordering::SeqCst), 0);
}

/// C63: a write that waits for its answer is given up when the fence closes, although nothing else
/// wakes it.
#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_given_up_when_the_fence_closes() {
    let silent = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, tower::BoxError>>()
    });
    let fence = Fence::open();
    let start = Instant::now();
    let mut write = tokio::spawn(write(Client::new(silent, "default"), fence.clone()));
    assert!(tokio::time::timeout(Duration::from_secs(5), &mut write).await.is_err());
    fence.close();
    let error = write.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Fenced) && error.may_have_happened(), "{error}");
    assert!(start.elapsed() <= Duration::from_secs(5) + FENCE_CHECK_INTERVAL);
}

/// C72: 429 is repeated after the requested pause. Any other error is returned at once, since the
/// write may have happened.
#[tokio::test(start_paused = true)]
async fn only_throttled_requests_are_repeated() {
    let (client, requests) = server(&[(429, Some("7")), (429, None), (201, None)]);
    let start = Instant::now();
    assert!(write(client, Fence::open()).await.is_ok());
    assert_eq!(start.elapsed().as_secs(), 8);
    assert_eq!(requests.load(Ordering::SeqCst), 3);
    for status in [500, 503, 504, 409] {
        let answers: &'static [(u16, Option<&str>)] = Box::leak(Box::new([(status, Some("1"))]));
        let (client, requests) = server(answers);
        assert_eq!(write(client, Fence::open()).await.unwrap_err().code(), Some(status));
        assert_eq!(requests.load(Ordering::SeqCst), 1, "{status}");
    }
}

/// C72, C35: after half a minute of 429 the error is returned, and the write has not happened.
#[tokio::test(start_paused = true)]
async fn throttled_requests_are_repeated_for_half_a_minute() {
    for retry_after in ["3600", "20", "7"] {
        let answers: &'static [(u16, Option<&str>)] =
            Box::leak(Box::new([(429, Some(retry_after))]));
        let (client, _) = server(answers);
        let start = Instant::now();
        let error = write(client, Fence::open()).await.unwrap_err();
        assert_eq!(error.code(), Some(429), "{retry_after}: {error}");
        assert!(!error.may_have_happened());
        assert_eq!(start.elapsed(), REQUEST_TIMEOUT, "{retry_after}");
    }
}

/// C35: a write that is not answered in time may have happened, even if it was refused with 429
/// before.
#[tokio::test(start_paused = true)]
async fn a_write_that_is_not_answered_in_time_may_have_happened() {
    let requests = AtomicUsize::new(0);
    let service = tower::service_fn(move |_: Request<Body>| {
        let is_first = requests.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if !is_first {
                std::future::pending::<()>().await;
            }
            let busy = Response::builder().status(429).body(Body::from(b"{}".to_vec()));
            busy.map_err(|error| Box::new(error) as tower::BoxError)
        }
    });
    let start = Instant::now();
    let error = write(Client::new(service, "default"), Fence::open()).await.unwrap_err();
    assert!(matches!(error, Error::Transport(_)) && error.may_have_happened(), "{error}");
    assert_eq!(start.elapsed(), REQUEST_TIMEOUT);
}

/// C3, C28, G56: reads, dry runs and creations ask for whole objects, other writes only for
/// metadata.
#[test]
fn only_reads_and_creations_ask_for_whole_objects() {
    let accepted_at = |path: &str, method: Method| {
        let request = request(method, path, Content::Json, "{}".into()).unwrap();
        request.headers()[header::ACCEPT].clone()
    };
    let accepted = |method: Method| accepted_at("/api/v1/namespaces/ns/pods", method);
    assert_eq!(accepted(Method::GET), "application/json");
    assert_eq!(accepted(Method::POST), "application/json");
    let dry_run = format!("/api/v1/namespaces/ns/pods/p/resize{DRY_RUN}");
    assert_eq!(accepted_at(&dry_run, Method::PATCH), "application/json");
    for method in [Method::PATCH, Method::DELETE] {
        let accepted = accepted(method);
        let accepted: Vec<&str> = accepted.to_str().unwrap().split(',').collect();
        let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(accepted, [metadata, "application/json"]);
    }
}

/// C4, C29: a path that is no URI, because of a name that no real server sends, fails its own
/// request. Nothing was sent.
#[tokio::test]
async fn a_path_that_is_no_uri_is_an_error() {
    for name in ["a b", "\u{1b}[2J", &"a".repeat(70_000)] {
        let (client, requests) = server(&[(200, None)]);
        let api = Api::new(client, Fence::open(), None);
        let path = format!("/api/v1/namespaces/{name}/pods");
        let read = api.get(&path).await.unwrap_err();
        let written = api.write(Method::POST, &path, Content::Json, "{}".into()).await.unwrap_err();
        for error in [read, written] {
            assert_eq!(error.code(), Some(400), "{error}");
            assert!(!error.may_have_happened());
        }
        assert_eq!(requests.load(Ordering::SeqCst), 0);
    }
}
