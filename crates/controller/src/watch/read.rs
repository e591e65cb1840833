//! Decodes pages, and the lines or frames of a watch. An object that can't be read is reported and
//! stops no other (C1, C4, C82).
//!
//! Bytes that are not UTF-8 are decoded as Go decodes them, as the API server and `kubectl` do.

use bytes::Bytes;
use everynode_k8s::{go_json, protobuf};

use super::Decode;
use super::encoding::Encoded;
use super::machine::{End, Line, Page};
use super::wire::{self, Envelope, EventType, List, Status};

/// Why a page, a line or a frame can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An ERROR event.
    #[error("{0}")]
    Status(Status),
    /// It is not the JSON of a page or a line.
    #[error("unexpected JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It is not the protobuf of a page or an event.
    #[error("unexpected protobuf: {0}")]
    Protobuf(#[from] protobuf::Error),
    /// An event of a type that no watch has.
    #[error("a watch has no event {0:?}")]
    UnknownEvent(String),
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
            Self::Json(_) | Self::Protobuf(_) | Self::UnknownEvent(_) | Self::Unversioned(_) => {
                End::Failed
            }
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
    let items =
        objects.iter().filter_map(|item| decode_text(decoder, item.get(), is_exact, problems));
    Ok(Page {
        items: items.collect(),
        version: version.ok_or(Error::Unversioned("the list"))?,
        continue_token: list.metadata.continue_token.filter(|token| !token.is_empty()),
    })
}

/// Decodes a page in protobuf. Adds a sentence to `problems` for each problem of an object.
///
/// # Errors
/// If it is not a list.
pub fn page_of_protobuf<D: Decode>(
    decoder: &mut D,
    body: &Bytes,
    problems: &mut Vec<String>,
) -> Result<Page<D::Item>, Error> {
    let list = protobuf::list(body)?;
    if list.resource_version.is_empty() {
        return Err(Error::Unversioned("the list"));
    }
    let items = list.items.iter();
    Ok(Page {
        items: items
            .filter_map(|item| decode(decoder, Encoded::Protobuf(item), problems))
            .collect(),
        version: list.resource_version,
        continue_token: Some(list.continue_token).filter(|token| !token.is_empty()),
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
        return bookmark(version, || wire::ends_initial_events(object));
    }
    check_version(&version, Encoded::Json(object.as_bytes()), problems);
    change(event, decode_text(decoder, object, is_exact, problems), version)
}

/// Decodes an event of a watch in protobuf, without its length. Adds a sentence to `problems` for
/// each problem of its object.
///
/// # Errors
/// As for a line.
pub fn frame<D: Decode>(
    decoder: &mut D,
    bytes: &Bytes,
    problems: &mut Vec<String>,
) -> Result<Line<D::Item>, Error> {
    let protobuf::WatchEvent { event, object } = protobuf::watch_event(bytes)?;
    let event = EventType::parse(&event).ok_or(Error::UnknownEvent(event))?;
    if event == EventType::Error {
        return Err(Error::Status(protobuf::status(&object)?.into()));
    }
    let version = protobuf::resource_version(&object).unwrap_or_default();
    if event == EventType::Bookmark {
        return bookmark(version, || protobuf::ends_initial_events(&object));
    }
    let encoded = Encoded::Protobuf(&object);
    check_version(&version, encoded, problems);
    change(event, decode(decoder, encoded, problems), version)
}

fn bookmark<T>(version: String, ends_initial_events: impl Fn() -> bool) -> Result<Line<T>, Error> {
    if version.is_empty() {
        return Err(Error::Unversioned("a bookmark"));
    }
    Ok(Line::Bookmark { version, ends_initial_events: ends_initial_events() })
}

fn check_version(version: &str, object: Encoded<'_>, problems: &mut Vec<String>) {
    if version.is_empty() {
        problems.push(format!("{}: it has no resourceVersion", object.name()));
    }
}

fn change<T>(event: EventType, item: Option<T>, version: String) -> Result<Line<T>, Error> {
    match (event, item) {
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
fn decode_text<D: Decode>(
    decoder: &mut D,
    object: &str,
    is_exact: bool,
    problems: &mut Vec<String>,
) -> Option<D::Item> {
    let encoded = Encoded::Json(object.as_bytes());
    if !is_exact && object.contains(char::REPLACEMENT_CHARACTER) {
        problems.push(format!("{}: bytes that are not UTF-8 are read as U+FFFD", encoded.name()));
    }
    decode(decoder, encoded, problems)
}

fn decode<D: Decode>(
    decoder: &mut D,
    object: Encoded<'_>,
    problems: &mut Vec<String>,
) -> Option<D::Item> {
    match decoder.decode(object) {
        Ok(item) => Some(item),
        Err(error) => {
            problems.push(format!("{error}; the object is ignored"));
            None
        }
    }
}

#[cfg(test)]
mod tests;
