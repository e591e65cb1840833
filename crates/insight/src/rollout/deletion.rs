//! The deletion of a DaemonSet that still exists.

use std::fmt;

use everynode_core::api::{DaemonSetKey, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use super::PROGRESS_DEADLINE;
use super::next_step::without_finalizers;
use crate::snapshot::Deletion;

/// The finalizer of a deletion that waits for the pods.
const FOREGROUND: &str = "foregroundDeletion";

/// The deletion of a DaemonSet that still exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingDeletion {
    /// The finalizers without which the DaemonSet would be gone.
    pub finalizers: Vec<String>,
    /// Whether that has lasted longer than 10 minutes.
    pub stuck: bool,
}

impl PendingDeletion {
    pub(crate) fn of(deletion: &Deletion, now: Timestamp) -> Self {
        let stuck = deletion.due_at.is_some_and(|at| now.since(at) > PROGRESS_DEADLINE);
        Self { finalizers: deletion.finalizers.clone(), stuck }
    }

    /// The operator's next step; `None` if nothing holds the DaemonSet.
    pub(super) fn next_step(&self, key: &DaemonSetKey) -> Option<String> {
        let DaemonSetKey { namespace, name } = key;
        match self.finalizers.as_slice() {
            [] => None,
            [only] if only == FOREGROUND => {
                Some(format!("its pods are deleted first: kubectl -n {namespace} get pods"))
            }
            _ => Some(without_finalizers("ds", namespace.as_str(), name.as_str())),
        }
    }
}

impl fmt::Display for PendingDeletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let duration = if self.stuck { " for more than 10 min" } else { "" };
        write!(f, "being deleted{duration}")?;
        if self.finalizers.is_empty() {
            return Ok(());
        }
        write!(f, "; finalizers: {}", self.finalizers.join(", "))
    }
}
