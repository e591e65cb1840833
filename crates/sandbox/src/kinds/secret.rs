//! Secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::format;
use crate::json::{Map, Value, json};
use crate::kind::columns::{self, AGE, NAME};
use crate::kind::defaults::Literal::Text;
use crate::kind::defaults::{Defaults, Fields, struct_at};
use crate::kind::rules::{Causes, Field, Rules, metadata};
use crate::kind::{FieldLabels, Kind, named};
use crate::value::map;

/// Secrets.
pub static SECRET: Kind = Kind {
    field_labels: FieldLabels::Listed(&["type"]),
    columns: &[
        NAME,
        columns::text("Type", "/type").about("The type of the secret"),
        columns::of("Data", |object| json!(map(object, "/data").map_or(0, |keys| keys.len())))
            .about("The number of keys in data"),
        AGE,
    ],
    defaults: Defaults {
        values: &[("type", Text("Opaque"))],
        more: encode_strings,
        ..Defaults::NONE
    },
    rules: Rules { more: data, on_update, ..Rules::NONE },
    ..named("", "Secret", "secrets", "secret")
};

/// Maximum number of bytes of the values of a Secret or ConfigMap.
pub(super) const DATA_BYTES_MAX: usize = 1024 * 1024;

/// Moves the plain strings to the base64 data.
fn encode_strings(fields: &mut Fields, _: &Value) {
    let Some(Value::Object(plain)) = fields.remove("stringData") else { return };
    let data = struct_at(fields, "data");
    for (key, value) in plain {
        let bytes = STANDARD.encode(value.as_str().unwrap_or(""));
        data.insert(key, bytes.into());
    }
}

fn on_update(kind: &Kind, object: &Field, old: &Field, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    metadata::immutable(&object.child("type"), &old.child("type"), causes);
    unchanged_if_immutable(object, old, &["data"], causes);
    kind.rules.check(object, causes);
}

fn data(object: &Field, causes: &mut Causes) {
    let data = object.child("data");
    let mut bytes = 0;
    for (key, value) in data.entries() {
        check_key(&value, key, causes);
        bytes += decoded(&value).len();
    }
    if bytes > DATA_BYTES_MAX {
        causes.too_long(&data, DATA_BYTES_MAX);
    }
    keys_of_type(object, &data, causes);
}

/// The required keys of the built-in types of secrets.
fn keys_of_type(object: &Field, data: &Field, causes: &mut Causes) {
    let mut require = |key: &str| {
        if !data.key(key).is_set() {
            causes.required(&data.key(key), "");
        }
    };
    match object.child("type").text() {
        "kubernetes.io/service-account-token" => {
            let metadata = object.child("metadata");
            let annotations = metadata.child("annotations");
            causes.required_text(&annotations.key("kubernetes.io/service-account.name"));
        }
        "kubernetes.io/dockercfg" => json_key(&data.key(".dockercfg"), causes),
        "kubernetes.io/dockerconfigjson" => json_key(&data.key(".dockerconfigjson"), causes),
        "kubernetes.io/basic-auth"
            if !data.key("username").is_set() && !data.key("password").is_set() =>
        {
            require("username");
            require("password");
        }
        "kubernetes.io/ssh-auth" => causes.required_text(&data.key("ssh-privatekey")),
        "kubernetes.io/tls" => {
            require("tls.crt");
            require("tls.key");
        }
        _ => {}
    }
}

fn json_key(value: &Field, causes: &mut Causes) {
    if !value.is_set() {
        causes.required(value, "");
    } else if let Err(error) = serde_json::from_slice::<Map>(&decoded(value)) {
        causes.invalid_text(value, "<secret contents redacted>", &error.to_string());
    }
}

pub(super) fn check_key(value: &Field, key: &str, causes: &mut Causes) {
    causes.text_format(value, key, format::config_map_key);
}

/// The bytes of a base64 string; empty if it is invalid, which decoding has refused before.
pub(super) fn decoded(value: &Field) -> Vec<u8> {
    STANDARD.decode(value.text()).unwrap_or_default()
}

/// An object that is marked as immutable keeps the mark and the fields in `names`.
pub(super) fn unchanged_if_immutable(
    object: &Field,
    old: &Field,
    names: &[&str],
    causes: &mut Causes,
) {
    if !old.child("immutable").is_true() {
        return;
    }
    let detail = "field is immutable when `immutable` is set";
    if !object.child("immutable").is_true() {
        causes.forbidden(&object.child("immutable"), detail);
    }
    for name in names {
        if object.child(name).value() != old.child(name).value() {
            causes.forbidden(&object.child(name), detail);
        }
    }
}
