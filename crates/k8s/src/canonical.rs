//! The form of a pod template in which equal bytes mean equal meaning (C41a).
//!
//! Keys are sorted; nulls and those empty objects that Go's types write although nothing is set are
//! dropped. Which ones these are is a list, not a rule: `emptyDir: {}` is a volume, `labelSelector: {}`
//! selects everything, and a field that we don't know may mean anything. Arrays stay as they are.

use serde_json::{Map, Value};

use crate::go_json;

/// Members that say nothing when they are empty objects: structs that Go writes although they are
/// unset, or that the API server fills in by default, and maps.
const EMPTY_SAYS_NOTHING: &[&str] = &[
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

/// The canonical text of a template.
pub fn canonical(template: &Value) -> String {
    go_json::encode(&reduced(template))
}

fn reduced(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(reduced).collect()),
        Value::Object(members) => Value::Object(
            members
                .iter()
                .map(|(key, member)| (key, reduced(member)))
                .filter(|(key, member)| !says_nothing(key, member))
                .map(|(key, member)| (key.clone(), member))
                .collect::<Map<_, _>>(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn says_nothing(key: &str, member: &Value) -> bool {
    match member {
        Value::Null => true,
        Value::Object(members) => members.is_empty() && EMPTY_SAYS_NOTHING.contains(&key),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(template: &str) -> String {
        canonical(&serde_json::from_str(template).unwrap())
    }

    /// C41: object key order, nulls, empty objects and `creationTimestamp: null` don't matter.
    #[test]
    fn what_older_and_newer_go_writes_of_one_template_is_equal() {
        let bare = of(r#"{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c"}]}}"#);
        for same in [
            r#"{"spec":{"containers":[{"name":"c"}]},"metadata":{"labels":{"a":"b"}}}"#,
            r#"{"metadata":{"creationTimestamp":null,"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","resources":{}}]}}"#,
            r#"{"metadata":{"labels":{"a":"b"},"annotations":{}},"spec":{"containers":[{"name":"c","resources":{"limits":{}}}],"securityContext":{},"affinity":{"nodeAffinity":{}}}}"#,
        ] {
            assert_eq!(of(same), bare, "{same}");
        }
        assert_eq!(
            of(r#"{"metadata":{"creationTimestamp":null},"spec":{}}"#),
            of(r#"{"spec":{}}"#)
        );
    }

    /// C41: array order does matter, and so does what only looks empty.
    #[test]
    fn templates_of_different_meaning_stay_different() {
        for (a, b) in [
            (r#"{"args":["x","y"]}"#, r#"{"args":["y","x"]}"#),
            (r#"{"volumes":[{"name":"v","emptyDir":{}}]}"#, r#"{"volumes":[{"name":"v"}]}"#),
            (r#"{"labelSelector":{}}"#, r#"{"labelSelector":null}"#),
            (r#"{"namespaceSelector":{}}"#, r#"{}"#),
            (r#"{"invented":{}}"#, r#"{}"#),
            (r#"{"tolerations":[{}]}"#, r#"{"tolerations":[]}"#),
            (r#"{"hostNetwork":false}"#, r#"{}"#),
            (r#"{"value":""}"#, r#"{}"#),
        ] {
            assert_ne!(of(a), of(b), "{a} and {b}");
        }
    }
}
