//! Defaults of Nodes.

use super::{Fields, changed_struct, condition_times, default, first_of_many};
use crate::json::Value;

pub(super) fn node(fields: &mut Fields, stored: &Value) {
    if let Some(spec) = changed_struct(fields, stored, "spec") {
        first_of_many(spec, "podCIDR", "podCIDRs", |cidr| cidr, |first| first);
    }
    let Some(status) = changed_struct(fields, stored, "status") else { return };
    if let Some(capacity) = status.get("capacity").cloned() {
        default(status, "allocatable", capacity);
    }
    condition_times(status, &["lastHeartbeatTime", "lastTransitionTime"]);
}
