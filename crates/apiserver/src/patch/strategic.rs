//! Strategic merge patch: a merge patch that depends on the types. Marked lists are merged element
//! by element, and directives in the patch (`$patch`, `$retainKeys`, `$setElementOrder/LIST`,
//! `$deleteFromPrimitiveList/LIST`) express changes that JSON can't. Semantics, order and errors
//! are those of upstream's `strategicpatch` package. Every list operation takes at most n log n
//! steps, so that a hostile patch can't block the store.

mod diff;
mod list;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::json::{Map, SmolStr, Value};

use super::{failed, go_text};
use crate::schema::{Field, MergeStrategy, Struct};
use crate::status::{Reason, Status};
use crate::value::json_type;

pub(super) use diff::diff;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

type Fields = Map;

/// An error that prevents a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
enum MergeError {
    /// A malformed directive: 400.
    Format(&'static str),
    /// An error for which upstream gives no reason: 422.
    Rejected,
    /// An error that upstream reports as an internal one: 500, without a reason.
    Internal(String),
    /// More list elements are merged than one patch may: 413.
    TooExpensive,
}

/// How many list elements a patch may still merge. Elements that have the same key are merged one
/// after the other, each time with the lists in them.
struct Left(usize);

/// The number of list elements that a patch may merge.
const ELEMENTS_MAX: usize = 500_000;

impl Left {
    fn spend(&mut self, elements: usize) -> Result<(), MergeError> {
        self.0 = self.0.checked_sub(elements).ok_or(MergeError::TooExpensive)?;
        Ok(())
    }
}

/// Applies a strategic merge patch to an object of the type `schema`.
pub(super) fn strategic_merge_patch(
    schema: &'static Struct,
    current: &Value,
    patch: &Value,
) -> Result<Value, Status> {
    let Value::Object(fields) = current else {
        return Err(failed());
    };
    match patch {
        Value::Null => Ok(current.clone()),
        Value::Object(patch) => {
            let merged =
                merge_object(fields.clone(), patch.clone(), Some(schema), &mut Left(ELEMENTS_MAX));
            Ok(Value::Object(merged.map_err(Status::from)?))
        }
        _ => Err(Status::bad_request(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_type(patch)
        ))),
    }
}

fn merge_object(
    mut original: Fields,
    mut patch: Fields,
    schema: Option<&'static Struct>,
    left: &mut Left,
) -> Result<Fields, MergeError> {
    if patch.contains_key(PATCH) {
        return replaced_or_deleted(patch);
    }
    retain_keys(&mut original, &mut patch)?;
    let field_of = |name: &str| schema.and_then(|schema| schema.field(name));
    for (list, order) in element_orders(&mut patch)? {
        let field = field_of(&list);
        list::merge_in_order(&mut original, &mut patch, (&list, &order), field, left)?;
    }
    for (key, value) in patch {
        match key.strip_prefix(DELETE_FROM_PRIMITIVE_LIST) {
            Some(rest) => {
                let list = rest.strip_prefix('/').ok_or(BAD_PRIMITIVE_LIST)?;
                delete_from_list(&mut original, list, value, field_of(list), left)?;
            }
            None => {
                let field = field_of(&key);
                merge_field(&mut original, &key, value, field, left)?;
            }
        }
    }
    Ok(original)
}

const BAD_PRIMITIVE_LIST: MergeError = MergeError::Format("invalid patch format of primitive list");
const BAD_RETAIN_KEYS: MergeError = MergeError::Format("invalid patch format of retainKeys");
const BAD_ELEMENT_ORDER: MergeError =
    MergeError::Format("invalid patch format of setElementOrder list");

/// `$patch` in an object: `replace` replaces it with the rest of the patch, `delete` empties
/// it. As upstream, `merge` is not supported here.
fn replaced_or_deleted(mut patch: Fields) -> Result<Fields, MergeError> {
    match patch.get(PATCH).and_then(Value::as_str) {
        Some("replace") => {
            patch.remove(PATCH);
            Ok(stored_fields(patch))
        }
        Some("delete") => Ok(Fields::new()),
        _ => Err(unknown_patch_type(patch)),
    }
}

fn unknown_patch_type(patch: Fields) -> MergeError {
    let directive = patch.get(PATCH).map(go_text::value).unwrap_or_default();
    let map = go_text::value(&Value::Object(patch));
    MergeError::Internal(format!("unknown patch type: {directive} in map: {map}"))
}

/// `$retainKeys`: removes all fields that it does not list. It must list all fields that the patch
/// sets.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<(), MergeError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let retained = retained.as_array().ok_or(BAD_RETAIN_KEYS)?;
    let retained: BTreeSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let is_directive = |key: &str| {
        key.starts_with(DELETE_FROM_PRIMITIVE_LIST) || key.starts_with(SET_ELEMENT_ORDER)
    };
    for (key, value) in patch.iter() {
        if !value.is_null() && !is_directive(key) && !retained.contains(key.as_str()) {
            return Err(BAD_RETAIN_KEYS);
        }
    }
    original.retain(|key, _| retained.contains(key.as_str()));
    Ok(())
}

/// Removes the `$setElementOrder/LIST` directives from the patch and returns the lists with their
/// orders.
fn element_orders(patch: &mut Fields) -> Result<Vec<(String, Vec<Value>)>, MergeError> {
    let directives: Vec<SmolStr> =
        patch.keys().filter(|key| key.starts_with(SET_ELEMENT_ORDER)).cloned().collect();
    let mut orders = Vec::with_capacity(directives.len());
    for directive in directives {
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order.into_vec(),
            other => return Err(bad_type(LIST_TYPE, &other.unwrap_or_default())),
        };
        let list =
            directive.strip_prefix(SET_ELEMENT_ORDER).and_then(|rest| rest.strip_prefix('/'));
        orders.push((list.ok_or(BAD_ELEMENT_ORDER)?.to_string(), order));
    }
    Ok(orders)
}

fn merge_field(
    original: &mut Fields,
    key: &str,
    value: Value,
    field: Option<&'static Field>,
    left: &mut Left,
) -> Result<(), MergeError> {
    let strategy = field.map_or(MergeStrategy::Plain, |field| field.merge);
    let merged = match (original.remove(key), value) {
        (_, Value::Null) => None,
        (Some(Value::Object(old)), Value::Object(new)) if strategy != MergeStrategy::Replace => {
            let schema = field.and_then(Field::element);
            Some(Value::Object(merge_object(old, new, schema, left)?))
        }
        (Some(Value::Array(old)), Value::Array(new)) if strategy.merges_lists() => {
            Some(list::merge(old.into_vec(), new.into_vec(), field, left)?.into())
        }
        (Some(Value::Array(_)), new @ Value::Array(_)) => Some(stored_value(new)),
        (_, new) => without_directives(new).map(stored_value),
    };
    if let Some(merged) = merged {
        original.insert(key, merged);
    }
    Ok(())
}

/// `$deleteFromPrimitiveList/LIST`, for a list with any strategy.
fn delete_from_list(
    original: &mut Fields,
    list: &str,
    value: Value,
    field: Option<&'static Field>,
    left: &mut Left,
) -> Result<(), MergeError> {
    match (original.remove(list), value) {
        (_, Value::Null) => (),
        (Some(Value::Array(old)), Value::Array(deleted)) => {
            let kept = list::delete(old.into_vec(), deleted.into_vec(), field, left)?;
            original.insert(list.to_string(), kept.into());
        }
        (_, value) if !value.is_array() => return Err(BAD_PRIMITIVE_LIST),
        (Some(other), _) => {
            original.insert(list.to_string(), other);
        }
        (None, _) => (),
    }
    Ok(())
}

/// A value without its directives, for a field that does not exist yet: objects with `$patch` are
/// left out.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(PATCH) => None,
        Value::Object(fields) => Some(Value::Object(
            fields
                .into_iter()
                .filter_map(|(key, value)| Some((key, without_directives(value)?)))
                .collect(),
        )),
        Value::Array(items) => {
            Some(Value::Array(items.into_iter().filter_map(without_directives).collect()))
        }
        scalar => Some(scalar),
    }
}

/// A value of the patch as it is stored: upstream's typed decoding drops nulls and unknown
/// directives.
fn stored_value(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(stored_fields(fields)),
        Value::Array(items) => Value::Array(items.into_iter().map(stored_value).collect()),
        scalar => scalar,
    }
}

fn stored_fields(fields: Fields) -> Fields {
    fields
        .into_iter()
        .filter(|(key, value)| !value.is_null() && !is_directive(key))
        .map(|(key, value)| (key, stored_value(value)))
        .collect()
}

fn is_directive(key: &str) -> bool {
    let names_a_list = |prefix| key.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
    key == PATCH
        || key == RETAIN_KEYS
        || names_a_list(SET_ELEMENT_ORDER)
        || names_a_list(DELETE_FROM_PRIMITIVE_LIST)
}

const LIST_TYPE: &str = "[]interface {}";
const MAP_TYPE: &str = "map[string]interface {}";

fn bad_type(expected: &str, actual: &Value) -> MergeError {
    MergeError::Internal(format!(
        "expected a {expected}, but received a {}",
        go_text::type_name(actual)
    ))
}

impl From<MergeError> for Status {
    fn from(error: MergeError) -> Self {
        match error {
            MergeError::Format(message) => Self::bad_request(message),
            MergeError::Rejected => failed(),
            MergeError::Internal(message) => Self::new(Reason::Unknown, message),
            MergeError::TooExpensive => Self::new(
                Reason::RequestEntityTooLarge,
                format!("the patch merges more than {ELEMENTS_MAX} list elements"),
            ),
        }
    }
}
