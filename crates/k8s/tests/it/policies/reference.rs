//! docs/policy-reference.md: the fields of policies.

use std::fmt::Write as _;

use everynode_k8s::convert::policy_schemas;
use serde_json::{Map, Value, json};

use super::default_text;

const HEAD: &str = "# The fields of a policy

Written by `make policies` from the types that policies are read into.
[Guarded rollouts](rollouts.md) says what they are for. These are the fields of `spec` of a
RolloutPolicy or a ClusterRolloutPolicy and, without `daemonSets` and `namespaces`, those of the
annotation `everynode.dev/rollout-policy`. Any other field is an error.

A duration is one to four numbers, each with a unit: `h`, `m`, `s` or `ms`. A label selector has
`matchLabels` and `matchExpressions`, as everywhere in Kubernetes, at most 16 of each.
";

/// The page.
pub(super) fn page() -> String {
    let [[namespaced, _], [cluster, _]] = [true, false].map(policy_schemas);
    let mut page = HEAD.to_owned();
    let mut fields = fields(&cluster);
    // Only a RolloutPolicy can name a DaemonSet.
    fields.extend(self::fields(&namespaced));
    section(&mut page, "spec", &fields, &namespaced);
    page
}

fn fields(schema: &Value) -> Map<String, Value> {
    schema["properties"].as_object().cloned().unwrap_or_default()
}

/// The table of an object's fields, and those of the objects in it.
fn section(page: &mut String, path: &str, fields: &Map<String, Value>, schema: &Value) {
    let head = "| field | type | default | range | |\n|---|---|---|---|---|";
    writeln!(page, "\n## {path}\n\n{head}").expect("a text can be written to");
    for (name, field) in fields {
        let is_required =
            schema["required"].as_array().is_some_and(|all| all.contains(&json!(name)));
        let default = match default_text(field.get("default")) {
            Some(default) => format!("`{default}`"),
            None if is_required => "required".to_owned(),
            None => String::new(),
        };
        let description = field["description"].as_str().unwrap_or_default();
        let (r#type, range) = (type_of(field), range(field));
        writeln!(page, "| `{name}` | {type} | {default} | {range} | {description} |")
            .expect("a text can be written to");
    }
    // A rule of one field is part of its description.
    let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
    let rules = rules.filter(|rule| rule.get("fieldPath").is_none());
    let rules: Vec<&str> = rules.filter_map(|rule| rule["message"].as_str()).collect();
    if !rules.is_empty() {
        writeln!(page, "\nOf these: {}.", rules.join("; ")).expect("a text can be written to");
    }
    for (name, field) in fields {
        let (path, object) = match field.get("items") {
            Some(item) => (format!("{path}.{name}[]"), item),
            None => (format!("{path}.{name}"), field),
        };
        if object.get("properties").is_some() && object["title"] != "label selector" {
            section(page, &path, &self::fields(object), object);
        }
    }
}

fn type_of(field: &Value) -> String {
    match (field["title"].as_str(), field["type"].as_str(), field.get("items")) {
        (_, Some("array"), Some(item)) => format!("list: {}", type_of(item)),
        (Some(title), ..) => title.to_owned(),
        (None, Some("string"), _) => "text".to_owned(),
        (None, Some("integer"), _) => "number".to_owned(),
        (None, other, _) => other.unwrap_or_default().to_owned(),
    }
}

/// Which values a field may have, in the words of the errors.
fn range(field: &Value) -> String {
    let forms = field["x-forms"].as_array().into_iter().flatten().map(|form| &form[1]);
    let reasons = forms.chain(field.get("x-reason")).filter_map(Value::as_str);
    let reasons: Vec<&str> = reasons.collect();
    let limits = |least: &str, most: &str| match (field.get(least), field.get(most)) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (None, Some(most)) => format!("at most {most}"),
        (Some(least), None) => format!("at least {least}"),
        (None, None) => String::new(),
    };
    match field["type"].as_str() {
        _ if !reasons.is_empty() => reasons.join("; "),
        Some("array") => limits("minItems", "maxItems") + " items",
        Some("integer") => limits("minimum", "maximum"),
        _ => String::new(),
    }
}
