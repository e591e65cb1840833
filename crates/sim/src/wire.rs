//! Lists and watches as the bytes that an API server sends.

use bytes::Bytes;
use everynode_sandbox::fault::{InjectedError, InvalidUtf8, invalidate};
use everynode_sandbox::json::{Value, json};

/// A text that [`with_unread_text`] adds to an object, and that no decision reads.
pub(crate) const UNREAD_TEXT: &str = "unread-text";
const UNREAD_KEY: &str = "sim/unread";

/// A line of a watch, with the field order that Go writes.
pub(crate) fn line(event: &str, object: &[u8]) -> Vec<u8> {
    [b"{\"type\":\"", event.as_bytes(), b"\",\"object\":", object, b"}\n"].concat()
}

/// A line with the version that the watch has reached.
pub(crate) fn bookmark(version: &str, ends_initial_events: bool) -> Vec<u8> {
    let mut metadata = json!({"resourceVersion": version});
    if ends_initial_events {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    line("BOOKMARK", json!({"metadata": metadata}).to_string().as_bytes())
}

/// A line that ends a watch.
pub(crate) fn error(refusal: &InjectedError) -> Vec<u8> {
    line("ERROR", refusal.to_value(refusal.message()).to_string().as_bytes())
}

/// A line that is not JSON, as a proxy may insert it.
pub(crate) fn not_json() -> Vec<u8> {
    b"upstream connect error\n".to_vec()
}

/// A page of a list.
pub(crate) fn page(items: &[Bytes], version: &str, continue_token: Option<&str>) -> Vec<u8> {
    let metadata = json!({"resourceVersion": version, "continue": continue_token});
    let start = format!("{{\"kind\":\"List\",\"metadata\":{metadata},\"items\":[");
    [start.as_bytes(), &items.join(&b","[..]), b"]}"].concat()
}

/// The object with the fault. Returns `None` if the object does not contain the fault's text.
pub(crate) fn invalid(json: &Bytes, fault: &InvalidUtf8) -> Option<Bytes> {
    let invalid = if fault.text == UNREAD_TEXT {
        invalidate(&with_unread_text(json), false, fault)
    } else {
        invalidate(json, false, fault)
    };
    invalid.map(Bytes::from)
}

/// Adds an annotation and a label, as any client may.
fn with_unread_text(json: &[u8]) -> Vec<u8> {
    let mut object: Value = serde_json::from_slice(json).unwrap_or_default();
    for place in ["annotations", "labels"] {
        object["metadata"][place][UNREAD_KEY] = UNREAD_TEXT.into();
    }
    object.to_string().into_bytes()
}
