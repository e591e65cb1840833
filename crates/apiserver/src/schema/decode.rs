//! Errors of Go's decoder: the first value with a wrong type, and the unknown fields.

use rustc_hash::FxHasher;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::hash::{BuildHasher, BuildHasherDefault};

use crate::excerpt::Excerpt;
use crate::json::{Number, Value};

use super::{Shape, StructId, object_meta, root_of};
use crate::kind::Kind;
use crate::value::json_type;
use everynode_k8s::quantity::Quantity;

/// An object that can't be decoded as its kind. The text is the message of the server's 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} in version {version:?} cannot be handled as a {kind}: {reason}")]
pub struct DecodeError {
    /// The kind.
    pub kind: String,
    /// The version of the kind.
    pub version: String,
    /// The message of Go's decoder.
    pub reason: String,
}

impl DecodeError {
    fn new(kind: &Kind, reason: String) -> Self {
        Self { kind: kind.kind.to_owned(), version: kind.version.to_owned(), reason }
    }

    /// The error of strict field validation for findings such as `unknown field "spec.foo"`.
    pub fn strict(kind: &Kind, wrong: &[String]) -> Self {
        Self::new(kind, format!("strict decoding error: {}", wrong.join(", ")))
    }
}

/// Checks that every value has the type of its field.
///
/// # Errors
///
/// The first value with a wrong type.
pub fn decode(kind: &Kind, object: &Value) -> Result<(), DecodeError> {
    decode_changed(kind, object, &Value::Null)
}

/// The same for a changed object. Skips what it shares with `stored`, the object before, which was
/// checked then.
pub(crate) fn decode_changed(
    kind: &Kind,
    object: &Value,
    stored: &Value,
) -> Result<(), DecodeError> {
    // Of a custom resource only the metadata is decoded.
    let (root, value, stored) = match root_of(kind) {
        Some(root) => (root, object, stored),
        None => (object_meta(), &object["metadata"], &stored["metadata"]),
    };
    let mut path = DecodePath::default();
    check(&Shape::Struct(root), value, stored, &mut path)
        .and_then(|()| (kind.strategy.check_conversion)(object))
        .map_err(|reason| DecodeError::new(kind, reason))
}

/// The unknown fields in order: `unknown field "spec.template.spec.containers[0].imag"`. Of very
/// many, the first.
pub fn unknown_fields(kind: &Kind, object: &Value) -> Vec<String> {
    listed_unknown(kind, object, |_| true)
}

fn listed_unknown(kind: &Kind, object: &Value, is_listed: impl Fn(&str) -> bool) -> Vec<String> {
    let (mut found, mut pruned) = (Excerpt::default(), Excerpt::default());
    let add = |excerpt: &mut Excerpt, path: &str| {
        if is_listed(path) {
            excerpt.add(|| format!("unknown field {path:?}"));
        }
    };
    visit_decoded(kind, object, &mut |path| add(&mut found, path));
    visit_pruned(kind, object, &mut |path| add(&mut pruned, path));
    found.append(pruned.sorted());
    found.into_vec()
}

/// Visits the paths of the fields that are in no type of the kind, in order.
fn visit_decoded(kind: &Kind, object: &Value, visit: &mut dyn FnMut(&str)) {
    if let Some(root) = root_of(kind) {
        visit_unknown(&Shape::Struct(root), object, &mut String::new(), visit);
    }
    if kind.custom.is_some() {
        let (metadata, path) = (Shape::Struct(object_meta()), &mut "metadata".to_owned());
        visit_unknown(&metadata, &object["metadata"], path, visit);
    }
}

/// Visits the paths of the fields that the schema of a custom kind does not have.
fn visit_pruned(kind: &Kind, object: &Value, visit: &mut dyn FnMut(&str)) {
    if let Some(custom) = kind.custom() {
        custom.prune(&mut object.clone(), visit);
    }
}

/// The unknown fields of an object that it did not have before. A stored object can have unknown
/// fields.
pub fn new_unknown_fields(kind: &Kind, object: &Value, before: &Value) -> Vec<String> {
    let mut known = HashSet::new();
    let hasher = BuildHasherDefault::<FxHasher>::default();
    // Hashes, because the paths themselves would fill the memory.
    let mut know = |path: &str| {
        known.insert(hasher.hash_one(path));
    };
    visit_decoded(kind, before, &mut know);
    visit_pruned(kind, before, &mut know);
    listed_unknown(kind, object, |path| known.is_empty() || !known.contains(&hasher.hash_one(path)))
}

/// The position of the decoder: the innermost structs and the names of the fields that lead there.
#[derive(Default)]
pub(super) struct DecodePath<'a> {
    pub structs: Vec<StructId>,
    pub fields: Vec<&'a str>,
}

impl DecodePath<'_> {
    fn innermost(&self) -> Option<&'static str> {
        self.structs.last().map(|id| id.get().short_name())
    }

    fn mismatch(&self, found: &str, expected: &str) -> String {
        match self.innermost() {
            None => format!("json: cannot unmarshal {found} into Go value of type {expected}"),
            Some(innermost) => format!(
                "json: cannot unmarshal {found} into Go struct field {}.{} of type {}",
                innermost,
                self.fields.join("."),
                expected
            ),
        }
    }
}

pub(super) fn check<'a>(
    shape: &Shape,
    value: &'a Value,
    stored: &Value,
    path: &mut DecodePath<'a>,
) -> Result<(), String> {
    walk(shape, value, stored, path, &check_leaf)
}

/// Visits the values in which there is no other one of the type, and those of a wrong type. Skips
/// nulls and what is shared with `stored`.
pub(super) fn walk<'a, F>(
    shape: &Shape,
    value: &'a Value,
    stored: &Value,
    path: &mut DecodePath<'a>,
    leaf: &F,
) -> Result<(), String>
where
    F: Fn(&Shape, &'a Value, &Value, &mut DecodePath<'a>) -> Result<(), String>,
{
    if value.is_null() || value.is_shared_with(stored) {
        return Ok(());
    }
    match (shape, value) {
        (Shape::Struct(id), Value::Object(fields)) => {
            path.structs.push(*id);
            for (name, value) in fields {
                let Some(field) = id.get().field(name) else { continue };
                path.fields.push(name);
                walk(&field.shape, value, &stored[name], path, leaf)?;
                path.fields.pop();
            }
            path.structs.pop();
            Ok(())
        }
        (Shape::Map(inner), Value::Object(entries)) => {
            let mut entries = entries.iter();
            entries.try_for_each(|(key, value)| walk(inner, value, &stored[key], path, leaf))
        }
        (Shape::List(inner), Value::Array(items)) => {
            let mut items = items.iter().enumerate();
            items.try_for_each(|(index, value)| walk(inner, value, &stored[index], path, leaf))
        }
        _ => leaf(shape, value, stored, path),
    }
}

fn check_leaf<'a>(
    shape: &Shape,
    value: &'a Value,
    stored: &Value,
    path: &mut DecodePath<'a>,
) -> Result<(), String> {
    match (shape, value) {
        (Shape::Any, _) | (Shape::Boolean, Value::Bool(_)) | (Shape::Float, Value::Number(_)) => {
            Ok(())
        }
        (Shape::Either(id), Value::Object(_)) => check(&Shape::Struct(*id), value, stored, path),
        (Shape::Either(_), _) | (Shape::Text(_), Value::String(_)) => Ok(()),
        (Shape::Integer { bits }, Value::Number(number)) => integer(*bits, number, path),
        (Shape::Quantity, _) => quantity(value),
        (Shape::IntOrString, Value::String(_)) => Ok(()),
        (Shape::IntOrString, Value::Number(number)) => integer_or_string(number),
        (Shape::IntOrString, other) => {
            Err(format!("json: cannot unmarshal {} into Go value of type int32", json_type(other)))
        }
        (Shape::Time | Shape::MicroTime, Value::String(text)) => time(text),
        (Shape::Time | Shape::MicroTime, other) => {
            Err(format!("json: cannot unmarshal {} into Go value of type string", json_type(other)))
        }
        (Shape::Bytes, Value::String(text)) => base64(text),
        (_, other) => Err(path.mismatch(json_type(other), &go_type(shape))),
    }
}

pub(super) fn go_type(shape: &Shape) -> String {
    match shape {
        Shape::Struct(id) | Shape::Either(id) => id.get().go_name(),
        Shape::Map(inner) if **inner == Shape::Quantity => "v1.ResourceList".to_owned(),
        Shape::Map(inner) => format!("map[string]{}", go_type(inner)),
        Shape::List(inner) => format!("[]{}", go_type(inner)),
        Shape::Text(go_type) => (*go_type).to_owned(),
        Shape::Integer { bits } => format!("int{bits}"),
        Shape::Float => "float64".to_owned(),
        Shape::Boolean => "bool".to_owned(),
        Shape::Quantity => "resource.Quantity".to_owned(),
        Shape::IntOrString => "intstr.IntOrString".to_owned(),
        Shape::Time => "v1.Time".to_owned(),
        Shape::MicroTime => "v1.MicroTime".to_owned(),
        Shape::Bytes => "[]uint8".to_owned(),
        Shape::Any => "runtime.RawExtension".to_owned(),
    }
}

fn integer(bits: u8, number: &Number, path: &DecodePath) -> Result<(), String> {
    let fits = match bits {
        32 => number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
        _ => number.as_i64().is_some(),
    };
    if fits {
        Ok(())
    } else {
        Err(path.mismatch(&format!("number {number}"), &format!("int{bits}")))
    }
}

fn integer_or_string(number: &Number) -> Result<(), String> {
    match number.as_i64().map(i32::try_from) {
        Some(Ok(_)) => Ok(()),
        _ => Err(format!("json: cannot unmarshal number {number} into Go value of type int32")),
    }
}

fn quantity(value: &Value) -> Result<(), String> {
    Quantity::of_json(value).map(|_| ()).map_err(|error| error.to_string())
}

fn time(text: &str) -> Result<(), String> {
    if text.parse::<jiff::Timestamp>().is_ok() {
        return Ok(());
    }
    let layout = "2006-01-02T15:04:05Z07:00";
    Err(format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""))
}

/// Checks standard base64 with padding; line breaks are ignored.
fn base64(text: &str) -> Result<(), String> {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let mut digits = 0;
    let mut padding = 0;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'\r' | b'\n' => {}
            b'=' if digits % 4 >= 2 && padding < 4 - digits % 4 => padding += 1,
            _ if is_digit(byte) && padding == 0 => digits += 1,
            _ => return Err(format!("illegal base64 data at input byte {index}")),
        }
    }
    // As Go: an incomplete group is wrong at its start, one without its padding at its end.
    match (digits + padding) % 4 {
        0 => Ok(()),
        rest => {
            let start = if padding == 0 { rest } else { 0 };
            Err(format!("illegal base64 data at input byte {}", text.len() - start))
        }
    }
}

fn visit_unknown(shape: &Shape, value: &Value, path: &mut String, visit: &mut dyn FnMut(&str)) {
    let length = path.len();
    match (shape, value) {
        (Shape::Struct(id) | Shape::Either(id), Value::Object(fields)) => {
            for (name, value) in fields {
                let separator = if path.is_empty() { "" } else { "." };
                write!(path, "{separator}{name}").expect("a String takes all writes");
                match id.get().field(name) {
                    Some(field) => visit_unknown(&field.shape, value, path, visit),
                    None => visit(path),
                }
                path.truncate(length);
            }
        }
        (Shape::Map(inner), Value::Object(entries)) => {
            for (key, value) in entries {
                write!(path, ".{key}").expect("a String takes all writes");
                visit_unknown(inner, value, path, visit);
                path.truncate(length);
            }
        }
        (Shape::List(inner), Value::Array(items)) => {
            for (index, value) in items.iter().enumerate() {
                write!(path, "[{index}]").expect("a String takes all writes");
                visit_unknown(inner, value, path, visit);
                path.truncate(length);
            }
        }
        _ => {}
    }
}
