//! OpenAPI v2 as protobuf, with the messages and field numbers of gnostic's `OpenAPIv2.proto`: the
//! only form that client-go reads, which Argo CD uses. Only the fields that our document uses are
//! here.

use crate::http::protobuf::{bytes, nested, varint};
use crate::json::Value;

/// Encodes an OpenAPI v2 document, the message `Document`.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, 1, &document["swagger"]);
    nested(&mut out, 2, |out| {
        text(out, 1, &document["info"]["title"]);
        text(out, 2, &document["info"]["version"]);
    });
    nested(&mut out, 9, |out| named(out, 1, &document["definitions"], schema));
    out
}

fn schema(out: &mut Vec<u8>, value: &Value) {
    text(out, 1, &value["$ref"]);
    text(out, 2, &value["format"]);
    text(out, 4, &value["description"]);
    texts(out, 19, &value["required"]);
    if let Some(additional) = value.get("additionalProperties") {
        nested(out, 21, |out| match additional {
            Value::Bool(allowed) => varint(out, 2, (*allowed).into()),
            other => nested(out, 1, |out| schema(out, other)),
        });
    }
    if !value["type"].as_str().unwrap_or_default().is_empty() {
        nested(out, 22, |out| text(out, 1, &value["type"]));
    }
    if let Some(items) = value.get("items") {
        nested(out, 23, |out| nested(out, 1, |out| schema(out, items)));
    }
    if let Some(properties) = value.get("properties") {
        nested(out, 25, |out| named(out, 1, properties, schema));
    }
    extensions(out, 31, value);
}

/// The `x-…` fields. Their values are YAML, and JSON is valid YAML.
fn extensions(out: &mut Vec<u8>, number: u32, value: &Value) {
    let fields = value.as_object().into_iter().flatten();
    for (name, value) in fields.filter(|(name, _)| name.starts_with("x-")) {
        entry(out, number, name, |out| bytes(out, 2, value.to_string().as_bytes()));
    }
}

/// A message for each field of an object: the name of the field, and its value.
fn named(out: &mut Vec<u8>, number: u32, values: &Value, write: impl Fn(&mut Vec<u8>, &Value)) {
    for (name, value) in values.as_object().into_iter().flatten() {
        entry(out, number, name, |out| write(out, value));
    }
}

fn entry(out: &mut Vec<u8>, number: u32, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
    nested(out, number, |out| {
        bytes(out, 1, name.as_bytes());
        nested(out, 2, write);
    });
}

/// A text. One that is absent or empty is not written.
fn text(out: &mut Vec<u8>, number: u32, value: &Value) {
    if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
        bytes(out, number, text.as_bytes());
    }
}

fn texts(out: &mut Vec<u8>, number: u32, values: &Value) {
    for text in values.as_array().into_iter().flatten().filter_map(Value::as_str) {
        bytes(out, number, text.as_bytes());
    }
}
