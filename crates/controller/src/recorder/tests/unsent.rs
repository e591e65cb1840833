//! Events that the API server does not take at once.

use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::client::Body;
use serde_json::json;
use tokio::time::Instant;

use super::super::*;
use crate::environment::Machine;

/// A machine whose clocks are those of the test.
#[derive(Debug)]
struct Paused(Instant);

impl Machine for Paused {
    fn wall_clock(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH + self.monotonic_clock()
    }

    fn monotonic_clock(&self) -> Duration {
        self.0.elapsed()
    }

    fn random(&self) -> u64 {
        0
    }
}

/// The names of the Events that are sent within two minutes, of one occurrence; the server answers
/// with the codes in turn, and then with 201.
async fn sent(codes: &'static [u16]) -> Vec<String> {
    let sent: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = sent.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let log = log.clone();
        async move {
            let body = request.into_body().collect_bytes().await?;
            let event: serde_json::Value = serde_json::from_slice(&body)?;
            let mut log = log.lock().expect("no test panics while it holds the log");
            let code = codes.get(log.len()).copied().unwrap_or(201);
            log.push(event["metadata"]["name"].as_str().unwrap_or_default().to_owned());
            let reason = if code == 409 { "AlreadyExists" } else { "No" };
            let answer = match code {
                0 => return Err(tower::BoxError::from("connection reset")),
                201 => event,
                code => json!({ "kind": "Status", "status": "Failure", "code": code,
                    "reason": reason, "message": "no" }),
            };
            Ok(Response::builder()
                .status(code)
                .body(Body::from(answer.to_string().into_bytes()))?)
        }
    });
    let stop = CancellationToken::new();
    let (recorder, writer) = recorder(
        kube::Client::new(service, "default"),
        "test".to_owned(),
        OutageLog::default(),
        Environment::new(Paused(Instant::now())),
        stop.clone(),
    );
    let writer = tokio::spawn(writer);
    let regarding = Regarding { namespace: "ns".into(), name: "d".into(), uid: "u".into() };
    assert!(recorder.record(Occurrence {
        regarding,
        severity: Severity::Warning,
        reason: "RolloutFailed",
        action: "Roll",
        note: "it fails".to_owned(),
        is_unique: true,
        backoff: None,
    }));
    for _ in 0..120 {
        tokio::time::advance(Duration::from_secs(1)).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    stop.cancel();
    writer.await.expect("the writer does not panic");
    let sent = sent.lock().expect("no test panics while it holds the log");
    sent.clone()
}

/// C71: an Event that has no definite answer, or for which the server has no time, is sent again
/// under the same name; one that is refused is not.
#[tokio::test(start_paused = true)]
async fn an_event_is_sent_again_until_it_is_answered() {
    for (codes, expected) in [(&[] as &[u16], 1), (&[0, 503, 429], 4), (&[0, 409], 2), (&[403], 1)]
    {
        let names = sent(codes).await;
        assert_eq!(names.len(), expected, "{codes:?}: {names:?}");
        assert!(names.iter().all(|name| *name == names[0]), "{codes:?}: {names:?}");
    }
}
