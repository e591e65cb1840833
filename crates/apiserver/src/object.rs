//! An immutable version of a stored object, shared by all readers.
//!
//! A JSON tree needs seven times the memory of its bytes. So an object that was not written for a
//! while is kept as bytes only, with the metadata for selectors, indexes and garbage collection;
//! its tree is parsed again when it is read.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Serialize;

use crate::json::{Size, SmolStr, Value};
use crate::managed_fields::ManagedFields;
use crate::value::text;

/// Maximum size of a tree that is kept as long as its object. Leases have such trees, and are read
/// whenever they are renewed; those of Events are larger.
const KEPT_TREE_BYTES_MAX: usize = 1_536;
/// Maximum nesting of a tree that may be dropped: the parser's limit. Objects nest less.
const PARSED_DEPTH_MAX: usize = 127;

/// How often the trees of objects are read, for tests that compare the work of requests.
#[cfg(feature = "count-reads")]
pub mod reads {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn note() {
        COUNT.set(COUNT.get() + 1);
    }

    /// The number of reads in `work`, on this thread.
    pub fn of(work: impl FnOnce()) -> usize {
        let before = COUNT.get();
        work();
        COUNT.get() - before
    }
}

/// A JSON tree with apiVersion and kind, and the fields that are read often.
#[derive(Debug)]
pub struct Object {
    metadata: Arc<Metadata>,
    managed_fields: ManagedFields,
    /// At least one of `value` and `json` is set. Both are without `metadata.managedFields`.
    value: OnceLock<Value>,
    json: OnceLock<Json>,
    spec: Arc<EncodedSpec>,
}

/// The JSON text of an object without its spec.
#[derive(Clone, Debug)]
struct Json {
    text: Bytes,
    /// The position of the first field in `metadata`.
    metadata_at: usize,
    /// The position of the spec; the end of the text without a spec.
    spec_at: usize,
}

/// The spec in the encodings that were asked for. The versions of an object share it as long as the
/// spec does not change: most writes change the status.
#[derive(Debug, Default)]
struct EncodedSpec {
    json: OnceLock<Bytes>,
    protobuf: OnceLock<Bytes>,
}

/// The fields that are read often.
#[derive(Debug)]
struct Metadata {
    size: Size,
    resource_version: u64,
    namespace: SmolStr,
    name: SmolStr,
    uid: SmolStr,
    deletion_timestamp: Option<SmolStr>,
    node_name: SmolStr,
    labels: Box<[(SmolStr, SmolStr)]>,
    finalizers: Box<[SmolStr]>,
    owners: Box<[StoredOwner]>,
}

#[derive(Debug)]
struct StoredOwner {
    api_version: SmolStr,
    kind: SmolStr,
    name: SmolStr,
    uid: SmolStr,
    controller: bool,
    block_owner_deletion: bool,
}

/// An owner reference, as the garbage collector reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerReference<'a> {
    /// The API version of the owner.
    pub api_version: &'a str,
    /// The kind of the owner.
    pub kind: &'a str,
    /// The name of the owner.
    pub name: &'a str,
    /// The UID of the owner.
    pub uid: &'a str,
    /// True if the owner is the managing controller.
    pub controller: bool,
    /// True if the reference blocks the foreground deletion of the owner.
    pub block_owner_deletion: bool,
}

impl Object {
    /// An object with this JSON tree, whose `metadata.managedFields` are separate.
    pub fn new(value: Value, managed_fields: ManagedFields) -> Self {
        Self::with_spec(value, managed_fields, Arc::default())
    }

    /// An object that replaces another version of it.
    pub fn replacing(replaced: &Self, value: Value, managed_fields: ManagedFields) -> Self {
        let is_same = |replaced: &Value| replaced["spec"].is_shared_with(&value["spec"]);
        let spec = match replaced.value.get() {
            Some(replaced_value) if is_same(replaced_value) => Arc::clone(&replaced.spec),
            Some(_) | None => Arc::default(),
        };
        Self::with_spec(value, managed_fields, spec)
    }

    fn with_spec(value: Value, managed_fields: ManagedFields, spec: Arc<EncodedSpec>) -> Self {
        Self {
            metadata: Arc::new(Metadata::of(&value)),
            managed_fields,
            value: OnceLock::from(value),
            json: OnceLock::new(),
            spec,
        }
    }

    /// The JSON tree without `metadata.managedFields`. If it was dropped, it is parsed and kept;
    /// prefer [`read`](Self::read) for a single use.
    #[inline]
    pub fn value(&self) -> &Value {
        #[cfg(feature = "count-reads")]
        reads::note();
        self.value.get_or_init(|| {
            let json = self.json.get().expect("an object without a tree has its bytes");
            self.parse(json)
        })
    }

    /// The JSON tree for a single use: if it was dropped, it is parsed and not kept.
    pub fn read(&self) -> Cow<'_, Value> {
        #[cfg(feature = "count-reads")]
        reads::note();
        match (self.value.get(), self.json.get()) {
            (None, Some(json)) => Cow::Owned(self.parse(json)),
            (Some(_), _) | (None, None) => Cow::Borrowed(self.value()),
        }
    }

    /// The object with its tree, for repeated use. If the tree was dropped, this is a copy, so that
    /// the stored object stays without.
    pub fn with_tree(self: &Arc<Self>) -> Arc<Self> {
        match self.read() {
            Cow::Borrowed(_) => self.clone(),
            Cow::Owned(value) => Arc::new(Self {
                metadata: self.metadata.clone(),
                managed_fields: self.managed_fields.clone(),
                value: OnceLock::from(value),
                json: self.json.clone(),
                spec: Arc::clone(&self.spec),
            }),
        }
    }

    /// `metadata.managedFields`.
    #[inline]
    pub fn managed_fields(&self) -> &ManagedFields {
        &self.managed_fields
    }

    /// The JSON tree as clients see it.
    pub fn served(&self) -> Cow<'_, Value> {
        let mut value = self.read();
        if let Some(entries) = self.managed_fields.value() {
            value.to_mut()["metadata"]["managedFields"] = entries;
        }
        value
    }

    /// The metadata as clients see them.
    pub fn served_metadata(&self) -> Value {
        let mut metadata = self.read()["metadata"].clone();
        if let Some(entries) = self.managed_fields.value() {
            metadata["managedFields"] = entries;
        }
        metadata
    }

    /// The JSON text as clients see it. Its parts are serialized once and shared.
    pub fn json(&self) -> Bytes {
        let Json { text, metadata_at, spec_at } = self.bare_json();
        let spec = self.spec_in_json();
        let Some(entries) = self.managed_fields.json() else {
            if spec.is_empty() {
                return text.clone();
            }
            return Bytes::from([&text[..*spec_at], spec, &text[*spec_at..]].concat());
        };
        let (head, metadata) = text[..*spec_at].split_at(*metadata_at);
        let name: &[u8] = b"\"managedFields\":";
        let separator: &[u8] = if text[*metadata_at..].starts_with(b"}") { b"" } else { b"," };
        let parts = [head, name, entries.as_bytes(), separator, metadata, spec, &text[*spec_at..]];
        Bytes::from(parts.concat())
    }

    fn bare_json(&self) -> &Json {
        self.json.get_or_init(|| {
            let value = self.value();
            self.spec.json.get_or_init(|| value.get("spec").map_or_else(Bytes::new, to_json));
            Json::of(value)
        })
    }

    /// The JSON text of the spec; empty without a spec.
    fn spec_in_json(&self) -> &Bytes {
        self.bare_json();
        self.spec.json.get().expect("it is made with the text of the object")
    }

    /// The spec in protobuf. What `encode` makes is kept as long as the tree.
    pub fn spec_in_protobuf(&self, encode: impl FnOnce() -> Vec<u8>) -> Bytes {
        if self.has_tree() {
            return self.spec.protobuf.get_or_init(|| encode().into()).clone();
        }
        self.spec.protobuf.get().cloned().unwrap_or_else(|| encode().into())
    }

    fn parse(&self, json: &Json) -> Value {
        let Json { text, spec_at, .. } = json;
        let text = [&text[..*spec_at], self.spec_in_json(), &text[*spec_at..]].concat();
        serde_json::from_slice(&text).expect("it was serialized from a valid tree")
    }

    /// True if the tree is in memory.
    #[inline]
    pub fn has_tree(&self) -> bool {
        self.value.get().is_some()
    }

    /// The same object without its tree; `None` if the tree is small, or if parsing might yield
    /// another one.
    pub fn without_tree(&self) -> Option<Self> {
        let size = self.metadata.size;
        if size.tree <= KEPT_TREE_BYTES_MAX || size.depth > PARSED_DEPTH_MAX {
            return None;
        }
        Some(Self {
            metadata: self.metadata.clone(),
            managed_fields: self.managed_fields.clone(),
            value: OnceLock::new(),
            json: OnceLock::from(self.bare_json().clone()),
            spec: Arc::new(EncodedSpec { json: self.spec.json.clone(), protobuf: OnceLock::new() }),
        })
    }

    /// The number of bytes of the JSON text.
    pub fn bytes(&self) -> usize {
        self.metadata.size.json + self.managed_fields.bytes()
    }

    /// The number of bytes of memory that the tree uses, roughly; 0 if it was dropped.
    pub(crate) fn tree_bytes(&self) -> usize {
        if self.has_tree() { self.metadata.size.tree } else { 0 }
    }

    /// The resourceVersion of this version.
    #[inline]
    pub fn resource_version(&self) -> u64 {
        self.metadata.resource_version
    }

    /// The name.
    #[inline]
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The namespace; empty for a cluster-scoped object.
    #[inline]
    pub fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    /// The UID.
    #[inline]
    pub fn uid(&self) -> &str {
        &self.metadata.uid
    }

    /// The value of a label.
    #[inline]
    pub fn label(&self, key: &str) -> Option<&str> {
        let labels = &self.metadata.labels;
        let index = labels.binary_search_by(|(other, _)| (**other).cmp(key)).ok()?;
        Some(&labels[index].1)
    }

    /// True if another object has the same labels.
    pub fn has_labels_of(&self, other: &Self) -> bool {
        self.metadata.labels == other.metadata.labels
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.value()["metadata"]["annotations"].get(key)?.as_str()
    }

    /// The deletion timestamp in RFC 3339; `None` unless the object is being deleted.
    #[inline]
    pub fn deletion_timestamp(&self) -> Option<&str> {
        self.metadata.deletion_timestamp.as_deref()
    }

    /// True if the object is being deleted.
    #[inline]
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp().is_some()
    }

    /// The finalizers in `metadata`.
    #[inline]
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.metadata.finalizers.iter().map(|finalizer| &**finalizer)
    }

    /// The owner references.
    #[inline]
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

    /// `spec.nodeName`; empty for an unbound pod.
    #[inline]
    pub fn node_name(&self) -> &str {
        &self.metadata.node_name
    }

    /// The string that a list of keys leads to; empty if there is none.
    #[inline]
    pub fn text(&self, path: &[&str]) -> &str {
        text(self.value(), path)
    }
}

impl Json {
    fn of(value: &Value) -> Self {
        let spec_bytes = value.get("spec").map_or(0, |spec| spec.size().json);
        let mut text = Vec::with_capacity(value.size().json - spec_bytes);
        text.push(b'{');
        let mut metadata_at = 0;
        let mut spec_at = None;
        let fields = value.as_object().into_iter().flatten();
        for (index, (name, field)) in fields.enumerate() {
            if index > 0 {
                text.push(b',');
            }
            write_json(&mut text, name.as_str());
            text.push(b':');
            match name.as_str() {
                "metadata" => metadata_at = text.len() + 1,
                "spec" => {
                    spec_at = Some(text.len());
                    continue;
                }
                _ => {}
            }
            write_json(&mut text, field);
        }
        text.push(b'}');
        let spec_at = spec_at.unwrap_or(text.len());
        Self { text: Bytes::from(text.into_boxed_slice()), metadata_at, spec_at }
    }
}

fn to_json(value: &Value) -> Bytes {
    let mut text = Vec::with_capacity(value.size().json);
    write_json(&mut text, value);
    text.into()
}

fn write_json(text: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(text, value).expect("a Vec takes all writes");
}

impl Metadata {
    fn of(value: &Value) -> Self {
        let metadata = &value["metadata"];
        let list = |field: &str| metadata[field].as_array().into_iter().flatten();
        let labels = metadata["labels"].as_object().into_iter().flatten();
        Self {
            size: value.size(),
            resource_version: text(metadata, &["resourceVersion"]).parse().unwrap_or(0),
            namespace: string(&metadata["namespace"]),
            name: string(&metadata["name"]),
            uid: string(&metadata["uid"]),
            deletion_timestamp: string_maybe(&metadata["deletionTimestamp"]),
            node_name: string(&value["spec"]["nodeName"]),
            // Sorted by key, because the keys of a JSON tree are.
            labels: labels
                .filter_map(|(key, label)| Some((key.clone(), string_maybe(label)?)))
                .collect(),
            finalizers: list("finalizers").filter_map(string_maybe).collect(),
            owners: list("ownerReferences").map(StoredOwner::of).collect(),
        }
    }
}

impl StoredOwner {
    fn of(owner: &Value) -> Self {
        Self {
            api_version: string(&owner["apiVersion"]),
            kind: string(&owner["kind"]),
            name: string(&owner["name"]),
            uid: string(&owner["uid"]),
            controller: owner["controller"] == Value::Bool(true),
            block_owner_deletion: owner["blockOwnerDeletion"] == Value::Bool(true),
        }
    }
}

/// The string in a value, which shares its memory; `None` for a value of another type.
fn string_maybe(value: &Value) -> Option<SmolStr> {
    match value {
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// The string in a value, which shares its memory; empty for a value of another type.
fn string(value: &Value) -> SmolStr {
    string_maybe(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;
    use crate::managed_fields;

    /// S14: the text of an object has its managedFields in the metadata, wherever these are, and
    /// without its tree the object has the same text.
    #[test]
    fn the_text_has_the_managed_fields() {
        let entries = json!([{
            "manager": "a\"b", "operation": "Update", "apiVersion": "v1", "subresource": "status",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:\n": {}}},
            "time": "2026-01-01T00:00:00Z",
        }]);
        let managers = managed_fields::decode(&entries).expect("they are valid");
        // A smaller object keeps its tree.
        let items = vec!["item"; KEPT_TREE_BYTES_MAX / size_of::<Value>()];
        for metadata in [json!({}), json!({"name": "a"})] {
            let value = json!({"data": {"metadata": {"b": 1}}, "metadata": metadata, "z": items});
            let bare = Object::new(value.clone(), ManagedFields::default());
            assert_eq!(bare.json(), value.to_string());
            let object = Object::new(value.clone(), ManagedFields::encode(&managers));
            let mut expected = value;
            expected["metadata"]["managedFields"] = entries.clone();
            assert_eq!(*object.served(), expected);
            let text: Value = serde_json::from_slice(&object.json()).expect("JSON");
            assert_eq!(text, expected);
            let cold = object.without_tree().expect("it survives parsing");
            assert_eq!((cold.json(), cold.served().into_owned()), (object.json(), expected));
        }
    }

    /// S25: the versions of an object have their spec encoded once, until it changes, and each has
    /// its own text.
    #[test]
    fn versions_share_their_encoded_spec() {
        let text_is_whole = |object: &Object| {
            let text: Value = serde_json::from_slice(&object.json()).expect("JSON");
            assert_eq!(text, *object.value());
        };
        let items = vec!["item"; KEPT_TREE_BYTES_MAX / size_of::<Value>()];
        let value = json!({"metadata": {"name": "a"}, "spec": {"items": items}, "status": {}});
        let first = Object::new(value, ManagedFields::default());
        assert_eq!(first.spec_in_protobuf(|| vec![1]), [1][..]);
        text_is_whole(&first);

        let mut value = first.value().clone();
        value["status"] = json!({"phase": "Running"});
        let second = Object::replacing(&first, value, ManagedFields::default());
        assert_eq!(second.spec_in_protobuf(|| panic!("it is encoded")), [1][..]);
        assert_eq!(second.spec_in_json().as_ptr(), first.spec_in_json().as_ptr());
        text_is_whole(&second);

        let bare = second.without_tree().expect("it survives parsing");
        assert_eq!(bare.spec_in_json().as_ptr(), first.spec_in_json().as_ptr());
        assert_eq!(bare.spec_in_protobuf(|| vec![2]), [2][..], "it is kept as long as the tree");

        let mut value = second.value().clone();
        value["spec"]["items"] = json!([]);
        let third = Object::replacing(&second, value, ManagedFields::default());
        assert_eq!(third.spec_in_protobuf(|| vec![3]), [3][..]);
        text_is_whole(&third);
        text_is_whole(&second);
    }
}
