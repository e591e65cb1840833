//! The requests of `kubectl apply`: the object with itself as an annotation, and for an object that
//! exists a patch.

use super::PatchType;
use super::json::merge_patch;
use super::strategic::diff;
use crate::json::{Value, json};
use crate::kind::Kind;
use crate::kind::rules::go_json;
use crate::schema;
use crate::status::Status;

/// The annotation from which an apply learns the fields that the one before has set.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The last applied object, if the annotation is there.
pub(crate) fn last_applied(object: &Value) -> Option<&str> {
    let text = object["metadata"]["annotations"][LAST_APPLIED].as_str()?;
    (!text.is_empty()).then_some(text)
}

/// The object with the annotation of an apply.
pub fn with_last_applied(mut object: Value) -> Value {
    let Some(metadata) = object["metadata"].as_object_mut() else { return object };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if !annotations.is_object() {
        *annotations = json!({});
    }
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.remove(LAST_APPLIED);
    }
    let text = go_json(&object) + "\n";
    object["metadata"]["annotations"][LAST_APPLIED] = text.into();
    object
}

/// The patch that changes `current` to what `manifest` states (S5): fields that the last apply has
/// set and that the manifest no longer contains are removed, those that others have set stay. It is
/// a strategic merge patch, and for custom kinds a merge patch.
///
/// # Errors
///
/// 400 if the annotation of the last apply is not JSON.
pub fn of_apply(
    kind: &Kind,
    current: &Value,
    manifest: &Value,
) -> Result<(PatchType, Value), Status> {
    let last: Option<Value> = last_applied(current)
        .map(|text| {
            serde_json::from_str(text).map_err(|error| {
                Status::bad_request(format!("metadata.annotations[{LAST_APPLIED}]: {error}"))
            })
        })
        .transpose()?;
    let root = schema::root_of(kind).map(schema::StructId::get);
    let (patch_type, manifest) = match root {
        Some(_) => (PatchType::StrategicMerge, manifest.clone()),
        // As kubectl, which computes no nulls of such manifests.
        None => (PatchType::Merge, merge_patch(&json!({}), manifest)?),
    };
    let (Value::Object(current), Value::Object(manifest)) = (current, &manifest) else {
        return Err(Status::bad_request("is no object"));
    };
    let last = last.as_ref().and_then(Value::as_object);
    Ok((patch_type, Value::Object(diff(last, manifest, current, root))))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::kind::named;
    use crate::kind::test_kinds::{ALL, DAEMON_SET};
    use crate::patch::apply;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Case {
        name: String,
        kind: String,
        last: Option<Value>,
        current: Value,
        manifest: Value,
        patch: Value,
        expected: Value,
    }

    fn applied(live: &Value, last: Option<&Value>) -> Value {
        let mut live = live.clone();
        if let Some(last) = last {
            live["metadata"]["annotations"][LAST_APPLIED] = last.to_string().into();
        }
        live
    }

    /// S5: the cases of apply.yaml.
    #[test]
    fn applies_send_the_patches_of_kubectl() {
        let cases: Vec<Case> = serde_saphyr::from_str(include_str!("apply.yaml")).expect("cases");
        for Case { name, kind, last, current, manifest, patch, expected } in cases {
            let custom = named("example.com", "Thing", "things", "thing");
            let kind = ALL.iter().find(|row| row.kind == kind).map_or(&custom, |row| *row);
            let live = applied(&current, last.as_ref());
            let (form, sent) = of_apply(kind, &live, &manifest).expect(&name);
            assert_eq!(sent, patch, "{name}");
            let result = apply(kind, form, &live, &sent).expect(&name);
            assert_eq!(result, applied(&expected, last.as_ref()), "{name}");
        }
    }

    #[test]
    fn an_annotation_that_is_no_json_is_refused() {
        let live = json!({"metadata": {"annotations": {LAST_APPLIED: "{"}}});
        let status = of_apply(&DAEMON_SET, &live, &json!({})).expect_err("an error");
        assert!(status.message.contains(LAST_APPLIED), "{}", status.message);
    }
}
