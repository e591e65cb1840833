//! The differences between two objects, field by field.

use everynode_core::api::POLICY_ANNOTATION;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::json_type::AnyValue;

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The path of the field, such as `spec.template.spec.containers[agent].image`.
    pub field: String,
    /// The old value; absent if the field is added.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AnyValue")]
    pub from: Option<Value>,
    /// The new value; absent if the field is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AnyValue")]
    pub to: Option<Value>,
}

/// Annotations that the API server or kubectl changes on every write.
const BOOKKEEPING: &[&str] = &[
    "deprecated.daemonset.template.generation",
    "kubectl.kubernetes.io/last-applied-configuration",
];

/// The differences in labels, annotations and the spec.
pub fn changes(old: &Value, new: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    for (path, pointer) in [
        ("metadata.labels", "/metadata/labels"),
        ("metadata.annotations", "/metadata/annotations"),
        ("spec", "/spec"),
    ] {
        let side = |object: &Value| {
            let mut side = object.pointer(pointer).cloned().unwrap_or(Value::Null);
            if let Some(fields) = side.as_object_mut() {
                fields.retain(|key, _| !BOOKKEEPING.contains(&key.as_str()));
            }
            side
        };
        compare(path, &side(old), &side(new), &mut changes);
    }
    changes
}

/// The differences between two pod templates of a DaemonSet.
pub(crate) fn template_changes(old: &Value, new: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    compare("spec.template", old, new, &mut changes);
    changes
}

fn compare(path: &str, old: &Value, new: &Value, changes: &mut Vec<Change>) {
    if old == new || (is_nothing(old) && is_nothing(new)) {
        return;
    }
    let before = changes.len();
    if let Some((old, new)) = policy(path, old).zip(policy(path, new)) {
        compare(path, &old, &new, changes);
    }
    // Else only comments or the form differ.
    if changes.len() > before {
        return;
    }
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            let removed = before.keys().filter(|key| !after.contains_key(*key));
            for key in after.keys().chain(removed) {
                let path = format!("{path}.{}", quoted(key));
                compare(&path, &old[key], &new[key], changes);
            }
        }
        (Value::Array(before), Value::Array(after)) if are_named(before) && are_named(after) => {
            let removed = before.iter().filter(|item| named(after, name(item)).is_none());
            for item in after.iter().chain(removed) {
                let path = format!("{path}[{}]", name(item));
                let side = |items| named(items, name(item)).unwrap_or(&Value::Null);
                compare(&path, side(before), side(after), changes);
            }
        }
        _ => changes.push(Change {
            field: path.to_owned(),
            from: Some(old.clone()).filter(|value| !value.is_null()),
            to: Some(new.clone()).filter(|value| !value.is_null()),
        }),
    }
}

/// The fields of the policy in an annotation.
fn policy(path: &str, text: &Value) -> Option<Value> {
    let is_policy = path.strip_prefix("metadata.annotations.")? == quoted(POLICY_ANNOTATION);
    let fields: Value = serde_saphyr::from_str(text.as_str().filter(|_| is_policy)?).ok()?;
    fields.is_object().then_some(fields)
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// A key with dots in it would read as a path.
fn quoted(key: &str) -> String {
    if key.contains('.') { format!("\"{key}\"") } else { key.to_owned() }
}

fn name(item: &Value) -> &str {
    item["name"].as_str().unwrap_or_default()
}

fn named<'a>(items: &'a [Value], wanted: &str) -> Option<&'a Value> {
    items.iter().find(|item| name(item) == wanted)
}

/// True if every item has a name, as containers, volumes and variables do.
fn are_named(items: &[Value]) -> bool {
    items.iter().all(|item| !name(item).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_change_has_the_path_of_the_field_that_differs() {
        let object = |image: &str, extra: Value| {
            json!({ "metadata": { "annotations": {
                    "a.b/c": image, "deprecated.daemonset.template.generation": image } },
                "spec": { "template": { "spec": { "securityContext": extra,
                    "containers": [{ "name": "agent", "image": image }, { "name": "side" }] } } } })
        };
        let found = changes(&object("v1", json!({})), &object("v2", Value::Null));
        let fields: Vec<&str> = found.iter().map(|change| change.field.as_str()).collect();
        assert_eq!(
            fields,
            ["metadata.annotations.\"a.b/c\"", "spec.template.spec.containers[agent].image"]
        );
        assert_eq!((&found[1].from, &found[1].to), (&Some(json!("v1")), &Some(json!("v2"))));
        assert_eq!(changes(&object("v1", json!({})), &object("v1", Value::Null)), []);
    }

    #[test]
    fn the_fields_of_a_policy_in_an_annotation_are_compared() {
        let object = |policy: &str| {
            let annotations = json!({ "everynode.dev/rollout-policy": policy });
            json!({ "metadata": { "annotations": annotations } })
        };
        let policy = "steps: [{name: canary, bake: 20s}]";
        let found = changes(&object(policy), &object("steps: [{name: canary, bake: 6s}]"));
        let field = "metadata.annotations.\"everynode.dev/rollout-policy\"";
        assert_eq!(found[0].field, format!("{field}.steps[canary].bake"));
        assert_eq!((&found[0].from, &found[0].to), (&Some(json!("20s")), &Some(json!("6s"))));
        let commented = format!("{policy} # slow");
        assert_eq!(changes(&object(policy), &object(&commented))[0].to, Some(commented.into()));
    }

    #[test]
    fn an_added_or_removed_subtree_is_one_change() {
        let spec = |value: Value| json!({ "spec": value });
        let found =
            changes(&spec(json!({ "a": { "b": 1 } })), &spec(json!({ "c": [{ "name": "x" }] })));
        let added =
            Change { field: "spec.c".into(), from: None, to: Some(json!([{ "name": "x" }])) };
        let gone = Change { field: "spec.a".into(), from: Some(json!({ "b": 1 })), to: None };
        assert_eq!(found, [added, gone]);
    }
}
