//! The set of all fields in a value.

use std::collections::BTreeMap;

use crate::json::Value;

use super::set::Set;
use crate::merge_schema::{Form, ListType, MapType, PathElement, Type};

/// All fields of an object.
pub(crate) fn field_set(of: Type<'_>, object: &Value) -> Set {
    let mut set = Set::default();
    collect(of, object, &mut set);
    set
}

/// Adds the fields in a value, and returns whether the value itself is one.
fn collect(of: Type<'_>, value: &Value, set: &mut Set) -> bool {
    match of.form(Some(value)) {
        Form::Scalar(_) => true,
        Form::Map(map) => {
            if let (false, Value::Object(fields)) = (map.atomic, value) {
                for (name, value) in fields {
                    collect_field(map, name, value, set);
                }
            }
            map.atomic
        }
        Form::List(list) => {
            if let (false, Value::Array(items)) = (list.is_atomic(), value) {
                collect_items(list, items, set);
            }
            list.is_atomic()
        }
    }
}

fn collect_field(map: MapType<'_>, name: &str, value: &Value, set: &mut Set) {
    let mut below = Set::default();
    let is_leaf = collect(map.type_of(name), value, &mut below);
    let is_empty = value.is_null() || value.as_object().is_some_and(crate::json::Map::is_empty);
    let element = PathElement::field(name);
    if is_leaf || is_empty || map.named(name).is_none() {
        set.insert_member(element.clone());
    }
    set.insert_children(element, below);
}

/// An element that is twice in the list is one field.
fn collect_items(list: ListType<'_>, items: &[Value], set: &mut Set) {
    let mut counted: BTreeMap<PathElement, (usize, &Value)> = BTreeMap::new();
    for item in items {
        if let Ok(element) = list.element(item) {
            counted.entry(element).or_insert((0, item)).0 += 1;
        }
    }
    for (element, (count, item)) in counted {
        if count == 1 {
            let mut below = Set::default();
            collect(list.elements, item, &mut below);
            set.insert_children(element.clone(), below);
        }
        set.insert_member(element);
    }
}
