//! Validates Deployments (upstream's `pkg/apis/apps/validation`).

use super::daemon_set::{at_most_100_percent, int_or_percent, int_or_percent_value};
use super::field::{Causes, Field};
use super::metadata::nonnegative;
use super::{pod, selector};

pub(super) fn spec(object: &Field, causes: &mut Causes) {
    let spec = object.child("spec");
    nonnegative(&spec.child("replicas"), causes);
    selector_and_template(&spec, causes);
    strategy(&spec.child("strategy"), causes);
    let (min_ready, deadline) =
        (spec.child("minReadySeconds"), spec.child("progressDeadlineSeconds"));
    for field in [&min_ready, &spec.child("revisionHistoryLimit"), &deadline] {
        nonnegative(field, causes);
    }
    if deadline.int() <= min_ready.int() {
        causes.invalid(&deadline, "must be greater than minReadySeconds");
    }
}

fn selector_and_template(spec: &Field, causes: &mut Causes) {
    let (label_selector, template) = (spec.child("selector"), spec.child("template"));
    if !label_selector.is_set() {
        causes.required(&label_selector, "");
    } else if selector::is_empty(&label_selector) {
        let detail = "empty selector is invalid for deployment";
        causes.invalid_rendered(&label_selector, "{}".to_owned(), detail);
    }
    selector::label_selector(&label_selector, causes);
    let metadata = template.child("metadata");
    let labels = metadata.child("labels");
    if selector::mismatches(&label_selector, &labels) {
        causes.invalid(&labels, "`selector` does not match template `labels`");
    }
    pod::template(&template, causes);
    let pod_spec = template.child("spec");
    let restart_policy = pod_spec.child("restartPolicy");
    if restart_policy.text() != "Always" {
        causes.not_supported(&restart_policy, &["Always"]);
    }
    let deadline = pod_spec.child("activeDeadlineSeconds");
    if deadline.is_set() {
        causes.forbidden(&deadline, "activeDeadlineSeconds in ReplicaSet is not Supported");
    }
}

fn strategy(strategy: &Field, causes: &mut Causes) {
    let (name, rolling_update) = (strategy.child("type"), strategy.child("rollingUpdate"));
    match name.text() {
        "Recreate" if rolling_update.is_set() => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            causes.forbidden(&rolling_update, detail);
        }
        "Recreate" => {}
        "RollingUpdate" => {
            let (max_unavailable, max_surge) =
                (rolling_update.child("maxUnavailable"), rolling_update.child("maxSurge"));
            int_or_percent(&max_unavailable, causes);
            int_or_percent(&max_surge, causes);
            if int_or_percent_value(&max_unavailable) == 0 && int_or_percent_value(&max_surge) == 0
            {
                causes.invalid(&max_unavailable, "may not be 0 when `maxSurge` is 0");
            }
            at_most_100_percent(&max_unavailable, causes);
        }
        _ => causes.not_supported(&name, &["Recreate", "RollingUpdate"]),
    }
}
