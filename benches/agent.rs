//! The pods that the benches create and replace.

use serde_json::{Value, json};

/// A typical log collector, which is ready as soon as it is scheduled and stops at once.
pub fn template(name: &str) -> Value {
    let lifecycle =
        "[{stage: pull, delay: 0s}, {stage: start, delay: 0s}, {stage: stop, delay: 0s}]";
    json!({
        "metadata": {
            "labels": {"name": name},
            "annotations": {"sandbox.everynode.dev/lifecycle": lifecycle},
        },
        "spec": {
            "tolerations": [{
                "key": "node-role.kubernetes.io/control-plane",
                "operator": "Exists",
                "effect": "NoSchedule",
            }],
            "containers": [{
                "name": "agent",
                "image": "quay.io/fluentd_elasticsearch/fluentd:v5.0.1",
                "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
                "volumeMounts": [{"name": "varlog", "mountPath": "/var/log"}],
            }],
            "terminationGracePeriodSeconds": 30,
            "volumes": [{"name": "varlog", "hostPath": {"path": "/var/log"}}],
        },
    })
}
