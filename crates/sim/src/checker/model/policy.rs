//! Rollout policies in an annotation (G4, G5), and where a rollout is (G8).

use std::collections::BTreeMap;

use everynode_core::api::{HOLD_LABEL, POLICY_ANNOTATION, Timestamp};
use everynode_sandbox::json::Value;
use serde::Deserialize;

use super::config_map::Snapshots;
use super::metadata::duration;
use super::node::Node;
use super::percent::of;
use super::selector::Selector;
use super::window::Window;

/// The name of the last wave, that of all nodes, in orders and checks (G45).
const FINALLY: &str = "finally";
/// The taints of nodes that leave, unless the policy names others (G33).
const LEAVING_TAINTS: [&str; 4] = [
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
    "node.kubernetes.io/out-of-service",
    "node.cloudprovider.kubernetes.io/shutdown",
];
/// The conditions of nodes that leave, unless the policy names others (G33).
const LEAVING_CONDITIONS: [&str; 6] = [
    "GracefulNodeShutdownInProgress",
    "DrainInProgress",
    "Drained",
    "MaintenanceInProgress",
    "DiskPressure",
    "PIDPressure",
];
/// The taint of cordoned nodes.
const CORDONED: &str = "node.kubernetes.io/unschedulable";
/// How long a node has no available pod, or is lost, before it is set aside, unless the policy says
/// otherwise: 10 minutes (G33).
const READY_WITHIN_MS: i64 = 600_000;
/// `resizeWithin` by default.
const RESIZE_WITHIN_MS: i64 = 120_000;

/// The policy of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) enum PolicySource {
    #[default]
    None,
    Invalid,
    Valid(Box<Policy>),
}

/// A policy that is followed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(in crate::checker) struct Policy {
    pub paused: bool,
    pub steps: Vec<Step>,
    pub finally: Option<Wait>,
    pub max_unavailable: Value,
    max_unavailable_per: Option<GroupLimit>,
    pub pods_per_minute: Option<usize>,
    windows: Vec<Window>,
    pub failure: Option<Failure>,
    prepare: Prepare,
    pub update: Update,
    #[serde(deserialize_with = "duration")]
    resize_within: Option<i64>,
    /// The rule by which ConfigMaps are copied (G58).
    pub config: Option<Snapshots>,
    hold: Option<Selector>,
    absent: Absent,
    checks: Vec<Check>,
}

/// A limit that each group of nodes has (G5).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct GroupLimit {
    label: String,
    max: Value,
}

/// The work before a rollout (G55).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct Prepare {
    images: Option<Images>,
}

/// How nodes pull images before their old pods go (G55).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
struct Images {
    parallel: Option<usize>,
    required: Option<bool>,
}

/// How pods get another template (G56).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(in crate::checker) enum Update {
    #[default]
    Replace,
    InPlaceIfPossible,
    InPlaceOnly,
}

/// When a check is asked, and how often it may fail.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::checker) struct Check {
    name: String,
    /// How long after the first node of a wave is done it is asked for the first time (G46).
    #[serde(rename = "initialDelay", default, deserialize_with = "duration")]
    pub initial_delay_ms: i64,
    /// How long after a question the next one is asked (G5).
    #[serde(rename = "interval", default, deserialize_with = "duration")]
    pub interval_ms: i64,
    failures: Option<usize>,
}

/// Which nodes leave (G33).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Absent {
    taints: Option<Vec<String>>,
    conditions: Option<Vec<String>>,
    cordoned: bool,
    nodes: Selector,
}

/// A step of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::checker) struct Step {
    pub name: String,
    #[serde(default)]
    nodes: Selector,
    by: Option<String>,
    #[serde(default = "all_nodes")]
    up_to: Vec<Value>,
    #[serde(flatten)]
    pub wait: Wait,
}

/// The conditions on which a rollout goes on from a wave (G5), or is complete (G45).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(in crate::checker) struct Wait {
    #[serde(rename = "bake", deserialize_with = "duration")]
    pub bake_ms: i64,
    #[serde(rename = "approval")]
    pub needs_approval: bool,
    /// The names of the checks that must pass.
    pub checks: Vec<String>,
}

/// When a rollout fails (G15).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::checker) struct Failure {
    max_nodes: Value,
    max_lost: Value,
    max_removed: Value,
    pub max_restarts: Option<u64>,
    #[serde(rename = "readyWithin", deserialize_with = "duration")]
    pub ready_within_ms: Option<i64>,
    #[serde(rename = "rollbackAfter", deserialize_with = "duration")]
    pub rollback_after_ms: Option<i64>,
}

/// How far a rollout is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(untagged)]
pub(in crate::checker) enum Position {
    Wave {
        step: usize,
        #[serde(default)]
        group: Group,
        size: usize,
    },
    #[default]
    AllNodes,
}

/// The nodes of a step that have the same value of its label; those without it are the last.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(untagged)]
pub(in crate::checker) enum Group {
    Value(String),
    #[default]
    Unlabelled,
}

impl PolicySource {
    /// The policy in the annotations of a DaemonSet. The simulated users write it as JSON.
    pub(super) fn parse(annotations: &Value) -> Self {
        let Some(text) = annotations[POLICY_ANNOTATION].as_str() else { return Self::None };
        serde_json::from_str(text).map_or(Self::Invalid, |policy| Self::Valid(Box::new(policy)))
    }

    pub(in crate::checker) fn valid(&self) -> Option<&Policy> {
        match self {
            Self::None | Self::Invalid => None,
            Self::Valid(policy) => Some(policy),
        }
    }
}

impl Policy {
    /// The check with this name.
    pub(in crate::checker) fn check(&self, name: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.name == name)
    }

    /// The conditions for the nodes that are in no step, without `finally` (G45).
    pub(in crate::checker) fn wait_as_last_step(&self) -> Wait {
        let last = self.steps.last().map(|step| step.wait.clone()).unwrap_or_default();
        Wait { needs_approval: false, ..last }
    }

    /// True if somebody must approve the wave at a position.
    pub(in crate::checker) fn needs_approval(&self, position: &Position) -> bool {
        let wait = match position {
            Position::AllNodes => self.finally.as_ref(),
            Position::Wave { .. } => self.step(position).map(|step| &step.wait),
        };
        wait.is_some_and(|wait| wait.needs_approval)
    }

    /// True if a node leaves (G33).
    pub(in crate::checker) fn is_leaving(&self, node: &Node) -> bool {
        let Absent { taints, conditions, cordoned, nodes } = &self.absent;
        let is_one = |keys: &Option<Vec<String>>, defaults: &[&str], key: &str| match keys {
            Some(keys) => keys.iter().any(|it| it == key),
            None => defaults.contains(&key),
        };
        let has_taint =
            |key: &str| is_one(taints, &LEAVING_TAINTS, key) || *cordoned && key == CORDONED;
        node.read.taints.iter().any(|taint| has_taint(&taint.key))
            || node.read.conditions.iter().any(|it| is_one(conditions, &LEAVING_CONDITIONS, it))
            || !nodes.is_empty() && nodes.matches(&node.metadata.labels)
    }

    /// True if a node is not ready, or leaves (G33).
    pub(in crate::checker) fn is_absent(&self, node: &Node) -> bool {
        !node.is_ready() || self.is_leaving(node)
    }

    /// How many nodes may pull images at the same time, if the policy lets them (G55).
    pub(in crate::checker) fn parallel_pulls(&self) -> Option<usize> {
        self.prepare.images.map(|images| images.parallel.unwrap_or(50))
    }

    /// True if nodes must have the images before their old pods go (G55).
    pub(in crate::checker) fn requires_images(&self) -> bool {
        self.prepare.images.is_some_and(|images| images.required != Some(false))
    }

    /// How long a node may have no room for the new resources of a pod (G56).
    pub(in crate::checker) fn resize_within_ms(&self) -> i64 {
        self.resize_within.unwrap_or(RESIZE_WITHIN_MS)
    }

    /// How long a node has no available pod, or is lost, before it is set aside (G33).
    pub(in crate::checker) fn ready_within_ms(&self) -> i64 {
        let ready_within_ms = self.failure.as_ref().and_then(|rule| rule.ready_within_ms);
        ready_within_ms.unwrap_or(READY_WITHIN_MS)
    }

    /// How many pods a rollout may remove, if this many nodes have one: rounded up (G42).
    pub(in crate::checker) fn max_removed(&self, pods: usize) -> usize {
        self.failure.as_ref().map_or(0, |rule| of(&rule.max_removed, pods))
    }

    /// True if one of its windows is open at a time of the wall clock, or it has none.
    pub(in crate::checker) fn is_open(&self, wall: Timestamp) -> bool {
        self.windows.is_empty() || self.windows.iter().any(|window| window.is_open(wall))
    }

    /// True if each group of nodes has a limit of its own.
    pub(in crate::checker) fn limits_groups(&self) -> bool {
        self.max_unavailable_per.is_some()
    }

    /// The group to whose limit a node with these labels counts.
    pub(in crate::checker) fn limited_group(&self, labels: &BTreeMap<String, String>) -> Group {
        let value = self.max_unavailable_per.as_ref().and_then(|limit| labels.get(&limit.label));
        value.map_or(Group::Unlabelled, |value| Group::Value(value.clone()))
    }

    /// How many of the nodes of a group may be unavailable, if this many should run a pod.
    pub(in crate::checker) fn group_limit(&self, desired: usize) -> usize {
        self.max_unavailable_per.as_ref().map_or(usize::MAX, |limit| of(&limit.max, desired))
    }

    /// The step of a position; `None` after the last one.
    pub(in crate::checker) fn step(&self, position: &Position) -> Option<&Step> {
        match position {
            Position::AllNodes => None,
            Position::Wave { step, .. } => self.steps.get(*step),
        }
    }

    /// True if nodes with these labels are excluded from rollouts.
    pub(in crate::checker) fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        match &self.hold {
            Some(hold) => !hold.is_empty() && hold.matches(labels),
            None => labels.contains_key(HOLD_LABEL),
        }
    }

    /// The name by which orders and checks refer to a position (G45).
    pub(in crate::checker) fn order_name(&self, position: &Position) -> String {
        self.wave_name(position).unwrap_or_else(|| FINALLY.to_owned())
    }

    /// The name of a wave: `STEP`, `STEP/VALUE`, `STEP:SIZE` or `STEP/VALUE:SIZE`.
    fn wave_name(&self, position: &Position) -> Option<String> {
        let Position::Wave { group, size, .. } = position else { return None };
        let step = self.step(position)?;
        let group = match (&step.by, group) {
            (None, _) => String::new(),
            (Some(_), Group::Value(value)) => format!("/{value}"),
            (Some(_), Group::Unlabelled) => "/(unlabelled)".to_owned(),
        };
        let size = match &step.up_to[..] {
            [_] => String::new(),
            sizes => match sizes.get(*size)? {
                Value::String(percent) => format!(":{percent}"),
                number => format!(":{number}"),
            },
        };
        Some(format!("{}{group}{size}", step.name))
    }

    /// The groups of a node with these labels, one for each step that has the node.
    pub(in crate::checker) fn groups(
        &self,
        labels: &BTreeMap<String, String>,
    ) -> BTreeMap<usize, Group> {
        let steps = self.steps.iter().enumerate();
        let of_node = steps.filter(|(_, step)| step.nodes.matches(labels));
        of_node
            .map(|(index, step)| {
                let value = step.by.as_ref().and_then(|key| labels.get(key));
                (index, value.map_or(Group::Unlabelled, |value| Group::Value(value.clone())))
            })
            .collect()
    }

    /// True if nodes with these labels are in the group of a position.
    pub(in crate::checker) fn is_in(
        &self,
        position: &Position,
        labels: &BTreeMap<String, String>,
    ) -> bool {
        match position {
            Position::AllNodes => true,
            Position::Wave { step, group, .. } => self.groups(labels).get(step) == Some(group),
        }
    }

    /// How many of the nodes of a group a position opens at most, if the group has this many.
    pub(in crate::checker) fn size_at(
        &self,
        position: &Position,
        (step, group): (usize, &Group),
        members: usize,
    ) -> usize {
        let Position::Wave { step: at_step, group: at_group, size } = position else {
            return members;
        };
        let Some(sizes) = self.steps.get(step).map(|step| &step.up_to) else { return 0 };
        let size = match (step, group).cmp(&(*at_step, at_group)) {
            std::cmp::Ordering::Less => sizes.last(),
            std::cmp::Ordering::Equal => sizes.get(*size).or(sizes.last()),
            std::cmp::Ordering::Greater => None,
        };
        size.map_or(0, |size| of(size, members).min(members))
    }
}

impl Step {
    /// Number of waves of each group.
    pub(in crate::checker) fn size_count(&self) -> usize {
        self.up_to.len()
    }
}

impl Check {
    /// After as many failures in a row the rollout fails (G15).
    pub(in crate::checker) fn failures(&self) -> usize {
        self.failures.unwrap_or(1)
    }
}

impl Wait {
    /// True if nothing is awaited.
    pub(in crate::checker) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl Failure {
    /// How many nodes may fail, if this many have a pod of the target.
    pub(in crate::checker) fn max_nodes(&self, touched: usize) -> usize {
        rounded_down(&self.max_nodes, touched)
    }

    /// How many nodes may be lost, if this many have a pod of the target.
    pub(in crate::checker) fn max_lost(&self, touched: usize) -> usize {
        match &self.max_lost {
            Value::Null => (touched / 10).max(1),
            given => rounded_down(given, touched),
        }
    }
}

/// A number, or a percentage of `total`, rounded down.
fn rounded_down(number: &Value, total: usize) -> usize {
    match number {
        Value::String(percent) => {
            let percent = percent.trim_end_matches('%').parse::<usize>().unwrap_or(0);
            percent * total / 100
        }
        number => number.as_u64().unwrap_or(0).try_into().unwrap_or(usize::MAX),
    }
}

fn all_nodes() -> Vec<Value> {
    vec!["100%".into()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use everynode_sandbox::json::json;

    fn policy(policy: Value) -> Policy {
        serde_json::from_value(policy.into()).expect("the policy is valid")
    }

    fn node(taint: &str, condition: &str) -> Node {
        Node::parse(&json!({
            "metadata": {"name": "n", "labels": {"pool": "spot"}},
            "spec": {"taints": [{"key": taint, "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": condition, "status": "True"}]},
        }))
    }

    /// G33: a node leaves by a taint, a condition or a label that the policy names.
    #[test]
    fn nodes_leave_as_the_policy_says() {
        let default = policy(json!({}));
        assert!(default.is_leaving(&node("karpenter.sh/disrupted", "Ready")));
        assert!(default.is_leaving(&node("t", "Drained")));
        assert!(!default.is_leaving(&node("DeletionCandidateOfClusterAutoscaler", "Ready")));
        assert!(!default.is_leaving(&node(CORDONED, "Ready")));
        let cordoned = policy(json!({"absent": {"cordoned": true, "conditions": []}}));
        assert!(cordoned.is_leaving(&node(CORDONED, "Ready")));
        assert!(cordoned.is_leaving(&node("karpenter.sh/disrupted", "Ready")));
        assert!(!cordoned.is_leaving(&node("t", "Drained")));
        let nodes = json!({"matchLabels": {"pool": "spot"}});
        let spot = policy(json!({"absent": {"taints": [], "nodes": nodes}}));
        assert!(spot.is_leaving(&node("karpenter.sh/disrupted", "Ready")));
    }

    /// G15, G42: one node or a tenth may be lost, and no pod is removed, unless the policy says
    /// otherwise.
    #[test]
    fn losses_and_removals_have_limits() {
        let rule = |failure: Value| policy(json!({"failure": failure}));
        let max_lost = |failure: Value, touched: usize| {
            rule(failure).failure.map(|rule| rule.max_lost(touched))
        };
        assert_eq!(max_lost(json!({}), 9), Some(1));
        assert_eq!(max_lost(json!({}), 30), Some(3));
        assert_eq!(max_lost(json!({"maxLost": 0}), 30), Some(0));
        assert_eq!(max_lost(json!({"maxLost": "50%"}), 3), Some(1));
        assert_eq!(rule(json!({})).max_removed(5), 0);
        assert_eq!(rule(json!({"maxRemoved": "100%"})).max_removed(5), 5);
    }
}
