//! The files that are written from the schema of policies: their definitions, the copies of these
//! in deploy/everynode.yaml, and the reference.

mod definition;
mod reference;

use std::path::Path;

use serde_json::Value;

use definition::Kind;

const SINGLE_FILE: &str = "deploy/everynode.yaml";
const WRITTEN: &str = "Written by `make policies`.";
const REFERENCE: &str = "docs/policy-reference.md";

/// With EVERYNODE_UPDATE set it writes them.
#[test]
fn the_files_say_what_the_schema_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut stale = Vec::new();
    for (path, text) in files(&root) {
        let file = root.join(path);
        if std::env::var_os("EVERYNODE_UPDATE").is_some() {
            std::fs::write(file, text).expect("the file can be written");
        } else if std::fs::read_to_string(file).ok().as_ref() != Some(&text) {
            stale.push(path);
        }
    }
    assert!(stale.is_empty(), "{stale:?} are not what the schema of policies says: make policies");
}

fn files(root: &Path) -> Vec<(&'static str, String)> {
    let mut files = vec![(REFERENCE, reference::page())];
    let mut single = std::fs::read_to_string(root.join(SINGLE_FILE)).expect(SINGLE_FILE);
    for kind in [Kind::Namespaced, Kind::Cluster] {
        let definition = definition::yaml(kind);
        single = with_definition(&single, &definition);
        files.push((kind.path(), format!("{} {WRITTEN}\n{definition}", kind.comment())));
    }
    files.push((SINGLE_FILE, single));
    files
}

/// The file with this definition in place of its own of the same name.
fn with_definition(file: &str, definition: &str) -> String {
    let end = definition.find("\nspec:").expect("a definition has a spec");
    let start = file.find(&definition[..end]).expect("the definition is in the file");
    let (before, rest) = file.split_at(start);
    let rest = rest.find("\n---\n").map_or("", |end| &rest[end + 1..]);
    format!("{before}{definition}{rest}")
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
