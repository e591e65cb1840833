//! Compares the JSON Schema of the documents with docs/schema/v1.json, and the tables of
//! docs/json.md with the schema. `EVERYNODE_UPDATE=replace` updates both.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use everynode_insight::document::schema;
use serde_json::{Map, Value};

/// The generator's text.
const FORM: &str = "a schema has this form";
const START: &str = "<!-- The rest is generated from the schema. -->\n";

#[test]
fn the_schema_is_that_of_the_docs() {
    let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    check(&docs().join("schema/v1.json"), &text);
}

#[test]
fn the_page_describes_every_field() {
    let path = docs().join("json.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (prose, _) = page.split_once(START).expect("the page has the marker");
    check(&path, &format!("{prose}{START}{}", tables(&schema())));
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn check(path: &Path, expected: &str) {
    if std::env::var_os("EVERYNODE_UPDATE").is_some() {
        std::fs::write(path, expected).expect("the page is writable");
        return;
    }
    let found = std::fs::read_to_string(path).expect("the page is readable");
    let name = path.display();
    assert!(found == expected, "{name} is out of date: run this with EVERYNODE_UPDATE=replace");
}

/// The kinds, then the other types.
fn tables(schema: &Value) -> String {
    let definitions = schema["$defs"].as_object().expect(FORM);
    let kinds = schema["oneOf"].as_array().expect(FORM).iter();
    let kinds: Vec<&str> = kinds.map(|kind| name(kind["$ref"].as_str().expect(FORM))).collect();
    let mut text = "\n## Kinds\n".to_owned();
    for kind in &kinds {
        text += &section(kind, &definitions[*kind]);
    }
    text += "\n## Types\n";
    for (name, definition) in definitions.iter().filter(|(name, _)| !kinds.contains(&&***name)) {
        text += &section(name, definition);
    }
    text
}

fn section(name: &str, definition: &Value) -> String {
    let mut text = format!("\n### {name}\n\n{}\n\n", described(definition));
    if let Some(fields) = definition.get("properties").and_then(Value::as_object) {
        text += &fields_table(fields, &definition["required"]);
    } else {
        text += "| word | |\n|---|---|\n";
        for choice in definition["oneOf"].as_array().or(definition["anyOf"].as_array()).expect(FORM)
        {
            let word =
                choice["const"].as_str().map_or_else(|| of(choice), |word| format!("`{word}`"));
            let _ = writeln!(text, "| {word} | {} |", described(choice));
        }
    }
    text
}

fn fields_table(fields: &Map<String, Value>, required: &Value) -> String {
    let mut text = "| field | type | |\n|---|---|---|\n".to_owned();
    for (field, schema) in fields {
        let is_required = required.as_array().expect(FORM).iter().any(|required| required == field);
        let optional = if is_required { "" } else { ", optional" };
        let _ = writeln!(text, "| `{field}` | {}{optional} | {} |", of(schema), described(schema));
    }
    text
}

fn described(schema: &Value) -> String {
    schema["description"]
        .as_str()
        .unwrap_or_default()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// The type in words.
fn of(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = name(reference);
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(constant) = schema["const"].as_str() {
        return format!("`{constant}`");
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        return choices.iter().map(of).collect::<Vec<_>>().join(" or ");
    }
    match &schema["type"] {
        Value::String(array) if array == "array" => format!("list of {}", of(&schema["items"])),
        Value::String(one) => one.clone(),
        Value::Array(types) => {
            types.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}

fn name(reference: &str) -> &str {
    reference.rsplit('/').next().expect(FORM)
}
