//! ReplicationControllers.

use super::pod::template::{self, CONTAINERS, IMAGES};
use crate::json::Value;
use crate::kind::columns::{AGE, Cell, Column, NAME, number};
use crate::kind::defaults::Literal::Int;
use crate::kind::defaults::{Defaults, Fields, default, struct_at};
use crate::kind::rules::Rules;
use crate::kind::{FieldLabels, Kind, SCALE, kept};

/// ReplicationControllers.
pub(super) static REPLICATION_CONTROLLER: Kind = Kind {
    short_names: &["rc"],
    categories: &["all"],
    subresources: SCALE,
    counts_generations: true,
    field_labels: FieldLabels::Listed(&["status.replicas"]),
    columns: &columns(Column::new("Selector", Cell::Labels("/spec/selector")).wide()),
    defaults: Defaults {
        values: &[("spec.replicas", Int(1))],
        more: labels_of_template,
        ..template::DEFAULTS
    },
    rules: Rules {
        required: &[("spec.selector", ""), ("spec.template", "")],
        nonnegative: &["spec.replicas", "spec.minReadySeconds"],
        each: &[("spec.template", template::check)],
        ..template::RULES
    },
    ..kept("", "ReplicationController", "replicationcontrollers", "replicationcontroller")
};

/// The columns of a kind with replicas.
pub(super) const fn columns(selector: Column) -> [Column; 8] {
    [
        NAME,
        number("Desired", "/spec/replicas"),
        number("Current", "/status/replicas"),
        number("Ready", "/status/readyReplicas"),
        AGE,
        CONTAINERS,
        IMAGES,
        selector,
    ]
}

/// The selector and the labels are those of the template.
fn labels_of_template(fields: &mut Fields, _: &Value) {
    let template = fields.get("spec").map(|spec| spec["template"]["metadata"]["labels"].clone());
    let Some(labels @ Value::Object(_)) = template else { return };
    default(struct_at(fields, "spec"), "selector", labels.clone());
    default(struct_at(fields, "metadata"), "labels", labels);
}
