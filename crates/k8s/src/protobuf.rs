//! Kubernetes' protobuf encoding, as far as decisions read it (C82). Unknown fields are skipped.
//!
//! An object in an answer is a `runtime.Unknown` after the prefix `k8s\0`: it has apiVersion and
//! kind, and the object's message as bytes. Objects within a list are bare messages. A watch is a
//! sequence of `WatchEvent`s, each after its length in four bytes, the most significant first.
//! Source: the `generated.proto` files of Kubernetes 1.36.

mod message;

use bytes::Bytes;
use prost::Message;

pub(crate) use message::{
    ChangedContainer, ChangedMeta, ChangedPodStatus, Condition, ContainerStatus, Entry,
    NodeSelectorRequirement, NodeSelectorTerm, ObjectMeta, OwnerReference, Time,
};
#[cfg(test)]
pub(crate) use message::{ContainerState, ContainerStateWaiting, NodeStatus, NodeSystemInfo};
pub(crate) use message::{
    Namespace, Node, Pod, PodSpec, PodStatus, PullerContainerStatus, PullerStatus, Taint,
};

/// The media type of a protobuf answer; that of a watch has `;stream=watch` after it.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The number of bytes before each event of a watch, which are its length.
pub const FRAME_HEADER_BYTES: usize = 4;

const MAGIC: &[u8] = b"k8s\0";

/// Why bytes are not the protobuf encoding of what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The prefix is missing.
    #[error("the prefix of Kubernetes' protobuf encoding is missing")]
    Prefix,
    /// A message is cut off, or has a wrong length, wire type or field type.
    #[error("malformed protobuf: {0}")]
    Malformed(#[from] prost::DecodeError),
    /// The answer has a content encoding, which the client did not ask for.
    #[error("the content encoding {0:?} is not supported")]
    Encoded(String),
}

/// A list whose items are bare messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.continue`; empty on the last page.
    pub continue_token: String,
    /// The objects.
    pub items: Vec<Bytes>,
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub event: String,
    /// The message of the object, or of the `Status` of an ERROR event.
    pub object: Bytes,
}

/// The parts of a `Status` that clients act on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The HTTP status code.
    pub code: i32,
    /// The message for people.
    pub message: String,
    /// `details.retryAfterSeconds`; zero if there is none.
    pub retry_after_seconds: i32,
}

/// Decodes an answer with a list.
///
/// # Errors
/// If it is not a list.
pub fn list(body: &Bytes) -> Result<List, Error> {
    let list = message::List::decode(unwrap(body)?)?;
    let metadata = list.metadata.unwrap_or_default();
    Ok(List {
        resource_version: text(&metadata.resource_version),
        continue_token: text(&metadata.continue_token),
        items: list.items,
    })
}

/// Decodes an event of a watch, without its length.
///
/// # Errors
/// If it is not an event.
pub fn watch_event(frame: &Bytes) -> Result<WatchEvent, Error> {
    let event = message::WatchEvent::decode(frame.clone())?;
    let object = unwrap(&event.object.unwrap_or_default().raw)?;
    Ok(WatchEvent { event: text(&event.event), object })
}

/// Decodes the message of a `Status`.
///
/// # Errors
/// If it is malformed.
pub fn status(message: &Bytes) -> Result<Status, Error> {
    let status = message::Status::decode(message.clone())?;
    Ok(Status {
        code: status.code,
        message: text(&status.message),
        retry_after_seconds: status.details.unwrap_or_default().retry_after_seconds,
    })
}

/// Decodes an answer with a `Status`.
///
/// # Errors
/// If it is not a `Status`.
pub fn status_answer(body: &Bytes) -> Result<Status, Error> {
    status(&unwrap(body)?)
}

/// The resourceVersion of an object's message; empty if it has none.
///
/// # Errors
/// If the message is malformed.
pub fn resource_version(object: &Bytes) -> Result<String, Error> {
    let metadata = message::VersionOnly::decode(object.clone())?.metadata.unwrap_or_default();
    Ok(text(&metadata.resource_version))
}

/// True if the message of this bookmark ends the initial events of a streaming list.
pub fn ends_initial_events(bookmark: &Bytes) -> bool {
    let metadata = metadata(bookmark).unwrap_or_default();
    metadata.annotations.iter().any(|annotation| {
        &annotation.key[..] == b"k8s.io/initial-events-end" && &annotation.value[..] == b"true"
    })
}

/// The metadata of an object's message.
pub(crate) fn metadata(object: &Bytes) -> Result<ObjectMeta, prost::DecodeError> {
    ObjectMeta::decode(message::Pod::decode(object.clone())?.metadata)
}

/// The message in a `runtime.Unknown` with its prefix.
fn unwrap(bytes: &Bytes) -> Result<Bytes, Error> {
    if !bytes.starts_with(MAGIC) {
        return Err(Error::Prefix);
    }
    let unknown = message::Unknown::decode(bytes.slice(MAGIC.len()..))?;
    match text(&unknown.content_encoding) {
        none if none.is_empty() => Ok(unknown.raw),
        other => Err(Error::Encoded(other)),
    }
}

/// The text of a field. Invalid UTF-8 is read as Go reads it in JSON.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
