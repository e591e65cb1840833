//! Pods.

use everynode_core::api::Timestamp;
use everynode_sandbox::json::Value;

use super::metadata::{GENERATION_LABEL, Metadata, text, time};

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) struct Pod {
    pub metadata: Metadata,
    /// `spec.nodeName`.
    pub node_name: Option<String>,
    /// The node to which the required node affinity pins the pod.
    pub pinned_to: Option<String>,
    pub status: PodStatus,
    /// Whether the condition `Ready` is true.
    pub is_ready: bool,
    /// Since when the condition has been as it is.
    pub ready_since: Option<Timestamp>,
    /// The most restarts of a container.
    pub restarts: u64,
    /// Whether the condition `PodScheduled` is false.
    pub is_unschedulable: bool,
}

/// Whether a pod can still run, and how it ended if it cannot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) enum PodStatus {
    #[default]
    Unfinished,
    Failed,
    Succeeded,
}

impl Pod {
    pub(in crate::checker) fn parse(object: &Value) -> Self {
        let (spec, status) = (&object["spec"], &object["status"]);
        let required =
            &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let fields = required["nodeSelectorTerms"].as_array().into_iter().flatten();
        let fields = fields.flat_map(|term| term["matchFields"].as_array().into_iter().flatten());
        let pinned_to = fields.into_iter().find_map(|field| {
            let is_name = field["key"] == "metadata.name" && field["operator"] == "In";
            let [only] = &field["values"].as_array().filter(|_| is_name)?[..] else { return None };
            only.as_str().map(ToOwned::to_owned)
        });
        let condition = |of: &str| {
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            conditions.find(|condition| condition["type"] == of)
        };
        let ready = condition("Ready");
        let containers = status["containerStatuses"].as_array().into_iter().flatten();
        let restarts = containers.filter_map(|container| container["restartCount"].as_u64());
        Self {
            metadata: Metadata::parse(object),
            node_name: Some(text(&spec["nodeName"])).filter(|name| !name.is_empty()),
            pinned_to,
            status: match status["phase"].as_str() {
                Some("Failed") => PodStatus::Failed,
                Some("Succeeded") => PodStatus::Succeeded,
                _ => PodStatus::Unfinished,
            },
            is_ready: ready.is_some_and(|condition| condition["status"] == "True"),
            ready_since: ready
                .and_then(|condition| time(condition["lastTransitionTime"].as_str()?)),
            restarts: restarts.max().unwrap_or_default(),
            is_unschedulable: condition("PodScheduled")
                .is_some_and(|condition| condition["status"] == "False"),
        }
    }

    /// The pod's node (C20).
    pub(in crate::checker) fn node(&self) -> Option<&str> {
        self.node_name.as_deref().or(self.pinned_to.as_deref())
    }

    /// When the pod was created, without fractions of a second.
    pub(in crate::checker) fn created(&self) -> Option<Timestamp> {
        time(&self.metadata.created)
    }

    /// Whether the pod has ended.
    pub(in crate::checker) fn has_ended(&self) -> bool {
        self.status != PodStatus::Unfinished
    }

    /// The number in the label with the template generation.
    pub(in crate::checker) fn generation(&self) -> Option<i64> {
        self.metadata.labels.get(GENERATION_LABEL)?.parse().ok()
    }

    /// Whether the pod has been ready for this number of seconds (C54).
    pub(in crate::checker) fn is_available(&self, min_ready_seconds: i64, now: Timestamp) -> bool {
        let is_due = |since: Timestamp| since.0 + min_ready_seconds * 1000 <= now.0;
        self.is_ready && (min_ready_seconds == 0 || self.ready_since.is_some_and(is_due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everynode_sandbox::json::json;

    /// C20: a pod's node is the one that it runs on, else the one that it is pinned to.
    #[test]
    fn a_pod_has_a_node() {
        let required = json!({"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["pinned"]},
        ]}]});
        let affinity = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
        }});
        let pinned = Pod::parse(&json!({"spec": {"affinity": affinity}}));
        assert_eq!(pinned.node(), Some("pinned"));
        let bound = Pod::parse(&json!({"spec": {"affinity": affinity, "nodeName": "n"}}));
        assert_eq!(bound.node(), Some("n"));
        assert_eq!(Pod::parse(&json!({})).node(), None);
    }

    /// C54: a pod is available once it has been ready for minReadySeconds.
    #[test]
    fn a_pod_becomes_available() {
        let pod = Pod::parse(&json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T00:00:10Z"},
        ]}}));
        let since = 1_772_323_210_000;
        assert_eq!(pod.ready_since, Some(Timestamp(since)));
        assert!(pod.is_available(0, Timestamp(0)));
        assert!(!pod.is_available(5, Timestamp(since + 4_999)));
        assert!(pod.is_available(5, Timestamp(since + 5_000)));
    }
}
