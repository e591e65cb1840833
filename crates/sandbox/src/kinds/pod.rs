//! Pods, and the pod templates of other kinds.

mod affinity;
mod columns;
mod container;
mod defaults;
mod environment;
mod probe;
mod resize;
pub(super) mod resources;
mod rules;
pub(super) mod scheduling;
mod security;
mod spec;
pub(super) mod template;
mod volume;
mod warnings;

use everynode_k8s::resources::qos_class;

use crate::json::{Value, json};
use crate::kind::defaults::Defaults;
use crate::kind::rules::Rules;
use crate::kind::strategy::{InitialStatus, Strategy};
use crate::kind::{FieldLabels, Kind, Subresource, named};
use crate::value::{boolean, integer_maybe, string};

/// Pods.
pub static POD: Kind = Kind {
    short_names: &["po"],
    categories: &["all"],
    subresources: &[
        Subresource::Binding,
        Subresource::Eviction,
        Subresource::Resize,
        Subresource::Status,
    ],
    field_labels: FieldLabels::Listed(&[
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ]),
    field_values: &[
        ("spec.hostNetwork", |pod| boolean(pod, "/spec/hostNetwork").to_string()),
        ("status.podIPs", |pod| string(pod, "/status/podIPs/0/ip").to_owned()),
    ],
    counts_generations: true,
    is_indexed_by_node: true,
    columns: columns::COLUMNS,
    row_conditions: columns::row_conditions,
    defaults: Defaults { more: defaults::pod, ..Defaults::NONE },
    rules: Rules {
        on_create: rules::on_create,
        on_update: rules::on_update,
        on_status_update: rules::on_status_update,
        warnings: warnings::of_pod,
        ..Rules::NONE
    },
    strategy: Strategy {
        initial_status: InitialStatus::Of(
            |pod| json!({"phase": "Pending", "qosClass": qos_class(pod)}),
        ),
        prepare_status_update,
        unchanged_by_status: &[
            &["spec"],
            &["metadata", "deletionTimestamp"],
            &["metadata", "ownerReferences"],
        ],
        resize: Some(&resize::RESIZE),
        grace_seconds,
        returns_deleted_object: true,
        ..Strategy::PLAIN
    },
    ..named("", "Pod", "pods", "pod")
};

/// The grace period of a deletion. It is 0 unless the pod is bound and has not ended.
fn grace_seconds(pod: &Value, requested: Option<i64>) -> Result<i64, String> {
    const DEFAULT: i64 = 30;
    let has_ended = matches!(string(pod, "/status/phase"), "Failed" | "Succeeded");
    if string(pod, "/spec/nodeName").is_empty() || has_ended {
        return Ok(0);
    }
    let own = integer_maybe(pod, "/spec/terminationGracePeriodSeconds");
    Ok(match requested.or(own).unwrap_or(DEFAULT) {
        // As upstream: a negative period means the shortest one that is not 0.
        negative if negative < 0 => 1,
        seconds => seconds,
    })
}

/// An update of the status keeps the owners.
fn prepare_status_update(object: &mut Value, current: &Value) {
    if object["metadata"].is_shared_with(&current["metadata"]) {
        return;
    }
    let owners = current["metadata"].get("ownerReferences").cloned();
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    match owners {
        Some(owners) => metadata.insert("ownerReferences", owners),
        None => metadata.remove("ownerReferences"),
    };
}
