//! Defaults of Deployments.

use super::{Fields, default, pod, struct_at, text};

pub(super) fn deployment(fields: &mut Fields) {
    let spec = struct_at(fields, "spec");
    default(spec, "replicas", 1);
    let strategy = struct_at(spec, "strategy");
    default(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling_update = struct_at(strategy, "rollingUpdate");
        default(rolling_update, "maxUnavailable", "25%");
        default(rolling_update, "maxSurge", "25%");
    }
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "progressDeadlineSeconds", 600);
    let template = struct_at(spec, "template");
    struct_at(template, "metadata");
    pod::spec(struct_at(template, "spec"));
    struct_at(fields, "status");
}
