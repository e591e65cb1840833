//! The state of a pod's resize in its kubelet, and the texts about it (S22). Pure.

use std::cmp::Reverse;

use everynode_core::api::Timestamp;

use crate::clock::rfc3339;
use crate::json::{Map, Value, json};

const PENDING: &str = "PodResizePending";
const IN_PROGRESS: &str = "PodResizeInProgress";
/// The conditions of pods that are resized.
pub(super) const CONDITIONS: [&str; 2] = [PENDING, IN_PROGRESS];

/// A new resize may wait while an older one is in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResizeState {
    pub pending: Option<PendingResize>,
    pub progress: Option<ResizeProgress>,
}

/// A resize that was not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingResize {
    pub reason: PendingReason,
    pub message: String,
    /// That of the pod with the resize.
    pub generation: i64,
    pub since: Timestamp,
    pub priority: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PendingReason {
    /// It is not tried again before the pod is changed.
    Infeasible,
    /// It is tried again.
    Deferred,
}

/// A resize that was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResizeProgress {
    pub generation: i64,
    pub since: Timestamp,
    /// `None` once the containers were changed, or told to restart.
    pub actuate_at: Option<Timestamp>,
}

impl PendingReason {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Infeasible => "Infeasible",
            Self::Deferred => "Deferred",
        }
    }
}

impl ResizeState {
    /// The order in which deferred resizes are tried; `None` if none is.
    pub(crate) fn deferred_order(&self) -> Option<(Reverse<i64>, Timestamp)> {
        let pending = self.pending.as_ref()?;
        match pending.reason {
            PendingReason::Infeasible => None,
            PendingReason::Deferred => Some((Reverse(pending.priority), pending.since)),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.progress.as_ref()?.actuate_at
    }

    /// The conditions in the pod's status.
    pub(crate) fn conditions(&self) -> Vec<Value> {
        let pending = self.pending.as_ref().map(|pending| {
            let mut condition = condition(PENDING, pending.generation, pending.since);
            condition.insert("reason", json!(pending.reason.name()));
            condition.insert("message", json!(pending.message));
            condition
        });
        let progress = self
            .progress
            .as_ref()
            .map(|progress| condition(IN_PROGRESS, progress.generation, progress.since));
        pending.into_iter().chain(progress).map(Value::Object).collect()
    }
}

fn condition(kind: &str, generation: i64, since: Timestamp) -> Map {
    let mut condition = Map::new();
    condition.insert("type", json!(kind));
    condition.insert("status", json!("True"));
    condition.insert("observedGeneration", json!(generation));
    condition.insert("lastProbeTime", json!(rfc3339(since)));
    condition.insert("lastTransitionTime", json!(rfc3339(since)));
    condition
}

/// The message of an event about a resize: what happened, and the resources in a spec. Upstream:
/// `podResizeMessage`.
pub(super) fn message(what: &str, spec: &Value, generation: i64, error: &str) -> String {
    let mut fields = String::new();
    for list in ["initContainers", "containers"] {
        let containers = spec[list].as_array().into_iter().flatten();
        let resources: Vec<Value> = containers
            .map(|it| json!({"name": it["name"].clone(), "resources": it["resources"].clone()}))
            .collect();
        if !resources.is_empty() {
            fields.push_str(&format!("\"{list}\":{},", Value::from(resources)));
        }
    }
    let error = match error {
        "" => String::new(),
        error => format!(",\"error\":{}", Value::from(error)),
    };
    format!("Pod resize {what}: {{{fields}\"generation\":{generation}{error}}}")
}

/// True if the change of a container's resources restarts it, by its `resizePolicy`.
pub(super) fn restarts(container: &Value, from: &Value, to: &Value) -> bool {
    let policies = container["resizePolicy"].as_array().into_iter().flatten();
    policies.into_iter().any(|policy| {
        let resource = policy["resourceName"].as_str().unwrap_or_default();
        let differs = |list: &str| from[list].get(resource) != to[list].get(resource);
        policy["restartPolicy"] == "RestartContainer" && (differs("limits") || differs("requests"))
    })
}
