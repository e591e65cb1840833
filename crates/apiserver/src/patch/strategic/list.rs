//! Lists in a strategic merge patch: merging by key, and the order of the result.

use std::collections::{BTreeMap, BTreeSet};

use crate::json::Value;

use super::{Fields, LIST_TYPE, Left, MAP_TYPE, MergeError, PATCH};
use super::{bad_type, merge_object, stored_value, unknown_patch_type, without_directives};
use crate::patch::go_text;
use crate::schema::Field;

/// Identifies an element: the value of its merge key, or the scalar itself.
type Identity = String;

/// The position of each element in a list; of duplicates, the first.
type Positions = BTreeMap<Identity, usize>;

/// Merges a list of the patch into an existing list.
pub(super) fn merge(
    original: Vec<Value>,
    patch: Vec<Value>,
    field: Option<&'static Field>,
    left: &mut Left,
) -> Result<Vec<Value>, MergeError> {
    left.spend(original.len() + patch.len())?;
    let key = field.and_then(|field| field.merge.key());
    match elements(&original, &patch)? {
        Elements::None => Ok(original),
        Elements::Scalars => merge_scalars(original, patch, key),
        Elements::Objects => merge_objects(original, patch, key, field, left),
    }
}

/// Removes the elements of `deleted` from a list of scalars. For lists of objects, upstream merges
/// them instead.
pub(super) fn delete(
    original: Vec<Value>,
    deleted: Vec<Value>,
    field: Option<&'static Field>,
    left: &mut Left,
) -> Result<Vec<Value>, MergeError> {
    match elements(&original, &deleted)? {
        Elements::None => Ok(original),
        Elements::Scalars => {
            let deleted = positions(&deleted, None)?;
            Ok(original.into_iter().filter(|item| !deleted.contains_key(&text(item))).collect())
        }
        Elements::Objects => merge(original, deleted, field, left),
    }
}

/// Merges a list with the order of a `$setElementOrder`. Elements that the order does not list keep
/// their positions relative to the others as far as possible.
pub(super) fn merge_in_order(
    original: &mut Fields,
    patch: &mut Fields,
    (list, order): (&str, &[Value]),
    field: Option<&'static Field>,
    left: &mut Left,
) -> Result<(), MergeError> {
    let key = field.and_then(|field| field.merge.key());
    let live = take_list(original, list)?.filter(|live| !live.is_empty());
    let changes = take_list(patch, list)?.filter(|changes| !changes.is_empty());
    follows_order(changes.as_deref().unwrap_or_default(), order, key)?;
    elements(live.as_deref().unwrap_or_default(), changes.as_deref().unwrap_or_default())?;
    let live_positions = positions(live.as_deref().unwrap_or_default(), key)?;
    let merges = field.is_some_and(|field| field.merge.merges_lists());
    let merged = match (live, changes) {
        (None, None) => return Ok(()),
        (Some(live), None) => live,
        (None, Some(changes)) => {
            changes.into_iter().filter_map(without_directives).map(stored_value).collect()
        }
        (Some(live), Some(changes)) if merges => merge(live, changes, field, left)?,
        (Some(_), Some(changes)) => changes.into_iter().map(stored_value).collect(),
    };
    let merged = in_order(merged, &positions(order, key)?, &live_positions, key)?;
    original.insert(list.to_string(), merged.into());
    Ok(())
}

fn merge_scalars(
    original: Vec<Value>,
    patch: Vec<Value>,
    key: Option<&str>,
) -> Result<Vec<Value>, MergeError> {
    let live = positions(&original, key)?;
    let patch_positions = positions(&patch, key)?;
    let mut seen = BTreeSet::new();
    let merged = original.into_iter().chain(patch).filter(|item| seen.insert(text(item))).collect();
    in_order(merged, &patch_positions, &live, key)
}

fn merge_objects(
    original: Vec<Value>,
    patch: Vec<Value>,
    key: Option<&str>,
    field: Option<&'static Field>,
    left: &mut Left,
) -> Result<Vec<Value>, MergeError> {
    let key = key.ok_or_else(|| {
        MergeError::Internal("cannot merge lists without merge key for struct".to_string())
    })?;
    let (mut merged, patch) = apply_element_directives(original, patch, key)?;
    let live = positions(&merged, Some(key))?;
    let patch_positions = positions(&patch, Some(key))?;
    let mut places = live.clone();
    for item in patch {
        let next = merged.len();
        let position = *places.entry(identity(&item, Some(key))?).or_insert(next);
        if position == next {
            merged.push(stored_value(item));
        } else if let (Value::Object(old), Value::Object(new)) = (merged[position].take(), item) {
            let schema = field.and_then(Field::element);
            merged[position] = Value::Object(merge_object(old, new, schema, left)?);
        }
    }
    in_order(merged, &patch_positions, &live, Some(key))
}

/// Applies elements with `$patch`: `delete` removes the elements with the same key, `replace` (in
/// any element) the whole list. Returns the rest of the list and of the patch.
fn apply_element_directives(
    original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), MergeError> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut deleted = BTreeSet::new();
    let mut replace = false;
    for item in patch {
        let Some(directive) = item.get(PATCH) else {
            rest.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                deleted.insert(identity(&item, Some(key))?);
            }
            Some("replace") => replace = true,
            Some("merge") => {
                let message = "merging lists cannot yet be specified in the patch";
                return Err(MergeError::Internal(message.to_string()));
            }
            _ => return Err(unknown_patch_type(item.as_object().cloned().unwrap_or_default())),
        }
    }
    if replace {
        return Ok((rest.into_iter().map(stored_value).collect(), Vec::new()));
    }
    let mut left = Vec::with_capacity(original.len());
    for item in original {
        if !deleted.contains(&identity(&item, Some(key))?) {
            left.push(item);
        }
    }
    Ok((left, rest))
}

/// Checks that the order lists all elements of the patch, and that they occur in that order.
fn follows_order(changes: &[Value], order: &[Value], key: Option<&str>) -> Result<(), MergeError> {
    if order.is_empty() {
        return Ok(());
    }
    let mut patch_positions = order.iter();
    for item in changes.iter().filter(|item| item.get(PATCH).is_none()) {
        let wanted = identity(item, key)?;
        loop {
            let Some(next) = patch_positions.next() else {
                return Err(MergeError::Internal(format!(
                    "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                    go_text::list(changes),
                    go_text::list(order)
                )));
            };
            if identity(next, key)? == wanted {
                break;
            }
        }
    }
    Ok(())
}

/// Sorts the merged elements: those in the patch in its order, the others in the order of the
/// existing list, each before the first element that it preceded.
fn in_order(
    merged: Vec<Value>,
    patch_positions: &Positions,
    live: &Positions,
    key: Option<&str>,
) -> Result<Vec<Value>, MergeError> {
    let mut patched = Vec::new();
    let mut server_only = Vec::new();
    for item in merged {
        let identity = identity(&item, key)?;
        let live_position = live.get(&identity).copied();
        match patch_positions.get(&identity) {
            Some(&position) => patched.push((position, live_position, item)),
            None => server_only.push((live_position.unwrap_or(usize::MAX), live_position, item)),
        }
    }
    patched.sort_by_key(|(position, ..)| *position);
    server_only.sort_by_key(|(position, ..)| *position);
    let mut ordered = Vec::with_capacity(patched.len() + server_only.len());
    let mut server_only = server_only.into_iter().peekable();
    for (_, live_position, item) in patched {
        let precedes = |other: &(usize, Option<usize>, Value)| {
            other.1.zip(live_position).is_some_and(|(other, this)| other < this)
        };
        while let Some((.., before)) = server_only.next_if(precedes) {
            ordered.push(before);
        }
        ordered.push(item);
    }
    ordered.extend(server_only.map(|(.., item)| item));
    Ok(ordered)
}

enum Elements {
    None,
    Scalars,
    Objects,
}

/// The type of the elements of both lists; an error if it is not the same for all.
fn elements(original: &[Value], patch: &[Value]) -> Result<Elements, MergeError> {
    let mut items = original.iter().chain(patch);
    let Some(first) = items.next() else {
        return Ok(Elements::None);
    };
    if first.is_array() {
        return Err(MergeError::Rejected);
    }
    let type_name = go_text::type_name(first);
    if items.any(|item| go_text::type_name(item) != type_name) {
        return Err(MergeError::Internal(format!(
            "list element types are not identical: [{} {}]",
            go_text::list(original),
            go_text::list(patch)
        )));
    }
    Ok(if first.is_object() { Elements::Objects } else { Elements::Scalars })
}

fn take_list(fields: &mut Fields, list: &str) -> Result<Option<Vec<Value>>, MergeError> {
    match fields.get(list) {
        None => Ok(None),
        Some(Value::Array(_)) => match fields.remove(list) {
            Some(Value::Array(items)) => Ok(Some(items.into_vec())),
            _ => Ok(None),
        },
        Some(other) => Err(bad_type(LIST_TYPE, other)),
    }
}

fn positions(list: &[Value], key: Option<&str>) -> Result<Positions, MergeError> {
    let mut positions = Positions::new();
    for (position, item) in list.iter().enumerate() {
        positions.entry(identity(item, key)?).or_insert(position);
    }
    Ok(positions)
}

fn identity(item: &Value, key: Option<&str>) -> Result<Identity, MergeError> {
    let Some(key) = key else {
        return Ok(text(item));
    };
    match item {
        Value::Object(fields) => fields.get(key).map(text).ok_or_else(|| {
            MergeError::Internal(format!(
                "map: {} does not contain declared merge key: {key}",
                go_text::value(item)
            ))
        }),
        other => Err(bad_type(MAP_TYPE, other)),
    }
}

fn text(value: &Value) -> Identity {
    value.to_string()
}
