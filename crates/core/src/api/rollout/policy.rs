//! The policy of a guarded rollout (G4, G5).

use std::collections::BTreeMap;
use std::num::{NonZeroU16, NonZeroU32};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::schema::{self, rule};
use crate::api::{IntOrPercent, LabelSelector, Node, Problem, StoredConfig};

use super::check::RolloutCheck;
use super::overrides::{NodeOverride, Overrides};
use super::record::Position;
use super::wave_name::WaveName;
use super::window::Windows;

/// The label that excludes a node from rollouts, unless the policy selects others (G5).
pub const HOLD_LABEL: &str = "everynode.dev/hold";

/// The name of the last wave, that of all other nodes, in orders and checks. No step of a policy
/// with the field `finally` has it.
pub const FINALLY: &str = "finally";

/// The annotation of a DaemonSet that holds a rollout policy as YAML (G4).
pub const POLICY_ANNOTATION: &str = "everynode.dev/rollout-policy";

/// The policy that guards the rollouts of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PolicySource {
    /// No policy selects the DaemonSet: its rollouts are not guarded (G2).
    #[default]
    None,
    /// The policy that there is cannot be followed, for this reason: no pod is replaced
    /// (G7). A [`Problem`](super::Problem) reports it.
    Invalid(Arc<str>),
    /// This policy.
    Valid(Arc<RolloutPolicy>),
}

/// How new templates of a DaemonSet are rolled out. The default has neither steps nor limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.steps) || self.steps.all(step, !has(step.checks) || \
                 step.checks.all(name, has(self.checks) && \
                 self.checks.exists(check, check.name == name)))",
        "message": rule::KNOWN_CHECKS,
        "fieldPath": ".steps",
    },
    {
        "rule": "!has(self.finally) || !has(self.finally.checks) || \
                 self.finally.checks.all(name, has(self.checks) && \
                 self.checks.exists(check, check.name == name))",
        "message": rule::KNOWN_LAST_CHECKS,
        "fieldPath": ".finally.checks",
    },
    {
        "rule": "!has(self.finally) || !has(self.steps) || \
                 !self.steps.exists(step, step.name == 'finally')",
        "message": rule::FINALLY_IS_NO_STEP,
        "fieldPath": ".steps",
    },
    {
        "rule": "!has(self.update) || self.update != 'InPlaceOnly' || has(self.failure)",
        "message": rule::IN_PLACE_ONLY_FAILS,
        "fieldPath": ".update",
    },
]))]
pub struct RolloutPolicy {
    /// Pauses the rollouts. No pod is replaced; missing pods are created.
    #[serde(default)]
    pub paused: bool,
    /// The steps by which nodes get a new template, one after the other. All other nodes get it
    /// after the last one; without any, all nodes are one wave.
    #[serde(default)]
    #[schemars(
        length(max = 20),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub steps: Vec<RolloutStep>,
    /// What must pass before the rollout is complete, once all nodes have the new template. By
    /// default the nodes that are in no step bake and are checked as those of the last step, and
    /// nobody must approve that.
    pub finally: Option<Wait>,
    /// Identifies the content of `steps`, so that a record can state by which steps it was made.
    #[serde(skip)]
    pub steps_hash: Arc<str>,
    /// Maximum number of unavailable nodes, if that is smaller than what the DaemonSet allows by
    /// its `maxUnavailable` or `maxSurge`.
    #[serde(default)]
    #[schemars(schema_with = "schema::positive")]
    pub max_unavailable: Option<IntOrPercent>,
    /// The same for each group of nodes with the same value of a label. Nodes without the label
    /// are a group. With `maxSurge`, it limits the nodes on which a new pod starts.
    pub max_unavailable_per: Option<GroupLimit>,
    /// Maximum number of nodes on which the rollout begins within 60 seconds, forward or back: it
    /// deletes the old pod, or with `maxSurge` creates a new one beside it.
    #[schemars(
        range(min = 1, max = 2_147_483_647),
        extend("x-reason" = "must be a number that is greater than 0")
    )]
    pub pods_per_minute: Option<NonZeroU32>,
    /// When pods are replaced and waves begin: times of the week. By default always.
    #[serde(default)]
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub windows: Windows,
    /// When a rollout fails. Without it, it never does.
    pub failure: Option<FailureRule>,
    /// How long no node of a wave may be done, or fail, until the condition of the DaemonSet says
    /// that the rollout is stuck; `minReadySeconds` and the longest termination grace period are
    /// added. 0s turns that off. It does not end the rollout.
    #[serde(deserialize_with = "schema::read_duration")]
    #[schemars(schema_with = "schema::duration", extend("default" = "10m"))]
    pub progress_deadline: Duration,
    /// Nodes whose pods are not replaced, forward or back. In its wave another node takes the place
    /// of such a node, unless the rollout has begun on it; once it is no longer held, it is updated
    /// with a later wave. A rollout is complete without them; `status` names them, and waits for
    /// them with `--all-nodes`.
    #[schemars(extend("default" = {
        "matchExpressions": [{ "key": HOLD_LABEL, "operator": "Exists" }],
    }))]
    pub hold: LabelSelector,
    /// Nodes that are about to leave, are being maintained, or refuse pods. A rollout leaves them
    /// alone and waits for none of them, until they are as before.
    #[schemars(extend("default" = absent_by_default()))]
    pub absent: Absent,
    /// What is done about configuration that a template only names.
    pub config: Option<ConfigRule>,
    /// What happens on a node before its pod is replaced.
    pub prepare: Option<Prepare>,
    /// How nodes get a new template. `InPlaceIfPossible` changes a running pod where its template
    /// and the new one differ in nothing but images of containers, their CPU and memory, labels and
    /// annotations, and replaces others. With `InPlaceOnly` a template that differs in more is not
    /// rolled out, and a node fails whose pod cannot be changed, so that `failure` is required.
    /// Not with `maxSurge`. A rollout that goes back replaces pods that it cannot change.
    #[serde(default)]
    #[schemars(extend("default" = "Replace"))]
    pub update: UpdateMethod,
    /// How long a node may have no room for the new resources of a pod that is changed in place.
    /// Then the pod is replaced, or with `InPlaceOnly` the node fails.
    #[serde(deserialize_with = "schema::read_duration")]
    #[schemars(schema_with = "schema::duration", extend("default" = "2m"))]
    pub resize_within: Duration,
    /// The differences between the pods of some nodes and the template: amounts of resources,
    /// variables and arguments. The first one that selects a node counts there. Others than before
    /// are rolled out as another template is, to the nodes whose pods they change. Beside the
    /// built-in controller amounts of CPU and memory only: running pods are changed in place.
    #[serde(default)]
    #[schemars(
        with = "Vec<NodeOverride>",
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub overrides: Arc<Overrides>,
    /// True if another controller makes the pods: then overrides are no part of a revision, and
    /// running pods are changed in place (G57).
    #[serde(skip)]
    pub has_overrides_of_running: bool,
    /// What must pass before a rollout goes on from the waves of the steps that name it.
    #[serde(default)]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub checks: Vec<RolloutCheck>,
}

/// How nodes show that they are about to leave, are being maintained, or refuse pods: any one of
/// these (G33).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Absent {
    /// A taint with one of these keys.
    #[schemars(schema_with = "schema::label_keys", extend("default" = LEAVING_TAINTS))]
    pub taints: Vec<Arc<str>>,
    /// A condition of one of these types that is true.
    #[schemars(schema_with = "schema::label_keys", extend("default" = LEAVING_CONDITIONS))]
    pub conditions: Vec<Arc<str>>,
    /// They are cordoned.
    #[serde(default)]
    pub cordoned: bool,
    /// Their labels match this. By default no label says so.
    #[serde(default)]
    pub nodes: LabelSelector,
}

/// Taints that autoscalers, cloud providers and people give to nodes that leave.
const LEAVING_TAINTS: [&str; 4] = [
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
    "node.kubernetes.io/out-of-service",
    "node.cloudprovider.kubernetes.io/shutdown",
];

/// Conditions of nodes that shut down, or are being drained or maintained, and of those whose
/// kubelet evicts and refuses pods because it runs out of disk or processes.
const LEAVING_CONDITIONS: [&str; 6] = [
    "GracefulNodeShutdownInProgress",
    "DrainInProgress",
    "Drained",
    "MaintenanceInProgress",
    "DiskPressure",
    "PIDPressure",
];

fn absent_by_default() -> BTreeMap<&'static str, &'static [&'static str]> {
    BTreeMap::from([("taints", &LEAVING_TAINTS[..]), ("conditions", &LEAVING_CONDITIONS[..])])
}

impl Absent {
    /// The signs that count where no policy names others.
    pub fn by_default() -> Self {
        Self {
            taints: LEAVING_TAINTS.map(Arc::from).to_vec(),
            conditions: LEAVING_CONDITIONS.map(Arc::from).to_vec(),
            ..Self::default()
        }
    }

    /// True if the node shows one of the signs.
    pub fn matches(&self, node: &Node) -> bool {
        self.sign(node).is_some()
    }

    /// The sign that the node shows: `cordoned`, the key of a taint, the type of a condition, or
    /// `labels`.
    pub fn sign(&self, node: &Node) -> Option<&str> {
        let is_cordoned = self.cordoned && node.is_cordoned();
        let taint = || self.taints.iter().find(|key| node.has_taint(key));
        let condition = || self.conditions.iter().find(|sign| node.conditions.contains(sign));
        let is_labelled = || !self.nodes.is_empty() && self.nodes.matches(&node.labels);
        is_cordoned
            .then_some("cordoned")
            .or_else(|| taint().or_else(condition).map(|sign| &**sign))
            .or_else(|| is_labelled().then_some("labels"))
    }
}

/// How nodes get a new template (G56).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum UpdateMethod {
    /// Pods are replaced.
    #[default]
    Replace,
    /// Pods are changed where that is possible, and replaced elsewhere.
    InPlaceIfPossible,
    /// Pods are changed, or stay.
    InPlaceOnly,
}

schema::schema_of!(UpdateMethod, schema::update_method);

/// What happens on a node before its pod is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct Prepare {
    /// The node pulls the images of the new template before its old pod goes: a pod for each node,
    /// none of whose containers can start, makes its kubelet do that. While a wave bakes, the nodes
    /// of the next one pull. Not when a failed rollout goes back.
    pub images: Option<PrepareImages>,
    /// Somebody must agree that the old pod goes: the controller sets the annotation
    /// `everynode.dev/replacing` on it, and waits for `everynode.dev/replace: agreed`. Not with
    /// `maxSurge`, and not when a failed rollout goes back.
    pub agree: Option<Agree>,
}

/// How nodes pull the images of the new template before their old pods go (G55).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct PrepareImages {
    /// Maximum number of nodes that pull at the same time, without those that take longer than
    /// `within`.
    #[schemars(
        range(min = 1, max = 500),
        extend("default" = 50, "x-reason" = "must be a whole number from 1 to 500")
    )]
    pub parallel: NonZeroU16,
    /// How long a node may pull. Then it fails, and with more than `failure.maxNodes` of them the
    /// rollout, with no old pod gone; unless `failure.cannotStart` is false also once its pull has
    /// failed for a minute. Without `failure` it goes on pulling.
    #[serde(deserialize_with = "schema::read_duration")]
    #[schemars(schema_with = "schema::duration", extend(
        "default" = "15m",
        "x-at-least" = "30s",
        "x-reason" = "must be a duration of at least 30s, such as 15m",
    ))]
    pub within: Duration,
    /// With `false` no old pod waits for the images of its node, and no pull that fails counts.
    #[schemars(extend("default" = true))]
    pub required: bool,
}

/// How somebody agrees that an old pod goes (G54).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct Agree {
    /// How long a node waits for an answer. Then it is set aside and the rollout goes on to others,
    /// until somebody agrees.
    #[serde(deserialize_with = "schema::read_duration")]
    #[schemars(schema_with = "schema::duration", extend(
        "default" = "10m",
        "x-at-least" = "10s",
        "x-reason" = "must be a duration of at least 10s, such as 10m",
    ))]
    pub within: Duration,
}

/// The rule for ConfigMaps and Secrets that templates name (G53).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "has(self.require) || has(self.configMaps)",
        "message": rule::SOME_CONFIG_RULE,
    },
    {
        "rule": "has(self.configMaps) || !has(self.settle) && !has(self.except)",
        "message": rule::ONLY_WITH_COPIES,
    },
]))]
pub struct ConfigRule {
    /// `hashedNames` holds a rollout whose template has another checksum of a ConfigMap or Secret,
    /// while the names of these objects stay: going back would not restore them.
    #[serde(default)]
    #[schemars(schema_with = "schema::config_requirement")]
    pub require: Option<ConfigRequirement>,
    /// `snapshot` makes the ConfigMaps that a template names part of its revision: pods get
    /// immutable copies, another content is rolled out as another template is, and going back
    /// restores the content. Not beside the built-in controller.
    #[serde(default)]
    #[schemars(schema_with = "schema::config_maps")]
    pub config_maps: Option<ConfigMapRule>,
    /// How long the ConfigMaps and the template must not have changed until a rollout of theirs
    /// begins: changes within this time are one. Only with `configMaps`.
    #[serde(deserialize_with = "schema::read_duration")]
    #[schemars(schema_with = "schema::duration", extend("default" = "30s"))]
    pub settle: Duration,
    /// The names of ConfigMaps that are not copied: pods read them as they are. Only with
    /// `configMaps`.
    #[serde(default)]
    #[schemars(schema_with = "schema::config_map_names")]
    pub except: Vec<Arc<str>>,
}

impl ConfigRule {
    /// The names of the ConfigMaps in the configuration of a template of which pods get copies, and
    /// whether each may be missing.
    pub fn copied<'a>(
        &'a self,
        config: &'a Option<Arc<StoredConfig>>,
    ) -> impl Iterator<Item = (&'a Arc<str>, bool)> {
        let named = config.iter().flat_map(|config| config.config_maps());
        named.filter(|(name, _)| self.config_maps.is_some() && !self.except.contains(name))
    }
}

/// How pods get the ConfigMaps that their template names (G58).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ConfigMapRule {
    /// As copies that belong to a revision.
    Snapshot,
}

/// The names that ConfigMaps and Secrets must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ConfigRequirement {
    /// They change with the content of the objects.
    HashedNames,
}

/// A limit for each group of nodes that have the same value of a label. Nodes without the label
/// are a group of their own (G13).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct GroupLimit {
    /// The key of the label.
    #[schemars(schema_with = "schema::label_key")]
    pub label: Arc<str>,
    /// Maximum number of unavailable nodes in each group, or a percentage of its nodes that should
    /// run a pod, rounded up.
    #[schemars(schema_with = "schema::positive")]
    pub max: IntOrPercent,
}

/// When a node fails, how many may, and what happens then (G15, G34).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureRule {
    /// Maximum number of failed nodes, or a percentage of those that have a new pod, rounded down.
    #[schemars(extend("default" = 0))]
    pub max_nodes: IntOrPercent,
    /// Maximum number of restarts of a container of a new pod: with more, its node fails. By
    /// default they do not count.
    #[schemars(range(min = 0, max = 100))]
    pub max_restarts: Option<u8>,
    /// A node that had an available pod before fails if its new pod cannot start for a minute: its
    /// image cannot be pulled, or its containers cannot be created.
    #[schemars(extend("default" = true))]
    pub cannot_start: bool,
    /// A node that had an available pod before fails if it has none so long after its old pod is
    /// gone; `minReadySeconds` is added, and time in which the node is down does not count. By
    /// default it may take any time. The rollout fails, too, if it has nodes left and is done with
    /// none for that long, with the termination grace period and a minute added, and another one
    /// with `podsPerMinute`: an old pod may never end.
    #[serde(default, deserialize_with = "schema::read_optional_duration")]
    #[schemars(schema_with = "schema::duration", extend(
        "x-at-least" = "30s",
        "x-reason" = "must be a duration of at least 30s, such as 10m",
    ))]
    pub ready_within: Option<Duration>,
    /// Maximum number of nodes that go down or begin to leave after the rollout has begun on them,
    /// and stay so for `readyWithin`, or a percentage of those that have a new pod, rounded down.
    /// By default one node or 10%, whichever is more.
    #[serde(default)]
    #[schemars(schema_with = "schema::int_or_percent")]
    pub max_lost: Option<IntOrPercent>,
    /// Maximum number of pods that the new template's own placement may remove from nodes, or a
    /// percentage of the nodes, rounded down. A rollout that would remove more waits before the
    /// first wave that removes one.
    #[schemars(extend("default" = 0))]
    pub max_removed: IntOrPercent,
    /// How long after the failure nodes go back to the template that was complete before. By
    /// default they keep what they have until somebody decides.
    #[serde(default, deserialize_with = "schema::read_optional_duration")]
    #[schemars(
        schema_with = "schema::duration",
        extend("x-reason" = "must be a duration such as 0s or 10m")
    )]
    pub rollback_after: Option<Duration>,
}

/// One of the `steps` of a policy: one wave for each size, for each value of `by`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.by) || !has(self.each)",
    "message": rule::BY_OR_EACH,
    "fieldPath": ".each",
}]))]
pub struct RolloutStep {
    /// The name of the step, unique in the policy.
    #[schemars(schema_with = "schema::name")]
    pub name: Arc<str>,
    /// The nodes of the step, by their labels. By default all.
    #[serde(default)]
    pub nodes: LabelSelector,
    /// The key of a label. The nodes with each of its values are updated one group after the other,
    /// in the order of the values, and last the nodes without it.
    #[serde(default)]
    #[schemars(schema_with = "schema::label_key")]
    pub by: Option<Arc<str>>,
    /// The key of a label. Each wave of the step has `upTo` nodes of every value of the label, and
    /// of those without it: a canary on each kind of machine. Not with `by`.
    #[serde(default)]
    #[schemars(schema_with = "schema::label_key")]
    pub each: Option<Arc<str>>,
    /// How many nodes of a group have the new template after each wave: growing numbers, or
    /// percentages, rounded up.
    #[schemars(
        length(min = 1, max = 10),
        extend("default" = ["100%"], "x-kubernetes-list-type" = "set"),
        extend("x-kubernetes-validations" = [
            {
                "rule": "self.map(each, type(each) == int, int(each)).isSorted()",
                "message": rule::GROWING,
            },
            { "rule": growing_percentages(), "message": rule::GROWING },
        ])
    )]
    pub up_to: Vec<IntOrPercent>,
    /// What must pass before the rollout goes on from a wave.
    #[serde(flatten)]
    pub wait: Wait,
}

/// What must pass before a rollout goes on from a wave, or is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// How long the nodes of the wave must be updated and available.
    #[serde(deserialize_with = "schema::read_duration")]
    #[schemars(schema_with = "schema::duration", extend("default" = "0s"))]
    pub bake: Duration,
    /// The names of those of the policy's checks that the wave must pass.
    #[serde(default)]
    #[schemars(schema_with = "schema::check_names")]
    pub checks: Arc<[Arc<str>]>,
    /// Somebody must approve the wave.
    #[serde(default)]
    pub approval: bool,
}

/// The rule that percentages grow. Functions of strings cost too much where a value may be a
/// number, so that its length is not limited.
fn growing_percentages() -> String {
    let numbers: Vec<String> = (0..=100).map(|number| format!("'{number}%': {number}")).collect();
    let numbers = numbers.join(", ");
    format!("self.map(each, type(each) == string, {{ {numbers} }}[each]).isSorted()")
}

impl PolicySource {
    /// The policy, if it can be followed.
    pub const fn valid(&self) -> Option<&Arc<RolloutPolicy>> {
        match self {
            Self::None | Self::Invalid(_) => None,
            Self::Valid(policy) => Some(policy),
        }
    }

    /// The problem to report, if it cannot be followed.
    pub(crate) fn problem(&self) -> Option<Problem> {
        match self {
            Self::None | Self::Valid(_) => None,
            Self::Invalid(message) => Some(Problem::Policy { message: message.clone() }),
        }
    }
}

impl RolloutPolicy {
    /// How long a node may have no room for new resources without a policy, as by default with one.
    pub(crate) const RESIZE_WITHIN: Duration = Duration::from_secs(120);

    /// The step of a position; `None` after the last one.
    pub fn step(&self, position: &Position) -> Option<&RolloutStep> {
        match position {
            Position::AllNodes => None,
            Position::Wave(wave) => self.steps.get(wave.step),
        }
    }

    /// For how long a node waits until somebody agrees that its old pod goes, if one must (G54).
    pub fn agree_within(&self) -> Option<Duration> {
        Some(self.prepare?.agree?.within)
    }

    /// The field that excludes `maxSurge`, if the policy has one: with it, new pods start beside
    /// old ones (G54, G56).
    pub fn field_against_surge(&self) -> Option<&'static str> {
        match self.update {
            _ if self.agree_within().is_some() => Some("prepare.agree"),
            UpdateMethod::Replace => None,
            UpdateMethod::InPlaceIfPossible | UpdateMethod::InPlaceOnly => Some("update"),
        }
    }

    /// How nodes pull the images of a new template before their old pods go, if they do (G55).
    pub fn images(&self) -> Option<PrepareImages> {
        self.prepare?.images
    }

    /// True if it matters that an image cannot be pulled, or a container not be created (G34, G55).
    pub fn counts_failed_starts(&self) -> bool {
        self.failure.is_none_or(|rule| rule.cannot_start)
    }

    /// The overrides that make its revisions together with templates, if it has any (G57).
    pub fn overrides(&self) -> Option<&Arc<Overrides>> {
        self.stated_overrides().filter(|_| !self.has_overrides_of_running)
    }

    /// All overrides that it states, if it has any.
    pub fn stated_overrides(&self) -> Option<&Arc<Overrides>> {
        Some(&self.overrides).filter(|overrides| !overrides.list.is_empty())
    }

    /// The rule by which ConfigMaps are copied, if they are (G58).
    pub fn snapshots(&self) -> Option<&ConfigRule> {
        self.config.as_ref().filter(|config| config.config_maps.is_some())
    }

    /// The conditions that must pass before the rollout goes on from a position.
    pub fn wait(&self, position: &Position) -> Wait {
        match self.step(position) {
            Some(step) => step.wait.clone(),
            None => self.finally.clone().unwrap_or_else(|| {
                let last = self.steps.last().map(|step| step.wait.clone());
                Wait { approval: false, ..last.unwrap_or_default() }
            }),
        }
    }

    /// The checks that must pass.
    pub fn checks_of<'a>(&'a self, wait: &'a Wait) -> impl Iterator<Item = &'a RolloutCheck> {
        let find = |name: &Arc<str>| self.checks.iter().find(|check| check.name == *name);
        wait.checks.iter().filter_map(find)
    }

    /// The name by which orders and checks refer to a position: that of the wave, or
    /// [`FINALLY`] after the last step.
    pub fn order_name(&self, position: &Position) -> WaveName {
        self.wave_name(position).unwrap_or_else(|| FINALLY.into())
    }

    /// The name of the wave at a position; `None` after the last step.
    pub fn wave_name(&self, position: &Position) -> Option<WaveName> {
        let Position::Wave(wave) = position else { return None };
        let step = self.step(position)?;
        let mut name = step.name.to_string();
        if step.by.is_some() {
            name += &format!("/{}", wave.group);
        }
        if let Some(size) = step.up_to.get(wave.size).filter(|_| step.up_to.len() > 1) {
            name += &format!(":{size}");
        }
        Some(name.as_str().into())
    }
}

impl Wait {
    /// True if nothing has to pass.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}
