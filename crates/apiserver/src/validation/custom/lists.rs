//! Sets and lists with keys (S15): whose elements differ, and which element replaces which.

use std::collections::HashMap;

use crate::custom::{ListType, Schema};
use crate::json::Value;
use crate::kind::rules::{Causes, Path, Reason, SMALL_PER_STEP, Steps, go_value};

/// Checks sets and lists with keys, unless the replaced object has wrong ones.
pub(super) fn check(schema: &Schema, object: &Value, old: Option<&Value>, causes: &mut Causes) {
    let root = Path::Start("");
    let mut before = causes.part();
    old.into_iter().for_each(|old| lists(schema, old, root, &mut before));
    if before.is_empty() {
        lists(schema, object, root, causes);
    }
}

/// Checks that the elements of sets and of lists with keys differ.
fn lists(schema: &Schema, value: &Value, path: Path<'_>, causes: &mut Causes) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let Some(of_field) = schema.field(name) else { continue };
                let is_property = schema.properties.contains_key(name.as_str());
                let path = match is_property || path.is_root() {
                    true => Path::Field(&path, name),
                    false => Path::Key(&path, name),
                };
                lists(of_field, value, path, causes);
            }
        }
        Value::Array(items) => {
            elements(schema, items, path, causes);
            if let Some(of_items) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    lists(of_items, item, Path::Index(&path, index), causes);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn elements(schema: &Schema, items: &[Value], path: Path<'_>, causes: &mut Causes) {
    let is_entry = |item: &Value| item.is_object() || item.is_null();
    let at = |index| Path::Index(&path, index).text();
    let wrong = items.iter().position(|item| !is_entry(item));
    if !causes.steps.spend(key_steps(schema, items.len())) {
        return;
    }
    let keys: Vec<Value> = match (schema.list_type, wrong) {
        (ListType::Atomic, _) => return,
        (ListType::Set, _) => items.to_vec(),
        (ListType::Map, None) => items.iter().map(|item| key_of(schema, item)).collect(),
        (ListType::Map, Some(index)) => {
            let detail = "must be an object for an array of list-type map";
            let message = format!("{}: {detail}", go_value(&items[index]));
            return causes.found_at(Reason::Invalid, &at(index), message);
        }
    };
    for index in duplicates(&keys) {
        // Without their texts, once no further error is listed.
        match causes.is_full() {
            true => return causes.leave_out(),
            false => causes.found_at(Reason::Duplicate, &at(index), go_value(&keys[index])),
        }
    }
}

/// The elements of a replaced list by their keys. Only those of lists with keys can be found.
pub(super) struct OldItems<'o>(HashMap<String, &'o Value>);

impl<'o> OldItems<'o> {
    /// For the elements of a list, if there are steps left to find those that they replace.
    pub(super) fn new(
        schema: &Schema,
        items: &[Value],
        old: Option<&'o Value>,
        steps: &mut Steps,
    ) -> Self {
        let mut by_key = HashMap::new();
        let old = old.and_then(Value::as_array).filter(|_| schema.list_type == ListType::Map);
        if let Some(old) = old
            && steps.spend(key_steps(schema, items.len() + old.len()))
        {
            for item in old {
                by_key.entry(key_of(schema, item).to_string()).or_insert(item);
            }
        }
        Self(by_key)
    }

    /// The element that an element of the list replaces.
    pub(super) fn replaced_by(&self, schema: &Schema, item: &Value) -> Option<&'o Value> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&key_of(schema, item).to_string()).copied()
    }
}

/// The steps that it takes to read the keys of some elements.
fn key_steps(schema: &Schema, items: usize) -> usize {
    items.saturating_mul(schema.map_keys.len()) / SMALL_PER_STEP
}

fn key_of(schema: &Schema, item: &Value) -> Value {
    let keys = schema.map_keys.iter();
    let fields = keys.filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone())));
    Value::Object(fields.collect())
}

/// The second appearance of each element.
fn duplicates(elements: &[Value]) -> Vec<usize> {
    let mut seen = HashMap::new();
    let mut found = Vec::new();
    for (index, element) in elements.iter().enumerate() {
        let count = seen.entry(element.to_string()).or_insert(0);
        *count += 1;
        if *count == 2 {
            found.push(index);
        }
    }
    found
}
