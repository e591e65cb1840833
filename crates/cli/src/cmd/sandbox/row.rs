//! Nodes and pods as far as the sandbox prints them, read from the API server's JSON. Complete
//! objects would take most of the time that a large sandbox needs to settle.

use serde::Deserialize;

/// The fields of a node that are printed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Node")]
pub(crate) struct NodeRow {
    pub name: String,
    /// The zone's name; `-` if there is none.
    pub zone: String,
    pub ready: bool,
}

/// The fields of a pod that are printed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Pod")]
pub(crate) struct PodRow {
    /// `NAMESPACE/NAME`
    pub key: String,
    /// The node's name; empty until the pod is bound.
    pub node: String,
    /// The state that kubectl would show, in one phrase.
    pub state: String,
    pub ready: bool,
}

#[derive(Deserialize)]
struct Node {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Pod {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    labels: Labels,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Labels {
    #[serde(rename = "topology.kubernetes.io/zone")]
    zone: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    conditions: Vec<Condition>,
    container_statuses: Vec<Container>,
}

#[derive(Deserialize)]
struct Condition {
    r#type: String,
    status: String,
    message: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Container {
    state: State,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct State {
    waiting: Option<Waiting>,
}

#[derive(Deserialize)]
struct Waiting {
    reason: Option<String>,
}

impl From<Node> for NodeRow {
    fn from(node: Node) -> Self {
        Self {
            name: node.metadata.name.unwrap_or_default(),
            zone: node.metadata.labels.zone.unwrap_or_else(|| "-".to_owned()),
            ready: node.status.is_ready(),
        }
    }
}

impl From<Pod> for PodRow {
    fn from(pod: Pod) -> Self {
        let known = |name: &Option<String>| name.as_deref().unwrap_or("?").to_owned();
        Self {
            key: format!("{}/{}", known(&pod.metadata.namespace), known(&pod.metadata.name)),
            state: pod.state(),
            ready: pod.status.is_ready(),
            node: pod.spec.node_name,
        }
    }
}

impl Pod {
    fn state(&self) -> String {
        if self.metadata.deletion_timestamp.is_some() {
            return "Terminating".into();
        }
        let containers = self.status.container_statuses.iter();
        let mut waiting = containers.filter_map(|container| container.state.waiting.as_ref());
        if let Some(reason) = waiting.find_map(|waiting| waiting.reason.clone()) {
            return reason;
        }
        let phase = self.status.phase.clone().unwrap_or_else(|| "Pending".into());
        let mut conditions = self.status.conditions.iter();
        let unscheduled =
            conditions.find(|found| found.r#type == "PodScheduled" && found.status == "False");
        match unscheduled.and_then(|found| found.message.as_ref()) {
            Some(message) => format!("{phase}, {message}"),
            None => phase,
        }
    }
}

impl Status {
    fn is_ready(&self) -> bool {
        self.conditions.iter().any(|found| found.r#type == "Ready" && found.status == "True")
    }
}

#[cfg(test)]
mod tests {
    use everynode_insight::snapshot::ZONE_LABEL;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_zone_is_that_of_the_label() {
        let labels = json!({ZONE_LABEL: "a"});
        let read: Labels = serde_json::from_value(labels).unwrap();
        assert_eq!(read.zone.as_deref(), Some("a"));
    }

    #[test]
    fn a_row_has_an_objects_location_and_readiness() {
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let node = |metadata: Value, status: &Value| -> NodeRow {
            serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
        };
        let labels = json!({"topology.kubernetes.io/zone": "a"});
        let row = |name: &str, zone: &str, ready| NodeRow {
            name: name.to_owned(),
            zone: zone.to_owned(),
            ready,
        };
        assert_eq!(node(json!({"name": "n", "labels": labels}), &ready), row("n", "a", true));
        assert_eq!(node(json!({"name": "n"}), &json!({})), row("n", "-", false));
        let pod = json!({
            "metadata": {"name": "p", "namespace": "ns"},
            "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": "Running", "conditions": ready["conditions"]},
        });
        let expected = PodRow {
            key: "ns/p".to_owned(),
            node: "n".to_owned(),
            state: "Running".to_owned(),
            ready: true,
        };
        assert_eq!(serde_json::from_value::<PodRow>(pod).unwrap(), expected);
    }

    #[test]
    fn a_pods_state_names_what_it_waits_for() {
        let pod = |metadata: Value, status: Value| -> PodRow {
            serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
        };
        let named = json!({"name": "p"});
        for (metadata, status, expected) in [
            (named.clone(), json!({}), "Pending"),
            (named.clone(), json!({"phase": "Running"}), "Running"),
            (
                named.clone(),
                json!({"phase": "Running", "containerStatuses": [{"name": "c", "image": "",
                "imageID": "", "ready": false, "restartCount": 1,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
                "CrashLoopBackOff",
            ),
            (
                named,
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled",
                "status": "False", "message": "0/1 nodes are available"}]}),
                "Pending, 0/1 nodes are available",
            ),
            (
                json!({"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}),
                json!({"phase": "Running"}),
                "Terminating",
            ),
        ] {
            assert_eq!(pod(metadata, status).state, expected);
        }
    }
}
