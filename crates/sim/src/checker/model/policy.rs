//! Rollout policies in an annotation (G4, G5), and where a rollout is (G8).

use std::collections::BTreeMap;

use everynode_core::api::Timestamp;
use everynode_sandbox::json::Value;

use super::percent::of;
use super::selector::Selector;
use super::window::Window;

/// The annotation with a policy.
const POLICY: &str = "everynode.dev/rollout-policy";
/// The fields of a policy that is followed.
const FIELDS: [&str; 9] = [
    "paused",
    "steps",
    "maxUnavailable",
    "maxUnavailablePer",
    "podsPerMinute",
    "windows",
    "failure",
    "hold",
    "checks",
];

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
    pub max_unavailable: Value,
    /// `maxUnavailablePer`: the label and the limit.
    per: Option<(String, Value)>,
    pub pods_per_minute: Option<usize>,
    windows: Vec<Window>,
    pub failure: Option<Failure>,
    hold: Selector,
}

/// A step of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::checker) struct Step {
    pub name: String,
    nodes: Selector,
    by: Option<String>,
    sizes: Vec<Value>,
    pub bake_ms: i64,
    pub needs_approval: bool,
    /// The names of the checks that its waves must pass.
    pub checks: Vec<String>,
}

/// When a rollout fails (G15).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::checker) struct Failure {
    max_nodes: Value,
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
        let Some(text) = annotations[POLICY].as_str() else { return Self::None };
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
                max_restarts: failure["maxRestarts"].as_u64(),
                ready_within_ms: duration(&failure["readyWithin"]),
                rollback_after_ms: duration(&failure["rollbackAfter"]),
            }),
            hold: Selector::parse(hold),
        }
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

    /// The name of a wave: `STEP`, `STEP/VALUE`, `STEP:SIZE` or `STEP/VALUE:SIZE`.
    pub(in crate::checker) fn wave_name(&self, position: &Position) -> Option<String> {
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
            bake_ms: duration(&step["bake"]).unwrap_or(0),
            needs_approval: step["approval"] == true,
            checks: step["checks"].as_array().into_iter().flatten().map(name).collect(),
        }
    }

    /// Number of waves of each group.
    pub(in crate::checker) fn size_count(&self) -> usize {
        self.sizes.len()
    }

    /// Whether something is awaited between waves, beside their completion.
    pub(in crate::checker) fn waits(&self) -> bool {
        self.needs_approval || self.bake_ms > 0 || !self.checks.is_empty()
    }
}

impl Failure {
    /// How many nodes may fail, if this many have a pod of the target: rounded down.
    pub(in crate::checker) fn max_nodes(&self, touched: usize) -> usize {
        match &self.max_nodes {
            Value::String(percent) => {
                let percent = percent.trim_end_matches('%').parse::<usize>().unwrap_or(0);
                percent * touched / 100
            }
            number => number.as_u64().unwrap_or(0).try_into().unwrap_or(usize::MAX),
        }
    }
}

fn name(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A number of seconds such as `30s`, in milliseconds. The simulated users write no other unit.
fn duration(value: &Value) -> Option<i64> {
    value.as_str()?.strip_suffix('s')?.parse::<i64>().ok().map(|seconds| seconds * 1000)
}
