//! Applies of kubectl that continue client-side applies: the annotation with the last applied
//! object tells which fields kubectl owns already, and follows server-side applies.

use crate::json::{Map, Value};

use super::compare::compare;
use super::field_set::field_set;
use super::set::Set;
use super::update::Writing;
use super::validate::validate;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Maximum size of all annotations of an object.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// The fields of the last client-side apply that still have the applied values; `None` if there was
/// none, or one of another version.
pub(super) fn owned(writing: &Writing<'_>, live: &Value) -> Option<Set> {
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    if last["apiVersion"] != writing.api_version {
        return None;
    }
    validate(writing.schema, writing.root, &last).ok()?;
    let comparison = compare(writing.schema, writing.root, &last, live);
    let fields = field_set(writing.schema, writing.root, &last);
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
    if annotation(object.as_ref().unwrap_or(live)).is_none() {
        return;
    }
    let mut last = applied.clone();
    let annotations = last["metadata"]["annotations"].take();
    let Value::Object(mut rest) = annotations else {
        return set(object, live, &without_annotations(last));
    };
    rest.remove(ANNOTATION);
    last["metadata"]["annotations"] = Value::Object(rest);
    set(object, live, &last);
}

fn without_annotations(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("annotations");
    }
    object
}

/// JSON as Go's encoder writes it, with a line feed. Unlike Go's `any`, numbers are not floats.
fn go_json(value: &Value) -> String {
    let mut text = value.to_string();
    for (character, escaped) in [
        ('&', "\\u0026"),
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ] {
        if text.contains(character) {
            text = text.replace(character, escaped);
        }
    }
    text + "\n"
}

fn set(object: &mut Option<Value>, live: &Value, last: &Value) {
    let text = go_json(last);
    let current = annotation(object.as_ref().unwrap_or(live));
    if current == Some(text.as_str()) {
        return;
    }
    let object = object.get_or_insert_with(|| live.clone());
    let Some(annotations) = object["metadata"]["annotations"].as_object_mut() else { return };
    annotations.insert(ANNOTATION.to_owned(), text.into());
    if size(annotations) > ANNOTATIONS_BYTES_MAX {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    let text = object["metadata"]["annotations"][ANNOTATION].as_str()?;
    (!text.is_empty()).then_some(text)
}

fn size(annotations: &Map) -> usize {
    annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
}
