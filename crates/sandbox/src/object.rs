//! One version of one stored object: immutable, shared by every reader.
//!
//! A tree takes seven times the memory of its bytes. So an object that nobody has written for a while is kept as bytes
//! alone (`cold`), with the metadata that selectors, indexes and garbage collection read beside them; its tree is made
//! again when someone asks for it.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::value::text;

/// Trees that nest deeper than this are kept as they are: the parser has a limit of its own. So are those with fractions
/// (Kubernetes' types have none), whose last digit the parser may miss.
const PARSED_DEPTH_MAX: usize = 100;

/// A JSON tree in canonical form (apiVersion and kind set), with what is asked for often kept beside it.
#[derive(Debug)]
pub struct Object {
    metadata: Arc<Metadata>,
    /// At least one of the two is there.
    value: OnceLock<Value>,
    json: OnceLock<Bytes>,
}

/// What is read of every object again and again.
#[derive(Debug)]
struct Metadata {
    resource_version: u64,
    namespace: Box<str>,
    name: Box<str>,
    uid: Box<str>,
    deletion_timestamp: Option<Box<str>>,
    node_name: Box<str>,
    labels: Box<[(Box<str>, Box<str>)]>,
    finalizers: Box<[Box<str>]>,
    owners: Box<[StoredOwner]>,
}

#[derive(Debug)]
struct StoredOwner {
    api_version: Box<str>,
    kind: Box<str>,
    name: Box<str>,
    uid: Box<str>,
    controller: bool,
    block_owner_deletion: bool,
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
    pub fn new(value: Value) -> Self {
        Self {
            metadata: Arc::new(Metadata::of(&value)),
            value: OnceLock::from(value),
            json: OnceLock::new(),
        }
    }

    pub fn value(&self) -> &Value {
        self.value.get_or_init(|| {
            let json = self.json.get().expect("an object without a tree has its bytes");
            parse(json)
        })
    }

    /// The tree for one look: of an object that is kept as bytes it is made, and not kept. For those who look at many.
    pub fn read(&self) -> Cow<'_, Value> {
        match (self.value.get(), self.json.get()) {
            (None, Some(json)) => Cow::Owned(parse(json)),
            (Some(_), _) | (None, None) => Cow::Borrowed(self.value()),
        }
    }

    /// An object whose tree may be read freely. One that is kept as bytes alone stays so: what is read is a copy, not a
    /// tree that the store and its log would then keep.
    pub fn with_tree(self: &Arc<Self>) -> Arc<Self> {
        match self.read() {
            Cow::Borrowed(_) => self.clone(),
            Cow::Owned(value) => Arc::new(Self::new(value)),
        }
    }

    /// The object as bytes, serialised at the first call and shared from then on.
    pub fn json(&self) -> Bytes {
        self.json
            .get_or_init(|| {
                Bytes::from(self.value().to_string().into_boxed_str().into_boxed_bytes())
            })
            .clone()
    }

    /// Whether its tree is in memory.
    pub(crate) fn has_tree(&self) -> bool {
        self.value.get().is_some()
    }

    /// The same object as bytes alone; None if it could come back another.
    pub(crate) fn without_tree(&self) -> Option<Self> {
        if self.value.get().is_some_and(|value| !survives_parsing(value, PARSED_DEPTH_MAX)) {
            return None;
        }
        Some(Self {
            metadata: self.metadata.clone(),
            value: OnceLock::new(),
            json: OnceLock::from(self.json()),
        })
    }

    pub fn resource_version(&self) -> u64 {
        self.metadata.resource_version
    }

    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Empty if the kind is cluster-scoped.
    pub fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    pub fn uid(&self) -> &str {
        &self.metadata.uid
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        let labels = &self.metadata.labels;
        let index = labels.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        Some(&labels[index].1)
    }

    pub fn labels(&self) -> Option<&Map<String, Value>> {
        self.value()["metadata"]["labels"].as_object()
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.value()["metadata"]["annotations"].get(key)?.as_str()
    }

    /// RFC 3339 text; None while the object is not being deleted.
    pub fn deletion_timestamp(&self) -> Option<&str> {
        self.metadata.deletion_timestamp.as_deref()
    }

    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp().is_some()
    }

    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.metadata.finalizers.iter().map(|finalizer| &**finalizer)
    }

    pub fn owner_references(&self) -> impl Iterator<Item = OwnerReference<'_>> {
        self.metadata.owners.iter().map(|owner| OwnerReference {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            controller: owner.controller,
            block_owner_deletion: owner.block_owner_deletion,
        })
    }

    /// `spec.nodeName`; empty while a pod is not bound.
    pub fn node_name(&self) -> &str {
        &self.metadata.node_name
    }

    /// The string at a path, empty if it is absent or no string.
    pub fn text(&self, path: &[&str]) -> &str {
        text(self.value(), path)
    }
}

impl Metadata {
    fn of(value: &Value) -> Self {
        let metadata = &value["metadata"];
        let list = |field: &str| metadata[field].as_array().into_iter().flatten();
        let labels = metadata["labels"].as_object().into_iter().flatten();
        Self {
            resource_version: text(metadata, &["resourceVersion"]).parse().unwrap_or(0),
            namespace: text(metadata, &["namespace"]).into(),
            name: text(metadata, &["name"]).into(),
            uid: text(metadata, &["uid"]).into(),
            deletion_timestamp: metadata["deletionTimestamp"].as_str().map(Into::into),
            node_name: text(value, &["spec", "nodeName"]).into(),
            // In the order of a JSON tree's keys, which is sorted.
            labels: labels
                .filter_map(|(key, label)| Some((key.as_str().into(), label.as_str()?.into())))
                .collect(),
            finalizers: list("finalizers").filter_map(Value::as_str).map(Into::into).collect(),
            owners: list("ownerReferences").map(StoredOwner::of).collect(),
        }
    }
}

impl StoredOwner {
    fn of(owner: &Value) -> Self {
        Self {
            api_version: text(owner, &["apiVersion"]).into(),
            kind: text(owner, &["kind"]).into(),
            name: text(owner, &["name"]).into(),
            uid: text(owner, &["uid"]).into(),
            controller: owner["controller"] == Value::Bool(true),
            block_owner_deletion: owner["blockOwnerDeletion"] == Value::Bool(true),
        }
    }
}

fn parse(json: &Bytes) -> Value {
    serde_json::from_slice(json).expect("it was serialised here, of a tree that parses alike")
}

fn survives_parsing(value: &Value, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| survives_parsing(item, levels)),
        Value::Object(fields) => fields.values().all(|field| survives_parsing(field, levels)),
        Value::Number(number) => !number.is_f64(),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}
