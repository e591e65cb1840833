//! Reads manifests and files with nodes.

use std::path::Path;

use anyhow::Context;
use everynode_sandbox::{nodes, yaml};
use serde_json::Value;

use crate::input::{self, InputFile};

/// The words of the parser after an error that only a program could act on.
const ADVICE_TO_PROGRAMS: &str = ", set DuplicateKeyPolicy";

/// The objects of a manifest.
pub(crate) struct Manifest {
    /// The file's name in messages.
    pub name: String,
    pub daemon_sets: Vec<Value>,
    /// RolloutPolicies and ClusterRolloutPolicies.
    pub policies: Vec<Value>,
    /// The kinds and names of the other objects.
    pub ignored: Vec<String>,
}

impl Manifest {
    /// The DaemonSets.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn required_daemon_sets(&self) -> anyhow::Result<&[Value]> {
        if self.daemon_sets.is_empty() {
            let policies = self.policies.iter().map(described);
            let found: Vec<String> = self.ignored.iter().cloned().chain(policies).collect();
            let found = if found.is_empty() { "nothing".to_owned() } else { found.join(", ") };
            anyhow::bail!("{} contains no DaemonSet of apps/v1, but {found}", self.name);
        }
        Ok(&self.daemon_sets)
    }
}

/// Reads the objects of manifests. DaemonSets without a namespace get `namespace`.
///
/// # Errors
/// If a file is not YAML.
pub(crate) fn read(files: &[InputFile], namespace: &str) -> anyhow::Result<Manifest> {
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let mut manifest = Manifest {
        name: names.join(", "),
        daemon_sets: Vec::new(),
        policies: Vec::new(),
        ignored: Vec::new(),
    };
    for InputFile { name, text } in files {
        // The other lines show the position as a drawing.
        let invalid = |error: String| {
            let error = error.lines().next().unwrap_or_default();
            let error = error.split(ADVICE_TO_PROGRAMS).next().unwrap_or_default();
            anyhow::anyhow!("{name} is not YAML or JSON: {}", error.trim_start_matches("error: "))
        };
        let documents: Vec<Value> =
            yaml::documents(text).map_err(|error| invalid(error.to_string()))?;
        for document in documents {
            collect(document, namespace, &mut manifest);
        }
    }
    Ok(manifest)
}

/// Reads the nodes of a file; `-` is standard input.
///
/// # Errors
/// If the file can't be read, or contains something else.
pub(crate) fn read_nodes(path: &Path) -> anyhow::Result<Vec<Value>> {
    let InputFile { name, text } = input::read(path)?;
    let nodes = nodes::parse(&text).with_context(|| name)?;
    Ok(nodes.into_iter().map(Value::from).collect())
}

fn collect(mut document: Value, namespace: &str, manifest: &mut Manifest) {
    let kind = document["kind"].as_str().unwrap_or_default().to_owned();
    let items = document.get_mut("items").and_then(Value::as_array_mut);
    if let Some(items) = items.filter(|_| kind.ends_with("List")) {
        for item in std::mem::take(items) {
            collect(item, namespace, manifest);
        }
        return;
    }
    if document.is_null() {
        return;
    }
    let described = described(&document);
    match (document["apiVersion"].as_str().unwrap_or_default(), kind.as_str()) {
        ("apps/v1", "DaemonSet") => {
            manifest.daemon_sets.push(in_namespace(document, namespace));
        }
        ("everynode.dev/v1alpha1", "RolloutPolicy") => {
            manifest.policies.push(in_namespace(document, namespace));
        }
        ("everynode.dev/v1alpha1", "ClusterRolloutPolicy") => manifest.policies.push(document),
        _ => manifest.ignored.push(described),
    }
}

/// The kind and the name of an object.
fn described(object: &Value) -> String {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let kind = text(&object["kind"]).unwrap_or_else(|| "object".to_owned());
    let name = object["metadata"]["name"].as_str().unwrap_or("without a name");
    format!("{kind} {name}")
}

/// The object, in this namespace unless it has one.
fn in_namespace(mut object: Value, namespace: &str) -> Value {
    let has_namespace = object["metadata"]["namespace"].as_str().is_some_and(|n| !n.is_empty());
    if !has_namespace && let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn manifest(text: &str) -> anyhow::Result<Manifest> {
        let file = |text: &str| InputFile { name: "a.yaml".to_owned(), text: text.to_owned() };
        let (first, second) = text.split_once("\nnext file\n").unwrap_or((text, ""));
        read(&[file(first), file(second)], "here")
    }

    #[test]
    fn daemon_sets_are_read_and_other_objects_are_named() {
        let text = "kind: List\nitems:\n\
                    - {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a}}\n\
                    - {kind: Service, metadata: {name: s}}\n---\n---\n\
                    {apiVersion: everynode.dev/v1alpha1, kind: RolloutPolicy, \
                    metadata: {name: p}}\nnext file\n\
                    {apiVersion: apps/v1, kind: DaemonSet, \
                    metadata: {name: b, namespace: there}}\n";
        let manifest = manifest(text).unwrap();
        let keys: Vec<String> = manifest
            .daemon_sets
            .iter()
            .map(|object| super::super::key(object).to_string())
            .collect();
        assert_eq!(keys, ["here/a", "there/b"]);
        let whole = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": { "name": "a", "namespace": "here" } });
        assert_eq!(manifest.daemon_sets[0], whole);
        assert_eq!(manifest.policies[0]["metadata"], json!({ "name": "p", "namespace": "here" }));
        assert_eq!(manifest.ignored, ["Service s"]);
    }

    #[test]
    fn a_key_that_is_there_twice_is_named() {
        let error = manifest("kind: A\nkind: B\n").err().expect("an error").to_string();
        assert!(error.ends_with("line 2 column 1: duplicate mapping key: kind"), "{error}");
    }

    #[test]
    fn the_error_about_a_manifest_without_daemon_sets_names_its_objects() {
        let manifest_of = |text: &str| manifest(text).unwrap();
        let text = "kind: Service\nmetadata: {name: s}\n";
        let error = manifest_of(text).required_daemon_sets().unwrap_err();
        assert!(
            error.to_string().ends_with("contains no DaemonSet of apps/v1, but Service s"),
            "{error}"
        );
        assert!(manifest("a: [").is_err());
    }
}
