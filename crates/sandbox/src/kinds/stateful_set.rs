//! StatefulSets.

use super::deployment::ready;
use super::pod::template::{self, CONTAINERS, IMAGES};
use crate::json::Value;
use crate::kind::columns::{AGE, NAME, of};
use crate::kind::defaults::Literal::{Int, Text};
use crate::kind::defaults::{Defaults, Fields, default, struct_at, text};
use crate::kind::rules::Rules;
use crate::kind::{Kind, SCALE, kept};

/// StatefulSets.
pub(super) static STATEFUL_SET: Kind = Kind {
    short_names: &["sts"],
    categories: &["all"],
    subresources: SCALE,
    counts_generations: true,
    columns: &[NAME, of("Ready", ready), AGE, CONTAINERS, IMAGES],
    defaults: Defaults {
        values: &[
            ("spec.replicas", Int(1)),
            ("spec.podManagementPolicy", Text("OrderedReady")),
            ("spec.updateStrategy.type", Text("RollingUpdate")),
            ("spec.revisionHistoryLimit", Int(10)),
            ("spec.persistentVolumeClaimRetentionPolicy.whenDeleted", Text("Retain")),
            ("spec.persistentVolumeClaimRetentionPolicy.whenScaled", Text("Retain")),
            ("spec.volumeClaimTemplates[].apiVersion", Text("v1")),
            ("spec.volumeClaimTemplates[].kind", Text("PersistentVolumeClaim")),
            ("spec.volumeClaimTemplates[].spec.volumeMode", Text("Filesystem")),
            ("spec.volumeClaimTemplates[].status.phase", Text("Pending")),
            ("status.replicas", Int(0)),
            ("status.availableReplicas", Int(0)),
        ],
        more: partition,
        ..template::DEFAULTS
    },
    rules: Rules {
        choices: &[
            ("spec.podManagementPolicy", &["OrderedReady", "Parallel"]),
            ("spec.updateStrategy.type", &["OnDelete", "RollingUpdate"]),
        ],
        nonnegative: &["spec.replicas", "spec.minReadySeconds", "spec.revisionHistoryLimit"],
        more: template::runs_for_ever,
        // As upstream, a template causes warnings and is not validated.
        ..template::RULES
    },
    ..kept("apps", "StatefulSet", "statefulsets", "statefulset")
};

fn partition(fields: &mut Fields, _: &Value) {
    let strategy = struct_at(struct_at(fields, "spec"), "updateStrategy");
    if text(strategy, "type") == "RollingUpdate" {
        default(struct_at(strategy, "rollingUpdate"), "partition", 0);
    }
}
