//! Defaults of Nodes.

use super::{Fields, condition_times, default, first_of_many, struct_at};

pub(super) fn node(fields: &mut Fields) {
    first_of_many(struct_at(fields, "spec"), "podCIDR", "podCIDRs", |cidr| cidr, |first| first);
    let status = struct_at(fields, "status");
    if let Some(capacity) = status.get("capacity").cloned() {
        default(status, "allocatable", capacity);
    }
    condition_times(status, &["lastHeartbeatTime", "lastTransitionTime"]);
}
