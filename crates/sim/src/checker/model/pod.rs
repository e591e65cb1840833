//! Pods.

use std::borrow::Cow;
use std::collections::BTreeMap;

use everynode_core::api::{CHANGING_ANNOTATION, HASH_LABEL, TEMPLATE_GENERATION_LABEL, Timestamp};
use everynode_sandbox::json::Value;

use super::config_map::named;
use super::metadata::{Metadata, text, time};

/// The text that kubelets put before the names of images without a registry.
const REGISTRY: &str = "docker.io/library/";

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) struct Pod {
    pub metadata: Metadata,
    /// `spec.nodeName`.
    pub node_name: Option<String>,
    /// The node to which the required node affinity pins the pod.
    pub pinned_to: Option<String>,
    pub status: PodStatus,
    /// True if the condition `Ready` is true.
    pub is_ready: bool,
    /// Since when the condition has been as it is.
    pub ready_since: Option<Timestamp>,
    /// The most restarts of a container.
    pub restarts: u64,
    /// True if the condition `PodScheduled` is false.
    pub is_unschedulable: bool,
    /// True if the phase is `Running`.
    pub is_running: bool,
    /// The change in place that is under way. Meanwhile the hash of the pod is that of the revision
    /// to which it is changed, as it counts as one of that (G56).
    pub change: Option<Change>,
    /// The names of the ConfigMaps that it names.
    pub config_maps: Vec<String>,
    /// By name, those of `spec.containers`.
    pub containers: BTreeMap<String, Container>,
    /// The answer of the kubelet to a resize, if it is pending, and since when it has been.
    pub pending_resize: Option<(String, Option<Timestamp>)>,
    /// True if a resize is in progress.
    pub is_resizing: bool,
}

/// A change of a pod in place (G56).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) struct Change {
    /// The hash of the revision to which the pod is changed.
    pub to: String,
    /// The label with the hash, which it still has.
    pub label: Option<String>,
    /// True if the pod does not say so, but a request without an answer may have changed it.
    pub is_assumed: bool,
}

/// A container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) struct Container {
    pub image: String,
    pub resources: Value,
    /// The state of the container by its kubelet, if it states any.
    pub runs: Option<Run>,
}

/// The state of a container by its kubelet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) struct Run {
    pub image: String,
    pub resources: Value,
}

/// The end of a pod, unless it can still run.
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
        let (metadata, change) = changed_metadata(object);
        let pending = condition("PodResizePending").filter(|it| it["status"] == "True");
        Self {
            metadata,
            change,
            config_maps: named(spec),
            containers: containers_of(object),
            pending_resize: pending.map(|pending| {
                (text(&pending["reason"]), time(&text(&pending["lastTransitionTime"])))
            }),
            is_resizing: condition("PodResizeInProgress").is_some_and(|it| it["status"] == "True"),
            is_running: status["phase"] == "Running",
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

    /// The pod while a request without an answer may have begun to change it to the revision with
    /// this hash (G56).
    pub(in crate::checker) fn assumed_to_change(&self, to: &str) -> Self {
        let mut pod = self.clone();
        let label = pod.metadata.labels.insert(HASH_LABEL.to_owned(), to.to_owned());
        pod.change = Some(Change { to: to.to_owned(), label, is_assumed: true });
        pod
    }

    /// The pod as it states itself.
    pub(in crate::checker) fn as_stated(&self) -> Cow<'_, Self> {
        match self.is_assumed_to_change() {
            true => Cow::Owned(Self { change: None, ..self.clone() }),
            false => Cow::Borrowed(self),
        }
    }

    /// True if only a request without an answer says that the pod is being changed.
    pub(in crate::checker) fn is_assumed_to_change(&self) -> bool {
        self.change.as_ref().is_some_and(|change| change.is_assumed)
    }

    /// The pod's node (C20).
    pub(in crate::checker) fn node(&self) -> Option<&str> {
        self.node_name.as_deref().or(self.pinned_to.as_deref())
    }

    /// When the pod was created, without fractions of a second.
    pub(in crate::checker) fn created(&self) -> Option<Timestamp> {
        time(&self.metadata.created)
    }

    /// True if the pod has ended.
    pub(in crate::checker) fn has_ended(&self) -> bool {
        self.status != PodStatus::Unfinished
    }

    /// The number in the label with the template generation.
    pub(in crate::checker) fn generation(&self) -> Option<i64> {
        if self.change.is_some() {
            return None;
        }
        self.metadata.labels.get(TEMPLATE_GENERATION_LABEL)?.parse().ok()
    }

    /// True if the pod has been ready for this number of seconds (C54). One that is being changed
    /// is not available (G56).
    pub(in crate::checker) fn is_available(&self, min_ready_seconds: i64, now: Timestamp) -> bool {
        let is_due = |since: Timestamp| since.0 + min_ready_seconds * 1000 <= now.0;
        self.change.is_none()
            && self.is_ready
            && (min_ready_seconds == 0 || self.ready_since.is_some_and(is_due))
    }
}

/// The metadata of a pod with the hash of the revision of which it counts, and its change.
fn changed_metadata(object: &Value) -> (Metadata, Option<Change>) {
    let mut metadata = Metadata::parse(object);
    let changing = object["metadata"]["annotations"][CHANGING_ANNOTATION].as_str();
    let stated = changing.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(to) = stated.and_then(|stated| Some(stated["to"].as_str()?.to_owned())) else {
        return (metadata, None);
    };
    let label = metadata.labels.insert(HASH_LABEL.to_owned(), to.clone());
    (metadata, Some(Change { to, label, is_assumed: false }))
}

fn containers_of(object: &Value) -> BTreeMap<String, Container> {
    let all =
        |of: &'static str, field: &'static str| object[of][field].as_array().into_iter().flatten();
    let run = |name: &Value| {
        let mut statuses = all("status", "containerStatuses");
        let found = statuses.find(|status| status["name"] == *name)?;
        Some(Run {
            image: text(&found["image"]).trim_start_matches(REGISTRY).to_owned(),
            resources: found["resources"].clone(),
        })
    };
    all("spec", "containers")
        .map(|container| {
            let (image, resources) = (text(&container["image"]), container["resources"].clone());
            let made = Container { image, resources, runs: run(&container["name"]) };
            (text(&container["name"]), made)
        })
        .collect()
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
