//! Pod templates: when two of them mean the same (C41).

use everynode_sandbox::json::{Map, SmolStr, Value};

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
            let is_set = |(key, member): &(SmolStr, Value)| {
                let is_empty = member.as_object().is_some_and(Map::is_empty);
                !(member.is_null() || is_empty && UNSET_IF_EMPTY.contains(&key.as_str()))
            };
            Value::Object(members.filter(is_set).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(reduced).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// True if JSON that a replica has written is the stored one. Stored bytes that are not UTF-8 reach
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

#[cfg(test)]
mod tests {
    use everynode_sandbox::json::json;

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
}
