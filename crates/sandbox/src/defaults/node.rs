//! Nodes.

use super::{Fields, default, struct_at};

pub(super) fn node(fields: &mut Fields) {
    struct_at(fields, "spec");
    let status = struct_at(fields, "status");
    if let Some(capacity) = status.get("capacity").cloned() {
        default(status, "allocatable", capacity);
    }
}
