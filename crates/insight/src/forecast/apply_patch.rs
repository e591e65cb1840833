//! The patch that `kubectl apply` (client-side) would send.

use serde_json::{Map, Value, json};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Lists that are merged item by item, and the field that identifies an item, as the API types
/// declare them. Other lists are replaced as a whole.
const MERGE_KEYS: &[(&str, &str)] = &[
    ("containers", "name"),
    ("initContainers", "name"),
    ("volumes", "name"),
    ("env", "name"),
    ("volumeMounts", "mountPath"),
    ("volumeDevices", "devicePath"),
    ("ports", "containerPort"),
    ("imagePullSecrets", "name"),
    ("hostAliases", "ip"),
    ("topologySpreadConstraints", "topologyKey"),
];

/// The strategic merge patch that changes `live` to what `manifest` contains. Fields that an
/// earlier `kubectl apply` set and the manifest no longer contains are removed; fields that others
/// set stay.
pub fn apply_patch(live: &Value, manifest: &Value) -> Value {
    let mut patch = settable(manifest);
    let last = live["metadata"]["annotations"][LAST_APPLIED].as_str();
    let last: Option<Value> = last.and_then(|text| serde_json::from_str(text).ok());
    if let Some(last) = last {
        remove_missing(&settable(&last), &mut patch);
    }
    retain_keys(&mut patch);
    patch
}

/// The object without the fields that the API server or `kubectl apply` sets.
pub fn settable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"]
        {
            metadata.remove(field);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
    }
    object
}

/// Adds to the patch the removal of each field of `last` that the patch does not contain.
fn remove_missing(last: &Value, patch: &mut Value) {
    let (Some(last), Some(patch)) = (last.as_object(), patch.as_object_mut()) else { return };
    for (key, before) in last {
        match patch.get_mut(key) {
            None => {
                patch.insert(key.clone(), Value::Null);
            }
            Some(Value::Array(items)) => remove_missing_items(key, before, items),
            Some(after) => remove_missing(before, after),
        }
    }
}

fn remove_missing_items(list: &str, before: &Value, items: &mut Vec<Value>) {
    let Some((_, merge_key)) = MERGE_KEYS.iter().find(|(name, _)| *name == list) else { return };
    for old in before.as_array().into_iter().flatten() {
        match items.iter_mut().find(|item| item[merge_key] == old[merge_key]) {
            Some(item) => remove_missing(old, item),
            None => items.push(json!({ "$patch": "delete", *merge_key: old[merge_key] })),
        }
    }
}

/// Adds `$retainKeys` to each volume: a volume has one source, so a source of another kind replaces
/// the old one.
fn retain_keys(patch: &mut Value) {
    let volumes = patch.pointer_mut("/spec/template/spec/volumes").and_then(Value::as_array_mut);
    for volume in volumes.into_iter().flatten().filter_map(Value::as_object_mut) {
        if !volume.contains_key("$patch") {
            let keys: Vec<Value> = set_keys(volume).collect();
            volume.insert("$retainKeys".to_owned(), keys.into());
        }
    }
}

fn set_keys(fields: &Map<String, Value>) -> impl Iterator<Item = Value> {
    fields.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| Value::String(key.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(last: &Value) -> Value {
        json!({ "metadata": { "annotations": { LAST_APPLIED: last.to_string() } } })
    }

    fn manifest(template_spec: Value) -> Value {
        json!({ "spec": { "template": { "spec": template_spec } }, "status": { "x": 1 } })
    }

    #[test]
    fn fields_of_an_earlier_apply_are_removed_and_other_fields_stay() {
        let last = manifest(json!({
            "hostNetwork": true,
            "containers": [
                { "name": "a", "image": "v1", "env": [{ "name": "X" }, { "name": "Y" }] },
                { "name": "b" },
            ],
            "tolerations": [{ "key": "k" }],
        }));
        let new = manifest(json!({
            "containers": [{ "name": "a", "image": "v2", "env": [{ "name": "Y" }] }],
            "tolerations": [],
        }));
        let expected = json!({ "spec": { "template": { "spec": {
            "hostNetwork": null,
            "containers": [
                { "name": "a", "image": "v2",
                    "env": [{ "name": "Y" }, { "$patch": "delete", "name": "X" }] },
                { "$patch": "delete", "name": "b" },
            ],
            "tolerations": [],
        } } } });
        assert_eq!(apply_patch(&live(&last), &new), expected);
        assert_eq!(
            apply_patch(&json!({}), &new),
            settable(&new),
            "without an earlier apply nothing is removed"
        );
    }

    #[test]
    fn a_volume_source_of_another_kind_replaces_the_old_one() {
        let last = manifest(json!({ "volumes": [
                { "name": "v", "emptyDir": {} },
                { "name": "w", "emptyDir": {} },
            ] }));
        let new = manifest(json!({ "volumes": [{ "name": "v", "hostPath": { "path": "/x" } }] }));
        let patch = apply_patch(&live(&last), &new);
        let expected = json!([
            { "name": "v", "hostPath": { "path": "/x" }, "emptyDir": null,
                "$retainKeys": ["hostPath", "name"] },
            { "name": "w", "$patch": "delete" },
        ]);
        assert_eq!(patch["spec"]["template"]["spec"]["volumes"], expected);
    }
}
