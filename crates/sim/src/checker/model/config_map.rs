//! ConfigMaps, and the copies of them that pods have in place of those that a template names (G58).

use std::collections::BTreeMap;

use everynode_core::api::{CONFIG_ANNOTATION, CONFIG_LABEL, COPY_OF_ANNOTATION, copy_hash};
use everynode_k8s::convert;
use everynode_sandbox::json::{Value, json};
use serde::Deserialize;

use super::metadata::{Metadata, duration, text};
use crate::statement::Copies;

/// The key of bad contents.
const LIFECYCLE: &str = "sandbox.everynode.dev.lifecycle";
/// The fields of volumes and variables that refer to a ConfigMap.
const REFERENCES: [&str; 3] = ["configMap", "configMapRef", "configMapKeyRef"];

/// A ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::checker) struct ConfigMap {
    pub metadata: Metadata,
    /// Its data, text and bytes.
    pub content: Value,
    digest: String,
    /// True if pods that start with it do not become ready, or restart.
    pub is_bad: bool,
    pub copy_of: Option<String>,
    pub is_immutable: bool,
}

/// The rule by which ConfigMaps are copied.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(in crate::checker) struct Snapshots {
    #[serde(rename = "settle", deserialize_with = "duration")]
    pub settle_ms: i64,
    #[serde(default)]
    except: Vec<String>,
}

impl ConfigMap {
    pub(in crate::checker) fn parse(object: &Value) -> Self {
        // The content of which copy has which hash is checked where copies are written.
        let read = convert::config_map(object.to_string().as_bytes());
        Self {
            metadata: Metadata::parse(object),
            content: json!([object["data"], object["binaryData"]]),
            digest: read.map(|map| map.digest.to_string()).unwrap_or_default(),
            is_bad: object["data"][LIFECYCLE].is_string(),
            copy_of: object["metadata"]["annotations"][COPY_OF_ANNOTATION]
                .as_str()
                .map(ToOwned::to_owned),
            is_immutable: object["immutable"] == true,
        }
    }

    /// The hash of its content at the end of the names of copies for this DaemonSet.
    pub(in crate::checker) fn hash(&self, daemon_set: &str) -> String {
        copy_hash(daemon_set, &self.digest).to_string()
    }
}

impl Snapshots {
    /// The names of the ConfigMaps of a template that are copied, each with whether it may be
    /// missing.
    pub(in crate::checker) fn copied(&self, template: &Value) -> BTreeMap<String, bool> {
        let mut copied = BTreeMap::new();
        visit(template, &mut |reference| {
            let may_be_missing = copied.entry(text(&reference["name"])).or_insert(true);
            *may_be_missing &= reference["optional"] == true;
        });
        copied.retain(|name, _| !self.except.contains(name));
        copied
    }
}

/// The name of a copy. Those of the simulated ConfigMaps are not cut.
pub(in crate::checker) fn copy_name(name: &str, hash: &str) -> String {
    format!("{name}-{hash}")
}

/// The copies that the annotations of a revision state.
pub(super) fn stated_copies(annotations: &Value) -> Copies {
    let stated = annotations[CONFIG_ANNOTATION].as_str();
    stated.and_then(|stated| serde_json::from_str(stated).ok()).unwrap_or_default()
}

/// The template with the names of the copies.
pub(super) fn with_copies(template: &Value, copies: &Copies) -> Value {
    match template {
        _ if copies.is_empty() => template.clone(),
        Value::Object(members) => {
            let members = members.iter().map(|(key, member)| {
                let name = text(&member["name"]);
                let mut member = with_copies(member, copies);
                if let Some(hash) = copies.get(&name).filter(|_| is_reference(key, &member)) {
                    member["name"] = copy_name(&name, hash).into();
                }
                (key.clone(), member)
            });
            Value::Object(members.collect())
        }
        Value::Array(items) => items.iter().map(|item| with_copies(item, copies)).collect(),
        other => other.clone(),
    }
}

/// The names of the ConfigMaps that a pod or a template names.
pub(in crate::checker) fn named(object: &Value) -> Vec<String> {
    let mut names = Vec::new();
    visit(object, &mut |reference| names.push(text(&reference["name"])));
    names.sort();
    names.dedup();
    names
}

/// Removes the tag of its copies from a pod. It is a label and an annotation.
pub(in crate::checker) fn take_tag(pod: &mut Value) -> Option<String> {
    let mut take = |of: &str| pod["metadata"][of].as_object_mut()?.remove(CONFIG_LABEL);
    let (label, annotation) = (take("labels"), take("annotations"));
    label.filter(|label| Some(label) == annotation.as_ref()).map(|label| text(&label))
}

/// Visits all references to ConfigMaps.
fn visit(value: &Value, to: &mut impl FnMut(&Value)) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                match is_reference(key, member) {
                    true => to(member),
                    false => visit(member, to),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| visit(item, to)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// True if a field refers to a ConfigMap.
fn is_reference(key: &str, member: &Value) -> bool {
    REFERENCES.contains(&key) && member.is_object()
}
