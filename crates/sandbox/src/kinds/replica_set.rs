//! ReplicaSets.

use super::pod::template::{self, SELECTOR};
use super::replication_controller::columns;
use crate::kind::defaults::Defaults;
use crate::kind::defaults::Literal::Int;
use crate::kind::rules::{Causes, Field, Rules};
use crate::kind::{FieldLabels, Kind, SCALE, kept};

/// ReplicaSets.
pub(super) static REPLICA_SET: Kind = Kind {
    short_names: &["rs"],
    categories: &["all"],
    subresources: SCALE,
    counts_generations: true,
    field_labels: FieldLabels::Listed(&["status.replicas"]),
    columns: &columns(SELECTOR),
    defaults: Defaults { values: &[("spec.replicas", Int(1))], ..template::DEFAULTS },
    rules: Rules {
        nonnegative: &["spec.replicas", "spec.minReadySeconds"],
        immutable: &["spec.selector"],
        each: &[("spec.template", template::check)],
        more: selector,
        ..template::RULES
    },
    ..kept("apps", "ReplicaSet", "replicasets", "replicaset")
};

fn selector(object: &Field, causes: &mut Causes) {
    let spec = object.child("spec");
    template::is_selected(&spec, "deployment", causes);
    template::always_restarts(&spec.child("template"), causes);
}
