//! Validates the rules of schemas (`x-kubernetes-validations`), as upstream does before it serves
//! a kind (S15).

use std::cell::Cell;
use std::cmp::Reverse;

use crate::json::{Value, json};

use crate::custom::{
    Additional, CompileError, Compiled, ListType, REQUEST_BYTES_MAX, Rule, Schema, TypeName,
    min_bytes,
};
use crate::kind::rules::{Causes, Field, Reason, go_json};

/// Maximum estimated cost of a rule, for all values of its schema in an object.
const COST_MAX: u64 = 10_000_000;
/// Maximum estimated cost of all rules of a version.
const TOTAL_COST_MAX: u64 = 100_000_000;

/// Checks the rules of the root schema of a version.
pub(super) fn check(document: &Field, schema: &Schema, causes: &mut Causes) {
    let mut walk = Walk { total: 0, expensive: Vec::new(), causes };
    let place = Place { is_root: true, uncorrelated: None, count: Some(1) };
    walk.schema(document, schema, &place);
    let Walk { total, mut expensive, causes } = walk;
    if total <= TOTAL_COST_MAX {
        return;
    }
    expensive.sort_by_key(|(cost, _)| Reverse(*cost));
    for (_, path) in expensive.iter().take(4) {
        let detail = "contributed to estimated rule cost total exceeding cost limit for entire \
                      OpenAPIv3 schema";
        causes.found_at(Reason::Forbidden, path, detail.to_owned());
    }
    let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
    causes.forbidden(document, &too_expensive(name, total, TOTAL_COST_MAX));
}

/// Where a schema is.
struct Place<'a> {
    is_root: bool,
    /// The path of the list around it in which elements have no old values.
    uncorrelated: Option<&'a str>,
    /// How many values of the schema an object has at most; `None` if nothing limits it.
    count: Option<u64>,
}

struct Walk<'a> {
    /// The estimated cost of all rules.
    total: u64,
    /// The costs of the rules that cost most, with their paths.
    expensive: Vec<(u64, String)>,
    causes: &'a mut Causes,
}

impl Walk<'_> {
    /// Checks the rules of a schema and of those in it.
    fn schema(&mut self, document: &Field, schema: &Schema, place: &Place<'_>) {
        if !schema.has_rules() {
            return;
        }
        let factor = match (&schema.additional, schema.type_name) {
            (Additional::Of(_), _) => schema.checks.max_properties.map(|max| max as u64),
            (_, Some(TypeName::Array)) => schema.checks.max_items.map(|max| max as u64),
            (Additional::Unsaid | Additional::None | Additional::Any, _) => Some(1),
        };
        let count = place.count.zip(factor).map(|(count, factor)| count.saturating_mul(factor));
        let below = Place { is_root: false, uncorrelated: place.uncorrelated, count };
        let properties = document.child("properties");
        for (name, property) in properties.entries() {
            if let Some(schema) = schema.properties.get(name) {
                self.schema(&property, schema, &below);
            }
        }
        if let Additional::Of(schema) = &schema.additional {
            self.schema(&document.child("additionalProperties"), schema, &below);
        }
        if let Some(of_items) = &schema.items {
            let path = document.path();
            let is_correlated = schema.list_type == ListType::Map;
            let uncorrelated = place.uncorrelated.or((!is_correlated).then_some(&path));
            let below = Place { uncorrelated, ..below };
            self.schema(&document.child("items"), of_items, &below);
        }
        let rules = document.child("x-kubernetes-validations");
        for (field, rule) in rules.items().zip(&schema.rules) {
            check_form(&field, self.causes);
            self.rule(&field, rule, schema, place);
        }
    }

    fn rule(&mut self, field: &Field, rule: &Rule, schema: &Schema, place: &Place<'_>) {
        if rule.text.is_empty() || !self.causes.steps.spend(compile_steps(rule)) {
            return;
        }
        let pattern_steps = Cell::default();
        let (compiled, wrong_message) = rule.compile(schema, place.is_root, &pattern_steps);
        self.causes.steps.spend(pattern_steps.get());
        if let Ok(compiled) = &compiled {
            let text = field.child("rule");
            let count = place.count.unwrap_or(REQUEST_BYTES_MAX / (min_bytes(schema) + 1));
            self.cost(&text, "estimated rule cost", compiled.cost.saturating_mul(count));
        }
        match &compiled {
            Err(CompileError::Refused(error)) => {
                let rule = field.child("rule");
                self.causes.invalid_rendered(&rule, rendered(field.value()), error);
            }
            Err(CompileError::NotSupported) => {}
            Ok(compiled) => check_old_self(field, compiled.uses_old_self, place, self.causes),
        }
        let message = field.child("messageExpression");
        if let Some(error) = wrong_message {
            self.causes.invalid_rendered(&message, rendered(field.value()), &error);
        } else if let Ok(Compiled { message_cost: Some(cost), .. }) = compiled {
            self.cost(&message, "estimated messageExpression cost", cost);
        }
        let path = field.child("fieldPath");
        if !path.text().is_empty() && !is_path(schema, path.text()) {
            self.causes.invalid(&path, "must be a valid path");
        }
    }

    /// Counts a cost, and refuses one that is too high.
    fn cost(&mut self, field: &Field, name: &str, cost: u64) {
        if cost > COST_MAX {
            self.causes.forbidden(field, &too_expensive(name, cost, COST_MAX));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= TOTAL_COST_MAX / 100 {
            self.expensive.push((cost, field.path()));
        }
    }
}

/// The steps that it takes to compile a rule.
fn compile_steps(rule: &Rule) -> usize {
    800 + 4 * (rule.text.len() + rule.message_expression.len())
}

fn too_expensive(name: &str, cost: u64, limit: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        _ if factor > 100.0 => "more than 100x".to_owned(),
        _ if factor < 1.5 => format!("{factor:.6}x"),
        _ => format!("{factor:.1}x"),
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding \
         maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
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

fn check_old_self(field: &Field, is_used: bool, place: &Place<'_>, causes: &mut Causes) {
    let optional = field.child("optionalOldSelf");
    match place.uncorrelated {
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
pub(super) fn unsupported(schema: &Schema, is_root: bool, found: &mut Vec<String>) {
    for rule in &schema.rules {
        if matches!(
            rule.compile(schema, is_root, &Cell::default()).0,
            Err(CompileError::NotSupported)
        ) {
            found.push(rule.text.to_string());
        }
    }
    schema.properties.values().for_each(|schema| unsupported(schema, false, found));
    if let Additional::Of(schema) = &schema.additional {
        unsupported(schema, false, found);
    }
    if let Some(items) = &schema.items {
        unsupported(items, false, found);
    }
}
