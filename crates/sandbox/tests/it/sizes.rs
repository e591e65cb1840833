//! Tests of the limits on what a request can make the server compute, answer and keep.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::wire::Server;

const MERGE: &str = "application/merge-patch+json";

fn pod(containers: &str) -> String {
    format!(r#"{{"metadata":{{"name":"p"}},"spec":{{"containers":[{containers}]}}}}"#)
}

/// S8, S12: a request with twenty thousand errors is answered with the first ones, in time that
/// grows with their number, and does not hold up other requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_errors_cost_little_and_hold_up_nobody() {
    let server = Server::start().await;
    let body = pod(&vec!["{}"; 20_000].join(","));
    assert!(body.len() < 70_000);
    let pods = "/api/v1/namespaces/default/pods";
    let slowest = async {
        let mut slowest = Duration::ZERO;
        for _ in 0..50 {
            let started = Instant::now();
            assert_eq!(server.get("/api/v1/namespaces/default").await.code, 200);
            slowest = slowest.max(started.elapsed());
        }
        slowest
    };
    let ((answer, taken), slowest) = tokio::join!(
        async {
            let started = Instant::now();
            (server.post(pods, body.as_bytes()).await, started.elapsed())
        },
        slowest
    );
    let status = answer.json();
    assert_eq!(answer.code, 422);
    let causes = status["details"]["causes"].as_array().expect("causes");
    assert_eq!(causes.len(), 101);
    assert_eq!(causes[0]["field"], "spec.containers[0].name");
    let last = "Too many: only the first 100 errors are listed";
    assert_eq!(causes[100], json!({"reason": "FieldValueTooMany", "message": last}));
    let message = status["message"].as_str().expect("a message");
    assert!(message.ends_with(&format!(", {last}]")), "{message}");
    assert!(answer.body.len() < 64 * 1024, "{} bytes", answer.body.len());
    // A debug build takes about 0.4 s; with a quadratic validation it took minutes.
    assert!(taken < Duration::from_secs(15), "{taken:?}");
    assert!(slowest < Duration::from_secs(1), "another request waited for {slowest:?}");
}

/// S12: the answer to an invalid request is bounded, however long the values are that it quotes.
#[tokio::test]
async fn an_answer_quotes_long_values_in_part() {
    let server = Server::start().await;
    let long = "x".repeat(1_000_000);
    let labels: Value = (0..2).map(|n| (format!("l{n}"), json!(long))).collect();
    let map = json!({"metadata": {"name": "m", "labels": labels}});
    let maps = "/api/v1/namespaces/default/configmaps";
    let answer = server.post(maps, map.to_string().as_bytes()).await;
    assert_eq!(answer.code, 422);
    assert!(answer.body.len() < 64 * 1024, "{} bytes", answer.body.len());
    let unknown: Value = (0..100_000).map(|n| (format!("field{n}"), json!(0))).collect();
    let strict = format!("{maps}?fieldValidation=Strict");
    let answer = server.post(&strict, unknown.to_string().as_bytes()).await;
    assert_eq!(answer.code, 400);
    assert!(answer.body.len() < 512 * 1024, "{} bytes", answer.body.len());
}

/// S12: no object grows beyond etcd's limit, neither by a creation nor by patches of fields that no
/// type knows. The refusal is etcd's.
#[tokio::test]
async fn an_object_is_limited_in_size() {
    let server = Server::start().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let data = |bytes: usize| json!({"metadata": {"name": "m"}, "data": {"k": "x".repeat(bytes)}});
    let create = async |bytes| server.post(maps, data(bytes).to_string().as_bytes()).await;
    // A ConfigMap has a limit of its own, of one mebibyte.
    assert_eq!(create(1_500_000).await.code, 422);
    assert_eq!(create(1_000_000).await.code, 201);
    let one = format!("{maps}/m");
    let mut codes = Vec::new();
    for n in 0..4 {
        let patch = json!({format!("unknown{n}"): "x".repeat(200_000)});
        let answer = server.send_with(server.token(), "PATCH", &one, MERGE, &patch).await;
        if answer.code != 200 {
            let status = answer.json();
            assert_eq!(status["message"], "etcdserver: request is too large");
            assert_eq!(status.get("reason"), None, "as upstream, which does not classify it");
        }
        codes.push(answer.code);
    }
    assert_eq!(codes, [200, 200, 500, 500]);
    let nested =
        format!("{{\"metadata\":{{\"name\":\"n\"}},\"x\":[{}]}}", vec!["{}"; 250_000].join(","));
    let answer = server.post(maps, nested.as_bytes()).await;
    assert_eq!(answer.code, 400);
    assert!(answer.body.contains("the body has more than 200000 values"), "{}", answer.body);
}

/// S12: a JSON patch can't make the server move the elements of a long list for minutes.
#[tokio::test]
async fn a_json_patch_is_limited_in_the_elements_that_it_moves() {
    let server = Server::start().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = json!({"metadata": {"name": "m"}, "list": vec![0; 150_000]});
    assert_eq!(server.post(maps, map.to_string().as_bytes()).await.code, 201);
    let operation = json!({"op": "add", "path": "/list/0", "value": 1});
    let path = format!("{maps}/m");
    let send = async |operations: usize| {
        let patch = json!(vec![operation.clone(); operations]);
        let content_type = "application/json-patch+json";
        server.send_with(server.token(), "PATCH", &path, content_type, &patch).await.code
    };
    assert_eq!((send(10).await, send(10_000).await), (200, 413));
}
