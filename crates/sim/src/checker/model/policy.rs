//! Rollout policies in an annotation (G4, G5), and where a rollout is (G8).

use std::collections::BTreeMap;

use everynode_core::api::{POLICY_ANNOTATION, Timestamp};
use everynode_sandbox::json::Value;

use super::config_map::Snapshots;
use super::in_place::InPlace;
use super::node::Node;
use super::percent::of;
use super::selector::Selector;
use super::window::Window;

/// The name of the last wave, that of all nodes, in orders and checks (G45).
const FINALLY: &str = "finally";
/// The fields of a policy that is followed.
const FIELDS: [&str; 15] = [
    "paused",
    "steps",
    "finally",
    "maxUnavailable",
    "maxUnavailablePer",
    "podsPerMinute",
    "windows",
    "failure",
    "hold",
    "checks",
    "absent",
    "prepare",
    "update",
    "resizeWithin",
    "config",
];
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

/// The policy of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) enum PolicySource {
    #[default]
    None,
    Invalid,
    Valid(Box<Policy>),
}

/// A policy that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::checker) struct Policy {
    pub paused: bool,
    /// `steps` as it is written.
    pub text: Value,
    pub steps: Vec<Step>,
    pub finally: Option<Wait>,
    pub max_unavailable: Value,
    /// `maxUnavailablePer`: the label and the limit.
    per: Option<(String, Value)>,
    pub pods_per_minute: Option<usize>,
    windows: Vec<Window>,
    pub failure: Option<Failure>,
    /// `prepare.images` (G55).
    pub images: Option<Images>,
    /// `update`, if pods are changed in place (G56).
    pub in_place: Option<InPlace>,
    /// `config.configMaps: snapshot` (G58).
    pub snapshots: Option<Snapshots>,
    hold: Selector,
    absent: Absent,
    /// By name.
    checks: BTreeMap<String, Check>,
}

/// How nodes pull images before their old pods go (G55).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::checker) struct Images {
    pub parallel: usize,
    pub required: bool,
}

impl Images {
    fn parse(images: &Value) -> Option<Self> {
        images.is_object().then(|| Self {
            parallel: images["parallel"].as_u64().and_then(|it| it.try_into().ok()).unwrap_or(50),
            required: images["required"] != false,
        })
    }
}

/// When a check is asked, and how often it may fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::checker) struct Check {
    /// How long after the first node of a wave is done it is asked for the first time (G46).
    pub initial_delay_ms: i64,
    /// How long after a question the next one is asked (G5).
    pub interval_ms: i64,
    /// After as many failures in a row the rollout fails (G15).
    pub failures: usize,
}

/// Which nodes leave (G33).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Absent {
    taints: Vec<String>,
    conditions: Vec<String>,
    nodes: Option<Selector>,
}

/// A step of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::checker) struct Step {
    pub name: String,
    nodes: Selector,
    by: Option<String>,
    sizes: Vec<Value>,
    pub wait: Wait,
}

/// What must pass before a rollout goes on from a wave (G5), or is complete (G45).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::checker) struct Wait {
    pub bake_ms: i64,
    pub needs_approval: bool,
    /// The names of the checks that must pass.
    pub checks: Vec<String>,
}

/// When a rollout fails (G15).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::checker) struct Failure {
    max_nodes: Value,
    max_lost: Value,
    max_removed: Value,
    pub max_restarts: Option<u64>,
    pub ready_within_ms: Option<i64>,
    pub rollback_after_ms: Option<i64>,
}

/// How far a rollout is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::checker) enum Position {
    Wave { step: usize, group: Group, size: usize },
    AllNodes,
}

/// The nodes of a step that have the same value of its label; those without it are the last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::checker) enum Group {
    Value(String),
    Unlabelled,
}

impl PolicySource {
    /// The policy in the annotations of a DaemonSet. The simulated users write it as JSON.
    pub(super) fn parse(annotations: &Value) -> Self {
        let Some(text) = annotations[POLICY_ANNOTATION].as_str() else { return Self::None };
        let policy: Option<Value> = serde_json::from_str(text).ok();
        let is_followed = |policy: &Value| {
            let mut fields = policy.as_object().into_iter().flatten();
            policy.is_object() && fields.all(|(key, _)| FIELDS.contains(&key.as_str()))
        };
        match policy.filter(is_followed) {
            Some(policy) => Self::Valid(Policy::parse(&policy).into()),
            None => Self::Invalid,
        }
    }

    pub(in crate::checker) fn valid(&self) -> Option<&Policy> {
        match self {
            Self::None | Self::Invalid => None,
            Self::Valid(policy) => Some(policy),
        }
    }
}

impl Policy {
    fn parse(policy: &Value) -> Self {
        let steps = policy["steps"].as_array().into_iter().flatten();
        let failure = &policy["failure"];
        let held = everynode_sandbox::json::json!({
            "matchExpressions": [{"key": "everynode.dev/hold", "operator": "Exists"}],
        });
        let hold = if policy["hold"].is_null() { &held } else { &policy["hold"] };
        Self {
            paused: policy["paused"] == true,
            text: policy["steps"].as_array().cloned().unwrap_or_default().into(),
            steps: steps.map(Step::parse).collect(),
            finally: policy["finally"].is_object().then(|| Wait::parse(&policy["finally"])),
            max_unavailable: policy["maxUnavailable"].clone(),
            per: policy["maxUnavailablePer"]["label"]
                .as_str()
                .map(|label| (label.to_owned(), policy["maxUnavailablePer"]["max"].clone())),
            pods_per_minute: policy["podsPerMinute"].as_u64().and_then(|it| it.try_into().ok()),
            windows: policy["windows"]
                .as_array()
                .into_iter()
                .flatten()
                .map(Window::parse)
                .collect(),
            failure: failure.is_object().then(|| Failure {
                max_nodes: failure["maxNodes"].clone(),
                max_lost: failure["maxLost"].clone(),
                max_removed: failure["maxRemoved"].clone(),
                max_restarts: failure["maxRestarts"].as_u64(),
                ready_within_ms: duration(&failure["readyWithin"]),
                rollback_after_ms: duration(&failure["rollbackAfter"]),
            }),
            images: Images::parse(&policy["prepare"]["images"]),
            in_place: InPlace::parse(policy, duration(&policy["resizeWithin"])),
            snapshots: Snapshots::parse(policy, duration(&policy["config"]["settle"])),
            hold: Selector::parse(hold),
            absent: Absent::parse(&policy["absent"]),
            checks: policy["checks"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|check| (name(&check["name"]), Check::parse(check)))
                .collect(),
        }
    }

    /// The check with this name.
    pub(in crate::checker) fn check(&self, name: &str) -> Option<&Check> {
        self.checks.get(name)
    }

    /// What the nodes that are in no step await without `finally` (G45).
    pub(in crate::checker) fn wait_as_last_step(&self) -> Wait {
        let last = self.steps.last().map(|step| step.wait.clone()).unwrap_or_default();
        Wait { needs_approval: false, ..last }
    }

    /// Whether somebody must approve the wave at a position.
    pub(in crate::checker) fn needs_approval(&self, position: &Position) -> bool {
        let wait = match position {
            Position::AllNodes => self.finally.as_ref(),
            Position::Wave { .. } => self.step(position).map(|step| &step.wait),
        };
        wait.is_some_and(|wait| wait.needs_approval)
    }

    /// Whether a node leaves (G33).
    pub(in crate::checker) fn is_leaving(&self, node: &Node) -> bool {
        let Absent { taints, conditions, nodes } = &self.absent;
        node.taints.iter().any(|taint| taints.contains(&taint.key))
            || conditions.iter().any(|condition| node.conditions.contains(condition))
            || nodes.as_ref().is_some_and(|nodes| nodes.matches(&node.metadata.labels))
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

    /// Whether one of its windows is open at a time of the wall clock, or it has none.
    pub(in crate::checker) fn is_open(&self, wall: Timestamp) -> bool {
        self.windows.is_empty() || self.windows.iter().any(|window| window.is_open(wall))
    }

    /// Whether each group of nodes has a limit of its own.
    pub(in crate::checker) fn limits_groups(&self) -> bool {
        self.per.is_some()
    }

    /// The group to whose limit a node with these labels counts.
    pub(in crate::checker) fn limited_group(&self, labels: &BTreeMap<String, String>) -> Group {
        let value = self.per.as_ref().and_then(|(label, _)| labels.get(label));
        value.map_or(Group::Unlabelled, |value| Group::Value(value.clone()))
    }

    /// How many of the nodes of a group may be unavailable, if this many should run a pod.
    pub(in crate::checker) fn group_limit(&self, desired: usize) -> usize {
        self.per.as_ref().map_or(usize::MAX, |(_, max)| of(max, desired))
    }

    /// The step of a position; `None` after the last one.
    pub(in crate::checker) fn step(&self, position: &Position) -> Option<&Step> {
        match position {
            Position::AllNodes => None,
            Position::Wave { step, .. } => self.steps.get(*step),
        }
    }

    /// Whether nodes with these labels are excluded from rollouts.
    pub(in crate::checker) fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.hold.is_empty() && self.hold.matches(labels)
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
        let size = match &step.sizes[..] {
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

    /// How many of the nodes of a group of a step have the target after its last wave.
    pub(in crate::checker) fn last_size(&self, step: usize, members: usize) -> usize {
        let last = self.steps.get(step).and_then(|step| step.sizes.last());
        last.map_or(0, |size| of(size, members).min(members))
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
        let Some(sizes) = self.steps.get(step).map(|step| &step.sizes) else { return 0 };
        let size = match (step, group).cmp(&(*at_step, at_group)) {
            std::cmp::Ordering::Less => sizes.last(),
            std::cmp::Ordering::Equal => sizes.get(*size).or(sizes.last()),
            std::cmp::Ordering::Greater => None,
        };
        size.map_or(0, |size| of(size, members).min(members))
    }
}

impl Step {
    fn parse(step: &Value) -> Self {
        let sizes = step["upTo"].as_array().cloned();
        Self {
            name: step["name"].as_str().unwrap_or_default().to_owned(),
            nodes: Selector::parse(&step["nodes"]),
            by: step["by"].as_str().map(ToOwned::to_owned),
            sizes: sizes.unwrap_or_else(|| vec!["100%".into()]),
            wait: Wait::parse(step),
        }
    }

    /// Number of waves of each group.
    pub(in crate::checker) fn size_count(&self) -> usize {
        self.sizes.len()
    }
}

impl Check {
    fn parse(check: &Value) -> Self {
        Self {
            initial_delay_ms: duration(&check["initialDelay"]).unwrap_or(0),
            interval_ms: duration(&check["interval"]).unwrap_or(0),
            failures: check["failures"]
                .as_u64()
                .map_or(1, |it| it.try_into().unwrap_or(usize::MAX)),
        }
    }
}

impl Wait {
    fn parse(of: &Value) -> Self {
        Self {
            bake_ms: duration(&of["bake"]).unwrap_or(0),
            needs_approval: of["approval"] == true,
            checks: of["checks"].as_array().into_iter().flatten().map(name).collect(),
        }
    }

    /// Whether nothing is awaited.
    pub(in crate::checker) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl Absent {
    fn parse(absent: &Value) -> Self {
        let keys = |given: &Value, default: &[&str]| match given.as_array() {
            Some(keys) => keys.iter().map(name).collect(),
            None => default.iter().map(ToString::to_string).collect(),
        };
        let mut taints: Vec<String> = keys(&absent["taints"], &LEAVING_TAINTS);
        if absent["cordoned"] == true {
            taints.push(CORDONED.to_owned());
        }
        let nodes = Some(&absent["nodes"]).filter(|nodes| !nodes.is_null()).map(Selector::parse);
        Self {
            taints,
            conditions: keys(&absent["conditions"], &LEAVING_CONDITIONS),
            nodes: nodes.filter(|nodes| !nodes.is_empty()),
        }
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

fn name(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A number of seconds such as `30s`, in milliseconds. The simulated users write no other unit.
pub(super) fn duration(value: &Value) -> Option<i64> {
    value.as_str()?.strip_suffix('s')?.parse::<i64>().ok().map(|seconds| seconds * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use everynode_sandbox::json::json;

    fn node(taint: &str, condition: &str) -> Node {
        Node::parse(&json!({
            "metadata": {"labels": {"pool": "spot"}},
            "spec": {"taints": [{"key": taint, "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": condition, "status": "True"}]},
        }))
    }

    /// G33: a node leaves by a taint, a condition or a label that the policy names.
    #[test]
    fn nodes_leave_as_the_policy_says() {
        let default = Policy::parse(&json!({}));
        assert!(default.is_leaving(&node("karpenter.sh/disrupted", "Ready")));
        assert!(default.is_leaving(&node("t", "Drained")));
        assert!(!default.is_leaving(&node("DeletionCandidateOfClusterAutoscaler", "Ready")));
        assert!(!default.is_leaving(&node(CORDONED, "Ready")));
        let cordoned = Policy::parse(&json!({"absent": {"cordoned": true, "conditions": []}}));
        assert!(cordoned.is_leaving(&node(CORDONED, "Ready")));
        assert!(cordoned.is_leaving(&node("karpenter.sh/disrupted", "Ready")));
        assert!(!cordoned.is_leaving(&node("t", "Drained")));
        let nodes = json!({"matchLabels": {"pool": "spot"}});
        let spot = Policy::parse(&json!({"absent": {"taints": [], "nodes": nodes}}));
        assert!(spot.is_leaving(&node("karpenter.sh/disrupted", "Ready")));
    }

    /// G15, G42: one node or a tenth may be lost, and no pod is removed, unless the policy says
    /// otherwise.
    #[test]
    fn losses_and_removals_have_limits() {
        let rule = |failure: Value| Policy::parse(&json!({"failure": failure}));
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
