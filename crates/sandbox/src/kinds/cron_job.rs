//! CronJobs.

use super::pod::template;
use crate::json::Value;
use crate::kind::columns::{AGE, Cell, Column, NAME, of, text, text_or};
use crate::kind::defaults::Defaults;
use crate::kind::defaults::Literal::{Bool, Int, Text};
use crate::kind::rules::Rules;
use crate::kind::{Kind, STATUS, kept};
use crate::value::boolean;

const CONTAINERS: &str = "/spec/jobTemplate/spec/template/spec/containers";

/// CronJobs.
pub(super) static CRON_JOB: Kind = Kind {
    short_names: &["cj"],
    categories: &["all"],
    subresources: STATUS,
    counts_generations: true,
    columns: &[
        NAME,
        text("Schedule", "/spec/schedule"),
        text_or("Timezone", "/spec/timeZone", "<none>"),
        of("Suspend", suspended),
        Column::new("Active", Cell::Count("/status/active")).integer(),
        text_or("Last Schedule", "/status/lastScheduleTime", "<none>"),
        AGE,
        Column::new("Containers", Cell::Joined(CONTAINERS, "/name", "")).wide(),
        Column::new("Images", Cell::Joined(CONTAINERS, "/image", "")).wide(),
        Column::new("Selector", Cell::Constant("<none>")).wide(),
    ],
    defaults: Defaults {
        each: &[("spec.jobTemplate.spec.template", template::complete)],
        values: &[
            ("spec.concurrencyPolicy", Text("Allow")),
            ("spec.suspend", Bool(false)),
            ("spec.successfulJobsHistoryLimit", Int(3)),
            ("spec.failedJobsHistoryLimit", Int(1)),
        ],
        ..Defaults::KEPT
    },
    rules: Rules {
        required: &[("spec.schedule", "")],
        choices: &[("spec.concurrencyPolicy", &["Allow", "Forbid", "Replace"])],
        nonnegative: &[
            "spec.startingDeadlineSeconds",
            "spec.successfulJobsHistoryLimit",
            "spec.failedJobsHistoryLimit",
        ],
        each: &[("spec.jobTemplate.spec.template", template::check)],
        warnings: |new, old| template::warnings("spec.jobTemplate.spec.template", new, old),
        ..Rules::NONE
    },
    ..kept("batch", "CronJob", "cronjobs", "cronjob")
};

fn suspended(object: &Value) -> Value {
    if boolean(object, "/spec/suspend") { "True" } else { "False" }.into()
}
