//! Conditions in the status of objects.

use everynode_core::api::Timestamp;

use crate::clock::rfc3339;
use crate::json::{Value, json};
use crate::object::Object;
use crate::value::{array, string};

/// Replaces the condition of the same type, or adds it.
pub(crate) fn set(status: &mut Value, condition: Value) {
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
pub(crate) fn transition(status: &mut Value, mut condition: Value, now: Timestamp) {
    let mut known = array(status, "/conditions").iter();
    let former = known.find(|former| former["type"] == condition["type"]);
    condition["lastTransitionTime"] = since(former, string(&condition, "/status"), now);
    set(status, condition);
}

/// The time at which a condition got its status: that of the former one if it has the same, or now.
pub(crate) fn since(former: Option<&Value>, status: &str, now: Timestamp) -> Value {
    let same = former.filter(|former| former["status"] == status);
    let time = same.and_then(|former| former.get("lastTransitionTime")).cloned();
    time.unwrap_or_else(|| rfc3339(now).into())
}

/// The status of a pod with the condition DisruptionTarget, because it is about to be deleted by
/// the control plane.
pub(crate) fn disrupted(pod: &Object, reason: &str, message: &str, now: Timestamp) -> Value {
    let mut status = pod.value()["status"].clone();
    set(&mut status, disruption(pod.value(), reason, message, now));
    status
}

/// The condition DisruptionTarget of a pod.
pub(crate) fn disruption(pod: &Value, reason: &str, message: &str, now: Timestamp) -> Value {
    let generation = pod["metadata"].get("generation").cloned();
    json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "observedGeneration": generation.unwrap_or(json!(1)),
        "lastProbeTime": null,
        "lastTransitionTime": rfc3339(now),
    })
}
