//! Objects as `kubectl get -o yaml` prints them: with fields that a server has set, and that no
//! server takes from a manifest.

use crate::json::Value;

/// The fields of the metadata that a server sets.
const METADATA: [&str; 8] = [
    "resourceVersion",
    "uid",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// The kinds whose objects their controller creates anew.
const CREATED_BY_CONTROLLERS: [&str; 5] =
    ["Pod", "ControllerRevision", "ReplicaSet", "EndpointSlice", "Job"];

/// The controller of an exported object which that controller creates anew, such as `DaemonSet
/// agent` for a pod.
pub(super) fn controller(object: &Value) -> Option<String> {
    let kind = object["kind"].as_str()?;
    if !is_exported(object) || !CREATED_BY_CONTROLLERS.contains(&kind) {
        return None;
    }
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    Some(format!("{} {}", owner["kind"].as_str()?, owner["name"].as_str()?))
}

/// Removes the fields that a server has set. An exported object also loses its status, and the
/// references to owners, which have other UIDs here: the garbage collector would delete it. Returns
/// the names of the fields that had values.
pub(super) fn leave_out(object: &mut Value) -> Vec<&'static str> {
    let mut left_out = Vec::new();
    let is_exported = is_exported(object);
    // A node's status is part of the node that is to be simulated.
    let is_node = object["kind"] == "Node";
    let mut remove = |object: &mut Value, field: &'static str| {
        let removed = object.as_object_mut().and_then(|fields| fields.remove(field));
        if removed.is_some_and(|value| !is_nothing(&value)) {
            left_out.push(field);
        }
    };
    let metadata = &mut object["metadata"];
    for field in METADATA {
        remove(metadata, field);
    }
    if is_exported {
        remove(metadata, "ownerReferences");
    }
    if is_exported && !is_node {
        remove(object, "status");
    }
    left_out
}

/// True if a server has stored the object.
fn is_exported(object: &Value) -> bool {
    object["metadata"]["uid"].is_string()
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(crate::json::Map::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn fields_that_a_server_sets_are_left_out() {
        let mut exported = json!({"kind": "DaemonSet", "metadata": {"name": "a", "uid": "u",
            "resourceVersion": "5", "creationTimestamp": null, "labels": {"a": "b"},
            "ownerReferences": [{"kind": "Agent", "name": "x", "controller": true}]},
            "spec": {"x": 1}, "status": {"numberReady": 3}});
        assert_eq!(controller(&exported), None);
        let left_out = leave_out(&mut exported);
        assert_eq!(left_out, ["resourceVersion", "uid", "ownerReferences", "status"]);
        let metadata = json!({"name": "a", "labels": {"a": "b"}});
        let kept = json!({"kind": "DaemonSet", "metadata": metadata, "spec": {"x": 1}});
        assert_eq!(exported, kept);
        let mut node = json!({"kind": "Node", "metadata": {}, "status": {"capacity": {}}});
        assert_eq!(leave_out(&mut node), [""; 0]);
        assert!(node["status"].is_object());
    }

    #[test]
    fn exported_pods_of_controllers_are_named() {
        let owner = json!([{"kind": "DaemonSet", "name": "a", "controller": true}]);
        let mut pod = json!({"kind": "Pod",
            "metadata": {"name": "a-1", "uid": "u", "ownerReferences": owner}});
        assert_eq!(controller(&pod).as_deref(), Some("DaemonSet a"));
        pod["metadata"]["uid"] = Value::Null;
        assert_eq!(controller(&pod), None);
    }
}
