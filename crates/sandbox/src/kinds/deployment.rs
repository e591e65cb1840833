//! Deployments (upstream's `pkg/apis/apps/validation`).

use super::pod::template::{self, CONTAINERS, IMAGES, SELECTOR};
use crate::json::Value;
use crate::kind::columns::{AGE, Cell, Column, NAME, of};
use crate::kind::defaults::Literal::{Int, Text};
use crate::kind::defaults::{Defaults, Fields, default, struct_at, text};
use crate::kind::rules::Rules;
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
    rules: Rules {
        choices: &[("spec.strategy.type", &["Recreate", "RollingUpdate"])],
        nonnegative: &[
            "spec.replicas",
            "spec.minReadySeconds",
            "spec.revisionHistoryLimit",
            "spec.progressDeadlineSeconds",
        ],
        immutable: &["spec.selector"],
        each: &[("spec.template", template::check)],
        more: template::runs_for_ever,
        ..template::RULES
    },
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
