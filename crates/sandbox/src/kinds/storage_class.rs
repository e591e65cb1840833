//! StorageClasses.

use crate::json::Value;
use crate::kind::columns::{AGE, Cell, Column, NAME, text, text_or};
use crate::kind::defaults::Defaults;
use crate::kind::defaults::Literal::Text;
use crate::kind::rules::Rules;
use crate::kind::{Kind, kept};
use crate::value::{string, string_map};

/// StorageClasses.
pub(super) static STORAGE_CLASS: Kind = Kind {
    short_names: &["sc"],
    namespaced: false,
    columns: &[
        Column { cell: Cell::Of(name), ..NAME },
        text("Provisioner", "/provisioner"),
        text_or("ReclaimPolicy", "/reclaimPolicy", "Delete"),
        text_or("VolumeBindingMode", "/volumeBindingMode", "Immediate"),
        Column::new("AllowVolumeExpansion", Cell::Boolean("/allowVolumeExpansion")),
        AGE,
    ],
    defaults: Defaults {
        values: &[("reclaimPolicy", Text("Delete")), ("volumeBindingMode", Text("Immediate"))],
        ..Defaults::KEPT
    },
    rules: Rules {
        required: &[("provisioner", "")],
        choices: &[
            ("reclaimPolicy", &["Delete", "Retain"]),
            ("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]),
        ],
        immutable: &["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"],
        ..Rules::NONE
    },
    ..kept("storage.k8s.io", "StorageClass", "storageclasses", "storageclass")
};

fn name(class: &Value) -> Value {
    const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
    let name = string(class, "/metadata/name");
    let is_default = string_map(class, "/metadata/annotations").contains(&(DEFAULT, "true"));
    if is_default { format!("{name} (default)").into() } else { name.into() }
}
