//! Leases.

use crate::kind::columns::{self, AGE, NAME};
use crate::kind::defaults::Defaults;
use crate::kind::defaults::Literal::Struct;
use crate::kind::rules::{Causes, Field, Rules, metadata};
use crate::kind::strategy::Strategy;
use crate::kind::{Kind, named};

/// Leases.
pub static LEASE: Kind = Kind {
    columns: &[
        NAME,
        columns::text("Holder", "/spec/holderIdentity")
            .about("The identity of the holder of the lease"),
        AGE,
    ],
    defaults: Defaults { values: &[("spec", Struct)], ..Defaults::NONE },
    rules: Rules { each: &[("spec", spec)], ..Rules::NONE },
    strategy: Strategy {
        is_created_by_update: true,
        needs_resource_version: true,
        ..Strategy::PLAIN
    },
    ..named("coordination.k8s.io", "Lease", "leases", "lease")
};

fn spec(spec: &Field, causes: &mut Causes) {
    let duration = spec.child("leaseDurationSeconds");
    if duration.is_set() && duration.int() <= 0 {
        causes.invalid(&duration, "must be greater than 0");
    }
    metadata::nonnegative(&spec.child("leaseTransitions"), causes);
    let preferred_holder = spec.child("preferredHolder");
    if !preferred_holder.text().is_empty() && spec.child("strategy").text().is_empty() {
        causes.forbidden(&preferred_holder, "may only be specified if `strategy` is defined");
    }
}
