//! Encodes JSON trees of objects in Kubernetes' protobuf, byte for byte as Go does (S16).
//!
//! Go writes the fields in the order of their numbers, the entries of maps in the order of their
//! keys, and a field that is not a pointer even if it is empty.

use std::borrow::Cow;

use base64::prelude::{BASE64_STANDARD, Engine};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use smallvec::SmallVec;

use super::{MAGIC, message_name};
use crate::json::Value;
use crate::kind::Kind;
use crate::managed_fields::ManagedFieldsEntry;
use crate::object::Object;
use crate::schema::{Shape, Struct, StructId, WireField};

/// True if objects of the kind can be encoded.
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
    let of = message_of(api_version, kind)?;
    Some(envelope(api_version, kind, |out| message(out, of, object)))
}

/// Encodes a stored object with its managedFields. `None` if its kind has no message.
pub(crate) fn encode_object(object: &Object) -> Option<Vec<u8>> {
    let value = object.read();
    let (api_version, kind) = (value["apiVersion"].as_str()?, value["kind"].as_str()?);
    let of = message_of(api_version, kind)?;
    Some(envelope(api_version, kind, |out| stored(out, of, object, &value)))
}

/// Encodes a list of objects of a kind. `metadata` is that of the list.
pub(crate) fn encode_list<'a>(
    kind: &Kind,
    metadata: &Value,
    items: impl Iterator<Item = &'a Object>,
) -> Vec<u8> {
    let of = message_of(&kind.api_version(), kind.kind);
    envelope(&kind.api_version(), &kind.list_kind(), |out| {
        if let Some(of_metadata) = StructId::find("meta.ListMeta") {
            nested(out, 1, |out| message(out, of_metadata, metadata));
        }
        for item in items {
            nested(out, 2, |out| {
                if let Some(of) = of {
                    stored(out, of, item, &item.read());
                }
            });
        }
    })
}

/// An event of a watch after its length. `object` is encoded with its prefix.
pub(crate) fn watch_event(event: &str, object: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(object.len() + 32);
    frame.extend_from_slice(&[0; 4]);
    bytes(&mut frame, 1, event.as_bytes());
    nested(&mut frame, 2, |out| bytes(out, 1, object));
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}

/// A `runtime.Unknown`.
fn envelope(api_version: &str, kind: &str, raw: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    /// Most objects are not larger.
    const USUAL_BYTES: usize = 4096;
    let mut out = Vec::with_capacity(USUAL_BYTES);
    out.extend_from_slice(MAGIC);
    nested(&mut out, 1, |out| {
        bytes(out, 1, api_version.as_bytes());
        bytes(out, 2, kind.as_bytes());
    });
    nested(&mut out, 2, raw);
    // The content encoding and the content type.
    bytes(&mut out, 3, b"");
    bytes(&mut out, 4, b"");
    out
}

/// The fields of a message with their values.
type FieldValues<'a> = SmallVec<[(u32, &'static WireField, &'a Value); 32]>;

/// The values of a message's fields, in the order of their numbers. An absent one is null.
fn values_of<'a>(of: &'static Struct, object: &'a Value) -> FieldValues<'a> {
    static NULL: Value = Value::Null;
    let value = |field: &WireField| match field.name {
        // The fields of an embedded struct are those of the object.
        None => object,
        Some(_) => &NULL,
    };
    let mut values: FieldValues<'_> =
        of.wire_fields().map(|(number, field)| (number, field, value(field))).collect();
    for (name, value) in object.as_object().into_iter().flatten() {
        if let Some(index) = of.wire_index(name) {
            values[index].2 = value;
        }
    }
    values
}

fn message(out: &mut Vec<u8>, of: StructId, object: &Value) {
    for (number, field, value) in values_of(of.get(), object) {
        write_field(out, number, field, value);
    }
}

/// A stored object with this tree. Its managedFields are the last fields of the metadata, and its
/// spec may be encoded already.
fn stored(out: &mut Vec<u8>, of: StructId, object: &Object, tree: &Value) {
    /// The number of `managedFields` in `ObjectMeta`.
    const MANAGED_FIELDS: u32 = 17;
    for (number, field, value) in values_of(of.get(), tree) {
        match (field.name, &field.shape) {
            (Some("metadata"), Shape::Struct(metadata)) => nested(out, number, |out| {
                message(out, *metadata, value);
                for entry in object.managed_fields().iter() {
                    nested(out, MANAGED_FIELDS, |out| owner(out, &entry));
                }
            }),
            (Some("spec"), Shape::Struct(spec)) if value.is_object() => {
                let encoded = object.spec_in_protobuf(|| {
                    let mut encoded = Vec::new();
                    message(&mut encoded, *spec, value);
                    encoded
                });
                bytes(out, number, &encoded);
            }
            _ => write_field(out, number, field, value),
        }
    }
}

/// An entry of managedFields. Its fields are stored as the text that it contains here.
fn owner(out: &mut Vec<u8>, entry: &ManagedFieldsEntry<'_>) {
    bytes(out, 1, entry.manager.as_bytes());
    bytes(out, 2, entry.operation.as_bytes());
    bytes(out, 3, entry.api_version.as_bytes());
    if let Some(time) = entry.time {
        nested(out, 4, |out| {
            varint(out, 1, time.0.div_euclid(1000).cast_unsigned());
            varint(out, 2, 0);
        });
    }
    bytes(out, 6, b"FieldsV1");
    nested(out, 7, |out| bytes(out, 1, entry.fields.as_bytes()));
    bytes(out, 8, entry.subresource.as_bytes());
}

fn write_field(out: &mut Vec<u8>, number: u32, field: &WireField, value: &Value) {
    match &field.shape {
        Shape::List(item) => {
            for value in value.as_array().into_iter().flatten() {
                write(out, number, item, value);
            }
        }
        Shape::Map(item) => {
            // They have the order of their keys.
            for (key, value) in value.as_object().into_iter().flatten() {
                nested(out, number, |out| {
                    bytes(out, 1, key.as_bytes());
                    write(out, 2, item, value);
                });
            }
        }
        shape => {
            if !(field.is_pointer && value.is_null()) {
                write(out, number, shape, value);
            }
        }
    }
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
        Shape::Time | Shape::MicroTime => nested(out, number, |out| time(out, value)),
        Shape::Quantity => nested(out, number, |out| bytes(out, 1, scalar(value).as_bytes())),
        Shape::IntOrString => nested(out, number, |out| int_or_string(out, value)),
        Shape::Struct(of) if of.is_extra_value() => nested(out, number, |out| {
            for item in value.as_array().into_iter().flatten() {
                bytes(out, 1, text(item).as_bytes());
            }
        }),
        Shape::Struct(of) => nested(out, number, |out| message(out, *of, value)),
        Shape::Either(_) | Shape::Any => {
            nested(out, number, |out| bytes(out, 1, value.to_string().as_bytes()));
        }
        // No type of the API has a list or map directly within one.
        Shape::List(_) | Shape::Map(_) => {}
    }
}

/// Writes a field whose content `write` appends. Its length, which is before it, has one byte more
/// for each seven bits, so a longer content is moved.
pub(crate) fn nested(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    encode_key(number, WireType::LengthDelimited, out);
    let at = out.len();
    out.push(0);
    write(out);
    let length = (out.len() - at - 1) as u64;
    let more = encoded_len_varint(length) - 1;
    if more > 0 {
        let end = out.len();
        out.resize(end + more, 0);
        out.copy_within(at + 1..end, at + 1 + more);
    }
    encode_varint(length, &mut &mut out[at..=at + more]);
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The text of a quantity, which JSON may have as a number.
fn scalar(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Null => "0".into(),
        other => other.to_string().into(),
    }
}

/// Negative numbers are encoded in two's complement.
fn integer(value: &Value) -> u64 {
    value.as_i64().unwrap_or(0).cast_unsigned()
}

/// Go's zero time, which is null in JSON, has no fields.
fn time(out: &mut Vec<u8>, value: &Value) {
    if let Ok(time) = text(value).parse::<jiff::Timestamp>() {
        varint(out, 1, time.as_second().cast_unsigned());
        varint(out, 2, i64::from(time.subsec_nanosecond()).cast_unsigned());
    }
}

fn int_or_string(out: &mut Vec<u8>, value: &Value) {
    varint(out, 1, value.is_string().into());
    varint(out, 2, integer(value));
    bytes(out, 3, text(value).as_bytes());
}

pub(crate) fn varint(out: &mut Vec<u8>, number: u32, value: u64) {
    encode_key(number, WireType::Varint, out);
    encode_varint(value, out);
}

pub(crate) fn bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::super::decode;
    use super::*;
    use crate::kind::test_kinds::{NAMESPACE, NODE, POD};
    use crate::managed_fields::ManagedFields;

    /// The answers of a real API server (1.36) to the same requests in both encodings.
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
        for (kind, (json, protobuf)) in [
            (&POD, recorded!("pods")),
            (&NODE, recorded!("nodes")),
            (&NAMESPACE, recorded!("namespaces")),
        ] {
            let list: Value = serde_json::from_slice(json).unwrap();
            let items = list["items"].as_array().unwrap().iter().cloned();
            let items: Vec<Object> =
                items.map(|item| Object::new(item, ManagedFields::default())).collect();
            let encoded = encode_list(kind, &list["metadata"], items.iter());
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
        let decoded =
            decode(&encode_object(&object).expect("a message"), 1000).expect("it is valid");
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
                assert_eq!(decode(&encode(&item).unwrap(), 1000), Ok(item));
            }
        }
    }
}
