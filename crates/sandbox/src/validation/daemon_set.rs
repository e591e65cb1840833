//! Validates DaemonSets and ControllerRevisions (upstream's `pkg/apis/apps/validation`).

use crate::json::Value;

use super::field::{Causes, Field, go_value};
use super::metadata::{self, NAMESPACED, immutable, nonnegative};
use super::{format, pod, selector};

pub(super) fn on_create(object: &Field, causes: &mut Causes) {
    metadata::on_create(object, NAMESPACED, causes);
    spec(&object.child("spec"), causes);
}

pub(super) fn on_update(object: &Field, old: &Field, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    spec(&object.child("spec"), causes);
    let (new_spec, old_spec) = (object.child("spec"), old.child("spec"));
    let (selector, old_selector) = (new_spec.child("selector"), old_spec.child("selector"));
    if selector.value() != old_selector.value() {
        causes.invalid_rendered(&selector, selector::rendered(&selector), "field is immutable");
    }
}

pub(super) fn on_status_update(object: &Field, old: &Field, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    let (status, old_status) = (object.child("status"), old.child("status"));
    for name in [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ] {
        nonnegative(&status.child(name), causes);
    }
    let (count, old_count) = (status.child("collisionCount"), old_status.child("collisionCount"));
    if old_count.is_set() && (!count.is_set() || count.int() < old_count.int()) {
        causes.invalid_rendered(&count, count.int().to_string(), "cannot be decremented");
    }
}

pub(super) fn revision_on_create(object: &Field, causes: &mut Causes) {
    metadata::on_create(object, NAMESPACED, causes);
    if !object.child("data").is_set() {
        causes.required(&object.child("data"), "data is mandatory");
    }
    nonnegative(&object.child("revision"), causes);
}

pub(super) fn revision_on_update(object: &Field, old: &Field, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    revision_on_create(object, causes);
    immutable(&object.child("data"), &old.child("data"), causes);
}

fn spec(spec: &Field, causes: &mut Causes) {
    let (label_selector, template) = (spec.child("selector"), spec.child("template"));
    selector::label_selector(&label_selector, causes);
    let metadata = template.child("metadata");
    let labels = metadata.child("labels");
    if selector::mismatches(&label_selector, &labels) {
        causes.invalid(&labels, "`selector` does not match template `labels`");
    }
    if label_selector.is_set() && selector::is_empty(&label_selector) {
        causes.invalid_rendered(
            &label_selector,
            "{}".to_owned(),
            "empty selector is invalid for daemonset",
        );
    }
    pod::template(&template, causes);
    let pod_spec = template.child("spec");
    let restart_policy = pod_spec.child("restartPolicy");
    if restart_policy.text() != "Always" {
        causes.not_supported(&restart_policy, &["Always"]);
    }
    let deadline = pod_spec.child("activeDeadlineSeconds");
    if deadline.is_set() {
        causes.forbidden(&deadline, "activeDeadlineSeconds in DaemonSet is not Supported");
    }
    nonnegative(&spec.child("minReadySeconds"), causes);
    update_strategy(&spec.child("updateStrategy"), causes);
    nonnegative(&spec.child("revisionHistoryLimit"), causes);
}

fn update_strategy(strategy: &Field, causes: &mut Causes) {
    let rolling_update = strategy.child("rollingUpdate");
    match strategy.child("type").text() {
        "OnDelete" => {}
        "RollingUpdate" if !rolling_update.is_set() => causes.required(&rolling_update, ""),
        "RollingUpdate" => self::rolling_update(&rolling_update, causes),
        other => {
            // Upstream prints the internal Go struct, which has no JSON names.
            let rolling_update = match rolling_update.value() {
                Value::Null => "null".to_owned(),
                set => format!(
                    "{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}",
                    int_or_percent_rendered(&set["maxUnavailable"]),
                    int_or_percent_rendered(&set["maxSurge"])
                ),
            };
            let value = format!(
                "{{\"Type\":{},\"RollingUpdate\":{rolling_update}}}",
                go_value(&Value::from(other))
            );
            causes.not_supported_rendered(strategy, value, &["RollingUpdate", "OnDelete"]);
        }
    }
}

fn int_or_percent_rendered(value: &Value) -> String {
    if value.is_null() { "0".to_owned() } else { go_value(value) }
}

/// Exactly one of maxUnavailable and maxSurge must not be zero.
fn rolling_update(rolling_update: &Field, causes: &mut Causes) {
    let (max_unavailable, max_surge) =
        (rolling_update.child("maxUnavailable"), rolling_update.child("maxSurge"));
    int_or_percent(&max_unavailable, causes);
    int_or_percent(&max_surge, causes);
    at_most_100_percent(&max_unavailable, causes);
    at_most_100_percent(&max_surge, causes);
    match (int_or_percent_value(&max_unavailable) != 0, int_or_percent_value(&max_surge) != 0) {
        (true, true) => {
            causes.invalid(&max_surge, "may not be set when maxUnavailable is non-zero")
        }
        (false, false) => causes.required(&max_unavailable, "cannot be 0 when maxSurge is 0"),
        (true, false) | (false, true) => {}
    }
}

pub(super) fn int_or_percent(field: &Field, causes: &mut Causes) {
    match field.value().as_str() {
        Some(text) => causes.invalid_each(field, format::percent(text)),
        None => nonnegative(field, causes),
    }
}

pub(super) fn at_most_100_percent(field: &Field, causes: &mut Causes) {
    if percentage(field).is_some_and(|percentage| percentage > 100) {
        causes.invalid(field, "must not be greater than 100%");
    }
}

fn percentage(field: &Field) -> Option<i64> {
    let text = field.value().as_str()?;
    if !format::percent(text).is_empty() {
        return None;
    }
    Some(text.trim_end_matches('%').parse().unwrap_or(i64::MAX))
}

/// A number, or the number of a percentage. Any other string counts as the integer in it, or as 0.
pub(super) fn int_or_percent_value(field: &Field) -> i64 {
    percentage(field).unwrap_or_else(|| match field.value().as_str() {
        Some(text) => text.parse().unwrap_or(0),
        None => field.int(),
    })
}
