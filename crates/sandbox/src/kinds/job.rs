//! Jobs.

use super::pod::template::{self, CONTAINERS, IMAGES, SELECTOR};
use crate::json::{Map, Value};
use crate::kind::columns::{AGE, Cell, Column, NAME, of};
use crate::kind::defaults::Literal::{Bool, Int, Text};
use crate::kind::defaults::{Defaults, Fields, default, struct_at};
use crate::kind::rules::Rules;
use crate::kind::strategy::Strategy;
use crate::kind::{FieldLabels, Kind, STATUS, kept};
use crate::value::{boolean, integer, is_set, string};

/// Jobs.
pub static JOB: Kind = Kind {
    categories: &["all"],
    subresources: STATUS,
    counts_generations: true,
    field_labels: FieldLabels::Listed(&["status.successful"]),
    columns: &[
        NAME,
        of("Status", |job| {
            if boolean(job, "/spec/suspend") { "Suspended" } else { "Running" }.into()
        }),
        of("Completions", completions),
        Column::new("Duration", Cell::Constant("")),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    defaults: Defaults {
        values: &[
            ("spec.backoffLimit", Int(6)),
            ("spec.completionMode", Text("NonIndexed")),
            ("spec.suspend", Bool(false)),
            ("spec.manualSelector", Bool(false)),
        ],
        more: defaults,
        ..template::DEFAULTS
    },
    rules: Rules {
        choices: &[("spec.completionMode", &["Indexed", "NonIndexed"])],
        nonnegative: &[
            "spec.parallelism",
            "spec.completions",
            "spec.activeDeadlineSeconds",
            "spec.backoffLimit",
            "spec.ttlSecondsAfterFinished",
        ],
        immutable: &["spec.selector", "spec.template", "spec.completionMode"],
        each: &[("spec.template", template::check)],
        ..template::RULES
    },
    strategy: Strategy {
        before_defaults: shares_labels,
        after_uid: set_selector,
        ..Strategy::PLAIN
    },
    ..kept("batch", "Job", "jobs", "job")
};

fn completions(job: &Value) -> Value {
    let done = integer(job, "/status/succeeded");
    if is_set(job, "/spec/completions") {
        return format!("{done}/{}", integer(job, "/spec/completions")).into();
    }
    match integer(job, "/spec/parallelism") {
        parallel if parallel > 1 => format!("{done}/1 of {parallel}").into(),
        _ => format!("{done}/1").into(),
    }
}

/// A Job without numbers runs one pod to completion.
fn defaults(fields: &mut Fields, _: &Value) {
    let template = fields.get("spec").map(|spec| spec["template"]["metadata"]["labels"].clone());
    if let Some(labels @ Value::Object(_)) = template {
        default(struct_at(fields, "metadata"), "labels", labels);
    }
    let spec = struct_at(fields, "spec");
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        spec.insert("completions", 1.into());
    }
    default(spec, "parallelism", 1);
    let policy =
        if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    default(spec, "podReplacementPolicy", policy);
}

const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const JOB_NAME: &str = "batch.kubernetes.io/job-name";

/// True if a Job gets the labels of its template because it has none. As upstream, these two are
/// one map, so that the Job gets the generated labels, too.
fn shares_labels(job: &Value) -> bool {
    let is_empty = |labels: &Value| labels.as_object().is_none_or(Map::is_empty);
    is_empty(&job["metadata"]["labels"])
        && !is_empty(&job["spec"]["template"]["metadata"]["labels"])
}

/// Sets the selector of a new Job and the labels of the template, which only its own pods have,
/// unless it has its own (`manualSelector`).
fn set_selector(job: &mut Value, shares_labels: bool) {
    if boolean(job, "/spec/manualSelector") {
        return;
    }
    let uid = string(job, "/metadata/uid").to_owned();
    let name = string(job, "/metadata/name").to_owned();
    let labels = &mut job["spec"]["template"]["metadata"]["labels"];
    for (key, value) in
        [(CONTROLLER_UID, &uid), (JOB_NAME, &name), ("controller-uid", &uid), ("job-name", &name)]
    {
        labels[key] = value.as_str().into();
    }
    if shares_labels {
        job["metadata"]["labels"] = labels.clone();
    }
    job["spec"]["selector"]["matchLabels"][CONTROLLER_UID] = uid.into();
}
