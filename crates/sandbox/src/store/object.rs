//! One version of one stored object: immutable, shared by every reader.

use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::{Map, Value};

/// A JSON tree in canonical form (apiVersion and kind set), with what is asked for often kept beside it.
#[derive(Debug)]
pub struct Object {
    value: Value,
    resource_version: u64,
    /// Made once for all watchers and readers.
    json: OnceLock<Bytes>,
}

/// A reference to an owner, as garbage collection reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerReference<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub controller: bool,
    pub block_owner_deletion: bool,
}

impl Object {
    pub fn new(value: Value) -> Object {
        let resource_version = text(&value, &["metadata", "resourceVersion"]).parse().unwrap_or(0);
        Object { value, resource_version, json: OnceLock::new() }
    }

    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The object as bytes, serialised at the first call.
    pub fn json(&self) -> Bytes {
        self.json.get_or_init(|| Bytes::from(self.value.to_string())).clone()
    }

    pub fn resource_version(&self) -> u64 {
        self.resource_version
    }

    pub fn name(&self) -> &str {
        text(&self.value, &["metadata", "name"])
    }

    /// Empty if the kind is cluster-scoped.
    pub fn namespace(&self) -> &str {
        text(&self.value, &["metadata", "namespace"])
    }

    pub fn uid(&self) -> &str {
        text(&self.value, &["metadata", "uid"])
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.value["metadata"]["labels"].get(key)?.as_str()
    }

    pub fn labels(&self) -> Option<&Map<String, Value>> {
        self.value["metadata"]["labels"].as_object()
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.value["metadata"]["annotations"].get(key)?.as_str()
    }

    /// RFC 3339 text; None while the object is not being deleted.
    pub fn deletion_timestamp(&self) -> Option<&str> {
        self.value["metadata"]["deletionTimestamp"].as_str()
    }

    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp().is_some()
    }

    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.value["metadata"]["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    }

    pub fn owner_references(&self) -> impl Iterator<Item = OwnerReference<'_>> {
        self.value["metadata"]["ownerReferences"].as_array().into_iter().flatten().map(|owner| {
            OwnerReference {
                api_version: text(owner, &["apiVersion"]),
                kind: text(owner, &["kind"]),
                name: text(owner, &["name"]),
                uid: text(owner, &["uid"]),
                controller: owner["controller"] == Value::Bool(true),
                block_owner_deletion: owner["blockOwnerDeletion"] == Value::Bool(true),
            }
        })
    }

    /// `spec.nodeName`; empty while a pod is not bound.
    pub fn node_name(&self) -> &str {
        text(&self.value, &["spec", "nodeName"])
    }

    /// The string at a path, empty if it is absent or no string.
    pub fn text(&self, path: &[&str]) -> &str {
        text(&self.value, path)
    }
}

/// The string at a path, empty if it is absent or no string.
pub fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    path.iter().try_fold(value, |value, key| value.get(key)).and_then(Value::as_str).unwrap_or("")
}
