//! The JSON around the objects of lists and watches. The objects stay bytes for their decoders.

use std::fmt;

use everynode_k8s::json_path::read_first;
use everynode_k8s::protobuf;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::machine::End;

/// A page of a list.
#[derive(Deserialize)]
pub(super) struct List<'a> {
    pub metadata: ListMeta,
    #[serde(borrow, default)]
    pub items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListMeta {
    pub resource_version: Option<String>,
    #[serde(rename = "continue")]
    pub continue_token: Option<String>,
}

/// One line of a watch.
#[derive(Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(rename = "type")]
    pub event: EventType,
    #[serde(borrow)]
    pub object: &'a RawValue,
}

/// A server's refusal of a request, as an answer or as an ERROR event.
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
            400 | 422 => End::Unsupported,
            429 => End::RetryLater,
            _ => End::Failed,
        }
    }
}

impl From<protobuf::Status> for Status {
    fn from(status: protobuf::Status) -> Self {
        let seconds = u32::try_from(status.retry_after_seconds).unwrap_or(0);
        Self {
            code: u16::try_from(status.code).unwrap_or(0),
            message: status.message,
            details: (seconds > 0).then_some(StatusDetails { retry_after_seconds: seconds }),
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
pub(super) enum EventType {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

impl EventType {
    /// `None` for a type that no watch has.
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "ADDED" => Some(Self::Added),
            "MODIFIED" => Some(Self::Modified),
            "DELETED" => Some(Self::Deleted),
            "BOOKMARK" => Some(Self::Bookmark),
            "ERROR" => Some(Self::Error),
            _ => None,
        }
    }
}

/// Splits a line into its type and its object without parsing the object, if it is written as Go
/// writes it: the type first, the object last. Most bytes of a watch are then parsed only once.
pub(super) fn split(line: &str) -> Option<(EventType, &str)> {
    let (event, rest) = line.trim_ascii_end().strip_prefix("{\"type\":\"")?.split_once('"')?;
    let object = rest.strip_prefix(",\"object\":")?.strip_suffix('}')?;
    Some((EventType::parse(event)?, object))
}

/// The resourceVersion of an object; `None` if it has none. Parses nothing behind it.
///
/// # Errors
/// If the text before it is not JSON, or if it is not a string.
pub(super) fn version(object: &str) -> Result<Option<String>, serde_json::Error> {
    read_first(object, &["metadata", "resourceVersion"])
}

/// True if this bookmark ends the initial events of a streaming list.
pub(super) fn ends_initial_events(bookmark: &str) -> bool {
    let end =
        read_first::<String>(bookmark, &["metadata", "annotations", "k8s.io/initial-events-end"]);
    matches!(end, Ok(Some(end)) if end == "true")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOKMARK: &str = concat!(
        r#"{"kind":"Pod","metadata":{"resourceVersion":"9","#,
        r#""annotations":{"k8s.io/initial-events-end":"true"}},"spec":{}}"#,
    );

    /// C1, C80: a line is split where Go writes its parts; one that is written otherwise is not
    /// split.
    #[test]
    fn a_line_is_split_without_parsing_its_object() {
        let line = format!("{{\"type\":\"BOOKMARK\",\"object\":{BOOKMARK}}}\n");
        assert_eq!(split(&line), Some((EventType::Bookmark, BOOKMARK)));
        let envelope: Envelope<'_> = serde_json::from_str(&line).unwrap();
        assert_eq!((envelope.event, envelope.object.get()), (EventType::Bookmark, BOOKMARK));
        for other in [
            r#"{ "type": "ADDED", "object": {} }"#,
            r#"{"object":{},"type":"ADDED"}"#,
            r#"{"type":"OTHER","object":{}}"#,
            "{",
            "",
        ] {
            assert_eq!(split(other), None, "{other}");
        }
    }

    /// C1, C60: only the version of an object is parsed, wherever it is, and the end of a streaming
    /// list of a bookmark.
    #[test]
    fn only_the_version_of_an_object_is_parsed() {
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
