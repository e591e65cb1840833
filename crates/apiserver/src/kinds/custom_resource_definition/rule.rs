//! Validates the rules of schemas (`x-kubernetes-validations`), as upstream does before it serves
//! a kind (S15).

use crate::json::{Value, json};

use crate::custom::{Additional, CompileError, ListType, Rule, Schema};
use crate::kind::rules::{Causes, Field, go_json};

/// Checks the rules of a schema and of those in it. Elements have no old values inside of a list
/// whose path is `uncorrelated`.
pub(super) fn check(
    document: &Field,
    schema: &Schema,
    uncorrelated: Option<&str>,
    causes: &mut Causes,
) {
    if !schema.has_rules() {
        return;
    }
    for (name, property) in document.child("properties").entries() {
        if let Some(schema) = schema.properties.get(name) {
            check(&property, schema, uncorrelated, causes);
        }
    }
    if let Additional::Of(schema) = &schema.additional {
        check(&document.child("additionalProperties"), schema, uncorrelated, causes);
    }
    if let Some(of_items) = &schema.items {
        let path = document.path();
        let is_correlated = schema.list_type == ListType::Map;
        let uncorrelated = uncorrelated.or((!is_correlated).then_some(&path));
        check(&document.child("items"), of_items, uncorrelated, causes);
    }
    let rules = document.child("x-kubernetes-validations");
    for (field, rule) in rules.items().zip(&schema.rules) {
        check_form(&field, causes);
        check_rule(&field, rule, schema, uncorrelated, causes);
    }
}

fn check_rule(
    field: &Field,
    rule: &Rule,
    schema: &Schema,
    uncorrelated: Option<&str>,
    causes: &mut Causes,
) {
    if rule.text.is_empty() || !causes.steps.spend(compile_steps(rule)) {
        return;
    }
    match rule.compile() {
        Err(CompileError::Refused(error)) => {
            let error = format!("compilation failed: {error}");
            causes.invalid_rendered(&field.child("rule"), rendered(field.value()), &error);
        }
        Err(CompileError::NotSupported) => {}
        Ok(compiled) => check_old_self(field, compiled.uses_old_self, uncorrelated, causes),
    }
    if let Err(CompileError::Refused(error)) = rule.compile_message() {
        let error = format!("messageExpression compilation failed: {error}");
        let message = field.child("messageExpression");
        causes.invalid_rendered(&message, rendered(field.value()), &error);
    }
    let path = field.child("fieldPath");
    if !path.text().is_empty() && !is_path(schema, path.text()) {
        causes.invalid(&path, "must be a valid path");
    }
}

/// The steps that it takes to compile a rule.
fn compile_steps(rule: &Rule) -> usize {
    800 + 4 * (rule.text.len() + rule.message_expression.len())
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

fn check_old_self(field: &Field, is_used: bool, uncorrelated: Option<&str>, causes: &mut Causes) {
    let optional = field.child("optionalOldSelf");
    match uncorrelated {
        Some(path) if is_used => causes.invalid(
            &field.child("rule"),
            &format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {path}"
            ),
        ),
        _ if !is_used && optional.is_set() => {
            causes.invalid(&optional, "may not be set if oldSelf is not used in rule");
        }
        _ => {}
    }
}

/// True if a path leads to a field of a schema: `.a.b`, `.m['k']`.
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
pub(super) fn unsupported(schema: &Schema, found: &mut Vec<String>) {
    let is_unsupported = |rule: &&Rule| matches!(rule.compile(), Err(CompileError::NotSupported));
    found.extend(schema.rules.iter().filter(is_unsupported).map(|rule| rule.text.to_string()));
    schema.nested().for_each(|nested| unsupported(nested, found));
}
