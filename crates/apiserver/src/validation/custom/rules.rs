//! Checks the rules of schemas (`x-kubernetes-validations`) about an object and the one that it
//! replaces (S15).

use crate::json::Value;

use super::lists::OldItems;
use crate::custom::{Additional, Rule, Schema, TypeName, Values, Verdict};
use crate::kind::rules::{Causes, Path, Reason, go_value};

/// Checks all rules, unless the object has errors that may mislead them.
pub(super) fn check(schema: &Schema, object: &Value, old: Option<&Value>, causes: &mut Causes) {
    if !schema.has_rules() {
        return;
    }
    if causes.has_any(|reason| {
        matches!(
            reason,
            Reason::NotSupported
                | Reason::Required
                | Reason::TooLong
                | Reason::TooMany
                | Reason::TypeInvalid
        )
    }) {
        let message = "null: some validation rules were not checked because the object was \
                       invalid; correct the existing errors to complete validation";
        causes.found_at(Reason::Invalid, "<nil>", message.to_owned());
        return;
    }
    let mut walk = Walk { is_over: false, causes };
    walk.value(schema, Path::Start(""), object, &Before { old, is_unchanged: false });
}

/// Checks the rules about a default, whose path is `path`, as those about a new value.
pub(super) fn check_default(schema: &Schema, default: &Value, path: &str, causes: &mut Causes) {
    let mut walk = Walk { is_over: false, causes };
    let before = Before { old: None, is_unchanged: false };
    walk.value(schema, Path::Start(path), default, &before);
}

/// The value that another one replaces.
struct Before<'a> {
    old: Option<&'a Value>,
    /// For a value whose old one can't be found: whether one around it is unchanged.
    is_unchanged: bool,
}

struct Walk<'a> {
    /// True if a rule took too long, so that no other one is checked.
    is_over: bool,
    causes: &'a mut Causes,
}

impl Walk<'_> {
    fn value(&mut self, schema: &Schema, path: Path<'_>, value: &Value, before: &Before<'_>) {
        let old = before.old.filter(|old| !old.is_null());
        let is_unchanged = before.old.map_or(before.is_unchanged, |old| old == value);
        if value.is_null() || self.is_over || !schema.has_rules() {
            return;
        }
        if !schema.rules.is_empty() {
            let values = Values::new(schema, value, old);
            // The values were converted for these rules alone.
            if !self.causes.steps.spend(values.size()) {
                return;
            }
            for rule in &schema.rules {
                let verdict = rule.check(&values, &mut self.causes.rule_budget);
                // As upstream: an unchanged value may violate a rule that is not about changes.
                let verdict = verdict.filter(|verdict| {
                    let is_violated = matches!(verdict, Verdict::Violated(_));
                    !(is_violated && is_unchanged && !rule.uses_old_self())
                });
                self.report(schema, rule, path, value, verdict);
                if self.is_over {
                    return;
                }
            }
        }
        for nested in &schema.checks.all_of {
            self.value(nested, path, value, &Before { old, is_unchanged });
        }
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let Some(of_field) = schema.field(name) else { continue };
                    let old = old.and_then(|old| old.get(name));
                    let path = match &schema.additional {
                        Additional::Of(_) => Path::Key(&path, name),
                        _ => Path::Field(&path, name),
                    };
                    self.value(of_field, path, value, &Before { old, is_unchanged });
                }
            }
            Value::Array(items) => {
                let Some(of_items) = &schema.items else { return };
                let replaced = OldItems::new(schema, items, old, &mut self.causes.steps);
                for (index, item) in items.iter().enumerate() {
                    let before = Before { old: replaced.replaced_by(schema, item), is_unchanged };
                    self.value(of_items, Path::Index(&path, index), item, &before);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn report(
        &mut self,
        schema: &Schema,
        rule: &Rule,
        path: Path<'_>,
        value: &Value,
        verdict: Option<Verdict>,
    ) {
        let type_name = schema.type_name.map(TypeName::name).unwrap_or_default();
        let verdict = verdict.filter(|verdict| *verdict != Verdict::Holds);
        if verdict.is_some() && self.causes.is_full() {
            return self.causes.leave_out();
        }
        let path = if verdict.is_none() { String::new() } else { path.text() };
        let path = if path.is_empty() { "<nil>" } else { &path };
        let (path, reason, message) = match verdict {
            None | Some(Verdict::Holds) => return,
            Some(Verdict::Failed(error)) => {
                (path.to_owned(), Reason::Invalid, format!("{type_name:?}: {error}"))
            }
            Some(Verdict::TooExpensive(error)) => {
                self.is_over = true;
                (path.to_owned(), Reason::Invalid, format!("{type_name:?}: {error}"))
            }
            Some(Verdict::Violated(detail)) => {
                let field = rule.field_path.trim_start_matches('.');
                let path = match (path, field) {
                    (path, "") => path.to_owned(),
                    ("<nil>", field) => field.to_owned(),
                    (path, field) => format!("{path}.{field}"),
                };
                let is_scalar = !value.is_object() && !value.is_array();
                let with_value = if is_scalar {
                    format!("{}: {detail}", go_value(value))
                } else {
                    detail.clone()
                };
                match &*rule.reason {
                    "FieldValueRequired" => (path, Reason::Required, detail),
                    "FieldValueForbidden" => (path, Reason::Forbidden, detail),
                    // As upstream: the message is left out.
                    "FieldValueDuplicate" if is_scalar => {
                        (path, Reason::Duplicate, go_value(value))
                    }
                    "FieldValueDuplicate" => (path, Reason::Duplicate, String::new()),
                    _ => (path, Reason::Invalid, with_value),
                }
            }
        };
        self.causes.found_at(reason, &path, message);
    }
}
