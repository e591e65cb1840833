//! The pod that a DaemonSet creates (C14, C30, C31).

use everynode_core::api::{HASH_LABEL, TEMPLATE_GENERATION_LABEL};
use everynode_reference::tolerated_by_default;
use everynode_sandbox::json::{Value, json};

use super::daemon_set::DaemonSet;
use super::metadata::Metadata;
use super::revision::Revision;
use super::template::reduced;

/// The component that binds a created pod to its node (C31).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) enum BoundBy {
    /// The scheduler, to the node to which the required node affinity pins the pod.
    #[default]
    Scheduler,
    /// The controller: the pod is created with `spec.nodeName`.
    Controller,
}

/// The pod that a DaemonSet creates on a node, without its name (C14, C30, C31). It is made from
/// the template of `older`, if that governs the node, and then has no template generation (G16).
pub(in crate::checker) fn expected_pod(
    ds: &DaemonSet,
    older: Option<&Revision>,
    node: &str,
    hash: &str,
    bound_by: BoundBy,
) -> Value {
    let template = older.map_or(&ds.meaning, |older| &older.template);
    let Metadata { name, uid, .. } = &ds.metadata;
    let mut labels = template["metadata"]["labels"].clone();
    if !labels.is_object() {
        labels = json!({});
    }
    labels[HASH_LABEL] = hash.into();
    if let Some(generation) = ds.template_generation.filter(|_| older.is_none()) {
        labels[TEMPLATE_GENERATION_LABEL] = generation.to_string().into();
    }
    let mut metadata = json!({
        "generateName": format!("{name}-"),
        "labels": labels,
        "ownerReferences": [{
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": name,
            "uid": uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }],
    });
    for key in ["annotations", "finalizers"] {
        if let Some(member) = template["metadata"].get(key) {
            metadata[key] = member.clone();
        }
    }
    let mut spec = template["spec"].clone();
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for (key, effect) in tolerated_by_default(spec["hostNetwork"] == true) {
        let effect = format!("{effect:?}");
        let default = json!({"key": key, "operator": "Exists", "effect": effect});
        let text =
            |toleration: &Value, key: &str| toleration[key].as_str().unwrap_or_default().to_owned();
        let is_there = |toleration: &Value| {
            let mut keys = ["key", "operator", "value", "effect"].into_iter();
            keys.all(|key| text(toleration, key) == text(&default, key))
        };
        match tolerations.iter_mut().find(|toleration| is_there(toleration)) {
            Some(toleration) => *toleration = default,
            None => tolerations.push(default),
        }
    }
    spec["tolerations"] = tolerations.into();
    match bound_by {
        BoundBy::Scheduler => pin(&mut spec, node),
        BoundBy::Controller => spec["nodeName"] = node.into(),
    }
    reduced(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
}

/// Replaces the required node affinity by one for a node. Other affinity stays.
fn pin(spec: &mut Value, node: &str) {
    if !spec["affinity"].is_object() {
        spec["affinity"] = json!({});
    }
    if !spec["affinity"]["nodeAffinity"].is_object() {
        spec["affinity"]["nodeAffinity"] = json!({});
    }
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C14, C30: a pod has its template, hash, owner, default tolerations and node.
    #[test]
    fn a_pod_is_made_from_its_template() {
        let ds = DaemonSet::parse(&json!({
            "metadata": {
                "name": "d",
                "uid": "u",
                "annotations": {"deprecated.daemonset.template.generation": "4"},
            },
            "spec": {"template": {
                "metadata": {"labels": {"app": "d"}, "annotations": {"a": "b"}},
                "spec": {"containers": [{"image": "i"}], "tolerations": [{
                    "key": "node.kubernetes.io/not-ready", "operator": "Exists",
                    "effect": "NoExecute", "tolerationSeconds": 3,
                }]},
            }},
        }));
        let pod = expected_pod(&ds, None, "n", "h", BoundBy::Scheduler);
        let labels = json!({"app": "d", HASH_LABEL: "h", TEMPLATE_GENERATION_LABEL: "4"});
        assert_eq!(pod["metadata"]["labels"], labels);
        assert_eq!(pod["metadata"]["annotations"], json!({"a": "b"}));
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(pod["spec"]["containers"], json!([{"image": "i"}]));
        assert_eq!(pod["spec"]["tolerations"].as_array().map(Vec::len), Some(6));
        assert_eq!(pod["spec"]["tolerations"][0].get("tolerationSeconds"), None);
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let terms = &pod["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"];
        assert_eq!(terms[0]["matchFields"][0]["values"], json!(["n"]));
    }

    /// C31: a pod that the controller binds has a node name, and the affinity of its template.
    #[test]
    fn a_bound_pod_has_a_node_name() {
        let affinity = json!({"nodeAffinity": {"preferred": [1]}});
        let ds = DaemonSet::parse(&json!({
            "metadata": {"name": "d", "uid": "u"},
            "spec": {"template": {"spec": {"affinity": affinity}}},
        }));
        let pod = expected_pod(&ds, None, "n", "h", BoundBy::Controller);
        assert_eq!(pod["spec"]["nodeName"], "n");
        assert_eq!(pod["spec"]["affinity"], affinity);
    }
}
