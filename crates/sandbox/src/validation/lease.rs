//! Validates Leases.

use super::field::{Causes, Field};
use super::metadata::{self, NAMESPACED, nonnegative};

pub(super) fn on_create(object: &Field, causes: &mut Causes) {
    metadata::on_create(object, NAMESPACED, causes);
    spec(&object.child("spec"), causes);
}

pub(super) fn on_update(object: &Field, old: &Field, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    spec(&object.child("spec"), causes);
}

fn spec(spec: &Field, causes: &mut Causes) {
    let duration = spec.child("leaseDurationSeconds");
    if duration.is_set() && duration.int() <= 0 {
        causes.invalid(&duration, "must be greater than 0");
    }
    nonnegative(&spec.child("leaseTransitions"), causes);
    let preferred_holder = spec.child("preferredHolder");
    if !preferred_holder.text().is_empty() && spec.child("strategy").text().is_empty() {
        causes.forbidden(&preferred_holder, "may only be specified if `strategy` is defined");
    }
}
