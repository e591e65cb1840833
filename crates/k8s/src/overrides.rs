//! The differences of a node's pods from the template: its override, and copies of ConfigMaps
//! (G57, G58).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everynode_core::api::{Amount, ConfigCopies, ContainerAmounts, NodeOverride};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::json::Json;
use crate::quantity::Quantity;

/// The lists of a spec whose containers an override may change.
const LISTS: [&str; 2] = ["containers", "initContainers"];

/// Changes the containers in the `spec` of a template or a pod as the override says.
pub(crate) fn apply(spec: &mut Map<String, Value>, of_node: &NodeOverride) {
    if let Some(copies) = &of_node.copies {
        name_copies(spec, copies);
    }
    for list in LISTS {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            let Some(own) = of_node.containers.iter().find(|own| *own.name == *name) else {
                continue;
            };
            if let Some(image) = &own.image {
                container.insert("image".to_owned(), image.to_string().into());
            }
            if let Some(args) = &own.args {
                container.insert("args".to_owned(), json!(args));
            }
            for variable in &own.env {
                set_variable(container, &variable.name, &variable.value);
            }
            let amounts =
                [("requests", &own.resources.requests), ("limits", &own.resources.limits)];
            for (list, amounts) in amounts.into_iter().filter(|(_, amounts)| !amounts.is_empty()) {
                let list = member(member(container, "resources"), list);
                for (resource, Amount { text, .. }) in amounts {
                    list.insert(resource.to_string(), text.to_string().into());
                }
            }
        }
    }
}

/// Names copies of ConfigMaps in place of those that the `spec` of a template names.
fn name_copies(spec: &mut Map<String, Value>, copies: &ConfigCopies) {
    for volume in items_mut(spec.get_mut("volumes")) {
        name_copy(volume, "configMap", copies);
        for source in items_mut(volume.pointer_mut("/projected/sources")) {
            name_copy(source, "configMap", copies);
        }
    }
    for list in LISTS {
        for container in items_mut(spec.get_mut(list)) {
            for source in items_mut(container.get_mut("envFrom")) {
                name_copy(source, "configMapRef", copies);
            }
            for variable in items_mut(container.get_mut("env")) {
                if let Some(source) = variable.get_mut("valueFrom") {
                    name_copy(source, "configMapKeyRef", copies);
                }
            }
        }
    }
}

/// The changes that overrides have made in the containers of a pod, by their names: the value of
/// [`OVERRIDDEN_ANNOTATION`](everynode_core::api::OVERRIDDEN_ANNOTATION).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Overridden(pub BTreeMap<String, OverriddenContainer>);

/// The changes that overrides have made in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct OverriddenContainer {
    /// The resources whose requests it has.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub requests: BTreeSet<String>,
    /// The resources whose limits it has.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub limits: BTreeSet<String>,
    /// True if it has changed anything else.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub other: bool,
}

impl Overridden {
    /// The changes that an override makes.
    pub(crate) fn by(of_node: &NodeOverride) -> Self {
        let names = |amounts: &BTreeMap<Arc<str>, Amount>| {
            amounts.keys().map(ToString::to_string).collect()
        };
        let containers = of_node.containers.iter().map(|it| {
            let overridden = OverriddenContainer {
                requests: names(&it.resources.requests),
                limits: names(&it.resources.limits),
                other: it.image.is_some() || it.args.is_some() || !it.env.is_empty(),
            };
            (it.name.to_string(), overridden)
        });
        Self(containers.collect())
    }

    /// Adds those of another override.
    pub(crate) fn extend(&mut self, other: Self) {
        for (name, added) in other.0 {
            let own = self.0.entry(name).or_default();
            own.requests.extend(added.requests);
            own.limits.extend(added.limits);
            own.other |= added.other;
        }
    }
}

/// The changes that an override makes, as the annotation of a pod that is made with it.
pub(crate) fn text_of_changes(of_node: &NodeOverride) -> String {
    serde_json::to_string(&Overridden::by(of_node)).expect("all keys are strings")
}

/// Gives the containers in the `spec` of a template the amounts that those of a pod have where an
/// override has changed them.
pub(crate) fn copy_amounts(spec: &mut Map<String, Value>, pod: &Value, changed: &Overridden) {
    for list in LISTS {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            let mut live = pod.items_at(&["spec", list]).iter();
            let (Some(own), Some(live)) =
                (changed.0.get(name), live.find(|it| it.string_at(&["name"]) == name))
            else {
                continue;
            };
            for (kind, resources) in [("requests", &own.requests), ("limits", &own.limits)] {
                for resource in resources {
                    let amounts = member(member(container, "resources"), kind);
                    match live.at(&["resources", kind, resource]) {
                        Some(amount) => drop(amounts.insert(resource.clone(), amount.clone())),
                        None => drop(amounts.remove(resource)),
                    }
                }
            }
        }
    }
}

/// Names a copy in place of the ConfigMap that a source names in this field.
fn name_copy(source: &mut Value, field: &str, copies: &ConfigCopies) {
    let Some(name) = source.get_mut(field).and_then(|object| object.get_mut("name")) else {
        return;
    };
    if let Some(copy) = name.as_str().and_then(|name| copies.name_for(name)) {
        *name = copy.into();
    }
}

fn items_mut(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

/// Changes a template as the override of a node says, if there is one.
pub(crate) fn apply_to_template(template: &mut Value, of_node: Option<&NodeOverride>) {
    let spec = template.get_mut("spec").and_then(Value::as_object_mut);
    if let (Some(spec), Some(of_node)) = (spec, of_node) {
        apply(spec, of_node);
    }
}

/// Sets an environment variable. One that refers to it comes after it, as in the template.
fn set_variable(container: &mut Map<String, Value>, name: &str, value: &str) {
    let variable = json!({ "name": name, "value": value });
    let env = container.entry("env").or_insert(Value::Null);
    if !env.is_array() {
        *env = json!([]);
    }
    let env = env.as_array_mut().expect("it is an array now");
    match env.iter_mut().find(|known| known.string_at(&["name"]) == name) {
        Some(known) => *known = variable,
        None => env.push(variable),
    }
}

/// The member with this key, replaced by an empty object if it is not an object.
fn member<'a>(parent: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let member = parent.entry(key).or_insert(Value::Null);
    if !member.is_object() {
        *member = Value::Object(Map::new());
    }
    member.as_object_mut().expect("it is an object now")
}

/// The requests and limits of the containers in the `spec` of a template.
pub(crate) fn amounts(spec: &Value) -> Vec<ContainerAmounts> {
    let containers = LISTS
        .into_iter()
        .flat_map(|list| spec.items_at(&[list]).iter().map(move |container| (list, container)));
    let of = |container: &Value, list: &str| {
        let amounts = container.at(&["resources", list]).map(Json::fields);
        let amounts = amounts.into_iter().flatten().filter_map(|(resource, amount)| {
            Some((resource.into(), Quantity::of_json(amount).ok()?.milli_value()))
        });
        amounts.collect()
    };
    let amounts = containers.map(|(kind, container)| ContainerAmounts {
        ends: kind == "initContainers" && container.string_at(&["restartPolicy"]) != "Always",
        name: container.string_at(&["name"]).into(),
        requests: of(container, "requests"),
        limits: of(container, "limits"),
    });
    amounts.collect()
}
