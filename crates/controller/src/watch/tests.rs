//! A watch of an HTTP server that misbehaves.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use everynode_core::api::ResourceVersion;
use everynode_k8s::convert::RevisionObject;
use everynode_k8s::protobuf;
use futures::StreamExt;
use futures::stream;
use http::Response;
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

use super::*;
use crate::client;
use crate::decode::{Namespaces, Revisions};

mod optional;

/// Maximum time to wait for a change.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The answer to one request.
#[derive(Clone)]
struct Answer {
    code: u16,
    content_type: &'static str,
    retry_after: Option<&'static str>,
    body: Vec<u8>,
    /// True if the body stays open.
    stays_open: bool,
}

impl Answer {
    fn new(body: impl Into<Vec<u8>>) -> Self {
        Self {
            code: 200,
            content_type: "application/json",
            retry_after: None,
            body: body.into(),
            stays_open: false,
        }
    }

    fn open(body: impl Into<Vec<u8>>) -> Self {
        Self { stays_open: true, ..Self::new(body) }
    }

    fn protobuf(body: impl Into<Vec<u8>>) -> Self {
        Self { content_type: protobuf::MEDIA_TYPE, ..Self::new(body) }
    }

    /// A watch that stays open.
    fn frames(body: impl Into<Vec<u8>>) -> Self {
        Self {
            content_type: "application/vnd.kubernetes.protobuf;stream=watch",
            ..Self::open(body)
        }
    }

    fn status(code: u16) -> Self {
        let body = format!(r#"{{"kind":"Status","code":{code},"message":"answer {code}"}}"#);
        Self { code, ..Self::new(body) }
    }
}

/// Answers the requests in order and records their parameters. Requests beyond the last answer
/// stay open.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    requests: Arc<Mutex<Vec<(Instant, String)>>>,
    /// True if each request asks for protobuf.
    asks_for_protobuf: Arc<Mutex<Vec<bool>>>,
}

impl Script {
    fn answer(&self, query: &str) -> Answer {
        self.requests.lock().unwrap().push((Instant::now(), query.to_owned()));
        self.answers.lock().unwrap().pop_front().unwrap_or_else(|| Answer::open(""))
    }

    /// The requests: `stream`, `watch` with a version, `page` with a token.
    fn requests(&self) -> Vec<String> {
        let short = |(_, query): &(Instant, String)| {
            let of = |name: &str| {
                let mut pairs = form_urlencoded::parse(query.as_bytes());
                pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
            };
            match (of("sendInitialEvents"), of("watch"), of("limit"), of("continue")) {
                (Some(_), _, _, _) => "stream".to_owned(),
                (None, Some(_), _, _) => {
                    format!("watch {}", of("resourceVersion").unwrap_or_default())
                }
                (None, None, None, None) => "list".to_owned(),
                (None, None, _, None) => "page".to_owned(),
                (None, None, _, Some(token)) => format!("page {token}"),
            }
        };
        self.requests.lock().unwrap().iter().map(short).collect()
    }

    async fn serve(self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let script = self.clone();
                let service = hyper::service::service_fn(move |request: http::Request<_>| {
                    let _: &hyper::body::Incoming = request.body();
                    let accept = request.headers()[http::header::ACCEPT].to_str().unwrap();
                    let asks_for_protobuf = accept.starts_with(protobuf::MEDIA_TYPE);
                    script.asks_for_protobuf.lock().unwrap().push(asks_for_protobuf);
                    let answer = script.answer(request.uri().query().unwrap_or_default());
                    std::future::ready(Ok::<_, Infallible>(response(answer)))
                });
                tokio::spawn(async move {
                    auto::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await
                });
            }
        });
        address
    }
}

fn response(
    answer: Answer,
) -> Response<StreamBody<impl futures::Stream<Item = Result<Frame<Bytes>, Infallible>>>> {
    let first = stream::iter([Ok(Frame::data(Bytes::from(answer.body)))]);
    let rest = if answer.stays_open { stream::pending().boxed() } else { stream::empty().boxed() };
    let mut response = Response::builder()
        .status(answer.code)
        .header(http::header::CONTENT_TYPE, answer.content_type);
    if let Some(seconds) = answer.retry_after {
        response = response.header(http::header::RETRY_AFTER, seconds);
    }
    response.body(StreamBody::new(first.chain(rest))).unwrap()
}

struct TestWatch<T = RevisionObject> {
    changes: mpsc::Receiver<Change<T>>,
    script: Script,
    metrics: Arc<Metrics>,
}

impl TestWatch {
    /// Watches ControllerRevisions of a server with these answers.
    async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::start_with(Revisions::default(), answers).await
    }

    /// The names and the version of the next list.
    async fn list(&mut self) -> (Vec<String>, u64) {
        match self.next().await {
            Change::Reset { items, version } => (items.iter().map(name).collect(), version.0),
            other => panic!("no list: {other:?}"),
        }
    }
}

impl<T: std::fmt::Debug + Send + 'static> TestWatch<T> {
    /// Watches the objects of this decoder at a server with these answers.
    async fn start_with(
        decoder: impl Decode<Item = T> + 'static,
        answers: impl IntoIterator<Item = Answer>,
    ) -> Self {
        Self::start_as(false, decoder, answers).await
    }

    async fn start_as(
        is_optional: bool,
        decoder: impl Decode<Item = T> + 'static,
        answers: impl IntoIterator<Item = Answer>,
    ) -> Self {
        let script = Script::default();
        script.answers.lock().unwrap().extend(answers);
        let address = script.clone().serve().await;
        let config = client::Config::for_test(&format!("http://{address}"));
        let (sender, changes) = mpsc::channel(100);
        let metrics = Arc::new(Metrics::default());
        let context = WatchContext {
            client: client::client(&config, client::Pings::default()).unwrap(),
            sender,
            wrap_connection: |_| None,
            outages: OutageLog::default(),
            environment: Environment::default(),
            metrics: metrics.clone(),
        };
        let watch = Watch {
            resource: Resource { name: "controllerrevisions", path: "/revisions".to_owned() },
            decoder,
            wrap: Box::new(|change| change),
            is_optional,
            context: Arc::new(context),
        };
        tokio::spawn(watch.run());
        Self { changes, script, metrics }
    }

    async fn next(&mut self) -> Change<T> {
        let next = timeout(TIMEOUT, self.changes.recv()).await;
        next.unwrap_or_else(|_| panic!("no change; requests: {:?}", self.script.requests()))
            .unwrap()
    }

    fn unreadable(&self) -> u64 {
        let labels = ReasonLabels { reason: "Undecodable" };
        self.metrics.problems.get_or_create(&labels).get()
    }
}

fn name(revision: &RevisionObject) -> String {
    match revision {
        RevisionObject::Revision { revision, .. } => revision.name.to_string(),
        RevisionObject::Foreign { .. } => "foreign".to_owned(),
    }
}

fn revision(name: &str, version: u64) -> String {
    let identity = format!(r#""name":"{name}","namespace":"ns","uid":"{name}-uid""#);
    let metadata = format!(r#"{{{identity},"resourceVersion":"{version}"}}"#);
    let rest = r#""data":{"x":"?"},"revision":1"#;
    format!(r#"{{"kind":"ControllerRevision","metadata":{metadata},{rest}}}"#)
}

/// The text with its question marks as bytes that are not UTF-8.
fn with_invalid_utf8(text: &str) -> Vec<u8> {
    text.bytes().map(|byte| if byte == b'?' { 0xff } else { byte }).collect()
}

fn line(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

fn end(version: u64) -> String {
    let annotations = r#""annotations":{"k8s.io/initial-events-end":"true"}"#;
    line("BOOKMARK", &format!(r#"{{"metadata":{{"resourceVersion":"{version}",{annotations}}}}}"#))
}

fn error(code: u16, message: &str) -> String {
    line("ERROR", &format!(r#"{{"kind":"Status","code":{code},"message":"{message}"}}"#))
}

fn page(items: &[String], version: u64, token: &str) -> String {
    let metadata = format!(r#"{{"resourceVersion":"{version}","continue":"{token}"}}"#);
    format!(r#"{{"kind":"List","metadata":{metadata},"items":[{}]}}"#, items.join(","))
}

/// C1: a server on an old etcd answers each streaming list with 200 and an ERROR event
/// of code 500; then the list is requested in pages.
#[tokio::test]
async fn a_streaming_list_that_ends_in_an_error_event_is_followed_by_pages() {
    let message = "the required storage feature RequestWatchProgress is disabled";
    let failing = Answer::new(error(500, message));
    let pages = Answer::new(page(&[revision("a", 3)], 7, ""));
    let mut watch = TestWatch::start([failing.clone(), pages]).await;
    assert_eq!(watch.list().await, (vec!["a".to_owned()], 7));
    assert_eq!(watch.script.requests()[..2], ["stream", "page"]);
}

/// C1, C4: in a page, bytes that are not UTF-8 and an object that can't be decoded are
/// reported; the other objects count.
#[tokio::test]
async fn unreadable_objects_in_a_page_are_reported_and_ignored() {
    let items = [revision("a", 3), r#"{"metadata":{"name":7}}"#.to_owned(), revision("b", 4)];
    let pages = Answer::new(with_invalid_utf8(&page(&items, 7, "")));
    let mut watch = TestWatch::start([Answer::status(400), pages]).await;
    assert_eq!(watch.list().await, (vec!["a".to_owned(), "b".to_owned()], 7));
    assert_eq!(watch.unreadable(), 3);
}

/// C1, C4: in a watch, bytes that are not UTF-8, an object that can't be decoded and one
/// without a resourceVersion are reported; the later lines count.
#[tokio::test]
async fn unreadable_objects_in_a_watch_are_reported_and_ignored() {
    let nameless = r#"{"metadata":{"resourceVersion":"9"}}"#;
    let unversioned = r#"{"metadata":{"name":"b","namespace":"ns","uid":"b-uid"}}"#;
    let lines = [
        end(7),
        line("ADDED", &revision("a", 8)),
        line("MODIFIED", nameless),
        line("ADDED", unversioned),
        line("ADDED", &revision("c", 10).replace('?', "!")),
    ];
    let mut watch = TestWatch::start([Answer::open(with_invalid_utf8(&lines.concat()))]).await;
    assert_eq!(watch.list().await, (vec![], 7));
    for (expected, at) in [("a", 8), ("", 9), ("b", 9), ("c", 10)] {
        let change = watch.next().await;
        assert_eq!(change.version(), ResourceVersion(at), "{change:?}");
        match change {
            Change::Applied { item, .. } => assert_eq!(name(&item), expected),
            change => assert_eq!((change, ""), (Change::Reached(ResourceVersion(9)), expected)),
        }
    }
    assert_eq!(watch.unreadable(), 3);
    assert_eq!(watch.script.requests(), ["stream"]);
}

/// C1: a watch that fails three times at one resourceVersion is replaced by a list. An
/// ERROR event, a refusal and a line that is not JSON all count.
#[tokio::test]
async fn a_watch_that_fails_three_times_at_one_version_is_replaced_by_a_list() {
    let mut watch = TestWatch::start([
        Answer::new(end(7) + &error(500, "etcd")),
        Answer::new(page(&[], 7, "")),
        Answer::status(500),
        Answer::new(page(&[], 8, "more")),
        Answer::new("what is this?\n"),
        Answer::open(line("ADDED", &revision("a", 8)) + &end(9)),
    ])
    .await;
    assert_eq!(watch.list().await, (vec![], 7));
    assert_eq!(watch.list().await, (vec!["a".to_owned()], 9));
    let expected = ["stream", "page", "watch 7", "page", "watch 7", "stream"];
    assert_eq!(watch.script.requests(), expected);
}

/// C1: a server that has an older version after an outage was restored from a backup. A watch of
/// the known version would show nothing, so a list replaces it.
#[tokio::test]
async fn a_list_replaces_a_watch_after_a_restore() {
    let mut watch = TestWatch::start([
        Answer::new(end(7)),
        Answer::status(503),
        Answer::status(503),
        Answer::new(page(&[revision("old", 2)], 6, "more")),
        Answer::open(line("ADDED", &revision("old", 2)) + &end(6)),
    ])
    .await;
    assert_eq!(watch.list().await, (vec![], 7));
    assert_eq!(watch.list().await, (vec!["old".to_owned()], 6));
    let expected = ["stream", "watch 7", "page", "page", "stream"];
    assert_eq!(watch.script.requests(), expected);
}

/// C1: a watch that is refused because its resourceVersion has expired is replaced by a list at
/// once: no later request for that version could succeed.
#[tokio::test]
async fn a_watch_of_an_expired_version_is_replaced_by_a_list() {
    let mut watch = TestWatch::start([
        Answer::new(end(7)),
        Answer::status(410),
        Answer::open(line("ADDED", &revision("a", 8)) + &end(9)),
    ])
    .await;
    assert_eq!(watch.list().await, (vec![], 7));
    assert_eq!(watch.list().await, (vec!["a".to_owned()], 9));
    assert_eq!(watch.script.requests(), ["stream", "watch 7", "stream"]);
}

/// C1, C60: lists name no resourceVersion, so that the server answers with its newest state: an
/// older one might lack the controller's own writes.
#[tokio::test]
async fn lists_ask_for_the_newest_state() {
    let first = Answer::new(page(&[], 7, "t"));
    let expired = Answer::status(410);
    let whole = Answer::new(page(&[], 9, ""));
    let answers =
        [Answer::status(400), first.clone(), expired.clone(), first.clone(), expired, whole];
    let mut watch = TestWatch::start(answers).await;
    assert_eq!(watch.list().await, (vec![], 9));
    let requests = watch.script.requests.lock().unwrap();
    let queries: Vec<&str> = requests.iter().map(|(_, query)| query.as_str()).collect();
    let (page, next_page) = ("limit=500", "limit=500&continue=t");
    assert_eq!(queries[1..6], [page, next_page, page, next_page, ""]);
    let of_stream: Vec<_> = form_urlencoded::parse(queries[0].as_bytes()).collect();
    assert!(of_stream.contains(&("resourceVersionMatch".into(), "NotOlderThan".into())));
    assert!(of_stream.iter().all(|(key, _)| key != "resourceVersion"), "{of_stream:?}");
}

/// C1: changes and deletions before the end bookmark of a streaming list count.
#[tokio::test]
async fn changes_and_deletions_within_a_streaming_list_count() {
    let lines = [
        line("ADDED", &revision("a", 3)),
        line("ADDED", &revision("b", 4)),
        line("ADDED", &revision("c", 5)),
        line("MODIFIED", &revision("c", 6)),
        line("DELETED", &revision("a", 7)),
        end(8),
    ];
    let mut watch = TestWatch::start([Answer::open(lines.concat())]).await;
    let (mut names, version) = watch.list().await;
    names.sort();
    assert_eq!((names, version), (vec!["b".to_owned(), "c".to_owned()], 8));
}

/// C1: a list whose continue token expires starts over, the second time without pages.
#[tokio::test]
async fn a_list_whose_token_expires_twice_is_requested_without_pages() {
    let first = Answer::new(page(&[revision("a", 3)], 7, "t"));
    let whole = Answer::new(page(&[revision("a", 3), revision("b", 4)], 9, ""));
    let expired = Answer::status(410);
    let answers =
        [Answer::status(400), first.clone(), expired.clone(), first.clone(), expired, whole];
    let mut watch = TestWatch::start(answers).await;
    assert_eq!(watch.list().await, (vec!["a".to_owned(), "b".to_owned()], 9));
    let requests = ["stream", "page", "page t", "page", "page t", "list"];
    assert_eq!(watch.script.requests()[..6], requests);
}

/// C1: a page that leads back to itself ends the list, which starts over.
#[tokio::test]
async fn a_list_that_leads_back_to_itself_starts_over() {
    let again = Answer::new(page(&[revision("a", 3)], 7, "t"));
    let whole = Answer::new(page(&[revision("b", 4)], 9, ""));
    let mut watch = TestWatch::start([Answer::status(400), again.clone(), again, whole]).await;
    assert_eq!(watch.list().await, (vec!["b".to_owned()], 9));
    assert_eq!(watch.script.requests()[..4], ["stream", "page", "page t", "page"]);
}

/// C1: a line without end is read up to its limit. Then a list follows.
#[tokio::test]
async fn a_line_without_end_is_given_up() {
    let endless = Answer::open(vec![b' '; chunks::EVENT_BYTES_MAX + 1]);
    let pages = Answer::new(page(&[revision("a", 3)], 7, ""));
    let mut watch = TestWatch::start([endless, pages]).await;
    assert_eq!(watch.list().await, (vec!["a".to_owned()], 7));
}

/// C1: a resourceVersion that is no number stays one parameter of the query.
#[tokio::test]
async fn a_version_that_is_no_number_is_encoded() {
    let page = r#"{"metadata":{"resourceVersion":"7&limit=1 \u001b"},"items":[]}"#;
    let changed = Answer::open(line("ADDED", &revision("a", 8)));
    let mut watch = TestWatch::start([Answer::status(400), Answer::new(page), changed]).await;
    assert_eq!(watch.list().await, (vec![], 0));
    assert_eq!(watch.next().await.version(), ResourceVersion(8));
    assert_eq!(watch.script.requests(), ["stream", "page", "watch 7&limit=1 \u{1b}"]);
}

/// C1, C64: a pause that a server asks for (429, Retry-After) is kept, then the request is
/// repeated.
#[tokio::test]
async fn retry_after_is_respected() {
    let busy = Answer { retry_after: Some("2"), ..Answer::status(429) };
    let mut watch = TestWatch::start([busy, Answer::open(end(7))]).await;
    assert_eq!(watch.list().await, (vec![], 7));
    assert_eq!(watch.script.requests(), ["stream", "stream"]);
    let requests = watch.script.requests.lock().unwrap();
    assert!(requests[1].0 - requests[0].0 >= Duration::from_secs(2));
}

const RECORDED_PAGE: &[u8] = include_bytes!("../../../k8s/recorded/namespaces.pb");
const RECORDED_WATCH: &[u8] = include_bytes!("../../../k8s/recorded/watch.pb");

/// C1, C82: namespaces are listed and watched in protobuf; a streaming list ends with its bookmark.
#[tokio::test]
async fn a_watch_asks_for_protobuf_and_reads_it() {
    let mut watch =
        TestWatch::start_with(Namespaces::default(), [Answer::frames(RECORDED_WATCH)]).await;
    match watch.next().await {
        Change::Reset { items, .. } => assert_eq!(items[0].name.as_str(), "recorded2"),
        other => panic!("no list: {other:?}"),
    }
    assert_eq!(watch.unreadable(), 0);
    assert_eq!(*watch.script.asks_for_protobuf.lock().unwrap(), [true]);
}

/// C1, C82: a streaming list whose last frame is cut off is followed by pages in protobuf.
#[tokio::test]
async fn a_frame_that_is_cut_off_counts_as_the_end_of_the_watch() {
    let cut =
        Answer { stays_open: false, ..Answer::frames(&RECORDED_WATCH[..RECORDED_WATCH.len() - 1]) };
    let pages = [cut, Answer::protobuf(RECORDED_PAGE)];
    let mut watch = TestWatch::start_with(Namespaces::default(), pages).await;
    match watch.next().await {
        Change::Reset { items, .. } => assert_eq!(items.len(), 1),
        other => panic!("no list: {other:?}"),
    }
    assert_eq!(watch.script.requests()[..2], ["stream", "page"]);
    assert_eq!(watch.script.asks_for_protobuf.lock().unwrap()[..2], [true, true]);
}

/// C1, C82: after an answer that is called protobuf and is something else, JSON is requested.
#[tokio::test]
async fn malformed_protobuf_is_followed_by_json() {
    let json = include_bytes!("../../../k8s/recorded/namespaces.json");
    let page = || Answer::new(&json[..]);
    for malformed in [
        Answer::frames(include_bytes!("../../../k8s/recorded/watch.json").as_slice()),
        Answer::frames(*b"\0\0\0\x07\x0a\x05OTHER"),
        Answer::frames(*b"\0\0\0\x03\x0a\x05O"),
        Answer::frames(*b"\xff\xff\xff\xff"),
    ] {
        let mut watch = TestWatch::start_with(Namespaces::default(), [malformed, page()]).await;
        match watch.next().await {
            Change::Reset { items, .. } => assert_eq!(items.len(), 1),
            other => panic!("no list: {other:?}"),
        }
        assert_eq!(watch.script.asks_for_protobuf.lock().unwrap()[..2], [true, false]);
    }
    // A page, too. The revisions are never requested in protobuf.
    let answers = [Answer::status(400), Answer::protobuf(&json[..]), page()];
    let mut watch = TestWatch::start_with(Namespaces::default(), answers).await;
    assert!(matches!(watch.next().await, Change::Reset { .. }));
    assert_eq!(watch.script.asks_for_protobuf.lock().unwrap()[..3], [true, true, false]);
    let answers = [Answer::status(400), Answer::new(self::page(&[], 7, ""))];
    let mut watch = TestWatch::start(answers).await;
    watch.list().await;
    assert_eq!(watch.script.asks_for_protobuf.lock().unwrap()[..2], [false, false]);
}
