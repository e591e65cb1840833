//! From Kubernetes' JSON and protobuf to the core's types, which contain only what decisions read
//! (C3, C82).
//!
//! Each function decodes bytes directly into narrow structs, which are converted the same way
//! whichever encoding they come from. Invalid UTF-8 is read as Go reads it.
//! A malformed part becomes a [`Problem`](everynode_core::api::Problem) of its object, and the rest
//! of the object still counts (C4). Only an object without a name, or with a field of a wrong type,
//! is an [`Error`].

mod config;
mod config_map;
mod daemon_set;
mod image_puller;
mod intern;
mod label;
mod namespace;
mod node;
mod order;
mod placement;
mod pod;
mod pod_cause;
mod pod_change;
mod policy;
mod policy_object;
mod revision;
mod selector;
mod wire;

pub use config::stored_config;
pub use config_map::config_map;
pub use daemon_set::{DaemonSetObject, RawDaemonSet, RawTemplate, daemon_set};
pub use intern::Interner;
pub use namespace::{NamespaceObject, namespace, namespace_of_protobuf};
pub use node::{node, node_of_protobuf, taint_effect};
pub use order::{attribution, attribution_text, rollout_order, rollout_order_text};
pub use placement::{placement, toleration};
pub use pod::{PodObject, pod, pod_of_protobuf};
pub use pod_cause::pod_cause;
pub use policy::rollout_policy;
pub use policy_object::{
    PolicyObject, PolicyReference, PolicyTarget, policy_object, policy_schemas,
};
pub use revision::{RevisionObject, revision};
pub use selector::{label_selector, label_selector_text};
pub use wire::{Meta, meta, meta_of_protobuf, timestamp};

use bytes::Bytes;
use everynode_core::api::{ResourceVersion, Uid};

/// An object that could not be decoded.
#[derive(Debug, thiserror::Error)]
#[error("{kind} {object}: {cause}")]
pub struct Error {
    /// Kind of the object.
    pub kind: &'static str,
    /// Namespace and name, as far as they could be read.
    pub object: String,
    /// Why the object could not be decoded.
    pub cause: String,
}

impl Error {
    fn new(kind: &'static str, json: &[u8], cause: impl ToString) -> Self {
        let object =
            wire::meta(json).map_or_else(|_| "without metadata".to_owned(), |m| m.to_string());
        Self { kind, object, cause: cause.to_string() }
    }

    fn of_protobuf(kind: &'static str, message: &Bytes, cause: impl ToString) -> Self {
        let object = wire::meta_of_protobuf(message)
            .map_or_else(|_| "without metadata".to_owned(), |m| m.to_string());
        Self { kind, object, cause: cause.to_string() }
    }

    /// The error for protobuf of a kind that is read only in JSON.
    pub fn not_json(kind: &'static str, message: &Bytes) -> Self {
        Self::of_protobuf(kind, message, "the server sent protobuf, which was not asked for")
    }
}

/// The owner of an object that is marked as controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Controller {
    /// The object has no controller.
    None,
    /// A DaemonSet, with its UID.
    DaemonSet(Uid),
    /// An object of another kind.
    Foreign,
}

/// Parses a resourceVersion, which is a decimal number since Kubernetes 1.35; zero if it is
/// malformed (C60).
pub fn resource_version(text: &str) -> ResourceVersion {
    ResourceVersion(text.parse().unwrap_or(0))
}
