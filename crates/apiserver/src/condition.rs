//! Conditions in the status of objects.

use everynode_core::api::Timestamp;

use crate::clock::rfc3339;
use crate::json::{Value, json};
use crate::value::{array, string};

/// The condition of a type.
pub fn find<'a>(status: &'a Value, of_type: &str) -> Option<&'a Value> {
    array(status, "/conditions").iter().find(|condition| condition["type"] == of_type)
}

/// True if the condition of a type is.
pub fn is_true(status: &Value, of_type: &str) -> bool {
    find(status, of_type).is_some_and(|condition| condition["status"] == "True")
}

/// Replaces the condition of the same type, or adds it.
pub fn set(status: &mut Value, condition: Value) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    if let Some(conditions) = status["conditions"].as_array_mut() {
        match conditions.iter_mut().find(|other| other["type"] == condition["type"]) {
            Some(other) => *other = condition,
            None => conditions.push(condition),
        }
    }
}

/// Sets a condition whose time is that of its last transition: the time of the former one if that
/// has the same status.
pub fn transition(status: &mut Value, mut condition: Value, now: Timestamp) {
    let former = find(status, string(&condition, "/type"));
    condition["lastTransitionTime"] = since(former, string(&condition, "/status"), now);
    set(status, condition);
}

/// The time at which a condition got its status: that of the former one if it has the same, or now.
pub fn since(former: Option<&Value>, status: &str, now: Timestamp) -> Value {
    let same = former.filter(|former| former["status"] == status);
    let time = same.and_then(|former| former.get("lastTransitionTime")).cloned();
    time.unwrap_or_else(|| rfc3339(now).into())
}
