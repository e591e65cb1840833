//! ConfigMaps.

use super::secret::{DATA_BYTES_MAX, check_key, decoded, unchanged_if_immutable};
use crate::json::{Value, json};
use crate::kind::columns::{self, AGE, NAME};
use crate::kind::rules::{Causes, Field, Rules, metadata};
use crate::kind::{Kind, named};
use crate::value::map;

/// ConfigMaps.
pub static CONFIG_MAP: Kind = Kind {
    short_names: &["cm"],
    columns: &[
        NAME,
        columns::of("Data", |object| {
            let keys = |path| map(object, path).map_or(0, |entries| entries.len());
            json!(keys("/data") + keys("/binaryData"))
        })
        .about("The number of keys in data and binaryData"),
        AGE,
    ],
    rules: Rules { more: data, on_update, ..Rules::NONE },
    ..named("", "ConfigMap", "configmaps", "configmap")
};

fn on_update(kind: &Kind, object: &Field, old: &Field, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    unchanged_if_immutable(object, old, &["data", "binaryData"], causes);
    kind.rules.check(object, causes);
}

fn data(object: &Field, causes: &mut Causes) {
    let (data, binary) = (object.child("data"), object.child("binaryData"));
    let mut bytes = 0;
    for (key, value) in data.entries() {
        check_key(&value, key, causes);
        if binary.key(key).is_set() {
            causes.invalid_text(&value, key, "duplicate of key present in binaryData");
        }
        bytes += value.text().len();
    }
    for (key, value) in binary.entries() {
        check_key(&value, key, causes);
        bytes += decoded(&value).len();
    }
    if bytes > DATA_BYTES_MAX {
        causes.too_long(&Field::root(&Value::Null), DATA_BYTES_MAX);
    }
}
