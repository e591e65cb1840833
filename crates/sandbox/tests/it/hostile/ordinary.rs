//! A client that does ordinary work in a namespace of its own, and measures how long it waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Stream, Target, ask};

const MAPS: &str = "/api/v1/namespaces/friend/configmaps";
/// Time between two rounds of requests.
const PAUSE: Duration = Duration::from_millis(20);

/// How long each request took.
#[derive(Default)]
pub(crate) struct Latency(Vec<(Duration, &'static str)>);

impl Latency {
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let mut all: Vec<Duration> = self.0.iter().map(|(took, _)| *took).collect();
        all.sort_unstable();
        all[(all.len() - 1) * percent / 100]
    }

    /// The longest time, and the request that took it.
    pub(crate) fn max(&self) -> (Duration, &'static str) {
        self.0.iter().copied().max().expect("there were requests")
    }
}

/// Works until it is told to stop.
pub(crate) fn work(target: &Target, stop: &AtomicBool) -> Latency {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut latency = Latency::default();
        let mut connection = target.connect().await.expect("a connection");
        let mut rounds = tokio::time::interval(PAUSE);
        rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !stop.load(Ordering::Relaxed) {
            round(target, &mut connection, &mut latency).await;
            rounds.tick().await;
            let started = Instant::now();
            if latency.0.len() % 70 < 7 {
                connection = target.connect().await.expect("a connection");
                latency.0.push((started.elapsed(), "a new connection"));
            }
        }
        latency
    })
}

/// Checks that everything works as it should.
pub(crate) fn check(target: &Target) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut connection = target.connect().await.expect("a connection");
        round(target, &mut connection, &mut Latency::default()).await;
        let pods = "/api/v1/namespaces/friend/pods";
        let pod = json!({
            "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        let token = &target.friend;
        let send = async |connection: &mut Stream, method: &str, path: &str, body: &Value| {
            let body = if body.is_null() { String::new() } else { body.to_string() };
            ask(connection, token, method, path, "application/json", body.as_bytes()).await
        };
        let (code, _) = send(&mut connection, "POST", pods, &pod).await.expect("an answer");
        assert_eq!(code, 201);
        let started = Instant::now();
        let mut polls = tokio::time::interval(PAUSE);
        loop {
            polls.tick().await;
            let path = format!("{pods}/p");
            let (_, body) =
                send(&mut connection, "GET", &path, &Value::Null).await.expect("an answer");
            let pod: Value = serde_json::from_slice(&body).expect("JSON");
            if pod["status"]["phase"] == "Running" {
                break;
            }
            assert!(started.elapsed() < Duration::from_secs(30), "the pod does not run: {pod}");
        }
        let (_, nodes) = target.ask("GET", "/api/v1/nodes", b"").await;
        let nodes: Value = serde_json::from_slice(&nodes).expect("JSON");
        for node in nodes["items"].as_array().expect("nodes") {
            let conditions = node["status"]["conditions"].as_array().expect("conditions");
            let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
            assert_eq!(
                ready.expect("a condition")["status"],
                "True",
                "{}",
                node["metadata"]["name"]
            );
        }
    });
}

/// Creates, reads, changes, lists and deletes an object, and expects the right answers.
async fn round(target: &Target, connection: &mut Stream, latency: &mut Latency) {
    let one = format!("{MAPS}/m");
    let map = json!({"metadata": {"name": "m"}, "data": {"k": "v"}}).to_string();
    let patch = json!({"data": {"k": "w"}}).to_string();
    for (request, method, path, content_type, body, expected) in [
        ("create", "POST", MAPS, "application/json", map.as_str(), 201),
        ("get", "GET", &one, "application/json", "", 200),
        ("update", "PUT", &one, "application/json", &map, 200),
        ("patch", "PATCH", &one, "application/merge-patch+json", &patch, 200),
        ("list", "GET", MAPS, "application/json", "", 200),
        ("discovery", "GET", "/apis/apps/v1", "application/json", "", 200),
        ("delete", "DELETE", &one, "application/json", "", 200),
    ] {
        let started = Instant::now();
        let answer = ask(connection, &target.friend, method, path, content_type, body.as_bytes());
        let (code, body) = answer.await.expect("the server answers an ordinary client");
        latency.0.push((started.elapsed(), request));
        assert_eq!(code, expected, "{request}: {}", String::from_utf8_lossy(&body));
    }
}

/// The longest delay with which the machine wakes a thread, until told to stop.
pub(crate) fn delay_of_the_machine(stop: &AtomicBool) -> Duration {
    let mut longest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let started = Instant::now();
        std::thread::park_timeout(PAUSE);
        longest = longest.max(started.elapsed().saturating_sub(PAUSE));
    }
    longest
}
