//! Kubernetes' protobuf encoding of objects, from and to JSON (S16). kubectl since 1.32 and
//! Kubernetes' own components send it; the components and everynode's controller read it.

mod encode;
mod wire;

use std::cell::Cell;

use base64::prelude::{BASE64_STANDARD, Engine};

use crate::json::{Map, Value, json};

use wire::{Field, Reader};

use crate::schema::{Shape, StructId, WireField};
pub(crate) use encode::{
    bytes, encode, encode_list, encode_object, is_known, nested, varint, watch_event,
};

/// The media type of an object or list.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The media type of a watch.
pub(crate) const WATCH_MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// The first bytes of every body.
const MAGIC: &[u8] = b"k8s\0";

/// Maximum nesting; all types of the API are shallower.
const DEPTH_MAX: u32 = 64;

/// The limits that are left to a body: levels below the current one, and values in all.
#[derive(Clone, Copy)]
struct Bounds<'a> {
    levels: u32,
    values: &'a Cell<usize>,
}

impl Bounds<'_> {
    fn nested(self) -> Result<Self, &'static str> {
        let levels = self.levels.checked_sub(1).ok_or("the body nests too deep")?;
        Ok(Self { levels, ..self })
    }

    /// Counts values.
    fn count(self, values: usize) -> Result<(), &'static str> {
        let left = self.values.get().checked_sub(values).ok_or("the body has too many values")?;
        self.values.set(left);
        Ok(())
    }
}

/// Decodes an object with its apiVersion and kind, which has at most a number of values. The error
/// describes the malformed bytes, or names a kind without a protobuf schema.
pub(crate) fn decode(bytes: &[u8], values_max: usize) -> Result<Value, String> {
    let body = bytes
        .strip_prefix(MAGIC)
        .ok_or("the body lacks the prefix of Kubernetes' protobuf encoding")?;
    let mut type_meta = (String::new(), String::new());
    let mut raw: &[u8] = &[];
    let mut reader = Reader::new(body);
    while let Some((number, field)) = reader.next()? {
        match (number, field) {
            (1, Field::Bytes(bytes)) => type_meta = read_type_meta(bytes)?,
            (2, Field::Bytes(bytes)) => raw = bytes,
            (3 | 4, Field::Bytes(b"")) => {}
            (3, _) => return Err("an encoded body is not supported".to_owned()),
            _ => {}
        }
    }
    let (api_version, kind) = type_meta;
    let message = StructId::find(&message_name(&api_version, &kind))
        .ok_or_else(|| format!("{kind} of {api_version} is not known in protobuf"))?;
    let bounds = Bounds { levels: DEPTH_MAX, values: &Cell::new(values_max) };
    let mut object = read_message(message, raw, bounds)?;
    object.insert("apiVersion", api_version.into());
    object.insert("kind", kind.into());
    Ok(Value::Object(object))
}

fn message_name(api_version: &str, kind: &str) -> String {
    if matches!(kind, "DeleteOptions" | "Status") {
        return format!("meta.{kind}");
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    let package = group.split('.').next().unwrap_or(group);
    format!("{package}.{version}.{kind}")
}

fn read_type_meta(bytes: &[u8]) -> Result<(String, String), String> {
    let mut type_meta = (String::new(), String::new());
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        match (number, field) {
            (1, Field::Bytes(bytes)) => type_meta.0 = text(bytes)?,
            (2, Field::Bytes(bytes)) => type_meta.1 = text(bytes)?,
            _ => {}
        }
    }
    Ok(type_meta)
}

fn read_message(message: StructId, bytes: &[u8], bounds: Bounds<'_>) -> Result<Map, String> {
    let bounds = bounds.nested()?;
    let message = message.get();
    let mut object = Map::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        // Fields of newer clients are skipped: the schema has no name for them.
        let Some(field_type) = message.wire_field(number) else { continue };
        add(&mut object, field_type, field, bounds)?;
    }
    Ok(object)
}

fn add(
    object: &mut Map,
    known: &WireField,
    field: Field<'_>,
    bounds: Bounds<'_>,
) -> Result<(), String> {
    let Some(name) = known.name else {
        let Shape::Struct(embedded) = known.shape else { return Ok(()) };
        object.extend(read_message(embedded, field.bytes()?, bounds)?);
        return Ok(());
    };
    match &known.shape {
        Shape::List(item) => {
            let item = read(item, field, bounds)?;
            let list = object.entry(name).or_insert_with(|| json!([]));
            list.as_array_mut().ok_or("a list has another type")?.push(item);
        }
        Shape::Map(item) => {
            let (key, value) = read_entry(item, field, bounds)?;
            let map = object.entry(name).or_insert_with(|| json!({}));
            map.as_object_mut().ok_or("a map has another type")?.insert(key, value);
        }
        other => {
            let value = read(other, field, bounds)?;
            if !(known.omits_empty && is_empty(&value)) {
                object.insert(name.to_owned(), value);
            }
        }
    }
    Ok(())
}

/// True if Go's encoder omits the value. It never omits a struct.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Bool(true) | Value::Array(_) | Value::Object(_) => false,
    }
}

fn read(of: &Shape, field: Field<'_>, bounds: Bounds<'_>) -> Result<Value, String> {
    bounds.count(1)?;
    Ok(match of {
        Shape::Text(_) => text(field.bytes()?)?.into(),
        Shape::Bytes => BASE64_STANDARD.encode(field.bytes()?).into(),
        Shape::Boolean => (field.number()? != 0).into(),
        // Negative numbers are encoded in two's complement.
        Shape::Integer { .. } => field.number()?.cast_signed().into(),
        Shape::Float => {
            let bytes = field.bytes()?.try_into().map_err(|_| "expected eight bytes")?;
            f64::from_le_bytes(bytes).into()
        }
        Shape::Time => read_time(field.bytes()?, 0)?,
        Shape::MicroTime => read_time(field.bytes()?, 6)?,
        Shape::Quantity => {
            let mut quantity = String::new();
            let mut reader = Reader::new(field.bytes()?);
            while let Some((_, field)) = reader.next()? {
                quantity = text(field.bytes()?)?;
            }
            quantity.into()
        }
        Shape::IntOrString => read_int_or_string(field.bytes()?)?,
        Shape::Any => read_raw(field.bytes()?, bounds)?,
        Shape::Struct(id) => {
            let mut object = read_message(*id, field.bytes()?, bounds)?;
            if id.is_extra_value() {
                object.remove("items").unwrap_or_else(|| json!([]))
            } else {
                object.into()
            }
        }
        Shape::Either(id) => read_either(*id, field.bytes()?, bounds)?,
        Shape::List(_) | Shape::Map(_) => return Err("a list directly within a list".to_owned()),
    })
}

/// A schema (field 2 beside a boolean, else 1), a boolean (field 1), or a list (field 2).
fn read_either(of: StructId, bytes: &[u8], bounds: Bounds<'_>) -> Result<Value, String> {
    let mut found = Value::Null;
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        match (number, field, &mut found) {
            (1, Field::Number(allows), Value::Null) => found = (allows != 0).into(),
            (1, Field::Bytes(schema), _) => found = read_message(of, schema, bounds)?.into(),
            (2, Field::Bytes(schema), Value::Bool(_)) => {
                found = read_message(of, schema, bounds)?.into();
            }
            (2, Field::Bytes(item), Value::Array(list)) => {
                bounds.count(1)?;
                list.push(read_message(of, item, bounds)?.into());
            }
            (2, Field::Bytes(item), Value::Null) => {
                found = json!([read_message(of, item, bounds)?]);
            }
            _ => {}
        }
    }
    Ok(found)
}

fn read_entry(of: &Shape, field: Field<'_>, bounds: Bounds<'_>) -> Result<(String, Value), String> {
    let mut key = String::new();
    let mut value = match of {
        Shape::Text(_) | Shape::Bytes => Value::from(""),
        _ => json!({}),
    };
    let mut reader = Reader::new(field.bytes()?);
    while let Some((number, field)) = reader.next()? {
        match number {
            1 => key = text(field.bytes()?)?,
            2 => value = read(of, field, bounds)?,
            _ => {}
        }
    }
    Ok((key, value))
}

/// A time in seconds and nanoseconds. If both are absent it is Go's zero time, which is null in
/// JSON.
fn read_time(bytes: &[u8], digits: u8) -> Result<Value, String> {
    let (mut seconds, mut nanoseconds) = (None, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        match number {
            1 => seconds = Some(field.number()?.cast_signed()),
            2 => nanoseconds = field.number()?.cast_signed(),
            _ => {}
        }
    }
    let Some(seconds) = seconds else { return Ok(Value::Null) };
    let nanoseconds = i32::try_from(nanoseconds).map_err(|_| "a time is out of range")?;
    let time = jiff::Timestamp::new(seconds, nanoseconds).map_err(|error| error.to_string())?;
    Ok(if digits == 0 {
        let time = jiff::Timestamp::from_second(time.as_second()).unwrap_or_default();
        time.to_string().into()
    } else {
        format!("{time:.6}").into()
    })
}

fn read_int_or_string(bytes: &[u8]) -> Result<Value, String> {
    let (mut is_text, mut number, mut string) = (false, 0, String::new());
    let mut reader = Reader::new(bytes);
    while let Some((tag, field)) = reader.next()? {
        match tag {
            1 => is_text = field.number()? == 1,
            2 => number = field.number()?.cast_signed(),
            3 => string = text(field.bytes()?)?,
            _ => {}
        }
    }
    Ok(if is_text { string.into() } else { number.into() })
}

fn read_raw(bytes: &[u8], bounds: Bounds<'_>) -> Result<Value, String> {
    let mut raw: &[u8] = b"null";
    let mut reader = Reader::new(bytes);
    while let Some((number, field)) = reader.next()? {
        if number == 1 {
            raw = field.bytes()?;
        }
    }
    // At least as many as it has values.
    bounds.count(raw.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count())?;
    serde_json::from_slice(raw).map_err(|error| format!("raw JSON: {error}"))
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "a string is not valid UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u8::try_from(bytes.len()).expect("a short field");
        assert!(length < 128, "one byte of length");
        [&[number << 3 | 2, length], bytes].concat()
    }

    fn object(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &type_meta), field(2, raw), field(3, b""), field(4, b"")].concat()
    }

    /// S4: an object has the same JSON tree whether it is sent as protobuf or as JSON.
    #[test]
    fn an_object_has_the_same_tree_in_protobuf_and_json() {
        let entry = field(2, &[field(1, b"a"), field(2, b"b")].concat());
        let metadata = [field(1, b"c"), field(2, b""), field(8, b"")].concat();
        let raw = [field(1, &metadata), entry].concat();
        assert_eq!(
            decode(&object("v1", "ConfigMap", &raw), 1000),
            Ok(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "c"}, "data": {"a": "b"},
            }))
        );
    }

    /// S4: embedded structs, lists, numbers and times are decoded to their JSON fields.
    #[test]
    fn embedded_structs_lists_and_numbers_are_decoded() {
        let path = field(1, &field(1, b"/var/log"));
        let volume = field(1, &[field(1, b"log"), field(2, &path)].concat());
        let grace = vec![4 << 3, 30];
        let spec = field(2, &[volume, grace, vec![11 << 3, 0]].concat());
        let deleted = field(9, &[1 << 3, 60]);
        let raw = [field(1, &deleted), spec].concat();
        assert_eq!(
            decode(&object("v1", "Pod", &raw), 1000),
            Ok(json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"deletionTimestamp": "1970-01-01T00:01:00Z"},
                "spec": {
                    "volumes": [{"name": "log", "hostPath": {"path": "/var/log"}}],
                    "terminationGracePeriodSeconds": 30,
                },
            }))
        );
    }

    /// S4, S12: a body that is not an object of a known kind is refused by name.
    #[test]
    fn unknown_kinds_are_refused_by_name() {
        let refused = decode(&object("apps/v1", "Fleet", b""), 1000);
        assert_eq!(refused, Err("Fleet of apps/v1 is not known in protobuf".to_owned()));
        assert!(decode(b"{}", 1000).is_err());
        assert!(decode(b"k8s\0\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 1000).is_err());
    }

    /// S12: the values of a body are limited, as in JSON: each takes a hundred times the memory of
    /// two bytes.
    #[test]
    fn values_have_a_limit() {
        let volumes = |count| field(2, &field(1, b"").repeat(count));
        let decoded = |count| decode(&object("v1", "Pod", &volumes(count)), 20);
        assert!(decoded(10).is_ok());
        assert_eq!(decoded(30), Err("the body has too many values".to_owned()));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(raw in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = decode(&object("v1", "Pod", &raw), 1000);
            let _ = decode(&[MAGIC, &raw].concat(), 1000);
        }
    }
}
