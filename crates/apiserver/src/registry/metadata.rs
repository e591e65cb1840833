//! Metadata: the fields that the server sets, and checks of the others (S8).

use everynode_core::api::Timestamp;

use crate::clock::rfc3339;
use crate::json::{Map, Value};
use crate::kind::Kind;
use crate::object::Object;
use crate::status::Status;
use crate::store;
use crate::value::text;

/// Checks that the object and its metadata are JSON objects.
pub(super) fn check_shape(object: &Value) -> Result<(), Status> {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    if object.is_object() && (metadata.is_object() || metadata.is_null()) {
        return Ok(());
    }
    Err(Status::bad_request(
        "the object provided is unrecognized (it and its metadata must be JSON objects)",
    ))
}

/// Checks that the namespace in the object, if set, is that of the request.
pub(super) fn check_namespace(object: &Value, kind: &Kind, namespace: &str) -> Result<(), Status> {
    let sent = text(object, &["metadata", "namespace"]);
    if !kind.namespaced || sent.is_empty() || sent == namespace {
        return Ok(());
    }
    Err(Status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// Checks that the object has the name that the path of the request has.
pub(super) fn check_name(object: &Value, name: &str) -> Result<(), Status> {
    match text(object, &["metadata", "name"]) {
        sent if sent == name => Ok(()),
        "" => Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        sent => Err(Status::bad_request(format!(
            "the name of the object ({sent}) does not match the name on the URL ({name})"
        ))),
    }
}

/// Sets the server's metadata of a new object except for the name and UID, and removes what clients
/// can't set.
pub(super) fn prepare_create(object: &mut Value, kind: &Kind, namespace: &str, now: Timestamp) {
    set_type(object, kind);
    let metadata = metadata_mut(object);
    for field in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
    ] {
        metadata.remove(field);
    }
    set_namespace(metadata, kind, namespace);
    metadata.insert("creationTimestamp", Value::from(rfc3339(now)));
}

/// Optimistic locking: checks that the resourceVersion and UID in a replacement, if set, are those
/// of the object.
pub(super) fn check_locks(object: &Value, kind: &Kind, current: &Object) -> Result<(), Status> {
    let uid = text(object, &["metadata", "uid"]);
    if !uid.is_empty() && uid != current.uid() {
        return Err(other_uid(kind, current, uid));
    }
    let resource_version = text(object, &["metadata", "resourceVersion"]);
    if resource_version.is_empty() || resource_version == "0" {
        return Ok(());
    }
    let number: u64 = resource_version.parse().map_err(|_| {
        Status::bad_request(format!(
            "invalid resourceVersion \"{resource_version}\": it is not a number"
        ))
    })?;
    if number == current.resource_version() {
        Ok(())
    } else {
        Err(Status::modified(kind, current.name()))
    }
}

/// 409 for a replacement of another object with the same name, with upstream's storage error.
fn other_uid(kind: &Kind, current: &Object, uid: &str) -> Status {
    let name = current.name();
    let directory = kind.strategy.directory.unwrap_or(kind.plural);
    let key = store::key(current.namespace(), name);
    Status::conflict(
        kind,
        name,
        &format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{directory}/{key}, \
             ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: \
             {uid}, UID in object meta: {}",
            current.uid()
        ),
    )
}

/// Restores the server's metadata in a replacement.
pub(super) fn prepare_update(object: &mut Value, kind: &Kind, current: &Value) {
    set_type(object, kind);
    if object["metadata"].is_shared_with(&current["metadata"]) {
        return;
    }
    let namespace = text(current, &["metadata", "namespace"]);
    let name = text(current, &["metadata", "name"]);
    let metadata = metadata_mut(object);
    metadata.remove("managedFields");
    metadata.remove("selfLink");
    metadata.insert("name", Value::from(name));
    set_namespace(metadata, kind, namespace);
    for field in [
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generateName",
        "generation",
        "resourceVersion",
        "uid",
    ] {
        match current["metadata"].get(field) {
            Some(value) => metadata.insert(field.to_string(), value.clone()),
            None => metadata.remove(field),
        };
    }
}

/// Takes `metadata.managedFields`, which is stored apart; null if the object has none.
pub(super) fn take_managed_fields(object: &mut Value) -> Value {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    metadata.and_then(|fields| fields.remove("managedFields")).unwrap_or_default()
}

/// The metadata, created if it is absent.
pub(super) fn metadata_mut(object: &mut Value) -> &mut Map {
    if !object["metadata"].is_object() {
        object["metadata"] = Value::Object(Map::new());
    }
    object["metadata"].as_object_mut().expect("just made an object")
}

fn set_type(object: &mut Value, kind: &Kind) {
    let is_set = object["kind"] == kind.kind && kind.is_api_version(text(object, &["apiVersion"]));
    if !is_set {
        object["apiVersion"] = Value::from(kind.api_version());
        object["kind"] = Value::from(kind.kind);
    }
}

fn set_namespace(metadata: &mut Map, kind: &Kind, namespace: &str) {
    if kind.namespaced {
        metadata.insert("namespace", Value::from(namespace));
    } else {
        metadata.remove("namespace");
    }
}
