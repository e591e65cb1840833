//! The status of a policy object (G21).

use std::collections::BTreeMap;

use everynode_core::daemon_set::StateCounts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `status` of a RolloutPolicy or a ClusterRolloutPolicy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyStatus {
    /// The newest generation that the controller follows.
    pub observed_generation: i64,
    /// `Ready` and `Stalled`.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<PolicyCondition>,
    /// The number of DaemonSets that the policy governs.
    #[schemars(with = "i32")]
    pub daemon_set_count: u32,
    /// The first hundred of them, by namespace and name.
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["namespace", "name"],
    ))]
    pub daemon_sets: Vec<GovernedDaemonSet>,
}

/// A condition of a policy object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, extend("required" = ["type", "status"]))]
pub struct PolicyCondition {
    /// `Ready` or `Stalled`.
    pub r#type: String,
    /// `True` or `False`.
    pub status: String,
    /// The generation of the policy that the condition is about.
    pub observed_generation: i64,
    /// When `status` changed, in whole seconds.
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// What a policy says of a DaemonSet that it governs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, extend("required" = ["namespace", "name"]))]
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
    /// Its nodes by their state in the rollout, as of a few seconds ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodesByState>,
}

/// Numbers of nodes by their state in a guarded rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(
    !default,
    extend("required" = ["waiting", "updating", "done", "failed", "setAside"]),
)]
pub struct NodesByState {
    /// Nodes on which the rollout has yet to begin.
    #[schemars(with = "i32")]
    pub waiting: usize,
    /// Nodes of which somebody is asked whether their old pod may go; absent without any.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(with = "i32")]
    pub asked: usize,
    /// Nodes that pull the images of the new template, or wait for their turn; absent without any.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(with = "i32")]
    pub pulling: usize,
    /// Nodes on which it has begun.
    #[schemars(with = "i32")]
    pub updating: usize,
    /// Nodes on which nothing is left to do.
    #[schemars(with = "i32")]
    pub done: usize,
    /// Nodes whose pod of the new template is blamed.
    #[schemars(with = "i32")]
    pub failed: usize,
    /// Nodes that are set aside, by the reason: `held`, `down`, `leaving`, `tainted`, `excluded`,
    /// `joined`, `brokenBefore`, `lost` or `notAgreed`.
    #[schemars(with = "BTreeMap<String, i32>")]
    pub set_aside: BTreeMap<String, usize>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl From<&StateCounts> for NodesByState {
    fn from(states: &StateCounts) -> Self {
        let &StateCounts { waiting, asked, pulling, updating, done, failed, .. } = states;
        let reasons = states.reasons().map(|(why, nodes)| (why.as_str().to_owned(), nodes));
        let set_aside = reasons.collect();
        Self { waiting, asked, pulling, updating, done, failed, set_aside }
    }
}
