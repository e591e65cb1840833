//! Conditions in an object's status, as every writer of one sets them.

use everynode_core::time::Timestamp;
use serde_json::{Value, json};

use crate::clock::rfc3339;
use crate::object::Object;

/// Replaces the condition of the same type, or adds it.
pub(crate) fn set(status: &mut Value, condition: Value) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    if let Some(conditions) = status["conditions"].as_array_mut() {
        match conditions.iter_mut().find(|known| known["type"] == condition["type"]) {
            Some(known) => *known = condition,
            None => conditions.push(condition),
        }
    }
}

/// The status of a pod that is to be deleted for something that is no fault of its own.
pub(crate) fn disrupted(pod: &Object, reason: &str, message: &str, now: Timestamp) -> Value {
    let generation = pod.value()["metadata"].get("generation").cloned();
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "observedGeneration": generation.unwrap_or(json!(1)),
        "lastProbeTime": null,
        "lastTransitionTime": rfc3339(now),
    });
    let mut status = pod.value()["status"].clone();
    set(&mut status, condition);
    status
}
