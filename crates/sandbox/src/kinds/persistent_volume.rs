//! PersistentVolumes.

use crate::json::Value;
use crate::kind::columns::{AGE, NAME, of, text, text_or};
use crate::kind::defaults::Defaults;
use crate::kind::defaults::Literal::Text;
use crate::kind::rules::Rules;
use crate::kind::strategy::Strategy;
use crate::kind::{Kind, STATUS, kept};
use crate::value::{array, is_set, string};

/// PersistentVolumes.
pub(super) static PERSISTENT_VOLUME: Kind = Kind {
    short_names: &["pv"],
    namespaced: false,
    subresources: STATUS,
    columns: &[
        NAME,
        text("Capacity", "/spec/capacity/storage"),
        of("Access Modes", short_modes),
        text("Reclaim Policy", "/spec/persistentVolumeReclaimPolicy"),
        text("Status", "/status/phase"),
        of("Claim", claim),
        text("StorageClass", "/spec/storageClassName"),
        text_or("VolumeAttributesClass", "/spec/volumeAttributesClassName", "<unset>"),
        text("Reason", "/status/reason"),
        AGE,
        text_or("VolumeMode", "/spec/volumeMode", "<unset>").wide(),
    ],
    defaults: Defaults {
        values: &[
            ("spec.persistentVolumeReclaimPolicy", Text("Retain")),
            ("spec.volumeMode", Text("Filesystem")),
            ("spec.hostPath?.type", Text("")),
            ("status.phase", Text("Pending")),
        ],
        ..Defaults::KEPT
    },
    rules: Rules {
        required: &[("spec.accessModes", ""), ("spec.capacity", "")],
        choices: &[
            ("spec.accessModes[]", ACCESS_MODES),
            ("spec.persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"]),
            ("spec.volumeMode", &["Block", "Filesystem"]),
        ],
        ..Rules::NONE
    },
    strategy: Strategy { returns_deleted_object: true, ..Strategy::PLAIN },
    ..kept("", "PersistentVolume", "persistentvolumes", "persistentvolume")
};

/// How a volume can be mounted.
pub(super) const ACCESS_MODES: &[&str] =
    &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

fn short_modes(volume: &Value) -> Value {
    let modes = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let given = array(volume, "/spec/accessModes");
    let short = modes.iter().filter(|(mode, _)| given.iter().any(|given| given == mode));
    short.map(|(_, short)| *short).collect::<Vec<_>>().join(",").into()
}

fn claim(volume: &Value) -> Value {
    if !is_set(volume, "/spec/claimRef") {
        return "".into();
    }
    let part = |path| string(volume, path);
    format!("{}/{}", part("/spec/claimRef/namespace"), part("/spec/claimRef/name")).into()
}
