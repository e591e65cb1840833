//! Defaults of DaemonSets.

use super::{Fields, condition_times, default, pod, struct_at, text};

pub(super) fn daemon_set(fields: &mut Fields) {
    let spec = struct_at(fields, "spec");
    let strategy = struct_at(spec, "updateStrategy");
    default(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling_update = struct_at(strategy, "rollingUpdate");
        default(rolling_update, "maxUnavailable", 1);
        default(rolling_update, "maxSurge", 0);
    }
    default(spec, "revisionHistoryLimit", 10);
    let template = struct_at(spec, "template");
    struct_at(template, "metadata");
    pod::spec(struct_at(template, "spec"));
    let status = struct_at(fields, "status");
    for name in
        ["currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"]
    {
        default(status, name, 0);
    }
    condition_times(status, &["lastTransitionTime"]);
}
