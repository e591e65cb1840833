//! Validates the rules of schemas (`x-kubernetes-validations`), as upstream does before it serves
//! a kind (S15).

use serde_json::{Value, json};

use crate::custom::{CompileError, Rule, Schema};
use crate::validation::field::{Causes, Field, go_json};

/// Checks the rules of a schema and of those in it. `uncorrelated` is the path of the list in which
/// elements have no old values.
pub(super) fn check(
    document: &Field,
    schema: &Schema,
    is_root: bool,
    uncorrelated: Option<&str>,
    causes: &mut Causes,
) {
    if !schema.has_rules() {
        return;
    }
    let properties = document.child("properties");
    for (name, property) in properties.entries() {
        if let Some(schema) = schema.properties.get(name) {
            check(&property, schema, false, uncorrelated, causes);
        }
    }
    if let crate::custom::Additional::Of(schema) = &schema.additional {
        let additional = document.child("additionalProperties");
        check(&additional, schema, false, uncorrelated, causes);
    }
    if let Some(of_items) = &schema.items {
        let path = document.path();
        let is_correlated = schema.list_type == crate::custom::ListType::Map;
        let inside = uncorrelated.or((!is_correlated).then_some(&path));
        check(&document.child("items"), of_items, false, inside, causes);
    }
    let rules = document.child("x-kubernetes-validations");
    for (field, rule) in rules.items().zip(&schema.rules) {
        check_form(&field, causes);
        check_rule(&field, rule, schema, is_root, uncorrelated, causes);
    }
}

fn check_form(field: &Field, causes: &mut Causes) {
    const REASONS: &[&str] =
        &["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    let (rule, message) = (field.child("rule"), field.child("message"));
    let has_lines = |text: &str| text.trim().contains(['\n', '\r']);
    if rule.text().trim().is_empty() {
        causes.required(&rule, "rule is not specified");
    } else if !message.text().is_empty() && message.text().trim().is_empty() {
        causes.invalid(&message, "must be non-empty if specified");
    } else if has_lines(message.text()) {
        causes.invalid(&message, "must not contain line breaks");
    } else if has_lines(rule.text()) && message.text().is_empty() {
        causes.required(&message, "message must be specified if rule contains line breaks");
    }
    causes.optional_choice(&field.child("reason"), REASONS);
}

fn check_rule(
    field: &Field,
    rule: &Rule,
    schema: &Schema,
    is_root: bool,
    uncorrelated: Option<&str>,
    causes: &mut Causes,
) {
    if rule.text.is_empty() {
        return;
    }
    let (compiled, wrong_message) = rule.compile(schema, is_root);
    match &compiled {
        Err(CompileError::Refused(error)) => {
            causes.invalid_rendered(&field.child("rule"), rendered(field.value()), error);
        }
        Err(CompileError::NotSupported) => {}
        Ok(compiled) => {
            let text = field.child("rule");
            let optional = field.child("optionalOldSelf");
            match uncorrelated {
                Some(path) if compiled.uses_old_self => causes.invalid(
                    &text,
                    &format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema \
                         within {path}"
                    ),
                ),
                _ if !compiled.uses_old_self && optional.is_set() => {
                    causes.invalid(&optional, "may not be set if oldSelf is not used in rule");
                }
                _ => {}
            }
        }
    }
    if let Some(error) = wrong_message {
        causes.invalid_rendered(&field.child("messageExpression"), rendered(field.value()), &error);
    }
    let path = field.child("fieldPath");
    if !path.text().is_empty() && !is_path(schema, path.text()) {
        causes.invalid(&path, "must be a valid path");
    }
}

/// Whether a path leads to a field of a schema: `.a.b`, `.m['k']`.
fn is_path(schema: &Schema, path: &str) -> bool {
    let mut schema = schema;
    let path = path.replace("['", ".").replace("']", "");
    let Some(path) = path.strip_prefix('.') else { return false };
    for name in path.split('.') {
        match schema.field(name) {
            Some(field) => schema = field,
            None => return false,
        }
    }
    true
}

/// A rule as upstream's messages show it.
fn rendered(rule: &Value) -> String {
    let text = |name: &str| go_json(&json!(rule[name].as_str().unwrap_or_default()));
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\
         \"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        go_json(&rule["reason"]),
        text("fieldPath"),
        go_json(&rule["optionalOldSelf"]),
    )
}

/// The rules of a schema that a real server checks and the sandbox can't.
pub(super) fn unsupported(schema: &Schema, is_root: bool, found: &mut Vec<String>) {
    for rule in &schema.rules {
        if matches!(rule.compile(schema, is_root).0, Err(CompileError::NotSupported)) {
            found.push(rule.text.to_string());
        }
    }
    schema.properties.values().for_each(|schema| unsupported(schema, false, found));
    if let crate::custom::Additional::Of(schema) = &schema.additional {
        unsupported(schema, false, found);
    }
    if let Some(items) = &schema.items {
        unsupported(items, false, found);
    }
}
