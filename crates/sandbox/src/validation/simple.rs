//! Validates Namespaces, ConfigMaps and Secrets.

use k8s_openapi::ByteString;
use serde::Deserialize as _;

use super::field::{Causes, Field, go_quote};
use super::format;
use super::metadata::{self, NAMESPACE, NAMESPACED, finalizer_name, immutable};
use crate::json::Value;

const DATA_BYTES_MAX: usize = 1024 * 1024;

pub(super) fn namespace_on_create(object: &Field, causes: &mut Causes) {
    metadata::on_create(object, NAMESPACE, causes);
    let spec = object.child("spec");
    let finalizers = spec.child("finalizers");
    for finalizer in finalizers.items() {
        finalizer_name(&finalizers.with_value(finalizer.value()), causes);
    }
}

pub(super) fn namespace_on_status_update(object: &Field, old: &Field, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    let status = object.child("status");
    let phase = status.child("phase");
    let path = status.child("Phase");
    let terminating = object.child("metadata").child("deletionTimestamp").is_set();
    match (terminating, phase.text()) {
        (false, "Active") | (true, "Terminating") => {}
        (false, other) => {
            let detail = "may only be 'Active' if `deletionTimestamp` is empty";
            causes.invalid_rendered(&path, go_quote(other), detail);
        }
        (true, other) => {
            let detail = "may only be 'Terminating' if `deletionTimestamp` is not empty";
            causes.invalid_rendered(&path, go_quote(other), detail);
        }
    }
}

pub(super) fn config_map_on_create(object: &Field, causes: &mut Causes) {
    metadata::on_create(object, NAMESPACED, causes);
    let (data, binary) = (object.child("data"), object.child("binaryData"));
    let mut bytes = 0;
    for (key, value) in data.entries() {
        data_key(&value, key, causes);
        if binary.key(key).is_set() {
            causes.invalid_rendered(
                &value,
                go_quote(key),
                "duplicate of key present in binaryData",
            );
        }
        bytes += value.text().len();
    }
    for (key, value) in binary.entries() {
        data_key(&value, key, causes);
        bytes += decoded(&value).len();
    }
    if bytes > DATA_BYTES_MAX {
        causes.too_long(&Field::root(&Value::Null), DATA_BYTES_MAX);
    }
}

pub(super) fn config_map_on_update(object: &Field, old: &Field, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    unchanged_if_immutable(object, old, &["data", "binaryData"], causes);
    config_map_on_create(object, causes);
}

pub(super) fn secret_on_create(object: &Field, causes: &mut Causes) {
    metadata::on_create(object, NAMESPACED, causes);
    let data = object.child("data");
    let mut bytes = 0;
    for (key, value) in data.entries() {
        data_key(&value, key, causes);
        bytes += decoded(&value).len();
    }
    if bytes > DATA_BYTES_MAX {
        causes.too_long(&data, DATA_BYTES_MAX);
    }
    secret_type(object, &data, causes);
}

pub(super) fn secret_on_update(object: &Field, old: &Field, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    immutable(&object.child("type"), &old.child("type"), causes);
    unchanged_if_immutable(object, old, &["data"], causes);
    secret_on_create(object, causes);
}

/// The required keys of the built-in types of secrets.
fn secret_type(object: &Field, data: &Field, causes: &mut Causes) {
    let mut require = |key: &str| {
        if !data.key(key).is_set() {
            causes.required(&data.key(key), "");
        }
    };
    match object.child("type").text() {
        "kubernetes.io/service-account-token" => {
            let metadata = object.child("metadata");
            let annotations = metadata.child("annotations");
            let account = annotations.key("kubernetes.io/service-account.name");
            if account.text().is_empty() {
                causes.required(&account, "");
            }
        }
        "kubernetes.io/dockercfg" => json_key(&data.key(".dockercfg"), causes),
        "kubernetes.io/dockerconfigjson" => json_key(&data.key(".dockerconfigjson"), causes),
        "kubernetes.io/basic-auth"
            if !data.key("username").is_set() && !data.key("password").is_set() =>
        {
            require("username");
            require("password");
        }
        "kubernetes.io/ssh-auth" => {
            let key = data.key("ssh-privatekey");
            if key.text().is_empty() {
                causes.required(&key, "");
            }
        }
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
    } else if let Err(error) = serde_json::from_slice::<crate::json::Map>(&decoded(value)) {
        causes.invalid_rendered(value, go_quote("<secret contents redacted>"), &error.to_string());
    }
}

fn data_key(value: &Field, key: &str, causes: &mut Causes) {
    for message in format::config_map_key(key) {
        causes.invalid_rendered(value, go_quote(key), &message);
    }
}

/// The bytes of a base64 string; empty if it is invalid, which decoding has refused before.
fn decoded(value: &Field) -> Vec<u8> {
    ByteString::deserialize(value.value()).map(|bytes| bytes.0).unwrap_or_default()
}

fn unchanged_if_immutable(object: &Field, old: &Field, names: &[&str], causes: &mut Causes) {
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
