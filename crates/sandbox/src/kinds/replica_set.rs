//! ReplicaSets.

use super::pod::template::{self, SELECTOR};
use super::replication_controller::columns;
use crate::kind::defaults::Defaults;
use crate::kind::defaults::Literal::Int;
use crate::kind::rules::Rules;
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
        more: template::runs_for_ever,
        ..template::RULES
    },
    ..kept("apps", "ReplicaSet", "replicasets", "replicaset")
};
