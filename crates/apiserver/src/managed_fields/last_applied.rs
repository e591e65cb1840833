//! Applies of kubectl that continue client-side applies: the annotation with the last applied
//! object tells which fields kubectl owns already, and follows server-side applies.

use crate::json::{Map, Value};
use crate::kind::rules::go_json;
use crate::patch::{LAST_APPLIED, last_applied};

use super::compare::compare;
use super::field_set::field_set;
use super::set::Set;
use super::update::Writing;
use super::validate::validate;

/// Maximum size of all annotations of an object.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// The fields of the last client-side apply that still have the applied values; `None` if there was
/// none, or one of another version.
pub(super) fn owned(writing: &Writing<'_>, live: &Value) -> Option<Set> {
    let last: Value = serde_json::from_str(last_applied(live)?).ok()?;
    if last["apiVersion"] != writing.api_version {
        return None;
    }
    validate(writing.root, &last).ok()?;
    let comparison = compare(writing.root, &last, live);
    let fields = field_set(writing.root, &last);
    Some(
        fields
            .difference(&comparison.modified)
            .difference(&comparison.added)
            .difference(&comparison.removed),
    )
}

/// Sets the annotation to the applied object if the object has one. `object` is the object after
/// the apply, or `None` if it is still `live`.
pub(super) fn refresh(object: &mut Option<Value>, live: &Value, applied: &Value) {
    if last_applied(object.as_ref().unwrap_or(live)).is_none() {
        return;
    }
    let mut last = applied.clone();
    if let Some(metadata) = last["metadata"].as_object_mut() {
        match metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            Some(annotations) => annotations.remove(LAST_APPLIED),
            None => metadata.remove("annotations"),
        };
    }
    set(object, live, &last);
}

fn set(object: &mut Option<Value>, live: &Value, last: &Value) {
    let text = go_json(last) + "\n";
    let current = last_applied(object.as_ref().unwrap_or(live));
    if current == Some(text.as_str()) {
        return;
    }
    let object = object.get_or_insert_with(|| live.clone());
    let Some(annotations) = object["metadata"]["annotations"].as_object_mut() else { return };
    annotations.insert(LAST_APPLIED.to_owned(), text.into());
    if size(annotations) > ANNOTATIONS_BYTES_MAX {
        annotations.remove(LAST_APPLIED);
    }
}

fn size(annotations: &Map) -> usize {
    annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
}
