//! The JSON around the objects of lists and watches. The objects themselves stay bytes, for their decoders.

use std::fmt;

use everynode_k8s::json_path::read_first;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::machine::End;

/// A page of a list.
#[derive(Deserialize)]
pub struct List<'a> {
    pub metadata: ListMeta,
    #[serde(borrow, default)]
    pub items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListMeta {
    pub resource_version: Option<String>,
    #[serde(rename = "continue")]
    pub continue_token: Option<String>,
}

/// One line of a watch.
#[derive(Deserialize)]
pub struct Envelope<'a> {
    #[serde(rename = "type")]
    pub event: EventType,
    #[serde(borrow)]
    pub object: &'a RawValue,
}

/// What a server says of a request that it refuses, as an answer or as an ERROR event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    pub code: u16,
    pub message: String,
    pub details: Option<StatusDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusDetails {
    pub retry_after_seconds: u32,
}

impl Status {
    /// How a request ends when the server answers it with this status, or a watch when this comes
    /// as an ERROR event.
    pub fn end(&self) -> End {
        match self.code {
            410 => End::Expired,
            400 | 422 => End::Refused,
            429 => End::Unavailable,
            _ => End::Failed,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::outage_log::refusal(self.code, &self.message))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventType {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

/// Cuts a line into its type and its object without reading the object, if it is spelt as Go spells it:
/// the type first, the object last. Most of a watch's bytes are then read once, by the object's decoder.
pub fn split(line: &str) -> Option<(EventType, &str)> {
    let (event, rest) = line.trim_ascii_end().strip_prefix("{\"type\":\"")?.split_once('"')?;
    let object = rest.strip_prefix(",\"object\":")?.strip_suffix('}')?;
    let event = match event {
        "ADDED" => EventType::Added,
        "MODIFIED" => EventType::Modified,
        "DELETED" => EventType::Deleted,
        "BOOKMARK" => EventType::Bookmark,
        "ERROR" => EventType::Error,
        _ => return None,
    };
    Some((event, object))
}

/// Reads an object's version, and nothing behind it; `None` if it has none.
///
/// # Errors
/// If what stands before it is no JSON, or it is no text.
pub fn version(object: &str) -> Result<Option<String>, serde_json::Error> {
    read_first(object, &["metadata", "resourceVersion"])
}

/// Does this bookmark end the initial events of a streaming list?
pub fn ends_initial_events(bookmark: &str) -> bool {
    let end =
        read_first::<String>(bookmark, &["metadata", "annotations", "k8s.io/initial-events-end"]);
    matches!(end, Ok(Some(end)) if end == "true")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOKMARK: &str = r#"{"kind":"Pod","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{}}"#;

    /// C1, C80: a line is cut where Go would have put its parts; one that is spelt otherwise is read in full.
    #[test]
    fn a_line_is_cut_without_reading_its_object() {
        let line = format!("{{\"type\":\"BOOKMARK\",\"object\":{BOOKMARK}}}\n");
        assert_eq!(split(&line), Some((EventType::Bookmark, BOOKMARK)));
        let envelope: Envelope<'_> = serde_json::from_str(&line).unwrap();
        assert_eq!((envelope.event, envelope.object.get()), (EventType::Bookmark, BOOKMARK));
        for other in [
            r#"{ "type": "ADDED", "object": {} }"#,
            r#"{"object":{},"type":"ADDED"}"#,
            r#"{"type":"NEWS","object":{}}"#,
            "{",
            "",
        ] {
            assert_eq!(split(other), None, "{other}");
        }
    }

    /// C1, C60: of an object only the version is read, wherever it stands; of a bookmark whether it ends a list, too.
    #[test]
    fn the_version_is_read_from_the_metadata_alone() {
        assert_eq!(version(BOOKMARK).unwrap().as_deref(), Some("9"));
        assert!(ends_initial_events(BOOKMARK));
        let last = r#"{"spec":{"a":[1]},"metadata":{"resourceVersion":"7"}}"#;
        assert_eq!(version(last).unwrap().as_deref(), Some("7"));
        assert!(!ends_initial_events(last));
        for none in ["{}", r#"{"metadata":{}}"#] {
            assert_eq!(version(none).unwrap(), None, "{none}");
        }
        for malformed in ["[]", "", r#"{"metadata":{"resourceVersion":7}}"#, r#"{"spec":"#] {
            assert!(version(malformed).is_err(), "{malformed}");
        }
    }
}
