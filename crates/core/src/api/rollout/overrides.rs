//! The differences that a policy states between the pods of some nodes and the template.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::config_map::{parts_of_tag, tag_with_copies};
use crate::api::schema;
use crate::api::{CONFIG_LABEL, ConfigCopies, OVERRIDE_LABEL};
use crate::api::{KubeletVersion, LabelSelector, Node};

/// The annotation of a ControllerRevision with the overrides of its revision, as JSON.
pub const OVERRIDES_ANNOTATION: &str = "everynode.dev/overrides";

/// The overrides of a revision, and its copies of ConfigMaps. They and the template are what its
/// pods are made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Vec<NodeOverride>")]
pub struct Overrides {
    /// In the order of the policy: the first one that selects a node counts there. With copies of
    /// ConfigMaps the last one has no name, no containers, and all nodes.
    pub list: Vec<Arc<NodeOverride>>,
    /// The same as JSON in one form, without times and permissions, which make no pod, and without
    /// copies. Empty if no override is stated.
    pub text: Arc<str>,
    /// The copies of ConfigMaps that pods have in place of those that the template names (G58).
    pub copies: Option<Arc<ConfigCopies>>,
}

/// The difference between the pods of some nodes and the template.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverride {
    /// Names the override in labels of pods and in messages.
    #[schemars(schema_with = "schema::override_name")]
    pub name: Arc<str>,
    /// The nodes whose pods differ from the template, unless an override before selects them, too.
    pub nodes: OverriddenNodes,
    /// The containers of the template that differ, init containers among them.
    #[schemars(
        length(min = 1, max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub containers: Vec<ContainerOverride>,
    /// How long the labels of a node must have said that another override counts there, or none,
    /// until its pod is replaced. Of two overrides the longer time counts.
    #[serde(deserialize_with = "schema::read_duration")]
    #[schemars(schema_with = "schema::duration", extend("default" = "5m"))]
    pub settle: Duration,
    /// Allows requests that are larger than those of the template, by which autoscalers choose the
    /// size of a new node.
    #[serde(default)]
    pub allow_larger: bool,
    /// The name and a hash of `containers`, such as `big-7d9f8b6c5`; with copies of ConfigMaps, a
    /// slash and their tag follow.
    #[serde(skip)]
    pub tag: Arc<str>,
    /// The copies of ConfigMaps (G58).
    #[serde(skip)]
    pub copies: Option<Arc<ConfigCopies>>,
}

/// The nodes of an override. All that is stated must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverriddenNodes {
    /// By their labels.
    #[serde(flatten)]
    pub labels: LabelSelector,
    /// Their kubelets have this version, such as 1.35.
    #[serde(default)]
    #[schemars(schema_with = "schema::kubelet_version")]
    pub kubelet_version: Option<KubeletVersion>,
    /// Their label `kubernetes.io/os`.
    #[serde(default)]
    #[schemars(schema_with = "schema::label_value")]
    pub os: Option<Arc<str>>,
    /// Their label `kubernetes.io/arch`.
    #[serde(default)]
    #[schemars(schema_with = "schema::label_value")]
    pub arch: Option<Arc<str>>,
}

/// The difference of one container.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerOverride {
    /// The name of the container in the template.
    #[schemars(schema_with = "schema::name")]
    pub name: Arc<str>,
    /// The amounts that differ.
    #[serde(default)]
    pub resources: ResourceOverride,
    /// Variables with other values, or beside those of the template.
    #[serde(default)]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub env: Vec<EnvOverride>,
    /// Replaces `args` of the template.
    #[serde(default)]
    #[schemars(schema_with = "schema::arguments")]
    pub args: Option<Vec<Arc<str>>>,
    /// Replaces `image` of the template. Only if the controller runs with `--overrides-may=image`.
    #[serde(default)]
    #[schemars(schema_with = "schema::image")]
    pub image: Option<Arc<str>>,
}

/// The amounts of resources that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct ResourceOverride {
    /// Other requests, by resource.
    #[serde(default)]
    #[schemars(schema_with = "schema::amounts")]
    pub requests: BTreeMap<Arc<str>, Amount>,
    /// Other limits, by resource.
    #[serde(default)]
    #[schemars(schema_with = "schema::amounts")]
    pub limits: BTreeMap<Arc<str>, Amount>,
}

/// An environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct EnvOverride {
    /// Its name.
    #[schemars(schema_with = "schema::variable_name")]
    pub name: Arc<str>,
    /// Its value, in place of the template's `value` or `valueFrom`.
    #[schemars(schema_with = "schema::variable_value")]
    pub value: Arc<str>,
}

/// An amount of a resource, as a policy states it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "WrittenAmount")]
pub struct Amount {
    /// A Kubernetes quantity, such as `100m` or `128Mi`.
    pub text: Arc<str>,
    /// The same in thousandths.
    pub millis: i64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenAmount {
    Number(u64),
    Text(Arc<str>),
}

impl From<WrittenAmount> for Amount {
    fn from(written: WrittenAmount) -> Self {
        let text = match written {
            WrittenAmount::Number(number) => number.to_string().into(),
            WrittenAmount::Text(text) => text,
        };
        Self { text, millis: 0 }
    }
}

/// The requests and limits of a container of a template, in thousandths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerAmounts {
    /// The name of the container.
    pub name: Arc<str>,
    /// Its requests, by resource.
    pub requests: BTreeMap<Arc<str>, i64>,
    /// Its limits, by resource.
    pub limits: BTreeMap<Arc<str>, i64>,
    /// True if it ends before the others start, as init containers do that are no sidecars.
    pub ends: bool,
}

impl From<Vec<NodeOverride>> for Overrides {
    fn from(list: Vec<NodeOverride>) -> Self {
        let list = list.into_iter().map(Arc::new).collect();
        Self { list, text: Arc::default(), copies: None }
    }
}

impl OverriddenNodes {
    fn matches(&self, node: &Node) -> bool {
        let has = |key: &str, value: &Option<Arc<str>>| {
            value.is_none() || node.labels.get(key) == value.as_ref()
        };
        self.labels.matches(&node.labels)
            && (self.kubelet_version.is_none() || node.kubelet_version == self.kubelet_version)
            && has("kubernetes.io/os", &self.os)
            && has("kubernetes.io/arch", &self.arch)
    }
}

impl Overrides {
    /// Overrides as a policy states them, with copies of ConfigMaps; `None` without any of both.
    pub fn with_copies(
        stated: Option<&Arc<Self>>,
        copies: Option<&Arc<ConfigCopies>>,
    ) -> Option<Arc<Self>> {
        let Some(copies) = copies.filter(|copies| !copies.hashes.is_empty()) else {
            return stated.cloned();
        };
        let completed = |it: &NodeOverride| NodeOverride {
            tag: tag_with_copies(Some(&it.tag), &copies.tag),
            copies: Some(copies.clone()),
            ..it.clone()
        };
        let others = NodeOverride {
            name: Arc::default(),
            nodes: OverriddenNodes::default(),
            containers: Vec::new(),
            settle: Duration::ZERO,
            allow_larger: false,
            tag: Arc::default(),
            copies: None,
        };
        let stated = stated.map(|stated| &**stated);
        let list = stated.into_iter().flat_map(|stated| &stated.list);
        let list = list.map(|it| completed(it)).chain([completed(&others)]).map(Arc::new);
        Some(Arc::new(Self {
            list: list.collect(),
            text: stated.map(|stated| stated.text.clone()).unwrap_or_default(),
            copies: Some(copies.clone()),
        }))
    }

    /// True if both make the same pods on the same nodes.
    pub fn are_same(one: Option<&Arc<Self>>, other: Option<&Arc<Self>>) -> bool {
        fn content(of: &Arc<Overrides>) -> (&str, Option<&str>) {
            (&of.text, of.copies.as_ref().map(|copies| &*copies.text))
        }
        one.map(content) == other.map(content)
    }

    /// The override that counts on a node; `None` if its pods are those of the template.
    pub fn of_node(&self, node: &Node) -> Option<&Arc<NodeOverride>> {
        self.list.iter().find(|it| it.nodes.matches(node))
    }

    /// The override with this tag.
    pub fn with_tag(&self, tag: &str) -> Option<&Arc<NodeOverride>> {
        self.list.iter().find(|it| *it.tag == *tag)
    }

    /// The reason why these overrides cannot be used with a template of these containers, with the
    /// field.
    pub fn problem(&self, template: &[ContainerAmounts], may: MayOverride) -> Option<String> {
        self.list.iter().enumerate().find_map(|(index, it)| {
            let problem = it.containers.iter().enumerate().find_map(|(number, container)| {
                let (field, why) = container.problem(template, it.allow_larger, may)?;
                Some(format!("containers[{number}].{field}: {why}"))
            })?;
            Some(format!("overrides[{index}].{problem}"))
        })
    }
}

impl NodeOverride {
    /// The labels that its pods get, which are also annotations.
    pub fn labels(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let of_copies = self.copies.as_ref().map(|copies| (CONFIG_LABEL, &*copies.tag));
        self.label().map(|label| (OVERRIDE_LABEL, label)).into_iter().chain(of_copies)
    }

    /// The value of the label [`OVERRIDE_LABEL`] of its pods: the tag without that of copies.
    /// `None` if no override is stated for the node.
    pub fn label(&self) -> Option<&str> {
        parts_of_tag(&self.tag).0
    }
}

/// The fields of a container that overrides may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MayOverride {
    /// Amounts of CPU and memory: the pods run already, as the built-in controller makes them.
    Running,
    /// All but the image.
    AllButImage,
    /// All.
    All,
}

impl ContainerOverride {
    fn problem(
        &self,
        template: &[ContainerAmounts],
        allows_larger: bool,
        may: MayOverride,
    ) -> Option<(String, String)> {
        let value = |text: &str, why: &str| format!("Invalid value: \"{text}\": {why}");
        let Some(own) = template.iter().find(|own| own.name == self.name) else {
            let why = value(&self.name, "the template has no container of this name");
            return Some(("name".to_owned(), why));
        };
        match may {
            MayOverride::Running => {
                if let Some(problem) = self.problem_in_running_pods(own) {
                    return Some(problem);
                }
            }
            MayOverride::AllButImage if let Some(image) = &self.image => {
                let why = "overrides may set images only if the controller runs with \
                           --overrides-may=image";
                return Some(("image".to_owned(), value(image, why)));
            }
            MayOverride::AllButImage | MayOverride::All => {}
        }
        let ResourceOverride { requests, limits } = &self.resources;
        requests.keys().chain(limits.keys()).find_map(|resource| {
            let stated = |list: &BTreeMap<Arc<str>, Amount>| list.get(resource).map(|it| it.millis);
            let of = |list: &BTreeMap<Arc<str>, i64>| list.get(resource).copied();
            let limit = stated(limits).or_else(|| of(&own.limits));
            // An API server takes a limit for the request of a container that states none.
            let before = of(&own.requests).or_else(|| of(&own.limits)).unwrap_or(0);
            let request = stated(requests).or_else(|| of(&own.requests)).or(limit).unwrap_or(0);
            let why = match limit {
                _ if request > before && !allows_larger => {
                    "its request is larger than that of the template, by which autoscalers choose \
                     the size of new nodes; allowLarger allows that"
                }
                Some(limit) if request > limit => "its request would be larger than its limit",
                _ => return None,
            };
            Some((
                format!("resources[{resource}]"),
                value(amount_text(requests, limits, resource), why),
            ))
        })
    }
}

impl ContainerOverride {
    /// The reason why running pods cannot be changed to this, with the field.
    fn problem_in_running_pods(&self, own: &ContainerAmounts) -> Option<(String, String)> {
        let forbidden = |field: &str, why: &str| {
            let why =
                format!("Forbidden: beside the built-in controller, which makes the pods, {why}");
            Some((field.to_owned(), why))
        };
        let only = "overrides may set only amounts of CPU and memory";
        let ResourceOverride { requests, limits } = &self.resources;
        let is_other = |resource: &&Arc<str>| !matches!(&***resource, "cpu" | "memory");
        let other = requests.keys().chain(limits.keys()).find(is_other);
        match self {
            _ if own.ends => {
                forbidden("name", "init containers have ended before pods are changed")
            }
            Self { image: Some(_), .. } => forbidden("image", only),
            Self { args: Some(_), .. } => forbidden("args", only),
            Self { env, .. } if !env.is_empty() => forbidden("env", only),
            _ if let Some(other) = other => forbidden(&format!("resources[{other}]"), only),
            _ => {
                // API servers take a limit for a request that is missing.
                let lacks_request =
                    |it: &&Arc<str>| !own.requests.contains_key(*it) && lacks_limit(own, it);
                let limit = limits.keys().find(|it| lacks_limit(own, it));
                let lacking = limit.or_else(|| requests.keys().find(lacks_request))?;
                forbidden(
                    &format!("resources[{lacking}]"),
                    "overrides may set only amounts that the template states: nobody can take \
                     others from a pod again",
                )
            }
        }
    }
}

fn lacks_limit(of: &ContainerAmounts, resource: &str) -> bool {
    !of.limits.contains_key(resource)
}

/// The amount of a resource that an override states, its request first.
fn amount_text<'a>(
    requests: &'a BTreeMap<Arc<str>, Amount>,
    limits: &'a BTreeMap<Arc<str>, Amount>,
    resource: &str,
) -> &'a str {
    requests.get(resource).or_else(|| limits.get(resource)).map_or("", |amount| &amount.text)
}
