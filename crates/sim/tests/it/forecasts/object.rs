//! Objects that the forecasts' clusters contain, and fields of such objects.

use everynode_core::api::Timestamp;
use everynode_sandbox::json::{Value, json};
use everynode_sim::workload::{NAMESPACE, manifest};

/// The name of the DaemonSet under test.
pub(crate) const NAME: &str = "a";

/// Returns a DaemonSet whose pods all take the same time to start and to stop.
pub(crate) fn base() -> Value {
    let mut ds = manifest(NAME, 1);
    let stages = "[{stage: pull, delay: 10ms, jitter: 0s}, \
                  {stage: start, delay: 10ms, jitter: 0s}, \
                  {stage: ready, delay: 3s, jitter: 0s}, \
                  {stage: stop, delay: 10ms, jitter: 0s}]";
    ds["spec"]["template"]["metadata"]["annotations"] =
        json!({ "sandbox.everynode.dev/lifecycle": stages });
    ds
}

/// Returns the ports of a container that uses a port of its node.
pub(crate) fn host_port() -> Value {
    json!([{ "containerPort": 80, "hostPort": 80 }])
}

/// Returns a foreign pod that uses resources and a port of its node.
pub(crate) fn foreign_pod(node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": format!("occupant-{node}"), "namespace": NAMESPACE },
        "spec": { "nodeName": node, "tolerations": [{ "operator": "Exists" }], "containers": [{
            "name": "c", "image": "image:1", "ports": host_port(),
            "resources": { "requests": { "cpu": "200m" } } }] },
    })
}

/// Returns when the pod was created, or when its deletion began. Objects record times in seconds.
/// Waves are further apart, because a pod takes longer than a second to become ready.
pub(crate) fn replaced_at(pod: &Value, is_new: bool) -> Timestamp {
    let metadata = &pod["metadata"];
    let grace = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    let (time, grace) = if is_new {
        (&metadata["creationTimestamp"], 0)
    } else {
        (&metadata["deletionTimestamp"], grace)
    };
    let time: jiff::Timestamp = text(time).parse().expect("the API writes RFC 3339");
    Timestamp(time.as_millisecond() - grace * 1000)
}

pub(crate) fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

pub(crate) fn name_of(object: &Value) -> String {
    text(&object["metadata"]["name"])
}

pub(crate) fn node_of(pod: &Value) -> String {
    let bound = text(&pod["spec"]["nodeName"]);
    if !bound.is_empty() {
        return bound;
    }
    let field = concat!(
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution",
        "/nodeSelectorTerms/0/matchFields/0/values/0"
    );
    text(pod.pointer(field).unwrap_or(&Value::Null))
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
