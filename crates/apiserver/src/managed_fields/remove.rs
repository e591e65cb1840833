//! Removes fields from an object, and adds to a set the named fields that lead to its members.

use crate::json::{Array, Map, Value};

use super::set::Set;
use crate::merge_schema::{Form, ListType, MapType, PathElement, Type};

/// The object without fields. As upstream, a map or list from which something was removed stays,
/// even if it is empty.
pub(crate) fn remove(of: Type<'_>, object: &Value, fields: &Set) -> Value {
    self::value(of, object, fields).unwrap_or_else(|| Value::Object(Map::new()))
}

/// The set with all fields of structs that lead to a member. The owner of a field also owns the
/// struct that has it, but no set says so.
pub(crate) fn with_named_fields(of: Option<Type<'_>>, set: &Set) -> Set {
    let forms = of.map(Type::forms).unwrap_or_default();
    let mut all = Set::default();
    set.members().iter().for_each(|member| all.insert_member(member.clone()));
    for (element, below) in set.children() {
        let inner = match (element, forms.map, forms.list) {
            (PathElement::Field(name), Some(map), _) => {
                if map.named(name).is_some() {
                    all.insert_member(element.clone());
                }
                map.declared(name)
            }
            (PathElement::Key(_), _, Some(list)) => Some(list.elements),
            _ => None,
        };
        all.insert_children(element.clone(), with_named_fields(inner, below));
    }
    all
}

fn value(of: Type<'_>, value: &Value, fields: &Set) -> Option<Value> {
    match (of.form(Some(value)), value) {
        (Form::Map(map), Value::Object(entries)) => self::map(map, entries, fields),
        (Form::List(list), Value::Array(items)) => self::list(list, items, fields),
        (Form::Map(_) | Form::List(_), _) => None,
        (Form::Scalar(_), scalar) => Some(scalar.clone()),
    }
}

fn map(map: MapType<'_>, entries: &Map, fields: &Set) -> Option<Value> {
    if entries.is_empty() || map.atomic {
        return None;
    }
    let (mut rest, mut changed) = (Map::new(), false);
    for (name, value) in entries {
        let element = PathElement::field(name);
        if fields.has_member(&element) {
            continue;
        }
        let value = match fields.below(&element) {
            Some(below) => {
                changed = true;
                inner(map.type_of(name), value, below)
            }
            None => value.clone(),
        };
        rest.insert(name.clone(), value);
    }
    (changed || !rest.is_empty()).then_some(Value::Object(rest))
}

fn list(list: ListType<'_>, items: &[Value], fields: &Set) -> Option<Value> {
    if items.is_empty() || list.is_atomic() {
        return None;
    }
    let (mut rest, mut changed) = (Vec::new(), false);
    for item in items {
        let Ok(element) = list.element(item) else {
            rest.push(item.clone());
            continue;
        };
        if fields.has_member(&element) {
            continue;
        }
        rest.push(match fields.below(&element) {
            Some(below) => {
                changed = true;
                inner(list.elements, item, below)
            }
            None => item.clone(),
        });
    }
    (changed || !rest.is_empty()).then_some(rest.into())
}

fn inner(of: Type<'_>, value: &Value, fields: &Set) -> Value {
    let empty = || match value {
        Value::Object(_) => Value::Object(Map::new()),
        Value::Array(_) => Value::Array(Array::default()),
        _ => Value::Null,
    };
    self::value(of, value, fields).unwrap_or_else(empty)
}
