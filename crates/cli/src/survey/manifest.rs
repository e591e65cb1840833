//! Manifests and files of nodes.

use std::io::Read;
use std::path::Path;

use anyhow::Context;
use everynode_sandbox::{nodes as node_files, yaml};
use serde_json::Value;

/// What a manifest holds.
pub struct Manifest {
    pub daemon_sets: Vec<Value>,
    /// The other objects, by kind and name.
    pub ignored: Vec<String>,
}

/// Reads a manifest; `-` is standard input. DaemonSets without a namespace get `namespace`.
///
/// # Errors
/// If it can't be read, is no YAML, or holds no DaemonSet.
pub fn read(path: &Path, namespace: &str) -> anyhow::Result<Manifest> {
    let text = text(path)?;
    let path = name(path);
    // What follows the first line is a drawing of where it is.
    let wrong = |error: String| {
        let error = error.lines().next().unwrap_or_default();
        anyhow::anyhow!("{path} is no YAML or JSON: {}", error.trim_start_matches("error: "))
    };
    let documents: Vec<Value> = yaml::documents(&text).map_err(|error| wrong(error.to_string()))?;
    let mut manifest = Manifest { daemon_sets: Vec::new(), ignored: Vec::new() };
    for document in documents {
        collect(document, namespace, &mut manifest);
    }
    if manifest.daemon_sets.is_empty() {
        let found = match manifest.ignored.as_slice() {
            [] => "nothing".to_owned(),
            others => others.join(", "),
        };
        anyhow::bail!("{path} holds no DaemonSet of apps/v1, but {found}");
    }
    Ok(manifest)
}

/// The nodes of a file.
///
/// # Errors
/// If it can't be read, or holds something else.
pub fn nodes(path: &Path) -> anyhow::Result<Vec<Value>> {
    node_files::parse(&text(path)?).with_context(|| name(path))
}

/// As messages call it.
fn name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

fn text(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
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
    let name = document["metadata"]["name"].as_str().unwrap_or("without a name").to_owned();
    if kind == "DaemonSet" && document["apiVersion"] == "apps/v1" {
        let has_namespace =
            document["metadata"]["namespace"].as_str().is_some_and(|n| !n.is_empty());
        if !has_namespace && let Some(metadata) = document["metadata"].as_object_mut() {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
        manifest.daemon_sets.push(document);
    } else {
        let kind = if kind.is_empty() { "object".to_owned() } else { kind };
        manifest.ignored.push(format!("{kind} {name}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn manifest(text: &str) -> anyhow::Result<Manifest> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), text)?;
        read(file.path(), "here")
    }

    #[test]
    fn the_daemon_sets_are_picked_out_and_the_others_named() {
        let text = "kind: List\nitems:\n- {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a}}\n\
                    - {kind: Service, metadata: {name: s}}\n---\n---\n\
                    {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: b, namespace: there}}\n";
        let manifest = manifest(text).unwrap();
        let keys: Vec<String> = manifest
            .daemon_sets
            .iter()
            .map(|object| super::super::key(object).to_string())
            .collect();
        assert_eq!(keys, ["here/a", "there/b"]);
        let whole = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "a", "namespace": "here" } });
        assert_eq!(manifest.daemon_sets[0], whole);
        assert_eq!(manifest.ignored, ["Service s"]);
    }

    #[test]
    fn a_manifest_without_a_daemon_set_says_what_it_holds() {
        let error = manifest("kind: Service\nmetadata: {name: s}\n").err().unwrap();
        assert!(
            error.to_string().ends_with("holds no DaemonSet of apps/v1, but Service s"),
            "{error}"
        );
        assert!(manifest("a: [").is_err());
    }
}
