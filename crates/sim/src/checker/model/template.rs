//! Pod templates: when two of them mean the same, and the pod that one makes (C30, C41).

use serde_json::{Map, Value, json};

use super::metadata::{GENERATION_LABEL, HASH_LABEL};
use super::placement::default_tolerations;
use super::{DaemonSet, metadata};

/// Empty objects with these names are those of unset fields. Any other empty object has a meaning,
/// such as `emptyDir: {}`.
const UNSET_IF_EMPTY: [&str; 15] = [
    "affinity",
    "annotations",
    "dnsConfig",
    "labels",
    "lifecycle",
    "limits",
    "metadata",
    "nodeAffinity",
    "nodeSelector",
    "podAffinity",
    "podAntiAffinity",
    "requests",
    "resources",
    "securityContext",
    "status",
];

/// The JSON without what has no meaning: nulls and the empty objects of unset fields (C41).
pub(in crate::checker) fn reduced(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(key, member)| (key.clone(), reduced(member)));
            let is_set = |(key, member): &(String, Value)| {
                let is_empty = member.as_object().is_some_and(Map::is_empty);
                !member.is_null() && !(is_empty && UNSET_IF_EMPTY.contains(&key.as_str()))
            };
            Value::Object(members.filter(is_set).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(reduced).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Whether JSON that a replica has written is the stored one. Stored bytes that are not UTF-8 reach
/// a replica as U+FFFD, but the store has the text without the fault (C1).
pub(in crate::checker) fn is_same(written: &Value, stored: &Value) -> bool {
    match (written, stored) {
        (Value::Object(written), Value::Object(stored)) => {
            written.len() == stored.len()
                && written.iter().all(|(key, member)| {
                    stored.get(key).is_some_and(|stored| is_same(member, stored))
                })
        }
        (Value::Array(written), Value::Array(stored)) => {
            written.len() == stored.len() && written.iter().zip(stored).all(|(a, b)| is_same(a, b))
        }
        (Value::String(written), Value::String(stored)) => {
            written == stored
                || written.chars().count() == stored.chars().count()
                    && written.chars().zip(stored.chars()).all(|(a, b)| a == b || a == '\u{fffd}')
        }
        _ => written == stored,
    }
}

/// The pod that a DaemonSet creates on a node, without its name (C14, C30).
pub(in crate::checker) fn expected_pod(ds: &DaemonSet, node: &str, hash: &str) -> Value {
    let template = &ds.template;
    let metadata::Metadata { name, uid, .. } = &ds.metadata;
    let mut labels = template["metadata"]["labels"].clone();
    if !labels.is_object() {
        labels = json!({});
    }
    labels[HASH_LABEL] = hash.into();
    if let Some(generation) = ds.template_generation {
        labels[GENERATION_LABEL] = generation.to_string().into();
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
    for default in default_tolerations(spec["hostNetwork"] == true) {
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
    if !spec["affinity"].is_object() {
        spec["affinity"] = json!({});
    }
    if !spec["affinity"]["nodeAffinity"].is_object() {
        spec["affinity"]["nodeAffinity"] = json!({});
    }
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    reduced(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C41: nulls and unset fields have no meaning; other empty objects and arrays have one.
    #[test]
    fn a_template_is_reduced_to_its_meaning() {
        let template = json!({
            "metadata": {"creationTimestamp": null, "annotations": {}},
            "spec": {"resources": {"limits": {}}, "emptyDir": {}, "tolerations": []},
        });
        assert_eq!(reduced(&template), json!({"spec": {"emptyDir": {}, "tolerations": []}}));
    }

    /// C1: bytes that are not UTF-8 are written as U+FFFD.
    #[test]
    fn invalid_bytes_are_the_same_text() {
        let stored = json!({"image": ["image:1"]});
        assert!(is_same(&json!({"image": ["\u{fffd}mage:1"]}), &stored));
        assert!(!is_same(&json!({"image": ["\u{fffd}mage:2"]}), &stored));
        assert!(!is_same(&json!({"image": ["image:1"], "x": 1}), &stored));
    }

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
        let pod = expected_pod(&ds, "n", "h");
        let labels = json!({"app": "d", HASH_LABEL: "h", GENERATION_LABEL: "4"});
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
}
