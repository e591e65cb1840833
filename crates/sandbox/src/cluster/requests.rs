//! The requests of pods whose containers are resized. Pure.

use everynode_k8s::fit::Usage;
use everynode_k8s::quantity::Quantity;

use crate::condition;
use crate::json::{Map, Value};
use crate::value::text;

/// True if the requests may be others than when the pod was created.
pub(super) fn may_have_changed(pod: &Value) -> bool {
    pod["metadata"]["generation"].as_i64().is_some_and(|generation| generation > 1)
}

/// The part of its node that a bound pod uses, as the scheduler counts: the largest of what is
/// requested, granted and in effect. Upstream: `PodRequests` with `UseStatusResources`.
pub(super) fn of_bound(pod: &Value) -> Usage {
    if !may_have_changed(pod) {
        return Usage::of_pod(pod);
    }
    let pending = condition::find(&pod["status"], "PodResizePending");
    let infeasible = pending.is_some_and(|condition| condition["reason"] == "Infeasible");
    let spec = with_resources(&pod["spec"], |list, container| {
        let status = status_of(pod, list, text(container, &["name"]))?;
        let is_init = list == "initContainers" && container["restartPolicy"] != "Always";
        if is_init || status.get("resources").is_none() {
            return None;
        }
        let given = larger(&status["allocatedResources"], &status["resources"]["requests"]);
        let requested = &container["resources"]["requests"];
        let requests = if infeasible { given } else { larger(&given, requested) };
        Some(with_requests(&container["resources"], requests))
    });
    Usage::of_spec(&spec)
}

/// The spec of a pod as its kubelet has granted it, by its status: without a resize that waits.
pub(super) fn granted_spec(pod: &Value) -> Value {
    if condition::find(&pod["status"], "PodResizePending").is_none() {
        return pod["spec"].clone();
    }
    with_resources(&pod["spec"], |list, container| {
        let status = status_of(pod, list, text(container, &["name"]))?;
        let requests = status["allocatedResources"].clone();
        status.get("resources").map(|resources| with_requests(resources, requests))
    })
}

/// A spec with other resources of its containers, by list and container. `None` leaves them.
pub(super) fn with_resources(
    spec: &Value,
    resources: impl Fn(&str, &Value) -> Option<Value>,
) -> Value {
    let mut spec = spec.clone();
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if let Some(resources) = resources(list, container) {
                container["resources"] = resources;
            }
        }
    }
    spec
}

/// Resources with other requests, which may be none.
pub(super) fn with_requests(resources: &Value, requests: Value) -> Value {
    let mut fields = resources.as_object().cloned().unwrap_or_default();
    if requests.is_null() {
        fields.remove("requests");
    } else {
        fields.insert("requests", requests);
    }
    Value::Object(fields)
}

/// The larger amount of each resource in either list; null if both have none.
pub(super) fn larger(one: &Value, other: &Value) -> Value {
    let mut amounts: Map = one.as_object().cloned().unwrap_or_default();
    for (name, amount) in other.as_object().into_iter().flatten() {
        let known = amounts.get(name).and_then(|known| Quantity::of_json(known).ok());
        if known.is_none_or(|known| Quantity::of_json(amount).is_ok_and(|it| it > known)) {
            amounts.insert(name.clone(), amount.clone());
        }
    }
    if amounts.is_empty() { Value::Null } else { Value::Object(amounts) }
}

fn status_of<'a>(pod: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    let field = if list == "containers" { "containerStatuses" } else { "initContainerStatuses" };
    let statuses = pod["status"][field].as_array().into_iter().flatten();
    statuses.into_iter().find(|status| status["name"] == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn pod(reason: &str) -> Value {
        json!({
            "metadata": {"generation": 2},
            "spec": {"containers": [{
                "name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
            }]},
            "status": {
                "conditions": [{"type": "PodResizePending", "reason": reason}],
                "containerStatuses": [{
                    "name": "c",
                    "allocatedResources": {"cpu": "500m", "memory": "2Gi"},
                    "resources": {"requests": {"cpu": "600m", "memory": "1Gi"}},
                }],
            },
        })
    }

    /// S21: a pod counts with the most of what it requests, was granted and has.
    #[test]
    fn a_pod_that_is_resized_counts_with_the_largest_requests() {
        let of = |reason| of_bound(&pod(reason)).requests;
        let amounts = |reason| [of(reason).amount("cpu"), of(reason).amount("memory") >> 20];
        assert_eq!(amounts("Deferred"), [1000, 2048]);
        assert_eq!(amounts("Infeasible"), [600, 2048]);
        let granted = granted_spec(&pod("Deferred"));
        let requests = &granted["containers"][0]["resources"]["requests"];
        assert_eq!(*requests, json!({"cpu": "500m", "memory": "2Gi"}));
    }
}
