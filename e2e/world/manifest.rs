//! The DaemonSets that tests create, as JSON.

use serde_json::{Value, json};

/// An image that is available everywhere and does nothing.
pub const IMAGE: &str = "registry.k8s.io/pause:3.10";
/// Another image, for rollouts.
pub const NEXT_IMAGE: &str = "registry.k8s.io/pause:3.9";

/// A DaemonSet whose pods have the label `app=NAME` and tolerate every taint that the nodes of a
/// test cluster have initially.
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

/// The manifest with a JSON merge patch applied.
pub fn with(mut manifest: Value, patch: Value) -> Value {
    merge(&mut manifest, patch);
    manifest
}

/// A patch that changes the image of the DaemonSet's pods.
pub fn image_patch(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

/// A patch whose pods never become ready: no registry has their image, and in a sandbox their
/// lifecycle never reports readiness.
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
