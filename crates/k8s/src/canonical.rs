//! The canonical form of a pod template: equal texts have equal meaning (C41).
//!
//! Keys are sorted. Nulls are dropped, and so are the empty objects that Go writes for unset
//! fields. Those are listed by name, because other empty objects have a meaning: `emptyDir: {}` is
//! a volume, `labelSelector: {}` selects everything, and so may a field that this program does not
//! know. Arrays are unchanged.

use serde_json::{Map, Value};

use crate::go_json;

/// Fields whose empty object has no meaning: maps, and structs that Go or the API server writes
/// even if they are unset.
const MEANINGLESS_IF_EMPTY: &[&str] = &[
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

/// The canonical text of a template (C41).
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
                .filter(|(key, member)| !is_meaningless(key, member))
                .map(|(key, member)| (key.clone(), member))
                .collect::<Map<_, _>>(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn is_meaningless(key: &str, member: &Value) -> bool {
    match member {
        Value::Null => true,
        Value::Object(members) => members.is_empty() && MEANINGLESS_IF_EMPTY.contains(&key),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(template: &str) -> String {
        canonical(&serde_json::from_str(template).unwrap())
    }

    /// C41: the order of keys, nulls, meaningless empty objects and `creationTimestamp: null` make
    /// no difference.
    #[test]
    fn versions_of_go_write_equal_templates() {
        let bare = of(r#"{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c"}]}}"#);
        for same in [
            r#"{"spec":{"containers":[{"name":"c"}]},"metadata":{"labels":{"a":"b"}}}"#,
            r#"{"metadata":{"creationTimestamp":null,"labels":{"a":"b"}},
                "spec":{"containers":[{"name":"c","resources":{}}]}}"#,
            r#"{"metadata":{"labels":{"a":"b"},"annotations":{}},
                "spec":{"containers":[{"name":"c","resources":{"limits":{}}}],
                "securityContext":{},"affinity":{"nodeAffinity":{}}}}"#,
        ] {
            assert_eq!(of(same), bare, "{same}");
        }
        assert_eq!(
            of(r#"{"metadata":{"creationTimestamp":null},"spec":{}}"#),
            of(r#"{"spec":{}}"#)
        );
    }

    /// C41: the order of arrays makes a difference, and so do empty objects with a meaning.
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
