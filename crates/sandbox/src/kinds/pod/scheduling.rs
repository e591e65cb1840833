//! Validates tolerations, taint effects and topology spread constraints.

use std::collections::HashSet;

use crate::format;
use crate::kind::rules::{Causes, Field, go_quote, selector};

pub(in crate::kinds) const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn tolerations(tolerations: &Field, causes: &mut Causes) {
    for toleration in tolerations.items() {
        self::toleration(&toleration, causes);
    }
}

fn toleration(toleration: &Field, causes: &mut Causes) {
    let [key, operator, value, effect] =
        ["key", "operator", "value", "effect"].map(|name| toleration.child(name));
    if !key.text().is_empty() {
        selector::label_key(&key, causes);
    } else if operator.text() != "Exists" {
        causes.invalid_text(
            &operator,
            operator.text(),
            "operator must be Exists when `key` is empty, which means \"match all values and all \
             keys\"",
        );
    }
    if toleration.child("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        causes.invalid_text(&effect, effect.text(), detail);
    }
    match operator.text() {
        "Equal" | "" => {
            let wrong = format::label_value(value.text());
            if !wrong.is_empty() {
                causes.invalid_text(&operator, value.text(), &wrong.join(";"));
            }
        }
        "Exists" if !value.text().is_empty() => {
            let shown = rendered(toleration);
            causes.invalid_rendered(
                &operator,
                shown,
                "value must be empty when `operator` is 'Exists'",
            );
        }
        "Exists" => {}
        "Lt" | "Gt" => decimal_integer(&value, causes),
        _ => causes.not_supported(&operator, &["Equal", "Exists", "Lt", "Gt"]),
    }
    if !effect.text().is_empty() {
        causes.choice(&effect, &EFFECTS);
    }
}

/// An update of a pod may add tolerations and change their tolerationSeconds, and nothing else.
pub(super) fn only_added_tolerations(tolerations: &Field, old: &Field, causes: &mut Causes) {
    let without_seconds = |toleration: &Field| {
        let mut value = toleration.value().clone();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("tolerationSeconds");
        }
        value.to_string()
    };
    let kept: HashSet<String> =
        tolerations.items().map(|toleration| without_seconds(&toleration)).collect();
    if old.items().any(|toleration| !kept.contains(&without_seconds(&toleration))) {
        causes.forbidden(
            tolerations,
            "existing toleration can not be modified except its tolerationSeconds",
        );
        return;
    }
    self::tolerations(tolerations, causes);
}

/// The numeric operators need an integer in canonical form, of any length.
fn decimal_integer(value: &Field, causes: &mut Causes) {
    let text = value.text();
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical = digits.bytes().all(|byte| byte.is_ascii_digit())
        && !digits.starts_with('0')
        && !digits.is_empty();
    if text.is_empty() {
        causes.invalid_text(value, text, "must be non-empty");
    } else if !canonical && text != "0" {
        causes.invalid_text(value, text, "must be a valid decimal integer in canonical form");
    }
}

/// A toleration as upstream prints the Go struct, without JSON names.
fn rendered(toleration: &Field) -> String {
    let text = |name| go_quote(toleration.child(name).text());
    let seconds = toleration.child("tolerationSeconds").value().as_i64();
    format!(
        "{{\"Key\":{},\"Operator\":{},\"Value\":{},\"Effect\":{},\"TolerationSeconds\":{}}}",
        text("key"),
        text("operator"),
        text("value"),
        text("effect"),
        seconds.map_or("null".to_owned(), |seconds| seconds.to_string()),
    )
}

pub(super) fn topology_spread_constraints(constraints: &Field, causes: &mut Causes) {
    for constraint in constraints.items() {
        let [max_skew, key, action] =
            ["maxSkew", "topologyKey", "whenUnsatisfiable"].map(|name| constraint.child(name));
        if max_skew.int() <= 0 {
            let skew = max_skew.int().to_string();
            causes.invalid_rendered(&max_skew, skew, "must be greater than zero");
        }
        if key.text().is_empty() {
            causes.required(&key, "can not be empty");
        }
        causes.choice(&action, &["DoNotSchedule", "ScheduleAnyway"]);
        selector::label_selector(&constraint.child("labelSelector"), causes);
    }
}
