//! The files that are written from the schema of policies: their definitions, the copies of these
//! in deploy/everynode.yaml, and the reference.

mod definition;
mod reference;

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use definition::Kind;

const SINGLE_FILE: &str = "deploy/everynode.yaml";
const WRITTEN: &str = "Written by `cargo xtask policies`.";
const REFERENCE: &str = "docs/policy-reference.md";

/// Writes the files.
pub(crate) fn write(root: &Path) -> anyhow::Result<Vec<String>> {
    for (path, text) in files(root)? {
        std::fs::write(root.join(path), text).context(path)?;
    }
    Ok(Vec::new())
}

/// Returns a line for each file that says something else than the schema.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let files = files(root)?.into_iter();
    let stale = files.filter(|(path, text)| {
        std::fs::read_to_string(root.join(path)).map_or(true, |found| found != *text)
    });
    let line =
        |path| format!("{path} is not what the schema of policies says: cargo xtask policies");
    Ok(stale.map(|(path, _)| line(path)).collect())
}

fn files(root: &Path) -> anyhow::Result<Vec<(&'static str, String)>> {
    let mut files = vec![(REFERENCE, reference::page())];
    let mut single = std::fs::read_to_string(root.join(SINGLE_FILE)).context(SINGLE_FILE)?;
    for kind in [Kind::Namespaced, Kind::Cluster] {
        let definition = definition::yaml(kind)?;
        single = with_definition(&single, &definition)?;
        files.push((kind.path(), format!("{} {WRITTEN}\n{definition}", kind.comment())));
    }
    files.push((SINGLE_FILE, single));
    Ok(files)
}

/// The file with this definition in place of its own of the same name.
fn with_definition(file: &str, definition: &str) -> anyhow::Result<String> {
    let end = definition.find("\nspec:").context("a definition has a spec")?;
    let start = file.find(&definition[..end]).context("the definition is not in the file")?;
    let (before, rest) = file.split_at(start);
    let rest = rest.find("\n---\n").map_or("", |end| &rest[end + 1..]);
    Ok(format!("{before}{definition}{rest}"))
}

/// The default of a field as people write YAML, unless it is that nothing is set.
fn default_text(default: Option<&Value>) -> Option<String> {
    default.map(flow).filter(|text| !["[]", "{}", "false"].contains(&text.as_str()))
}

fn flow(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name}: {}", flow(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}
