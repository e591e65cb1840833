//! The status of a policy object (G21).

use serde::{Deserialize, Serialize};

/// `status` of a RolloutPolicy or a ClusterRolloutPolicy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyStatus {
    /// The newest generation that the controller follows.
    pub observed_generation: i64,
    /// `Ready` and `Stalled`.
    pub conditions: Vec<PolicyCondition>,
    /// The number of DaemonSets that the policy governs.
    pub daemon_set_count: u32,
    /// The first of them, by namespace and name.
    pub daemon_sets: Vec<GovernedDaemonSet>,
}

/// A condition of a policy object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyCondition {
    /// `Ready` or `Stalled`.
    pub r#type: String,
    /// `True` or `False`.
    pub status: String,
    /// The generation of the policy that the condition is about.
    pub observed_generation: i64,
    /// When `status` changed, in whole seconds.
    pub last_transition_time: String,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// What a policy says of a DaemonSet that it governs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GovernedDaemonSet {
    /// The namespace, in a ClusterRolloutPolicy.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The reason of its condition `Progressing`.
    pub phase: String,
    /// The wave that its rollout is at.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wave: String,
}
