//! Changes of a running pod from one template to another (G56): which templates differ in nothing
//! but what can change, and the patches that change it.
//!
//! The images of containers and sidecars can, and the amounts of their CPU and memory, labels, and
//! annotations. A label or an annotation that a container reads cannot, nor an annotation that
//! means a restart or that a component reads when the pod starts. Only the difference between the
//! two templates is changed: what admission or others have changed in the pod stays. Where another
//! override of resources is to count, the pod says which amounts the one before has changed (G57).

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use everynode_core::api::{
    CHANGED_ANNOTATION, CHANGING_ANNOTATION, CONFIG_LABEL, HASH_LABEL, OVERRIDDEN_ANNOTATION,
    OVERRIDE_LABEL, TEMPLATE_GENERATION_LABEL, parts_of_tag,
};
use everynode_core::plan::NewChange;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::canonical::canonical;
use crate::go_json;
use crate::json::Json;
use crate::overrides::{self, Overridden};
use crate::quantity::Quantity;
use crate::record::time_text;
use crate::resources::qos_class;

/// Part of the key of an annotation that states a checksum of configuration, such as Helm's
/// `checksum/config` (G53).
pub(crate) const CHECKSUM: &str = "checksum";

/// Parts of keys of annotations that mean a restart, such as a checksum of configuration.
const RESTARTS: [&str; 7] =
    [CHECKSUM, "hash", "redeploy", "reload", "restart", "rollme", "timestamp"];

/// The ends of the domains of annotations that components read when a pod starts, or that mean a
/// restart, such as `kubectl.kubernetes.io/restartedAt`.
const READ_AT_START: [&str; 6] =
    ["cncf.io", "istio.io", "k8s.io", "kubernetes.io", "linkerd.io", "vault.hashicorp.com"];

const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// The labels of pods, and annotations of the same names, that their revision states.
const OF_REVISION: [&str; 4] =
    [HASH_LABEL, TEMPLATE_GENERATION_LABEL, OVERRIDE_LABEL, CONFIG_LABEL];

/// The value of [`CHANGING_ANNOTATION`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeStatement {
    /// The hash of the revision.
    pub to: String,
    /// Since when.
    pub since: String,
    /// The ID of each container that is to start anew, before that.
    #[serde(default)]
    pub containers: BTreeMap<String, String>,
    /// True if resources change.
    #[serde(default)]
    pub resizes: bool,
    /// The tag of the override that the pod has then.
    #[serde(default, rename = "override", skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// The value of [`CHANGED_ANNOTATION`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedStatement {
    /// Since when; empty if nothing but its override was ever changed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub since: String,
    /// The number of restarts of each container that do not count.
    #[serde(default)]
    pub restarts: BTreeMap<String, i64>,
}

/// Identifies the parts of a template that cannot change in a running pod: templates for which this
/// is equal differ in nothing else.
pub fn fixed_parts(template: &Value) -> u64 {
    let mut fixed = template.clone();
    if let Some(fixed) = fixed.as_object_mut() {
        // Stored templates have it.
        fixed.remove("$patch");
    }
    let read = Read::of(template);
    if OF_REVISION.into_iter().any(|label| read.labels.named.contains(label)) {
        return hash_of(&fixed, template);
    }
    for (field, is_read) in [("labels", &read.labels), ("annotations", &read.annotations)] {
        if let Some(entries) = fixed.pointer_mut(&format!("/metadata/{field}")) {
            keep(entries, |key| {
                is_read.contains(key) || field == "annotations" && is_read_at_start(key)
            });
        }
    }
    for container in changeable_mut(&mut fixed) {
        if let Some(image) = container.get_mut("image").filter(|image| image.is_string()) {
            *image = Value::Bool(true);
        }
        if read.resources {
            continue;
        }
        for list in ["requests", "limits"] {
            for resource in RESOURCES {
                let amount = container.pointer_mut(&format!("/resources/{list}/{resource}"));
                // Whether there is one cannot change.
                amount.into_iter().for_each(|amount| *amount = Value::Bool(true));
            }
        }
    }
    hash_of(&fixed, template)
}

fn hash_of(fixed: &Value, template: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    (canonical(fixed), qos_class(template)).hash(&mut hasher);
    hasher.finish()
}

/// The fields of their pod that the containers of a template read.
#[derive(Default)]
struct Read {
    labels: Keys,
    annotations: Keys,
    resources: bool,
}

#[derive(Default)]
struct Keys {
    all: bool,
    named: BTreeSet<String>,
}

impl Keys {
    fn contains(&self, key: &str) -> bool {
        self.all || self.named.contains(key)
    }

    /// Adds what a `fieldPath` names: all, or one in brackets and quotes.
    fn add(&mut self, rest: &str) {
        match rest.strip_prefix("['").and_then(|rest| rest.strip_suffix("']")) {
            Some(key) => drop(self.named.insert(key.to_owned())),
            None => self.all = true,
        }
    }
}

impl Read {
    fn of(value: &Value) -> Self {
        let mut read = Self::default();
        read.visit(value);
        read
    }

    fn visit(&mut self, value: &Value) {
        for (key, member) in value.fields() {
            match (key, member.string()) {
                ("fieldPath", Some(path)) => {
                    if let Some(rest) = path.strip_prefix("metadata.labels") {
                        self.labels.add(rest);
                    } else if let Some(rest) = path.strip_prefix("metadata.annotations") {
                        self.annotations.add(rest);
                    }
                }
                ("resourceFieldRef", _) => self.resources = true,
                _ => self.visit(member),
            }
        }
        value.items().iter().for_each(|item| self.visit(item));
    }
}

fn is_read_at_start(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_of = |end: &str| domain == end || domain.ends_with(&format!(".{end}"));
    let lower = key.to_ascii_lowercase();
    RESTARTS.iter().any(|part| lower.contains(part)) || READ_AT_START.into_iter().any(is_of)
}

/// Removes the entries of an object that are not kept.
fn keep(entries: &mut Value, is_kept: impl Fn(&str) -> bool) {
    if let Some(entries) = entries.as_object_mut() {
        entries.retain(|key, _| is_kept(key));
    }
}

/// The containers and sidecars of a template.
fn changeable(template: &Value) -> impl Iterator<Item = (&'static str, &Value)> {
    ["containers", "initContainers"].into_iter().flat_map(move |field| {
        let containers = template.items_at(&["spec", field]).iter();
        containers.filter(move |it| runs_always(field, it)).map(move |it| (field, it))
    })
}

fn changeable_mut(template: &mut Value) -> impl Iterator<Item = &mut Value> {
    let spec = template.get_mut("spec").and_then(Value::as_object_mut);
    let fields = spec.into_iter().flat_map(Map::iter_mut);
    let lists =
        fields.filter(|(field, _)| matches!(field.as_str(), "containers" | "initContainers"));
    lists.flat_map(|(field, containers)| {
        let containers = containers.as_array_mut().into_iter().flatten();
        containers.filter(|it| runs_always(field, it))
    })
}

/// True if a kubelet starts the container again for a new image, also after it has ended. An init
/// container without a `restartPolicy` runs once, any other container as the pod says.
fn runs_always(field: &str, container: &Value) -> bool {
    match container.string_at(&["restartPolicy"]) {
        "Always" => true,
        "" => field == "containers",
        _ => false,
    }
}

/// For each list of containers, names of these and their images.
type Images<'a> = BTreeMap<&'static str, Vec<(&'a str, &'a str)>>;

/// The difference between two templates, as a change of a running pod.
#[derive(Debug)]
pub struct Change<'a> {
    new: &'a NewChange,
    from: Value,
    to: Value,
}

impl<'a> Change<'a> {
    /// The change that a write asks for. Where it changes the override, `pod` is the live pod.
    ///
    /// # Errors
    /// Why this pod cannot be changed.
    pub fn new(new: &'a NewChange, pod: Option<&Value>) -> Result<Self, String> {
        let template = |text: &str| go_json::parse(text.as_bytes()).unwrap_or(Value::Null);
        let (mut from, mut to) = (template(&new.from), template(&new.to));
        overrides::apply_to_template(&mut to, new.r#override.as_deref());
        match pod.filter(|_| new.changes_override()) {
            Some(pod) => {
                let changed = changed_by_override(new, pod)?;
                if let Some(spec) = from.get_mut("spec").and_then(Value::as_object_mut) {
                    overrides::copy_amounts(spec, pod, &changed);
                }
            }
            None => overrides::apply_to_template(&mut from, new.r#override.as_deref()),
        }
        Ok(Self { new, from, to })
    }

    /// True if the live pod states that this change is under way.
    pub fn has_begun(&self, pod: &Value) -> bool {
        let goal = self.new.goal();
        statement(pod).is_some_and(|statement| {
            statement.to == goal.hash.as_str() && statement.tag.as_deref() == goal.tag.as_deref()
        })
    }

    /// The strategic merge patch that begins the change of the live pod.
    ///
    /// # Errors
    /// Why this pod cannot be changed.
    pub fn patch(&self, pod: &Value) -> Result<Value, String> {
        let own = pod.at(&["metadata", "labels", HASH_LABEL]).and_then(Json::string);
        // One of its override alone gives way: the pod states what that has changed.
        if statement(pod).is_some_and(|statement| Some(&*statement.to) != own) {
            return Err("another change of it is under way".to_owned());
        }
        if pod.string_at(&["status", "phase"]) != "Running" {
            return Err("it does not run".to_owned());
        }
        if pod.at(&["status", "observedGeneration"]).and_then(Json::unsigned).unwrap_or(0) == 0 {
            return Err("its kubelet does not state which generation of the pod it has seen, as \
                        those of Kubernetes 1.34 and later do"
                .to_owned());
        }
        let images = self.images(pod)?;
        let resized = self.resized();
        let names = images.values().flatten().map(|(name, _)| *name);
        let before = container_statuses(pod);
        let id =
            |name: &str| before.get(name).map_or("", |status| status.string_at(&["containerID"]));
        let statement = ChangeStatement {
            to: self.new.hash.as_str().to_owned(),
            since: time_text(self.new.since),
            containers: names.clone().map(|name| (name.to_owned(), id(name).to_owned())).collect(),
            resizes: !resized.is_empty(),
            tag: self.new.goal().tag.map(|tag| tag.to_string()),
        };
        // An override alone makes the pod no younger, and its earlier restarts count.
        let earlier = self.new.keeps_revision().then(|| changed(pod).unwrap_or_default());
        let restarts = before.iter().map(|(name, status)| {
            let all = status.at(&["restartCount"]).and_then(Json::unsigned).unwrap_or(0);
            let known = earlier.as_ref().map_or(i64::try_from(all).unwrap_or(i64::MAX), |it| {
                it.restarts.get(*name).copied().unwrap_or(0)
            });
            // A kubelet may restart a container for its image and once more for its resources. The
            // first start of a container is no restart.
            let resized = restarted_by_resize(&resized);
            let restarts = names.clone().chain(resized).filter(|it| it == name).count();
            let restarts = if id(name).is_empty() { 0 } else { restarts as i64 };
            ((*name).to_owned(), known.saturating_add(restarts))
        });
        let restarts = restarts.collect();
        let since = earlier.map_or(statement.since.clone(), |it| it.since);
        let changed = ChangedStatement { since, restarts };
        let mut annotations = self.metadata("annotations");
        OF_REVISION.into_iter().for_each(|key| drop(annotations.remove(key)));
        annotations.insert(CHANGING_ANNOTATION.into(), text(&statement));
        annotations.insert(CHANGED_ANNOTATION.into(), text(&changed));
        if let Some(of_node) =
            self.new.r#override.as_deref().filter(|_| self.new.changes_override())
        {
            let mut overridden = overridden(pod).unwrap_or_default();
            overridden.extend(Overridden::by(of_node));
            annotations.insert(OVERRIDDEN_ANNOTATION.into(), text(&overridden));
        }
        let mut labels = self.metadata("labels");
        // They are the pod's own, and say that the change is done.
        OF_REVISION.into_iter().for_each(|label| drop(labels.remove(label)));
        let mut patch = json!({ "metadata": {
            "uid": self.new.pod.uid.to_string(),
            "labels": labels,
            "annotations": annotations,
        } });
        for (field, images) in images {
            let containers =
                images.into_iter().map(|(name, image)| json!({ "name": name, "image": image }));
            patch["spec"][field] = containers.collect();
        }
        Ok(patch)
    }

    /// The strategic merge patch of the subresource `resize`, if resources change.
    pub fn resize_patch(&self) -> Option<Value> {
        let resized = self.resized();
        let mut patch = json!({ "metadata": { "uid": self.new.pod.uid.to_string() } });
        for field in ["containers", "initContainers"] {
            let containers = resized.iter().filter(|(of, ..)| *of == field);
            let containers: Vec<_> = containers
                .map(|(_, container, resources)| {
                    json!({ "name": container.string_at(&["name"]), "resources": resources })
                })
                .collect();
            if !containers.is_empty() {
                patch["spec"][field] = containers.into();
            }
        }
        (!resized.is_empty()).then_some(patch)
    }

    /// The images that change, with the names of their containers, for each list of containers.
    fn images<'b>(&'b self, pod: &Value) -> Result<Images<'b>, String> {
        let mut images = Images::new();
        for (field, container) in changeable(&self.to) {
            let (name, image) = (container.string_at(&["name"]), container.string_at(&["image"]));
            let before = find(&self.from, field, name).map_or("", |it| it.string_at(&["image"]));
            if before == image {
                continue;
            }
            match find(pod, field, name).map(|it| it.string_at(&["image"])) {
                Some(live) if live == before => {
                    images.entry(field).or_default().push((name, image))
                }
                Some(_) => {
                    return Err(format!(
                        "the image of container {name} is not that of its template: something else \
                         has changed it"
                    ));
                }
                None => return Err(format!("it has no container {name}")),
            }
        }
        Ok(images)
    }

    /// The resources that change, with their containers.
    fn resized(&self) -> Vec<(&'static str, &Value, Value)> {
        let resized = changeable(&self.to).filter_map(|(field, container)| {
            let before = find(&self.from, field, container.string_at(&["name"]))?;
            let mut resources = Map::new();
            for list in ["requests", "limits"] {
                let changed = RESOURCES.into_iter().filter_map(|resource| {
                    let new = amount(container, list, resource);
                    let new = match (amount(before, list, resource), new) {
                        (None, None) => return None,
                        (Some(old), Some(new)) if is_equal(old, new) => return None,
                        (_, Some(new)) => new.clone(),
                        (Some(_), None) => Value::Null,
                    };
                    Some((resource.to_owned(), new))
                });
                let changed: Map<_, _> = changed.collect();
                if !changed.is_empty() {
                    resources.insert(list.to_owned(), changed.into());
                }
            }
            (!resources.is_empty()).then_some((field, container, resources.into()))
        });
        resized.collect()
    }

    /// The labels or annotations to set, and those to remove, which are null.
    fn metadata(&self, field: &str) -> Map<String, Value> {
        let of = |template: &'_ Value| {
            template.pointer(&format!("/metadata/{field}")).and_then(Value::as_object).cloned()
        };
        let (from, to) = (of(&self.from).unwrap_or_default(), of(&self.to).unwrap_or_default());
        let gone = from.keys().filter(|key| !to.contains_key(*key));
        let mut changed: Map<_, _> = gone.map(|key| (key.clone(), Value::Null)).collect();
        changed.extend(to.into_iter().filter(|(key, value)| from.get(key) != Some(value)));
        changed
    }
}

/// The changes that overrides have made in a live pod.
fn changed_by_override(new: &NewChange, pod: &Value) -> Result<Overridden, String> {
    let tag = new.tag.as_ref().and_then(|tag| parts_of_tag(tag).0);
    match (overridden(pod), tag) {
        (Some(changed), _) if changed.0.values().any(|it| it.other) => {
            Err("its override differs from the template in more than resources".to_owned())
        }
        (Some(changed), _) => Ok(changed),
        (None, None) => Ok(Overridden::default()),
        (None, Some(tag)) => Err(format!(
            "it does not say what its override {tag} has changed: its annotation \
             {OVERRIDDEN_ANNOTATION} is missing"
        )),
    }
}

/// The changes by overrides that a pod states.
fn overridden(pod: &Value) -> Option<Overridden> {
    let annotations = pod.at(&["metadata", "annotations"])?;
    serde_json::from_str(annotations.field(OVERRIDDEN_ANNOTATION)?.string()?).ok()
}

/// The change that a pod states to be under way; `None` if it states none, or something else.
fn statement(pod: &Value) -> Option<ChangeStatement> {
    let annotations = pod.at(&["metadata", "annotations"])?;
    serde_json::from_str(annotations.field(CHANGING_ANNOTATION)?.string()?).ok()
}

/// The statement of a pod about earlier changes; `None` if it states none, or something else.
fn changed(pod: &Value) -> Option<ChangedStatement> {
    let annotations = pod.at(&["metadata", "annotations"])?;
    serde_json::from_str(annotations.field(CHANGED_ANNOTATION)?.string()?).ok()
}

fn text(value: &impl Serialize) -> Value {
    serde_json::to_string(value).expect("all keys are strings").into()
}

/// The container of this name in a list of a pod or a template.
fn find<'a>(of: &'a Value, field: &str, name: &str) -> Option<&'a Value> {
    of.items_at(&["spec", field]).iter().find(|it| it.string_at(&["name"]) == name)
}

/// The amount of a resource: an API server takes a limit for the request of a pod that has none.
fn amount<'a>(container: &'a Value, list: &str, resource: &str) -> Option<&'a Value> {
    let of = |list| container.at(&["resources", list, resource]);
    of(list).or_else(|| if list == "requests" { of("limits") } else { None })
}

fn is_equal(one: &Value, other: &Value) -> bool {
    match (Quantity::of_json(one), Quantity::of_json(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

/// The containers that a kubelet restarts to resize them.
fn restarted_by_resize<'a>(
    resized: &'a [(&'static str, &'a Value, Value)],
) -> impl Iterator<Item = &'a str> {
    let restarts = |(_, container, resources): &&(&str, &Value, Value)| {
        container.items_at(&["resizePolicy"]).iter().any(|policy| {
            let resource = policy.string_at(&["resourceName"]);
            policy.string_at(&["restartPolicy"]) == "RestartContainer"
                && resources.fields().any(|(_, list)| list.field(resource).is_some())
        })
    };
    resized.iter().filter(restarts).map(|(_, container, _)| container.string_at(&["name"]))
}

fn container_statuses(pod: &Value) -> BTreeMap<&str, &Value> {
    let lists = ["containerStatuses", "initContainerStatuses"];
    let all = lists.into_iter().flat_map(|list| pod.items_at(&["status", list]));
    all.map(|status| (status.string_at(&["name"]), status)).collect()
}

#[cfg(test)]
mod tests;
