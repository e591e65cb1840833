//! Deployments (upstream's `pkg/apis/apps/validation`).

use super::pod::template::{self, CONTAINERS, IMAGES, SELECTOR};
use crate::json::Value;
use crate::kind::columns::{AGE, Cell, Column, NAME, of};
use crate::kind::defaults::Literal::{Int, Text};
use crate::kind::defaults::{Defaults, Fields, default, struct_at, text};
use crate::kind::rules::metadata::nonnegative;
use crate::kind::rules::{Causes, Field, Rules, int_or_percent};
use crate::kind::strategy::{Strategy, bump_generation};
use crate::kind::{Kind, SCALE, kept};
use crate::value::integer;

/// Deployments.
pub(super) static DEPLOYMENT: Kind = Kind {
    short_names: &["deploy"],
    categories: &["all"],
    subresources: SCALE,
    counts_generations: true,
    columns: &[
        NAME,
        of("Ready", ready),
        Column::new("Up-to-date", Cell::Integer("/status/updatedReplicas")),
        Column::new("Available", Cell::Integer("/status/availableReplicas")),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    defaults: Defaults {
        values: &[
            ("spec.replicas", Int(1)),
            ("spec.strategy.type", Text("RollingUpdate")),
            ("spec.revisionHistoryLimit", Int(10)),
            ("spec.progressDeadlineSeconds", Int(600)),
        ],
        more: defaults,
        ..template::DEFAULTS
    },
    rules: Rules { each: &[("spec", spec)], immutable: &["spec.selector"], ..template::RULES },
    strategy: Strategy {
        prepare_update,
        unchanged_by_status: &[&["spec"], &["metadata", "labels"]],
        ..Strategy::PLAIN
    },
    ..kept("apps", "Deployment", "deployments", "deployment")
};

/// The number of ready replicas out of those wanted.
pub(super) fn ready(object: &Value) -> Value {
    let count = |path| integer(object, path);
    format!("{}/{}", count("/status/readyReplicas"), count("/spec/replicas")).into()
}

fn defaults(fields: &mut Fields, _: &Value) {
    let strategy = struct_at(struct_at(fields, "spec"), "strategy");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling_update = struct_at(strategy, "rollingUpdate");
        default(rolling_update, "maxUnavailable", "25%");
        default(rolling_update, "maxSurge", "25%");
    }
}

/// A change of the annotations counts, too.
fn prepare_update(object: &mut Value, current: &Value) {
    if object["metadata"].get("annotations") != current["metadata"].get("annotations") {
        bump_generation(object, current);
    }
}

fn spec(spec: &Field, causes: &mut Causes) {
    nonnegative(&spec.child("replicas"), causes);
    let template = spec.child("template");
    template::is_selected(spec, "deployment", causes);
    template::check(&template, causes);
    template::always_restarts(&template, causes);
    template::has_no_deadline(&template, "ReplicaSet", causes);
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
            int_or_percent::check(&max_unavailable, causes);
            int_or_percent::check(&max_surge, causes);
            let is_zero = |field| int_or_percent::value(field) == 0;
            if is_zero(&max_unavailable) && is_zero(&max_surge) {
                causes.invalid(&max_unavailable, "may not be 0 when `maxSurge` is 0");
            }
            int_or_percent::at_most_100_percent(&max_unavailable, causes);
        }
        _ => causes.not_supported(&name, &["Recreate", "RollingUpdate"]),
    }
}
