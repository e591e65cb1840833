//! Answers in protobuf.

use crate::wire::Server;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn content_type(head: &str) -> Option<&str> {
    head.lines().find_map(|line| line.strip_prefix("content-type: "))
}

/// S16: an object and a list are sent in protobuf where it is preferred, in JSON where a form has
/// none, and a list as the message that Kubernetes' components read.
#[tokio::test]
async fn the_preferred_encoding_is_sent() {
    let server = Server::start().await;
    for (path, accept, expected) in [
        ("/api/v1/namespaces/default", "application/vnd.kubernetes.protobuf", PROTOBUF),
        ("/api/v1/nodes", "application/vnd.kubernetes.protobuf, application/json", PROTOBUF),
        ("/apis/apps/v1/daemonsets", "application/vnd.kubernetes.protobuf", PROTOBUF),
        (
            "/api/v1/nodes",
            "application/json, application/vnd.kubernetes.protobuf",
            "application/json",
        ),
        (
            "/api/v1/nodes",
            "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json",
            "application/json",
        ),
        ("/version", "application/vnd.kubernetes.protobuf, */*", "application/json"),
    ] {
        let answer = server.read_as(path, accept).await;
        assert_eq!((answer.code, content_type(&answer.head)), (200, Some(expected)), "{path}");
        let is_protobuf = answer.body.starts_with("k8s\0");
        assert_eq!(is_protobuf, expected == PROTOBUF, "{path}");
    }
    let watch = "/api/v1/namespaces?watch=true&timeoutSeconds=1";
    let answer = server.read_as(watch, "application/vnd.kubernetes.protobuf").await;
    let expected = "application/vnd.kubernetes.protobuf;stream=watch";
    assert_eq!(content_type(&answer.head), Some(expected));
    assert!(answer.body.contains("ADDED"), "{:?}", answer.body);
}
