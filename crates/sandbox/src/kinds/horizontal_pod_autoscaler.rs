//! HorizontalPodAutoscalers.

use crate::json::{Value, json};
use crate::kind::columns::{AGE, Cell, Column, NAME, of};
use crate::kind::defaults::Literal::Int;
use crate::kind::defaults::{Defaults, Fields, default, struct_at};
use crate::kind::rules::Rules;
use crate::kind::{Kind, STATUS, kept};
use crate::value::string;

/// HorizontalPodAutoscalers.
pub(super) static HORIZONTAL_POD_AUTOSCALER: Kind = Kind {
    version: "v2",
    short_names: &["hpa"],
    categories: &["all"],
    subresources: STATUS,
    columns: &[
        NAME,
        of("Reference", reference),
        Column::new("Targets", Cell::Constant("<unknown>")),
        Column::new("MinPods", Cell::Integer("/spec/minReplicas")),
        Column::new("MaxPods", Cell::Integer("/spec/maxReplicas")),
        Column::new("Replicas", Cell::Integer("/status/currentReplicas")),
        AGE,
    ],
    defaults: Defaults { values: &[("spec.minReplicas", Int(1))], more: metrics, ..Defaults::KEPT },
    rules: Rules {
        required: &[("spec.scaleTargetRef.kind", ""), ("spec.scaleTargetRef.name", "")],
        ..Rules::NONE
    },
    ..kept(
        "autoscaling",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "horizontalpodautoscaler",
    )
};

fn reference(object: &Value) -> Value {
    let part = |path| string(object, path);
    format!("{}/{}", part("/spec/scaleTargetRef/kind"), part("/spec/scaleTargetRef/name")).into()
}

/// Four fifths of the requested CPU.
fn metrics(fields: &mut Fields, _: &Value) {
    let target = json!({"type": "Utilization", "averageUtilization": 80});
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    default(struct_at(fields, "spec"), "metrics", json!([cpu]));
}
