//! Encodes JSON trees of objects in Kubernetes' protobuf, byte for byte as Go does (S16).
//!
//! Go writes the fields in the order of their numbers, the entries of maps in the order of their
//! keys, and a field that is not a pointer even if it is empty.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::json::{Map, Value};
use base64::prelude::{BASE64_STANDARD, Engine};
use prost::encoding::{WireType, encode_key, encode_varint};

use super::{MAGIC, message_name};
use crate::kind::Kind;
use crate::managed_fields::{ManagedFields, ManagedFieldsEntry};
use crate::object::Object;
use crate::schema::{Shape, StructId, WireField};

/// Whether objects of the kind can be encoded.
pub(crate) fn is_known(kind: &Kind) -> bool {
    kind.custom.is_none() && message_of(&kind.api_version(), kind.kind).is_some()
}

fn message_of(api_version: &str, kind: &str) -> Option<StructId> {
    StructId::find(&message_name(api_version, kind))
}

/// Encodes an object, or a `Status`, with the prefix, apiVersion and kind. `None` if its kind has
/// no message.
pub(crate) fn encode(object: &Value) -> Option<Vec<u8>> {
    let (api_version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
    Some(envelope(api_version, kind, &message(message_of(api_version, kind)?, object)))
}

/// Encodes a stored object with its managedFields. `None` if its kind has no message.
pub(crate) fn encode_object(object: &Object) -> Option<Vec<u8>> {
    let value = object.read();
    let (api_version, kind) = (value["apiVersion"].as_str()?, value["kind"].as_str()?);
    let of = message_of(api_version, kind)?;
    Some(envelope(api_version, kind, &stored(of, &value, object.managed_fields())))
}

/// Encodes a list of objects of a kind. `metadata` is that of the list.
pub(crate) fn encode_list<'a>(
    kind: &Kind,
    metadata: &Value,
    items: impl Iterator<Item = (Cow<'a, Value>, &'a ManagedFields)>,
) -> Vec<u8> {
    let of = message_of(&kind.api_version(), kind.kind);
    let mut list = Vec::new();
    if let Some(of_metadata) = StructId::find("meta.ListMeta") {
        bytes(&mut list, 1, &message(of_metadata, metadata));
    }
    for (item, owners) in items {
        bytes(&mut list, 2, &of.map_or_else(Vec::new, |of| stored(of, &item, owners)));
    }
    envelope(&kind.api_version(), &kind.list_kind(), &list)
}

/// An event of a watch after its length. `object` is encoded with its prefix.
pub(crate) fn watch_event(event: &str, object: &[u8]) -> Vec<u8> {
    let mut raw = Vec::with_capacity(object.len() + 8);
    bytes(&mut raw, 1, object);
    let mut frame = vec![0; 4];
    bytes(&mut frame, 1, event.as_bytes());
    bytes(&mut frame, 2, &raw);
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// A `runtime.Unknown`.
fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::new();
    bytes(&mut type_meta, 1, api_version.as_bytes());
    bytes(&mut type_meta, 2, kind.as_bytes());
    let mut out = Vec::with_capacity(raw.len() + type_meta.len() + 20);
    out.extend_from_slice(MAGIC);
    bytes(&mut out, 1, &type_meta);
    bytes(&mut out, 2, raw);
    // The content encoding and the content type.
    bytes(&mut out, 3, b"");
    bytes(&mut out, 4, b"");
    out
}

fn message(of: StructId, object: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, field) in of.get().wire_fields() {
        write_field(&mut out, number, field, value_of(field, object));
    }
    out
}

/// A message with managedFields, which are the last fields of the metadata.
fn stored(of: StructId, object: &Value, owners: &ManagedFields) -> Vec<u8> {
    /// The number of `managedFields` in `ObjectMeta`.
    const MANAGED_FIELDS: u32 = 17;
    let mut out = Vec::new();
    for (number, field) in of.get().wire_fields() {
        let value = value_of(field, object);
        match field.shape {
            Shape::Struct(metadata) if field.name == Some("metadata") => {
                let mut encoded = message(metadata, value);
                for entry in owners.iter() {
                    bytes(&mut encoded, MANAGED_FIELDS, &owner(&entry));
                }
                bytes(&mut out, number, &encoded);
            }
            _ => write_field(&mut out, number, field, value),
        }
    }
    out
}

/// An entry of managedFields. Its fields are stored as the text that it contains here.
fn owner(entry: &ManagedFieldsEntry<'_>) -> Vec<u8> {
    let (mut out, mut fields) = (Vec::with_capacity(entry.fields.len() + 100), Vec::new());
    bytes(&mut fields, 1, entry.fields.as_bytes());
    bytes(&mut out, 1, entry.manager.as_bytes());
    bytes(&mut out, 2, entry.operation.as_bytes());
    bytes(&mut out, 3, entry.api_version.as_bytes());
    if let Some(time) = entry.time {
        let mut encoded = Vec::new();
        varint(&mut encoded, 1, time.0.div_euclid(1000).cast_unsigned());
        varint(&mut encoded, 2, 0);
        bytes(&mut out, 4, &encoded);
    }
    bytes(&mut out, 6, b"FieldsV1");
    bytes(&mut out, 7, &fields);
    bytes(&mut out, 8, entry.subresource.as_bytes());
    out
}

fn value_of<'a>(field: &WireField, object: &'a Value) -> &'a Value {
    match field.name {
        // The fields of an embedded struct are those of the object.
        None => object,
        Some(name) => object.get(name).unwrap_or(&Value::Null),
    }
}

fn write_field(out: &mut Vec<u8>, number: u32, field: &WireField, value: &Value) {
    match &field.shape {
        Shape::List(item) => {
            for value in value.as_array().into_iter().flatten() {
                write(out, number, item, value);
            }
        }
        Shape::Map(item) => {
            for (key, value) in sorted(value.as_object()) {
                let mut entry = Vec::new();
                bytes(&mut entry, 1, key.as_bytes());
                write(&mut entry, 2, item, value);
                bytes(out, number, &entry);
            }
        }
        shape => {
            if !(field.is_pointer && value.is_null()) {
                write(out, number, shape, value);
            }
        }
    }
}

fn sorted(map: Option<&Map>) -> BTreeMap<&str, &Value> {
    map.into_iter().flatten().map(|(key, value)| (key.as_str(), value)).collect()
}

/// Writes a value, or the empty value of the shape for null.
fn write(out: &mut Vec<u8>, number: u32, shape: &Shape, value: &Value) {
    match shape {
        Shape::Text(_) => bytes(out, number, text(value).as_bytes()),
        Shape::Bytes => {
            bytes(out, number, &BASE64_STANDARD.decode(text(value)).unwrap_or_default())
        }
        Shape::Boolean => varint(out, number, value.as_bool().unwrap_or(false).into()),
        Shape::Integer { .. } => varint(out, number, integer(value)),
        Shape::Float => {
            encode_key(number, WireType::SixtyFourBit, out);
            out.extend_from_slice(&value.as_f64().unwrap_or(0.0).to_le_bytes());
        }
        Shape::Time | Shape::MicroTime => bytes(out, number, &time(value)),
        Shape::Quantity => {
            let mut quantity = Vec::new();
            bytes(&mut quantity, 1, scalar(value).as_bytes());
            bytes(out, number, &quantity);
        }
        Shape::IntOrString => bytes(out, number, &int_or_string(value)),
        Shape::Struct(of) if of.is_extra_value() => {
            let mut items = Vec::new();
            for item in value.as_array().into_iter().flatten() {
                bytes(&mut items, 1, text(item).as_bytes());
            }
            bytes(out, number, &items);
        }
        Shape::Struct(of) => bytes(out, number, &message(*of, value)),
        Shape::Either(_) | Shape::Any => {
            let mut raw = Vec::new();
            bytes(&mut raw, 1, value.to_string().as_bytes());
            bytes(out, number, &raw);
        }
        // No type of the API has a list or map directly within one.
        Shape::List(_) | Shape::Map(_) => {}
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The text of a quantity, which JSON may have as a number.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Null => "0".to_owned(),
        other => other.to_string(),
    }
}

/// Negative numbers are encoded in two's complement.
fn integer(value: &Value) -> u64 {
    value.as_i64().unwrap_or(0).cast_unsigned()
}

/// Go's zero time, which is null in JSON, has no fields.
fn time(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    if let Ok(time) = text(value).parse::<jiff::Timestamp>() {
        varint(&mut out, 1, time.as_second().cast_unsigned());
        varint(&mut out, 2, i64::from(time.subsec_nanosecond()).cast_unsigned());
    }
    out
}

fn int_or_string(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    varint(&mut out, 1, value.is_string().into());
    varint(&mut out, 2, integer(value));
    bytes(&mut out, 3, text(value).as_bytes());
    out
}

fn varint(out: &mut Vec<u8>, number: u32, value: u64) {
    encode_key(number, WireType::Varint, out);
    encode_varint(value, out);
}

fn bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::super::decode;
    use super::*;
    use crate::kind::{NAMESPACE, NODE, POD};

    /// What a real API server (1.36) answered to the same requests in both encodings.
    macro_rules! recorded {
        ($name:literal) => {
            (
                &include_bytes!(concat!("../../../../k8s/recorded/", $name, ".json"))[..],
                &include_bytes!(concat!("../../../../k8s/recorded/", $name, ".pb"))[..],
            )
        };
    }

    /// S16: a list has the bytes that a real server sends.
    #[test]
    fn a_list_has_the_bytes_of_a_real_server() {
        let owners = ManagedFields::default();
        for (kind, (json, protobuf)) in [
            (&POD, recorded!("pods")),
            (&NODE, recorded!("nodes")),
            (&NAMESPACE, recorded!("namespaces")),
        ] {
            let list: Value = serde_json::from_slice(json).unwrap();
            let items = list["items"].as_array().unwrap();
            let none = std::iter::repeat(&owners);
            let encoded =
                encode_list(kind, &list["metadata"], items.iter().map(Cow::Borrowed).zip(none));
            if encoded != protobuf {
                let at = encoded.iter().zip(protobuf).position(|(a, b)| a != b).unwrap_or(0);
                let around = |bytes: &[u8]| {
                    let end = (at + 60).min(bytes.len());
                    String::from_utf8_lossy(&bytes[at.saturating_sub(60)..end]).into_owned()
                };
                panic!("{} at {at}: {:?} {:?}", kind.kind, around(&encoded), around(protobuf));
            }
        }
    }

    /// S16: an event and a refusal have the bytes that a real server sends.
    #[test]
    fn an_event_has_the_bytes_of_a_real_server() {
        let (json, protobuf) = recorded!("watch");
        let lines = json.split_inclusive(|byte| *byte == b'\n');
        let frames = lines.map(|line| {
            let event: Value = serde_json::from_slice(line).unwrap();
            watch_event(event["type"].as_str().unwrap(), &encode(&event["object"]).unwrap())
        });
        assert_eq!(frames.collect::<Vec<_>>().concat(), protobuf);
        let expired = crate::status::Status::expired("too old resource version: 1 (3152)");
        let frame = watch_event("ERROR", &encode(&expired.to_value()).unwrap());
        assert_eq!(frame, include_bytes!("../../../../k8s/recorded/expired.pb"));
    }

    /// S14, S16: a stored object has its managedFields in protobuf, as in JSON.
    #[test]
    fn a_stored_object_has_its_managed_fields() {
        let owners = crate::json::json!([
            {
                "manager": "kubectl", "operation": "Apply", "apiVersion": "apps/v1",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}},
                "time": "2026-01-01T00:00:01Z",
            },
            {
                "manager": "a", "operation": "Update", "apiVersion": "apps/v1",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:replicas": {}}},
                "subresource": "status", "time": "2026-01-01T00:00:02Z",
            },
        ]);
        let managers = crate::managed_fields::decode(&owners).expect("they make sense");
        let value = crate::json::json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "labels": {"a": "b"}}, "spec": {"replicas": 2},
        });
        let object = Object::new(value, ManagedFields::encode(&managers));
        let decoded = decode(&encode_object(&object).expect("a message")).expect("it is valid");
        assert_eq!(decoded["metadata"]["managedFields"], owners);
        // The same bytes as those of the whole tree.
        assert_eq!(encode_object(&object), encode(&object.served()));
    }

    /// S16: the objects of the examples are the same after they were sent and read in protobuf.
    #[test]
    fn an_encoded_object_is_decoded_to_the_same_tree() {
        let (pods, _) = recorded!("pods");
        let (nodes, _) = recorded!("nodes");
        for list in [pods, nodes] {
            let list: Value = serde_json::from_slice(list).unwrap();
            for item in list["items"].as_array().unwrap() {
                let mut item = item.clone();
                item["apiVersion"] = "v1".into();
                item["kind"] = list["kind"].as_str().unwrap().trim_end_matches("List").into();
                assert_eq!(decode(&encode(&item).unwrap()), Ok(item));
            }
        }
    }
}
