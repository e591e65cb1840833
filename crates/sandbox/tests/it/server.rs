//! Tests of the API server over the network: authentication, discovery, and hostile requests.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use everynode_sandbox::{ApplyError, ApplyOutcome, Limits, NodeSource, Options, Sandbox, start};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::wire::Server;

/// S1: only the owner can read the kubeconfig, and only its token is accepted.
#[tokio::test]
async fn only_the_token_is_accepted() {
    let server = Server::start().await;
    let mode = std::fs::metadata(server.kubeconfig()).expect("a kubeconfig").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let address = server.address();
    assert!(address.starts_with("127.0.0.1:"), "{address}");

    for (authorization, expected) in [
        (None, 401),
        (Some("Bearer wrong".to_owned()), 401),
        (Some(format!("Basic {}", server.token())), 401),
        (Some(format!("Bearer {}x", server.token())), 401),
        (Some(format!("Bearer {}", server.token())), 200),
    ] {
        let header = authorization
            .as_ref()
            .map_or_else(String::new, |value| format!("Authorization: {value}\r\n"));
        let request = format!("GET /api/v1/nodes HTTP/1.1\r\nHost: x\r\n{header}\r\n");
        let response = server.send(request.as_bytes()).await;
        assert_eq!(response.code, expected, "{authorization:?}");
        if expected == 401 {
            assert_eq!(response.json()["reason"], "Unauthorized");
        }
    }
    assert_ne!(Server::start().await.token(), server.token(), "two sandboxes have the same token");
    let health = server.send(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!((health.code, health.body.as_str()), (200, "ok"));
}

/// S1, S4: a service account's token has the permissions of that account, until the account is
/// deleted.
#[tokio::test]
async fn a_service_accounts_token_has_its_permissions() {
    let server = Server::start().await;
    let manifest = r#"
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role,
  metadata: {name: r, namespace: default},
  rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding,
  metadata: {name: b, namespace: default},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r},
  subjects: [{kind: ServiceAccount, name: default}]}
"#;
    assert!(server.apply(manifest).iter().all(|applied| applied.result.is_ok()));
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    let body = b"{\"spec\": {\"expirationSeconds\": 600}}";
    let issued = server.post(&format!("{account}/token"), body).await;
    assert_eq!((issued.code, &issued.json()["kind"]), (201, &json!("TokenRequest")));
    let token = issued.json()["status"]["token"].as_str().expect("a token").to_owned();

    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(server.read_with(&token, pods).await.code, 200);
    for (path, expected) in [
        ("/apis/apps/v1", 200),
        ("/api/v1/pods", 403),
        ("/api/v1/namespaces/default/pods/p", 403),
        ("/api/v1/namespaces/default/nothing", 403),
        ("/metrics", 403),
    ] {
        assert_eq!(server.read_with(&token, path).await.code, expected, "{path}");
    }
    assert_eq!(server.read_with(&format!("{token}x"), pods).await.code, 401);

    let others = b"{\"spec\": {\"audiences\": [\"vault\"]}}";
    let others = server.post(&format!("{account}/token"), others).await.json();
    let others = others["status"]["token"].as_str().expect("a token");
    assert_eq!(server.read_with(others, pods).await.code, 401, "the audience is another server");
    let short =
        server.post(&format!("{account}/token"), b"{\"spec\": {\"expirationSeconds\": 1}}").await;
    assert_eq!(short.code, 422);

    assert_eq!(server.request("DELETE", account, "", b"").await.code, 200);
    assert_eq!(server.read_with(&token, pods).await.code, 401, "the account is gone");
    let again = server.apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: default}}");
    assert!(again.iter().all(|applied| applied.result.is_ok()));
    assert_eq!(server.read_with(&token, pods).await.code, 401, "the account has another UID");
}

/// S1, S4: a client with the permission to impersonate has the permissions of the other user; a
/// client without it is refused.
#[tokio::test]
async fn impersonation_needs_permission() {
    let server = Server::start().await;
    let get = async |path: &str, headers: &str| server.request("GET", path, headers, b"").await;
    let refused = get("/api/v1/nodes", "Impersonate-User: ann\r\n").await;
    assert_eq!(refused.code, 403);
    let message = "nodes is forbidden: User \"ann\" cannot list resource \"nodes\" in API group \
        \"\" at the cluster scope";
    assert_eq!(refused.json()["message"], message);
    let masters = "Impersonate-User: ann\r\nImpersonate-Group: system:masters\r\n";
    assert_eq!(get("/api/v1/nodes", masters).await.code, 200);
    assert_eq!(get("/api/v1/nodes", "Impersonate-Group: system:masters\r\n").await.code, 400);

    let account = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let issued = server.post(account, b"{}").await.json();
    let token = issued["status"]["token"].as_str().expect("a token");
    let request = format!(
        "GET /api/v1/nodes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{masters}\r\n"
    );
    let refused = server.send(request.as_bytes()).await;
    assert_eq!(refused.code, 403);
    let message = refused.json()["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("cannot impersonate resource \"users\""), "{message}");
}

/// S1: `start` returns an error for a port in use and for invalid nodes.
#[tokio::test]
async fn invalid_options_are_refused() {
    let server = Server::start().await;
    let listen = server.address().parse().expect("an address");
    let error = start(Options { listen, ..Options::default() }).await.err().expect("an error");
    assert!(error.to_string().starts_with(&format!("listen on {listen}: ")), "{error}");
    let nodes = NodeSource::Listed { name: "nodes.yaml".into(), text: "kind: Secret".into() };
    let error = start(Options { nodes, ..Options::default() }).await.err().expect("an error");
    assert!(error.to_string().starts_with("nodes.yaml: document 1: expected a Node"), "{error}");
}

/// S4, S14: a write with an unsupported option is refused with all that is wrong, in the words of
/// Kubernetes 1.36.2; a read ignores such options.
#[tokio::test]
async fn unsupported_options_of_a_write_are_refused() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let server = Server::start().await;
    let bad = "dryRun=All&dryRun=Some&fieldValidation=Maybe&fieldManager=%01";
    let map = br#"{"metadata":{"name":"m"}}"#;
    let dry_run = r#"dryRun: Unsupported value: ["All","Some"]: supported values: "All""#;
    let refused = server.post(&format!("{MAPS}?{bad}"), map).await;
    let message = format!(
        "CreateOptions.meta.k8s.io \"\" is invalid: [fieldManager: Invalid value: \"\\x01\": \
         invalid character U+0001 (at position 0), {dry_run}, fieldValidation: Unsupported value: \
         \"Maybe\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"]"
    );
    assert_eq!((refused.code, &refused.json()["message"]), (422, &json!(message)));
    let causes = &refused.json()["details"]["causes"];
    assert_eq!(causes[1]["reason"], "FieldValueNotSupported");
    assert_eq!(causes[2]["field"], "fieldValidation");
    assert_eq!(server.get(&format!("{MAPS}/m?{bad}")).await.code, 404, "it was not created");

    assert_eq!(server.post(MAPS, map).await.code, 201);
    let query = format!("{MAPS}/m?propagationPolicy=Never&dryRun=All&dryRun=Some");
    let by_query = server.request("DELETE", &query, "", b"").await;
    let body = br#"{"propagationPolicy":"Never","dryRun":["All","Some"]}"#;
    let by_body = server.request("DELETE", &format!("{MAPS}/m"), "", body).await;
    let message = format!(
        "DeleteOptions.meta.k8s.io \"\" is invalid: [propagationPolicy: Unsupported value: \
         \"Never\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\", \
         {dry_run}]"
    );
    for refused in [by_query, by_body] {
        assert_eq!((refused.code, &refused.json()["message"]), (422, &json!(message)));
    }
    assert_eq!(server.get(&format!("{MAPS}/m?{bad}")).await.code, 200, "it is still there");
    for subresource in ["binding", "eviction"] {
        let path = format!("/api/v1/namespaces/default/pods/p/{subresource}?dryRun=Some");
        assert_eq!(server.post(&path, b"{}").await.code, 422, "{subresource}");
    }

    // Options in the query count only without those in a body.
    let path = format!("{MAPS}/m?dryRun=All");
    assert_eq!(server.request("DELETE", &path, "", b"").await.code, 200);
    assert_eq!(server.get(&format!("{MAPS}/m")).await.code, 200, "it was only checked");
    assert_eq!(server.request("DELETE", &path, "", b"{}").await.code, 200);
    assert_eq!(server.get(&format!("{MAPS}/m")).await.code, 404);
}

/// S3: every resource in the discovery documents, aggregated or not, is served. Every reference in
/// the documents of their types resolves.
#[tokio::test]
async fn every_discovered_resource_is_served() {
    let server = Server::start().await;
    let mut group_versions = vec!["/api/v1".to_owned()];
    for group in server.get("/apis").await.json()["groups"].as_array().expect("groups") {
        let name = group["name"].as_str().expect("a name");
        assert_eq!(server.get(&format!("/apis/{name}")).await.json()["kind"], "APIGroup");
        for version in group["versions"].as_array().expect("versions") {
            group_versions.push(format!("/apis/{}", version["groupVersion"].as_str().expect("it")));
        }
    }
    let index = server.get("/openapi/v3").await.json();
    let mut lists = 0;
    for path in &group_versions {
        let document = server.get(path).await.json();
        assert_eq!(document["kind"], "APIResourceList", "{path}");
        for resource in document["resources"].as_array().expect("resources") {
            let name = resource["name"].as_str().expect("a name");
            let verbs = resource["verbs"].as_array().expect("verbs");
            if verbs.contains(&json!("list")) {
                let list = server.get(&format!("{path}/{name}")).await;
                assert_eq!(list.code, 200, "{path}/{name}");
                lists += 1;
            }
        }
        let url = &index["paths"][&path[1..]]["serverRelativeURL"];
        let schema = server.get(url.as_str().expect("a URL")).await.json();
        assert_eq!(schema["openapi"], "3.0.0", "{path}");
        let text = schema.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().expect("a text ends");
            assert!(schema.pointer(pointer).is_some(), "{path}: {pointer}");
        }
    }
    assert!(lists >= 11, "only {lists} kinds can be listed");
    for (path, least) in [("/api", 1), ("/apis", 6)] {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let response = server.read_as(path, accept).await;
        assert_eq!(response.json()["kind"], "APIGroupDiscoveryList");
        assert!(response.json()["items"].as_array().is_some_and(|items| items.len() >= least));
    }
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    assert_eq!(server.read_as("/openapi/v2", protobuf).await.code, 200);
    let version = server.get("/version").await.json();
    let minor = version["minor"].as_str().expect("a text");
    let release = version["gitVersion"].as_str().expect("a text");
    assert!(release.starts_with(&format!("v1.{minor}.")), "{release}");
}

/// S4: a list is returned as objects, a table or metadata; other media types are refused.
#[tokio::test]
async fn a_list_is_returned_in_the_accepted_format() {
    let server = Server::start().await;
    let table = server
        .read_as("/api/v1/nodes?limit=1", "application/json;as=Table;g=meta.k8s.io;v=v1")
        .await
        .json();
    assert_eq!(
        (&table["kind"], &table["rows"][0]["cells"][0]),
        (&json!("Table"), &json!("node-0001"))
    );
    assert_eq!(table["columnDefinitions"][0]["name"], "Name");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert!(table["metadata"]["continue"].is_string());

    let partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let partial = server.read_as("/api/v1/nodes", partial).await.json();
    assert_eq!(partial["kind"], "PartialObjectMetadataList");
    assert_eq!(partial["items"][0].get("spec"), None);
    assert_eq!(server.read_as("/api/v1/nodes", "text/html").await.code, 406);

    let watch = "/api/v1/nodes?watch=1&timeoutSeconds=1&fieldSelector=metadata.name=node-0001";
    let rows = server.read_as(watch, "application/json;as=Table;g=meta.k8s.io;v=v1").await;
    let event: Value = serde_json::from_str(rows.body.lines().next().expect("a row")).expect("it");
    assert_eq!((&event["type"], &event["object"]["kind"]), (&json!("ADDED"), &json!("Table")));
}

/// S12: hostile requests are refused with an error, and the server keeps running.
#[tokio::test]
async fn hostile_requests_are_refused() {
    let server = Server::start().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let deep = "[".repeat(200_000);
    let long = "x".repeat(200_000);
    let cases: Vec<(&str, String, &[u8], &[u16])> = vec![
        ("POST", maps.into(), b"{\"metadata\":", &[400]),
        ("POST", maps.into(), deep.as_bytes(), &[400]),
        ("POST", maps.into(), b"{\"metadata\":{\"name\":\"\xff\"}}", &[400]),
        ("POST", maps.into(), b"[]", &[400]),
        ("POST", maps.into(), b"{\"metadata\":[]}", &[400]),
        ("POST", maps.into(), b"", &[400]),
        ("POST", "/api/v1/configmaps".into(), b"{}", &[405]),
        ("DELETE", "/api/v1/namespaces/default/pods/x".into(), b"[1]", &[400]),
        ("PATCH", format!("{maps}/x"), b"{}", &[415]),
        ("BREW", maps.into(), b"", &[405]),
        ("GET", format!("{maps}/%ff"), b"", &[400]),
        ("GET", format!("{maps}/..%2f..%2fx"), b"", &[404]),
        ("GET", format!("{maps}?limit=-9"), b"", &[200]),
        ("GET", format!("{maps}?limit=99999999999999999999"), b"", &[400]),
        ("GET", format!("{maps}?labelSelector=%00"), b"", &[400]),
        ("GET", format!("{maps}?labelSelector=((((("), b"", &[400]),
        ("GET", format!("{maps}?labelSelector={}!b", "!a,".repeat(300)), b"", &[400]),
        ("GET", format!("{maps}?fieldSelector=a"), b"", &[400]),
        ("GET", format!("{maps}?continue=%22"), b"", &[400]),
        ("GET", format!("{maps}?watch=1&timeoutSeconds=-1&resourceVersion=x"), b"", &[422]),
        ("GET", format!("{maps}?{}", "a=b&".repeat(500)), b"", &[400]),
        ("GET", format!("/{}", "a/".repeat(500)), b"", &[404]),
        ("GET", format!("/{long}"), b"", &[414, 431]),
        ("GET", "/api/v1/namespaces/default/pods/x/exec?command=sh".into(), b"", &[404]),
        ("GET", "/apis/apps/v1/namespaces/default/fleets".into(), b"", &[404]),
    ];
    for (method, path, body, codes) in cases {
        let response = server.request(method, &path, "", body).await;
        let shown: String = path.chars().take(80).collect();
        assert!(
            codes.contains(&response.code),
            "{method} {shown}: {} {}",
            response.code,
            response.body
        );
        if response.code != 200 && response.code != 414 && response.code != 431 {
            assert_eq!(response.json()["kind"], "Status", "{method} {shown}");
            assert_ne!(response.json()["message"], "", "{method} {shown}");
        }
    }
    let huge = vec![b' '; 4 * 1024 * 1024];
    assert_eq!(server.request("POST", maps, "", &huge).await.code, 413);
    let kind = "Content-Type: text/plain\r\n";
    assert_eq!(server.request("POST", maps, kind, b"{}").await.code, 415);
    let header = format!("X-Long: {long}\r\n");
    assert_eq!(server.request("GET", maps, &header, b"").await.code, 431);
    assert_eq!(server.get("/api/v1/nodes/node-0001").await.code, 200);
}

/// S12: connections without a complete request are closed after a timeout.
#[tokio::test]
async fn half_open_connections_are_closed() {
    let limits = Limits {
        tls_handshake: Duration::from_millis(500),
        request_head: Duration::from_millis(500),
        request_body: Duration::from_millis(500),
        ..Limits::default()
    };
    let server = Server::start_with(limits).await;
    let token = server.token();
    let stopped_body = format!(
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\n\
         Authorization: Bearer {token}\r\nContent-Length: 100\r\n\r\n{{"
    );
    // In turn: no TLS, no request, an incomplete head, an incomplete body, bytes other than HTTP.
    assert!(server.plain(b"").await.is_empty());
    assert!(server.plain(b"GET / HTTP/1.1\r\n\r\n").await.len() < 64, "more than a TLS alert");
    assert_eq!(server.raw(b"").await, "");
    let half = server.raw(b"GET / HTTP/1.1\r\nHost:").await;
    assert!(half.is_empty() || half.starts_with("HTTP/1.1 408"), "{half}");
    assert!(server.raw(stopped_body.as_bytes()).await.starts_with("HTTP/1.1 504"));
    let garbage = server.raw(b"\x00\x01\x02\r\n\r\n").await;
    assert!(garbage.is_empty() || garbage.starts_with("HTTP/1.1 400"), "{garbage}");
}

/// S12: thousands of idle connections, before and after the TLS handshake, don't block a request.
#[tokio::test]
async fn idle_connections_do_not_block_requests() {
    const IDLE: usize = 3_000;
    const IDLE_AFTER_TLS: usize = 300;
    // Both ends of every connection are in this process.
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: files.maximum, ..files };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).expect("more files");
    let server = Server::start().await;
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        idle.push(server.connect_plain().await);
    }
    let mut idle_after_tls = Vec::new();
    for _ in 0..IDLE_AFTER_TLS {
        idle_after_tls.push(server.connect().await);
    }
    assert_eq!(server.get("/api/v1/nodes").await.code, 200);
}

/// S12: applying a manifest returns a result per document with its number; kinds that aren't served
/// are reported, and the other documents are applied.
#[tokio::test]
async fn a_manifest_is_applied_document_by_document() {
    let sandbox = start(Options::default()).await.expect("a sandbox");
    let manifest = "\
# A comment alone is not a document.
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
---
apiVersion: example.dev/v1
kind: Widget
metadata: {name: b}
---
kind: ConfigMap
apiVersion: v1
metadata: [
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: d}, colour: red}
- {apiVersion: v1, kind: Service, metadata: {name: e}, spec: {ports: [{port: 80}]}}
- {apiVersion: v1, kind: Service, metadata: {name: f}, spec: {ports: [{port: 0}]}}
- hello
---
[1, 2]
";
    let applied = sandbox.apply_manifest(manifest);
    let lines: Vec<String> = applied.iter().map(ToString::to_string).collect();
    assert!(matches!(applied[0].result, Err(ApplyError::Syntax(_))), "{}", lines[0]);
    assert_eq!(lines[1], "document 4 is no object");
    assert_eq!(lines[2], "document 5 is no object");
    let lines = &lines[2..];
    assert_eq!(lines[1], "document 1: configmap/a created");
    assert_eq!(lines[2], "document 4: configmap/c created");
    assert!(lines[3].ends_with("strict decoding error: unknown field \"colour\""), "{}", lines[3]);
    assert_eq!(lines[4], "document 4: service/e created");
    assert!(lines[5].contains("spec.ports[0].port: Invalid value: 0"), "{}", lines[5]);
    assert_eq!(
        lines[6],
        "document 2 widget.example.dev/b: no matches for kind \"Widget\" in version \
         \"example.dev/v1\""
    );
    let again = sandbox.apply_manifest("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}");
    assert_eq!(again[0].result, Ok(ApplyOutcome::Unchanged));
    let path = sandbox.kubeconfig_path().to_owned();
    sandbox.shutdown().await;
    assert!(!path.exists(), "the default kubeconfig is not removed");
}

/// S1: a sandbox that is dropped stops, and its kubeconfig is removed.
#[tokio::test]
async fn dropping_a_sandbox_stops_it() {
    let sandbox = Sandbox::start().await.expect("it starts");
    let path = sandbox.kubeconfig_path().to_owned();
    let address = sandbox.server_url().trim_start_matches("https://").to_owned();
    assert!(path.exists() && TcpStream::connect(&address).await.is_ok(), "{address}");
    drop(sandbox);
    assert!(!path.exists(), "{} is left behind", path.display());
    let refused = async { while TcpStream::connect(&address).await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(10), refused).await.expect("it stops");
}

/// S15: the definitions of policies, which a sandbox of the program installs without validating
/// them, are valid.
#[tokio::test]
async fn the_definitions_of_policies_are_valid() {
    let sandbox = start(Options::default()).await.expect("it starts");
    for definition in [
        include_str!("../../../../deploy/policies/rollout-policies.yaml"),
        include_str!("../../../../deploy/policies/cluster-rollout-policies.yaml"),
    ] {
        let applied = sandbox.apply_manifest(definition);
        assert_eq!(applied.len(), 1);
        assert_eq!(applied[0].result, Ok(ApplyOutcome::Created), "{}", applied[0]);
    }
    sandbox.shutdown().await;
}
