//! From Kubernetes' JSON to the core's types: only what decisions read is kept (C3).
//!
//! Bytes are decoded straight into narrow structs; those that are no UTF-8 are read as Go reads them. A part that does not parse becomes a
//! [`Problem`](everynode_core::api::Problem) of its object, which is not lost (C4); only an object
//! without a name, or of another shape altogether, is an [`Error`].

mod daemon_set;
mod intern;
mod label;
mod namespace;
mod node;
mod placement;
mod pod;
mod revision;
mod selector;
mod wire;

pub use daemon_set::{DaemonSetObject, RawDaemonSet, RawTemplate, daemon_set};
pub use intern::Interner;
pub use namespace::{NamespaceObject, namespace};
pub use node::node;
pub use placement::placement;
pub use pod::{PodObject, pod};
pub use revision::{RevisionObject, revision};
pub use selector::{label_selector, label_selector_text};
pub use wire::{Meta, meta, timestamp};

use everynode_core::api::{ResourceVersion, Uid};

/// An object that could not be decoded.
#[derive(Debug, thiserror::Error)]
#[error("{kind} {object}: {cause}")]
pub struct Error {
    pub kind: &'static str,
    /// Namespace and name as far as they could be read.
    pub object: String,
    pub cause: String,
}

impl Error {
    fn new(kind: &'static str, json: &[u8], cause: impl ToString) -> Self {
        let object =
            wire::meta(json).map_or_else(|_| "without metadata".to_owned(), |m| m.to_string());
        Self { kind, object, cause: cause.to_string() }
    }
}

/// What an object depends on: the owner that is marked as controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Controller {
    None,
    DaemonSet(Uid),
    /// Another kind: none of ours.
    Foreign,
}

/// An opaque resourceVersion as the number that it is since 1.35 (C60); zero if it is none.
pub fn resource_version(text: &str) -> ResourceVersion {
    ResourceVersion(text.parse().unwrap_or(0))
}
