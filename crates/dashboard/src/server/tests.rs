//! The server without a cluster and without a browser.

use axum::body::Body;
use axum::http::{HeaderMap, Method, header};
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tower::ServiceExt as _;

use super::*;
use crate::source::{DaemonSetDetail, DaemonSets, Done, NodeDetail, Prepared, Revisions};

/// One list without DaemonSets, and an action that is always done.
struct Fixed;

fn reading<T>(content: Content<T>) -> watch::Receiver<Reading<T>> {
    watch::channel(Reading { content, lost: None }).1
}

impl Source for Fixed {
    fn cluster(&self) -> &str {
        "prod (https://10.0.0.1:6443)"
    }

    fn daemon_sets(&self) -> watch::Receiver<Reading<DaemonSets>> {
        let scope = "all namespaces".to_owned();
        let list = DaemonSets { scope, rollouts: Vec::new(), notes: vec!["<b>".to_owned()] };
        reading(Content::Loaded(Arc::new(list)))
    }

    fn daemon_set(&self, key: &DaemonSetKey) -> watch::Receiver<Reading<DaemonSetDetail>> {
        reading(Content::Missing(format!("there is no daemonset {key}")))
    }

    fn node(&self, _: &NodeName) -> watch::Receiver<Reading<NodeDetail>> {
        reading(Content::Loading)
    }

    async fn node_names(&self) -> Arc<Vec<String>> {
        Arc::new(["node-1", "node-<2>", "spot-1"].map(str::to_owned).to_vec())
    }

    async fn revisions(&self, _: &DaemonSetKey) -> Result<Revisions, String> {
        Err("not read".to_owned())
    }

    async fn prepare(&self, _: &DaemonSetKey, _: Action) -> Result<Prepared, String> {
        let effects = vec!["It is paused.".to_owned()];
        Ok(Prepared { effects, diff: None, basis: "7".to_owned() })
    }

    async fn perform(&self, _: &DaemonSetKey, _: Action, basis: &str) -> Result<Done, String> {
        if basis != "7" {
            return Err("it has changed".to_owned());
        }
        Ok(Done { message: "paused".to_owned(), notes: Vec::new() })
    }
}

fn app() -> App<Fixed> {
    let access = Arc::new(Access::new(8080).unwrap());
    App { source: Arc::new(Fixed), access, shutdown: CancellationToken::new() }
}

/// The answer to a request of a page of this server.
async fn answer(
    app: &App<Fixed>,
    method: Method,
    path: &str,
    body: String,
) -> (StatusCode, HeaderMap, String) {
    let cookie = app.access.set_cookie();
    let request = Request::builder()
        .method(method)
        .uri(format!("{}{path}", app.access.base))
        .header(header::HOST, "127.0.0.1:8080")
        .header(header::ORIGIN, "http://127.0.0.1:8080")
        .header(header::COOKIE, cookie.split(';').next().unwrap())
        .body(Body::from(body))
        .unwrap();
    let response = router(app.clone()).oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status, head.headers, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn every_path_has_its_answer_and_the_headers() {
    let app = app();
    for (path, expected, shows) in [
        ("", StatusCode::OK, "no DaemonSets found"),
        ("?filter=%22%3E%3Cscript%3E", StatusCode::OK, "value=\"&quot;&gt;&lt;script&gt;\""),
        ("ds/a/b", StatusCode::OK, "there is no daemonset a/b"),
        ("ds/a/b/nodes", StatusCode::OK, "there is no daemonset a/b"),
        ("ds/a/b/at?zone=0&cell=0", StatusCode::NOT_FOUND, "no node at this place"),
        ("ds/a/b/diff", StatusCode::BAD_GATEWAY, "not read"),
        ("ds/a/b/do/pause", StatusCode::OK, "It is paused."),
        ("ds/a/b/do/delete", StatusCode::NOT_FOUND, "there is no such action"),
        ("node/c", StatusCode::OK, "Reading node c"),
        ("assets/dashboard.js", StatusCode::OK, "EventSource"),
        ("assets/secret", StatusCode::NOT_FOUND, ""),
        ("elsewhere", StatusCode::NOT_FOUND, "there is no such page"),
    ] {
        let (status, headers, body) = answer(&app, Method::GET, path, String::new()).await;
        assert_eq!(status, expected, "{path}: {body}");
        assert!(body.contains(shows), "{path}: {body}");
        assert!(headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap().contains("'none'"));
        assert!(!body.contains(app.access.token.as_str()), "{path} has the token");
    }
    let (status, headers, _) = answer(&app, Method::GET, "node?name=+c%2Fd+", String::new()).await;
    assert_eq!(status, StatusCode::SEE_OTHER);
    assert_eq!(headers[header::LOCATION], format!("{}node/c%2Fd", app.access.base));
}

#[tokio::test]
async fn an_action_needs_the_secret_of_its_form_and_the_basis_that_was_shown() {
    let app = app();
    let secret = app.access.form.as_str();
    for (form, expected, shows) in [
        (format!("secret={secret}&basis=7"), StatusCode::OK, "paused"),
        (format!("secret={secret}&basis=8"), StatusCode::CONFLICT, "it has changed"),
        ("basis=7".to_owned(), StatusCode::UNAUTHORIZED, "the token is missing"),
        (format!("secret={}&basis=7", &secret[1..]), StatusCode::UNAUTHORIZED, ""),
        ("x".repeat(FORM_BYTES_MAX + 1), StatusCode::PAYLOAD_TOO_LARGE, ""),
    ] {
        let (status, _, body) = answer(&app, Method::POST, "ds/a/b/do/pause", form).await;
        assert_eq!(status, expected, "{body}");
        assert!(body.contains(shows), "{body}");
    }
}

/// The events of a source that has ended are the last state, once.
#[tokio::test]
async fn events_have_the_sections_of_the_page() {
    let (status, headers, body) = answer(&app(), Method::GET, "live", String::new()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers[header::CONTENT_TYPE], "text/event-stream");
    assert_eq!(body.matches("event: sections").count(), 1, "{body}");
    assert!(body.contains("id=\"notes\"") && body.contains("&lt;b&gt;"), "{body}");
}

/// One line of an answer to a GET with this path, over the stream.
async fn status_line(stream: &mut TcpStream, port: u16, path: &str, cookie: &str) -> String {
    let head = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 1024];
    let read = stream.read(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer[..read]).lines().next().unwrap_or_default().to_owned()
}

/// However many connections somebody without the token holds open, the owner of the page is
/// served, on a new connection and on an old one.
#[tokio::test]
async fn silent_connections_keep_nobody_out() {
    let server = Server::bind(0).await.unwrap();
    let port = server.port;
    let page = format!("{}assets/none", server.access.base);
    let cookie = server.access.set_cookie().split(';').next().unwrap().to_owned();
    let shutdown = CancellationToken::new();
    let serving = tokio::spawn(server.serve(Arc::new(Fixed), shutdown.clone()));
    let connect = async || TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut owner = connect().await;
    let found = "HTTP/1.1 404 Not Found";
    assert_eq!(status_line(&mut owner, port, &page, &cookie).await, found);
    let mut silent = Vec::new();
    for _ in 0..=connections::CONNECTIONS_MAX {
        silent.push(connect().await);
    }
    let mut another = connect().await;
    assert_eq!(status_line(&mut another, port, &page, &cookie).await, found);
    assert_eq!(silent[0].read(&mut [0]).await.unwrap(), 0, "the oldest is closed");
    assert_eq!(status_line(&mut owner, port, "/", &cookie).await, "HTTP/1.1 401 Unauthorized");
    shutdown.cancel();
    serving.await.unwrap();
}

#[tokio::test]
async fn names_of_nodes_are_suggested() {
    let names = async |part: &str| {
        answer(&app(), Method::GET, &format!("node-names?part={part}"), String::new()).await.2
    };
    assert_eq!(names("node-1").await, "<option value=\"node-1\"></option>");
    assert_eq!(names("2").await, "<option value=\"node-&lt;2&gt;\"></option>");
    assert_eq!(names("").await.matches("option value").count(), 3);
    assert_eq!(names("other").await, "");
}
