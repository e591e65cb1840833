//! Reads pages and lines of a watch, object by object: one that can't be read is reported and stops no other (C1, C4).
//!
//! Bytes that are no UTF-8 are read as Go reads them, which is what the API server and `kubectl` show of them.

use everynode_k8s::{convert, go_json};

use super::Decode;
use super::machine::{End, Line, Page};
use super::wire::{self, Envelope, EventType, List, Status};

/// Why a page or a line is of no use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An ERROR event.
    #[error("{0}")]
    Status(Status),
    #[error("unexpected JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("{0} has no resourceVersion")]
    Unversioned(&'static str),
    /// Only a list shows now what is left.
    #[error("an object was deleted that can't be read")]
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

/// Reads a page. What is wrong with single objects is added to `problems`, a sentence for each.
///
/// # Errors
/// If it is no list.
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

/// Reads a line. What is wrong with its object is added to `problems`, a sentence for each.
///
/// # Errors
/// If it is no line of a watch, or an ERROR event, or one that only a list can make up for.
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

/// `is_exact`: nothing in the text stands for bytes that are no UTF-8.
fn decode<D: Decode>(
    decoder: &mut D,
    object: &str,
    is_exact: bool,
    problems: &mut Vec<String>,
) -> Option<D::Item> {
    if !is_exact && object.contains(char::REPLACEMENT_CHARACTER) {
        problems.push(format!("{}: bytes that are no UTF-8 are read as U+FFFD", name(object)));
    }
    match decoder.decode(object.as_bytes()) {
        Ok(item) => Some(item),
        Err(error) => {
            problems.push(format!("{error}; it is passed over"));
            None
        }
    }
}

/// Namespace and name, as far as they can be read.
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

    /// C1, C4: what is wrong with an object names it; the line still counts.
    #[test]
    fn a_problem_names_its_object() {
        let (line, problems) = read(
            b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"n\",\"labels\":{\"a\":\"\xff\"}}}}\n",
        );
        assert!(matches!(line, Ok(Line::Added { version, .. }) if version.is_empty()));
        let expected =
            ["n: it has no resourceVersion", "n: bytes that are no UTF-8 are read as U+FFFD"];
        assert_eq!(problems, expected);
        let (line, problems) =
            read(br#"{"type":"MODIFIED","object":{"metadata":{"resourceVersion":"7"}}}"#);
        assert_eq!(line, Ok(Line::Unreadable { version: "7".to_owned() }));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].ends_with("; it is passed over"), "{problems:?}");
    }

    /// C1: a line that a watch can't go on behind is an error, whose words are a sentence.
    #[test]
    fn a_line_that_is_of_no_use_is_an_error() {
        for (line, expected) in [
            (r#"{"type":"ERROR","object":{"code":500,"message":"etcd is away"}}"#, "etcd is away"),
            (r#"{"type":"ERROR","object":{"code":504}}"#, "the server answered 504"),
            (
                r#"{"type":"DELETED","object":{"metadata":{"resourceVersion":"7"}}}"#,
                "an object was deleted that can't be read",
            ),
            (
                r#"{"type":"BOOKMARK","object":{"metadata":{}}}"#,
                "a bookmark has no resourceVersion",
            ),
        ] {
            assert_eq!(read(line.as_bytes()).0, Err(expected.to_owned()), "{line}");
        }
        for line in ["", "{", "\u{fffd}", r#"{"type":"NEWS","object":{}}"#] {
            assert!(read(line.as_bytes()).0.is_err(), "{line}");
        }
    }
}
