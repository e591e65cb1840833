//! The form in which Go encodes an object: without nulls, empty lists and maps, and zero values of
//! plain fields, and with canonical quantities. Unknown fields stay.

use crate::json::{Map, Value};

use super::{EncodeRule, Field, Shape, object_meta, root_of};
use crate::kind::Kind;
use everynode_k8s::quantity::Quantity;

/// Converts `object` to the form in which the server returns it, without defaults. Skips what it
/// shares with `stored`, the object before a change, which has that form.
pub(crate) fn normalize(kind: &Kind, object: &mut Value, stored: &Value) {
    if let Some(root) = root_of(kind) {
        walk(&Shape::Struct(root), object, stored);
    }
    if kind.custom.is_some()
        && let Some(metadata) = object.get_mut("metadata")
    {
        walk(&Shape::Struct(object_meta()), metadata, &stored["metadata"]);
        if let Some(fields) = metadata.as_object_mut() {
            fields.retain(|name, value| {
                object_meta().get().field(name).is_some() && !value.is_null()
            });
        }
    }
}

/// Replaces the empty lists and maps of an object that is stored as protobuf, which has none, by
/// null. Those that Go leaves out are gone already, and only objects themselves are looked through:
/// validation refuses most such lists in their fields.
pub(crate) fn forget_empty(kind: &Kind, object: &mut Value) {
    let Some(root) = root_of(kind).filter(|_| !kind.strategy.is_stored_as_json) else { return };
    for (name, field) in &root.get().fields {
        if field.encoded == EncodeRule::Always
            && let Some(value) = object.get_mut(*name)
            && field.shape.is_empty(value)
        {
            *value = Value::Null;
        }
    }
}

fn walk(shape: &Shape, value: &mut Value, stored: &Value) {
    if value.is_shared_with(stored) {
        return;
    }
    match (shape, value) {
        (Shape::Struct(id) | Shape::Either(id), Value::Object(fields)) => {
            let known = id.get();
            fields.retain(|name, value| match known.field(name) {
                Some(field) => {
                    walk(&field.shape, value, &stored[name]);
                    !field.encoded.omits(&field.shape, value)
                }
                None => true,
            });
        }
        (Shape::Map(inner), Value::Object(entries)) => {
            entries.iter_mut().for_each(|(key, value)| walk(inner, value, &stored[key]))
        }
        (Shape::List(inner), Value::Array(items)) => {
            let items = items.iter_mut().enumerate();
            items.for_each(|(index, value)| walk(inner, value, &stored[index]))
        }
        (Shape::Quantity, value) => canonical_quantity(value),
        _ => {}
    }
}

fn canonical_quantity(value: &mut Value) {
    if !value.is_string() && !value.is_number() {
        return;
    }
    if let Ok(quantity) = Quantity::of_json(value) {
        *value = quantity.to_string().into();
    }
}

impl EncodeRule {
    fn omits(self, shape: &Shape, value: &Value) -> bool {
        let zero = match value {
            Value::Null => return self != Self::Always || !shape.is_nil_able(),
            Value::Array(items) => return items.is_empty() && self != Self::Always,
            Value::Object(entries) => {
                return matches!(shape, Shape::Map(_))
                    && entries.is_empty()
                    && self != Self::Always;
            }
            Value::String(text) => text.is_empty(),
            Value::Bool(value) => !value,
            Value::Number(number) => number.as_i64() == Some(0),
        };
        zero && self == Self::IfNotZero
    }
}

impl Shape {
    fn is_empty(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::List(_), Value::Array(items)) => items.is_empty(),
            (Self::Map(_), Value::Object(entries)) => entries.is_empty(),
            _ => false,
        }
    }

    /// True if Go writes null for an absent value.
    fn is_nil_able(&self) -> bool {
        matches!(self, Self::List(_) | Self::Map(_) | Self::Any | Self::Bytes)
    }

    /// The value that Go writes for a field that is not set.
    pub(super) fn zero(&self) -> Value {
        match self {
            Self::Struct(_) => Value::Object(Map::new()),
            Self::Text(_) => "".into(),
            Self::Integer { .. } | Self::Float | Self::IntOrString => 0.into(),
            Self::Boolean => false.into(),
            Self::Quantity => "0".into(),
            Self::Map(_) | Self::List(_) | Self::Time | Self::MicroTime => Value::Null,
            Self::Bytes | Self::Either(_) | Self::Any => Value::Null,
        }
    }
}

/// The empty object of a kind, with the fields that Go always writes. That of a kind which was
/// defined at run time has none.
pub(crate) fn empty_object(kind: &Kind) -> Value {
    let mut object = Value::Object(Map::new());
    complete(kind, &mut object);
    object
}

/// Adds the fields that Go always writes, whether they are set or not.
pub(crate) fn complete(kind: &Kind, object: &mut Value) {
    if let Some(root) = root_of(kind) {
        add_absent(&Shape::Struct(root), object);
    }
}

fn add_absent(shape: &Shape, value: &mut Value) {
    match (shape, value) {
        (Shape::Struct(id), Value::Object(fields)) => {
            for (name, field) in &id.get().fields {
                if field.encoded == EncodeRule::Always && !fields.contains_key(name) {
                    fields.insert((*name).to_owned(), field.zero());
                }
                if let Some(value) = fields.get_mut(name) {
                    add_absent(&field.shape, value);
                }
            }
        }
        (Shape::Map(inner), Value::Object(entries)) => {
            entries.values_mut().for_each(|value| add_absent(inner, value))
        }
        (Shape::List(inner), Value::Array(items)) => {
            items.iter_mut().for_each(|value| add_absent(inner, value))
        }
        _ => {}
    }
}

impl Field {
    /// A pointer is null if it is not set, whatever it points to.
    fn zero(&self) -> Value {
        if self.is_pointer { Value::Null } else { self.shape.zero() }
    }
}
