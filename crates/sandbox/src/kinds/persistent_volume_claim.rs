//! PersistentVolumeClaims.

use super::persistent_volume::ACCESS_MODES;
use crate::kind::columns::{AGE, NAME, text, text_or};
use crate::kind::defaults::Defaults;
use crate::kind::defaults::Literal::Text;
use crate::kind::rules::Rules;
use crate::kind::strategy::Strategy;
use crate::kind::{Kind, STATUS, kept};

/// PersistentVolumeClaims.
pub(super) static PERSISTENT_VOLUME_CLAIM: Kind = Kind {
    short_names: &["pvc"],
    subresources: STATUS,
    columns: &[
        NAME,
        text("Status", "/status/phase"),
        text("Volume", "/spec/volumeName"),
        text("Capacity", "/status/capacity/storage"),
        // Only a bound claim has modes here.
        text("Access Modes", "/status/accessModes/0"),
        text("StorageClass", "/spec/storageClassName"),
        text_or("VolumeAttributesClass", "/spec/volumeAttributesClassName", "<unset>"),
        AGE,
        text_or("VolumeMode", "/spec/volumeMode", "<unset>").wide(),
    ],
    defaults: Defaults {
        values: &[("spec.volumeMode", Text("Filesystem")), ("status.phase", Text("Pending"))],
        ..Defaults::KEPT
    },
    rules: Rules {
        required: &[("spec.accessModes", "at least 1 access mode is required")],
        choices: &[
            ("spec.accessModes[]", ACCESS_MODES),
            ("spec.volumeMode", &["Block", "Filesystem"]),
        ],
        ..Rules::NONE
    },
    strategy: Strategy { returns_deleted_object: true, ..Strategy::PLAIN },
    ..kept("", "PersistentVolumeClaim", "persistentvolumeclaims", "persistentvolumeclaim")
};
