//! Pages, lines and frames, well-formed and not.

use everynode_k8s::convert::NamespaceObject;
use proptest::prelude::*;

use super::*;
use crate::decode::{Namespaces, Nodes, Pods, Revisions};

fn read(bytes: &[u8]) -> (Result<Line<NamespaceObject>, String>, Vec<String>) {
    let mut problems = Vec::new();
    let line = line(&mut Namespaces::default(), bytes, &mut problems);
    (line.map_err(|error| error.to_string()), problems)
}

/// C1, C4: a problem names its object, and the line still counts.
#[test]
fn a_problem_names_its_object() {
    let (line, problems) = read(
        b"{\"type\":\"ADDED\",\"object\":\
          {\"metadata\":{\"name\":\"n\",\"labels\":{\"a\":\"\xff\"}}}}\n",
    );
    assert!(matches!(line, Ok(Line::Added { version, .. }) if version.is_empty()));
    let expected =
        ["n: it has no resourceVersion", "n: bytes that are not UTF-8 are read as U+FFFD"];
    assert_eq!(problems, expected);
    let (line, problems) =
        read(br#"{"type":"MODIFIED","object":{"metadata":{"resourceVersion":"7"}}}"#);
    assert_eq!(line, Ok(Line::Unreadable { version: "7".to_owned() }));
    assert_eq!(problems.len(), 1);
    assert!(problems[0].ends_with("; the object is ignored"), "{problems:?}");
}

/// C1: a line after which a watch can't continue is an error with a readable text.
#[test]
fn an_unusable_line_is_an_error() {
    for (line, expected) in [
        (
            r#"{"type":"ERROR","object":{"code":500,"message":"etcd is unavailable"}}"#,
            "etcd is unavailable",
        ),
        (r#"{"type":"ERROR","object":{"code":504}}"#, "the server answered 504"),
        (
            r#"{"type":"DELETED","object":{"metadata":{"resourceVersion":"7"}}}"#,
            "an unreadable object was deleted",
        ),
        (r#"{"type":"BOOKMARK","object":{"metadata":{}}}"#, "a bookmark has no resourceVersion"),
    ] {
        assert_eq!(read(line.as_bytes()).0, Err(expected.to_owned()), "{line}");
    }
    for line in ["", "{", "\u{fffd}", r#"{"type":"OTHER","object":{}}"#] {
        assert!(read(line.as_bytes()).0.is_err(), "{line}");
    }
}

/// The answers of a real API server (1.36) to the same requests in both encodings.
macro_rules! recorded {
    ($name:literal) => {
        include_bytes!(concat!("../../../../k8s/recorded/", $name))
    };
}

fn pages<D: Decode + Default>(json: &[u8], protobuf: &'static [u8]) -> [Page<D::Item>; 2] {
    let mut problems = Vec::new();
    let pages = [
        page(&mut D::default(), json, &mut problems),
        page_of_protobuf(&mut D::default(), &Bytes::from_static(protobuf), &mut problems),
    ];
    assert_eq!(problems, [""; 0]);
    pages.map(|page| page.unwrap_or_else(|error| panic!("{error}")))
}

/// C82: what a real server lists in protobuf is decoded to the same values as its JSON.
#[test]
fn a_list_in_protobuf_equals_the_list_in_json() {
    let [json, protobuf] = pages::<Pods>(recorded!("pods.json"), recorded!("pods.pb"));
    assert_eq!(json, protobuf);
    assert_eq!(json.items.len(), 2);
    assert_eq!(json.items.iter().filter(|pod| Pods::is_foreign(pod)).count(), 1);
    let [json, protobuf] = pages::<Nodes>(recorded!("nodes.json"), recorded!("nodes.pb"));
    assert_eq!(json, protobuf);
    assert_eq!(json.items[0].taints.len(), 2);
    assert!(json.continue_token.is_some());
    let [json, protobuf] =
        pages::<Namespaces>(recorded!("namespaces.json"), recorded!("namespaces.pb"));
    assert_eq!(json, protobuf);
}

/// The events of a watch in protobuf, without their lengths.
fn frames(mut bytes: Bytes) -> Vec<Bytes> {
    let mut frames = Vec::new();
    while let Some(length) = bytes.first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        bytes = bytes.slice(4..);
        frames.push(bytes.split_to(length));
    }
    frames
}

/// C1, C82: the events of a real server's streaming list are the same in both encodings.
#[test]
fn a_watch_in_protobuf_equals_the_watch_in_json() {
    let mut problems = Vec::new();
    let mut decoder = Namespaces::default();
    let frames = frames(Bytes::from_static(recorded!("watch.pb")));
    let of_frames: Vec<_> =
        frames.iter().map(|bytes| frame(&mut decoder, bytes, &mut problems).unwrap()).collect();
    let lines = recorded!("watch.json").split_inclusive(|byte| *byte == b'\n');
    let of_lines: Vec<_> =
        lines.map(|bytes| line(&mut decoder, bytes, &mut problems).unwrap()).collect();
    assert_eq!(of_frames, of_lines);
    assert!(matches!(
        &of_frames[..],
        [Line::Added { .. }, Line::Bookmark { ends_initial_events: true, .. },]
    ));
    assert_eq!(problems, [""; 0]);
}

/// C1, C82: an ERROR event and a refusal in protobuf have their code and message.
#[test]
fn a_refusal_in_protobuf_is_read() {
    let frames = frames(Bytes::from_static(recorded!("expired.pb")));
    let error = frame(&mut Namespaces::default(), &frames[0], &mut Vec::new()).unwrap_err();
    assert_eq!(error.end(), End::Expired);
    assert_eq!(error.to_string(), "too old resource version: 1 (3152)");
    let status = protobuf::status_answer(&Bytes::from_static(recorded!("status.pb"))).unwrap();
    assert_eq!((status.code, &*status.message), (404, "namespaces \"nope\" not found"));
}

/// C4, C82: protobuf of a kind that is read only in JSON is a problem of its object.
#[test]
fn protobuf_that_was_not_asked_for_is_reported() {
    let mut problems = Vec::new();
    let body = Bytes::from_static(recorded!("namespaces.pb"));
    let page = page_of_protobuf(&mut Revisions::default(), &body, &mut problems).unwrap();
    assert_eq!(page.items.len(), 0);
    assert_eq!(
        problems,
        ["ControllerRevision recorded2: the server sent protobuf, which was not asked for; \
          the object is ignored"]
    );
}

/// C4, C82: a message that is cut off, has a wrong length or is JSON is an error, never a shorter
/// list.
#[test]
fn malformed_protobuf_is_an_error() {
    let body = Bytes::from_static(recorded!("pods.pb"));
    for end in 0..body.len() - 1 {
        let mut problems = Vec::new();
        match page_of_protobuf(&mut Pods::default(), &body.slice(..end), &mut problems) {
            Err(_) => {}
            // The bytes after the list are the empty fields of its envelope.
            Ok(page) => assert!(end >= body.len() - 4 && page.items.len() == 2, "{end}"),
        }
    }
    for (bytes, expected) in [
        (&recorded!("pods.json")[..], "the prefix of Kubernetes' protobuf encoding is missing"),
        (b"k8s\0\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "malformed protobuf"),
        (b"k8s\0\x16\x01", "malformed protobuf"),
        (b"k8s\0\x1a\x04gzip", "the content encoding \"gzip\" is not supported"),
        (b"k8s\0\x12\x00", "the list has no resourceVersion"),
    ] {
        let body = Bytes::copy_from_slice(bytes);
        let error = page_of_protobuf(&mut Pods::default(), &body, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

proptest! {
    /// C4, C82: a changed byte makes an error, a problem of an object or another value; nothing
    /// panics.
    #[test]
    fn arbitrary_changes_of_protobuf_do_not_panic(
        changes in prop::collection::vec((0usize..4902, any::<u8>()), 1..8),
    ) {
        let mut bytes = recorded!("pods.pb").to_vec();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        let body = Bytes::from(bytes);
        let _ = page_of_protobuf(&mut Pods::default(), &body, &mut Vec::new());
        let _ = page_of_protobuf(&mut Nodes::default(), &body, &mut Vec::new());
        let _ = frame(&mut Namespaces::default(), &body, &mut Vec::new());
    }
}
