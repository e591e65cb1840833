//! DaemonSets that the tests create, as JSON.

use serde_json::{Value, json};

/// An image that exists everywhere and does nothing.
pub const IMAGE: &str = "registry.k8s.io/pause:3.10";
/// Another one, to roll to.
pub const NEXT_IMAGE: &str = "registry.k8s.io/pause:3.9";

/// A DaemonSet whose pods have the label `app=NAME`, tolerating every taint that a test cluster has of its own.
pub fn daemon_set(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "main", "image": IMAGE}],
                },
            },
        },
    })
}

/// The manifest with a JSON merge patch over it.
pub fn with(mut manifest: Value, patch: Value) -> Value {
    merge(&mut manifest, patch);
    manifest
}

/// A patch of the DaemonSet that rolls its pods.
pub fn image_patch(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

/// Pods that never become ready: their image can't be pulled anywhere, and a lifecycle of the sandbox says the same of a pod that
/// runs.
pub fn never_ready_patch() -> Value {
    json!({"spec": {"template": {
        "metadata": {"annotations": {"sandbox.everynode.dev/lifecycle": "never-ready"}},
        "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause:non-existent"}]},
    }}})
}

fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().expect("it was made an object");
    for (key, value) in patch {
        if value.is_null() {
            target.remove(&key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}
