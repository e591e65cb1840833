//! Validates label selectors, and matches them against labels.

use super::field::{Causes, Field, go_json};
use super::metadata;
use crate::format;

/// A label selector.
pub fn label_selector(selector: &Field, causes: &mut Causes) {
    metadata::labels(&selector.child("matchLabels"), causes);
    for expression in selector.child("matchExpressions").items() {
        requirement(&expression, causes);
    }
}

/// True if the selector selects everything.
pub fn is_empty(selector: &Field) -> bool {
    selector.child("matchLabels").is_empty() && selector.child("matchExpressions").is_empty()
}

fn requirement(expression: &Field, causes: &mut Causes) {
    let (operator, values) = (expression.child("operator"), expression.child("values"));
    if !check_values(&operator, &values, causes) {
        causes.invalid_text(&operator, operator.text(), "not a valid selector operator");
    }
    label_key(&expression.child("key"), causes);
    for value in values.items() {
        causes.invalid_each(&value, format::label_value(value.text()));
    }
}

/// Checks the values of a set operator. Returns false for another operator.
pub fn check_values(operator: &Field, values: &Field, causes: &mut Causes) -> bool {
    match operator.text() {
        "In" | "NotIn" if values.is_empty() => {
            causes.required(values, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            causes.forbidden(
                values,
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            );
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => return false,
    }
    true
}

/// The key of a label.
pub fn label_key(key: &Field, causes: &mut Causes) {
    causes.text_format(key, key.text(), format::label_key);
}

/// True if a valid selector does not match `labels`; an invalid one is reported elsewhere. An
/// absent selector matches nothing, an empty one everything.
pub fn mismatches(selector: &Field, labels: &Field) -> bool {
    if !selector.is_set() {
        return true;
    }
    let mut matches = selector
        .child("matchLabels")
        .entries()
        .all(|(key, value)| labels.key(key).value().as_str() == Some(value.text()));
    for expression in selector.child("matchExpressions").items() {
        let values = expression.child("values");
        let value = labels.key(expression.child("key").text()).value().as_str();
        let listed = value.is_some_and(|value| values.items().any(|item| item.text() == value));
        matches &= match expression.child("operator").text() {
            "In" if !values.is_empty() => listed,
            "NotIn" if !values.is_empty() => !listed,
            "Exists" if values.is_empty() => value.is_some(),
            "DoesNotExist" if values.is_empty() => value.is_none(),
            _ => return false,
        };
    }
    !matches
}

/// A selector as upstream prints the Go struct in JSON: `matchLabels` before `matchExpressions`.
pub fn rendered(selector: &Field) -> String {
    if !selector.is_set() {
        return "null".to_owned();
    }
    let mut parts = Vec::new();
    let (labels, expressions) = (selector.child("matchLabels"), selector.child("matchExpressions"));
    if !labels.is_empty() {
        parts.push(format!("\"matchLabels\":{}", go_json(labels.value())));
    }
    if !expressions.is_empty() {
        let expressions: Vec<String> =
            expressions.items().map(|expression| rendered_requirement(&expression)).collect();
        parts.push(format!("\"matchExpressions\":[{}]", expressions.join(",")));
    }
    format!("{{{}}}", parts.join(","))
}

fn rendered_requirement(expression: &Field) -> String {
    let mut parts = Vec::new();
    for name in ["key", "operator", "values"] {
        let field = expression.child(name);
        if field.is_set() && (name != "values" || !field.is_empty()) {
            parts.push(format!("\"{name}\":{}", go_json(field.value())));
        }
    }
    format!("{{{}}}", parts.join(","))
}
