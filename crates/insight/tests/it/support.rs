//! Builds snapshots for tests.

use everynode_core::api::{DaemonSetKey, Timestamp};
use everynode_insight::snapshot::{ObjectKind, Snapshot};
use serde_json::{Value, json};

/// 2026-01-01T01:00:00Z, an hour after everything was created.
pub(crate) const NOW: Timestamp = Timestamp(1_767_229_200_000);
const CREATED: &str = "2026-01-01T00:00:00Z";

pub(crate) fn key() -> DaemonSetKey {
    DaemonSetKey::new("infra", "agent")
}

pub(crate) struct Fixture {
    pub snapshot: Snapshot,
}

impl Fixture {
    /// Healthy nodes, and no DaemonSet.
    pub(crate) fn with_nodes(count: usize) -> Self {
        let mut fixture = Self { snapshot: Snapshot::default() };
        for number in 1..=count {
            fixture.add(ObjectKind::Node, &node(&name_of_node(number)));
        }
        fixture
    }

    pub(crate) fn add(&mut self, kind: ObjectKind, object: &Value) {
        self.snapshot.add(kind, object.to_string().as_bytes());
        assert_eq!(self.snapshot.problems, [""; 0]);
    }

    /// Adds a DaemonSet whose pods have been ready on these nodes for an hour.
    pub(crate) fn run(&mut self, daemon_set: &Value, nodes: impl IntoIterator<Item = usize>) {
        self.add(ObjectKind::DaemonSet, daemon_set);
        self.add(ObjectKind::ControllerRevision, &revision(daemon_set, "old", 1));
        for number in nodes {
            self.add(ObjectKind::Pod, &ready_pod(&name_of_node(number), "old"));
        }
    }
}

pub(crate) fn name_of_node(number: usize) -> String {
    format!("node-{number:02}")
}

pub(crate) fn node(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "status": {
            "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "10" },
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    })
}

pub(crate) fn with(mut object: Value, change: impl FnOnce(&mut Value)) -> Value {
    change(&mut object);
    object
}

pub(crate) fn daemon_set(image: &str) -> Value {
    json!({
        "metadata": { "name": "agent", "namespace": "infra", "uid": "ds", "generation": 1,
            "resourceVersion": "10" },
        "spec": {
            "selector": { "matchLabels": { "app": "agent" } },
            "template": {
                "metadata": { "labels": { "app": "agent" } },
                "spec": {
                    "containers": [{ "name": "agent", "image": image,
                        "readinessProbe": { "tcpSocket": { "port": 1 } } }],
                    "priorityClassName": "system-node-critical",
                },
            },
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 } },
        },
        "status": { "observedGeneration": 1 },
    })
}

fn owned(name: &str, hash: &str) -> Value {
    json!({
        "name": name, "namespace": "infra", "uid": name, "creationTimestamp": CREATED,
        "resourceVersion": "9",
        "labels": { "app": "agent", "controller-revision-hash": hash },
        "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent",
            "uid": "ds", "controller": true }],
    })
}

pub(crate) fn revision(daemon_set: &Value, hash: &str, number: i64) -> Value {
    let mut template = daemon_set["spec"]["template"].clone();
    template["$patch"] = "replace".into();
    json!({ "metadata": owned(&format!("agent-{hash}"), hash), "revision": number,
        "data": { "spec": { "template": template } } })
}

/// A pod that became ready after eight seconds.
pub(crate) fn ready_pod(node: &str, hash: &str) -> Value {
    let ready_at = "2026-01-01T00:00:08Z";
    let conditions = json!([{ "type": "Ready", "status": "True", "lastTransitionTime": ready_at }]);
    pod(
        node,
        hash,
        json!({ "phase": "Running", "conditions": conditions,
        "containerStatuses": [{ "name": "agent", "ready": true, "state": { "running": {} } }] }),
    )
}

pub(crate) fn pod(node: &str, hash: &str, status: Value) -> Value {
    json!({ "metadata": owned(&format!("agent-{node}"), hash),
        "spec": { "nodeName": node, "containers": [{ "name": "agent" }] }, "status": status })
}

pub(crate) fn waiting_pod(node: &str, hash: &str, reason: &str, message: &str) -> Value {
    pod(
        node,
        hash,
        json!({ "phase": "Running", "containerStatuses": [{
        "name": "agent", "ready": false, "restartCount": 7,
        "state": { "waiting": { "reason": reason, "message": message } },
        "lastState": { "terminated": { "reason": "Error", "exitCode": 1 } } }] }),
    )
}
