//! Evictions from nodes that are down, which pods of a DaemonSet do not have.

use serde_json::Value;

/// The taints of nodes that are down. The controller adds tolerations of them without an end to
/// every pod (C14).
const DOWN: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// The rule.
pub(crate) const NOT_EVICTED: &str = "tolerationSeconds for not-ready and unreachable has no \
                                      effect: the pods of a DaemonSet tolerate these taints for \
                                      ever, and are not evicted from a node that is down";

/// True if the spec of a pod template says after how many seconds its pods are to leave a node
/// that is down.
pub(crate) fn asks_for_eviction(spec: &Value) -> bool {
    let mut tolerations = spec["tolerations"].as_array().into_iter().flatten();
    tolerations.any(|toleration| {
        let key = toleration["key"].as_str().unwrap_or_default();
        DOWN.contains(&key) && !toleration["tolerationSeconds"].is_null()
    })
}
