//! Conditions in the status of objects, and the one of pods that are about to be deleted.

use everynode_core::api::Timestamp;

use crate::clock::rfc3339;
use crate::json::{Value, json};
use crate::object::Object;

pub(crate) use everynode_apiserver::condition::{find, is_true, set, since, transition};

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
