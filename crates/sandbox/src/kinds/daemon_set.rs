//! DaemonSets (upstream's `pkg/apis/apps/validation` and `pkg/registry/apps/daemonset`).

use std::num::IntErrorKind;

use everynode_core::api::TEMPLATE_GENERATION_ANNOTATION;

use super::pod::template::{self, CONTAINERS, IMAGES, SELECTOR};
use crate::json::{Value, json};
use crate::kind::columns::{AGE, Cell, Column, NAME, number};
use crate::kind::defaults::Literal::{Int, Text};
use crate::kind::defaults::{Defaults, Fields, condition_times, default, struct_at, text};
use crate::kind::rules::metadata::nonnegative;
use crate::kind::rules::{
    self, Causes, Field, Rules, go_value, int_or_percent, metadata, selector,
};
use crate::kind::strategy::{InitialStatus, Strategy};
use crate::kind::{Kind, STATUS, named};
use crate::value;

/// DaemonSets.
pub static DAEMON_SET: Kind = Kind {
    short_names: &["ds"],
    categories: &["all"],
    subresources: STATUS,
    counts_generations: true,
    columns: &[
        NAME,
        number("Desired", "/status/desiredNumberScheduled")
            .about("The number of nodes that should run the daemon pod"),
        number("Current", "/status/currentNumberScheduled")
            .about("The number of nodes that should run the daemon pod and have one"),
        number("Ready", "/status/numberReady").about("The number of nodes with a ready daemon pod"),
        number("Up-to-date", "/status/updatedNumberScheduled")
            .about("The number of nodes that run the current template"),
        number("Available", "/status/numberAvailable")
            .about("The number of nodes with an available daemon pod"),
        Column::new("Node Selector", Cell::Labels("/spec/template/spec/nodeSelector"))
            .about("The labels that a node must have"),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    defaults: Defaults {
        each: &[("spec.template", template::complete)],
        values: &[
            ("spec.updateStrategy.type", Text("RollingUpdate")),
            ("spec.revisionHistoryLimit", Int(10)),
            ("status.currentNumberScheduled", Int(0)),
            ("status.desiredNumberScheduled", Int(0)),
            ("status.numberMisscheduled", Int(0)),
            ("status.numberReady", Int(0)),
        ],
        more: defaults,
        ..Defaults::NONE
    },
    rules: Rules { each: &[("spec", spec)], on_update, on_status_update, ..template::RULES },
    strategy: Strategy {
        initial_status: InitialStatus::Of(initial_status),
        prepare_create: |object| {
            set_template_generation(object, template_generation(object).max(1));
        },
        prepare_update,
        prepare_status_update: |object, current| {
            set_template_generation(object, template_generation(current));
        },
        check_conversion,
        convert: |object| set_template_generation(object, template_generation(object)),
        ..Strategy::PLAIN
    },
    ..named("apps", "DaemonSet", "daemonsets", "daemonset")
};

fn defaults(fields: &mut Fields, _: &Value) {
    let strategy = struct_at(struct_at(fields, "spec"), "updateStrategy");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling_update = struct_at(strategy, "rollingUpdate");
        default(rolling_update, "maxUnavailable", 1);
        default(rolling_update, "maxSurge", 0);
    }
    condition_times(struct_at(fields, "status"), &["lastTransitionTime"]);
}

fn initial_status(_: &Value) -> Value {
    json!({
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
    })
}

/// The generation of the template, which only the annotation has.
fn template_generation(object: &Value) -> i64 {
    value::text(object, &["metadata", "annotations", TEMPLATE_GENERATION_ANNOTATION])
        .parse()
        .unwrap_or(0)
}

fn set_template_generation(object: &mut Value, generation: i64) {
    if !object["metadata"]["annotations"].is_object() {
        object["metadata"]["annotations"] = json!({});
    }
    object["metadata"]["annotations"][TEMPLATE_GENERATION_ANNOTATION] =
        Value::from(generation.to_string());
}

fn prepare_update(object: &mut Value, current: &Value) {
    let is_changed = object["spec"]["template"] != current["spec"]["template"];
    set_template_generation(object, template_generation(current) + i64::from(is_changed));
}

fn check_conversion(object: &Value) -> Result<(), String> {
    let generation = &object["metadata"]["annotations"][TEMPLATE_GENERATION_ANNOTATION];
    let Some(text) = generation.as_str() else { return Ok(()) };
    let why = match text.parse::<i64>().map_err(|error| *error.kind()) {
        Ok(_) => return Ok(()),
        Err(IntErrorKind::PosOverflow | IntErrorKind::NegOverflow) => "value out of range",
        Err(_) => "invalid syntax",
    };
    Err(format!("strconv.ParseInt: parsing {text:?}: {why}"))
}

fn on_update(kind: &Kind, object: &Field, old: &Field, causes: &mut Causes) {
    rules::on_update(kind, object, old, causes);
    let (new_spec, old_spec) = (object.child("spec"), old.child("spec"));
    let (selector, old_selector) = (new_spec.child("selector"), old_spec.child("selector"));
    if selector.value() != old_selector.value() {
        causes.invalid_rendered(&selector, selector::rendered(&selector), "field is immutable");
    }
}

fn on_status_update(_: &Kind, object: &Field, old: &Field, causes: &mut Causes) {
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

fn spec(spec: &Field, causes: &mut Causes) {
    let (label_selector, template) = (spec.child("selector"), spec.child("template"));
    selector::label_selector(&label_selector, causes);
    template::labels_match(spec, causes);
    if label_selector.is_set() && selector::is_empty(&label_selector) {
        causes.invalid_rendered(
            &label_selector,
            "{}".to_owned(),
            "empty selector is invalid for daemonset",
        );
    }
    template::check(&template, causes);
    template::always_restarts(&template, causes);
    let pod = template.child("spec");
    let deadline = pod.child("activeDeadlineSeconds");
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
    int_or_percent::check(&max_unavailable, causes);
    int_or_percent::check(&max_surge, causes);
    int_or_percent::at_most_100_percent(&max_unavailable, causes);
    int_or_percent::at_most_100_percent(&max_surge, causes);
    match (int_or_percent::value(&max_unavailable) != 0, int_or_percent::value(&max_surge) != 0) {
        (true, true) => {
            causes.invalid(&max_surge, "may not be set when maxUnavailable is non-zero")
        }
        (false, false) => causes.required(&max_unavailable, "cannot be 0 when maxSurge is 0"),
        (true, false) | (false, true) => {}
    }
}
