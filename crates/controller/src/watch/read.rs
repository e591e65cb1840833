//! Decodes pages and lines of a watch. An object that can't be read is reported and stops no other
//! (C1, C4).
//!
//! Bytes that are not UTF-8 are decoded as Go decodes them, as the API server and `kubectl` do.

use everynode_k8s::{convert, go_json};

use super::Decode;
use super::machine::{End, Line, Page};
use super::wire::{self, Envelope, EventType, List, Status};

/// Why a page or a line can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An ERROR event.
    #[error("{0}")]
    Status(Status),
    /// It is not the JSON of a page or a line.
    #[error("unexpected JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A list or a bookmark has no resourceVersion.
    #[error("{0} has no resourceVersion")]
    Unversioned(&'static str),
    /// An unreadable object was deleted. Only a list can show which objects remain.
    #[error("an unreadable object was deleted")]
    UnreadableDeletion,
}

impl Error {
    /// How the request ends because of this error.
    pub fn end(&self) -> End {
        match self {
            Self::Status(status) => status.end(),
            Self::UnreadableDeletion => End::Expired,
            Self::Json(_) | Self::Unversioned(_) => End::Failed,
        }
    }
}

/// Decodes a page. Adds a sentence to `problems` for each problem of an object.
///
/// # Errors
/// If it is not a list.
pub fn page<D: Decode>(
    decoder: &mut D,
    body: &[u8],
    problems: &mut Vec<String>,
) -> Result<Page<D::Item>, Error> {
    let text = go_json::text(body);
    let is_exact = text.len() == body.len();
    let list: List<'_> = serde_json::from_str(&text)?;
    let version = list.metadata.resource_version.filter(|version| !version.is_empty());
    let objects = list.items.unwrap_or_default();
    let items = objects.iter().filter_map(|item| decode(decoder, item.get(), is_exact, problems));
    Ok(Page {
        items: items.collect(),
        version: version.ok_or(Error::Unversioned("the list"))?,
        continue_token: list.metadata.continue_token.filter(|token| !token.is_empty()),
    })
}

/// Decodes a line. Adds a sentence to `problems` for each problem of its object.
///
/// # Errors
/// If it is not a line of a watch, is an ERROR event, or requires a new list.
pub fn line<D: Decode>(
    decoder: &mut D,
    bytes: &[u8],
    problems: &mut Vec<String>,
) -> Result<Line<D::Item>, Error> {
    let text = go_json::text(bytes);
    let is_exact = text.len() == bytes.len();
    let (event, object) = match wire::split(&text) {
        Some(parts) => parts,
        None => {
            let Envelope { event, object } = serde_json::from_str(&text)?;
            (event, object.get())
        }
    };
    if event == EventType::Error {
        return Err(Error::Status(serde_json::from_str(object)?));
    }
    let version = wire::version(object).ok().flatten().unwrap_or_default();
    if event == EventType::Bookmark {
        if version.is_empty() {
            return Err(Error::Unversioned("a bookmark"));
        }
        let ends_initial_events = wire::ends_initial_events(object);
        return Ok(Line::Bookmark { version, ends_initial_events });
    }
    if version.is_empty() {
        problems.push(format!("{}: it has no resourceVersion", name(object)));
    }
    match (event, decode(decoder, object, is_exact, problems)) {
        (EventType::Added, Some(item)) => Ok(Line::Added { item, version }),
        (EventType::Deleted, Some(item)) => Ok(Line::Deleted { item, version }),
        (EventType::Deleted, None) => Err(Error::UnreadableDeletion),
        (EventType::Modified | EventType::Bookmark | EventType::Error, Some(item)) => {
            Ok(Line::Modified { item, version })
        }
        (EventType::Added | EventType::Modified | EventType::Bookmark | EventType::Error, None) => {
            Ok(Line::Unreadable { version })
        }
    }
}

/// `is_exact`: the text has no replacements for bytes that are not UTF-8.
fn decode<D: Decode>(
    decoder: &mut D,
    object: &str,
    is_exact: bool,
    problems: &mut Vec<String>,
) -> Option<D::Item> {
    if !is_exact && object.contains(char::REPLACEMENT_CHARACTER) {
        problems.push(format!("{}: bytes that are not UTF-8 are read as U+FFFD", name(object)));
    }
    match decoder.decode(object.as_bytes()) {
        Ok(item) => Some(item),
        Err(error) => {
            problems.push(format!("{error}; the object is ignored"));
            None
        }
    }
}

/// The namespace and name of an object, as far as they can be read.
fn name(object: &str) -> String {
    let meta = convert::meta(object.as_bytes());
    meta.map_or_else(|_| "an object without a name".to_owned(), |meta| meta.to_string())
}

#[cfg(test)]
mod tests {
    use everynode_k8s::convert::NamespaceObject;

    use super::*;
    use crate::decode::Namespaces;

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
            (
                r#"{"type":"BOOKMARK","object":{"metadata":{}}}"#,
                "a bookmark has no resourceVersion",
            ),
        ] {
            assert_eq!(read(line.as_bytes()).0, Err(expected.to_owned()), "{line}");
        }
        for line in ["", "{", "\u{fffd}", r#"{"type":"OTHER","object":{}}"#] {
            assert!(read(line.as_bytes()).0.is_err(), "{line}");
        }
    }
}
