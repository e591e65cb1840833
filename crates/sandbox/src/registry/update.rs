//! Replacing and patching objects, and their status (S5, S8, S9).

use std::sync::Arc;

use serde_json::Value;

use super::{Patch, delete, metadata, rules, served_as, stored_as, strategy};
use crate::kind::Kind;
use crate::object::Object;
use crate::patch::PatchType;
use crate::schema;
use crate::status::{Details, Reason, Status, StatusCause};
use crate::store::{Action, Store, WriteOptions};

/// Which part of an object a request may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    Main,
    Status,
}

pub fn update(
    store: &mut Store,
    kind: &'static Kind,
    namespace: &str,
    name: &str,
    object: Value,
    options: &WriteOptions,
) -> Result<Arc<Object>, Status> {
    check_request(&object, kind, namespace, name)?;
    let Some(current) = store.find_warm(kind, namespace, name) else {
        if strategy::allows_create_on_update(kind) {
            let mut object = object;
            metadata::metadata_mut(&mut object).insert("name".to_string(), Value::from(name));
            return super::create(store, kind, namespace, object, options);
        }
        return Err(Status::not_found(kind, name));
    };
    require_resource_version(&object, kind, name)?;
    replace(store, kind, Endpoint::Main, &current, object, options)
}

pub fn update_status(
    store: &mut Store,
    kind: &'static Kind,
    namespace: &str,
    name: &str,
    object: Value,
    options: &WriteOptions,
) -> Result<Arc<Object>, Status> {
    check_request(&object, kind, namespace, name)?;
    let current = existing(store, kind, namespace, name)?;
    replace(store, kind, Endpoint::Status, &current, object, options)
}

pub fn patch(
    store: &mut Store,
    kind: &'static Kind,
    namespace: &str,
    name: &str,
    patch: &Patch,
    options: &WriteOptions,
) -> Result<Arc<Object>, Status> {
    let current = existing(store, kind, namespace, name)?;
    let served = served_as(kind, &current);
    let object = crate::patch::apply(kind, patch.patch_type, served.value(), &patch.body)?;
    decode_patched(patch, &object, &served, kind)?;
    metadata::check_shape(&object)?;
    check_patched(&object, &served, kind)?;
    let endpoint = if patch.status { Endpoint::Status } else { Endpoint::Main };
    replace(store, kind, endpoint, &current, object, options)
}

fn existing(
    store: &Store,
    kind: &'static Kind,
    namespace: &str,
    name: &str,
) -> Result<Arc<Object>, Status> {
    store.find_warm(kind, namespace, name).ok_or_else(|| Status::not_found(kind, name))
}

fn check_request(object: &Value, kind: &Kind, namespace: &str, name: &str) -> Result<(), Status> {
    metadata::check_shape(object)?;
    rules::decode(kind, object)?;
    metadata::check_name(object, name)?;
    metadata::check_namespace(object, kind, namespace)
}

/// What a patch made has to be the same object still.
fn check_patched(object: &Value, current: &Object, kind: &Kind) -> Result<(), Status> {
    for field in ["apiVersion", "kind"] {
        if object.get(field) != current.value().get(field) {
            return Err(Status::bad_request(format!(
                "the patch changes {field}, which must stay {}",
                current.value()[field]
            )));
        }
    }
    metadata::check_name(object, current.name())?;
    metadata::check_namespace(object, kind, current.namespace())?;
    let uid = crate::value::text(object, &["metadata", "uid"]);
    if uid.is_empty() || uid == current.uid() {
        return Ok(());
    }
    // Controllers that patch with a UID tell by this that their object was replaced by another of its name.
    let cause = StatusCause {
        reason: "FieldValueInvalid".to_string(),
        field: "metadata.uid".to_string(),
        message: format!("Invalid value: \"{uid}\": field is immutable"),
    };
    Err(Status::invalid(kind, current.name(), vec![cause]))
}

/// Reads what a patch made as its kind; under strict validation as upstream's strict reader does.
fn decode_patched(
    patch: &Patch,
    object: &Value,
    current: &Object,
    kind: &Kind,
) -> Result<(), Status> {
    let decoded = match patch.patch_type {
        PatchType::StrategicMerge => schema::convert(kind, object),
        PatchType::Json | PatchType::Merge => {
            schema::decode(kind, object).map_err(|error| error.reason)
        }
    };
    decoded.map_err(|reason| invalid_patch(patch, object, &reason))?;
    let Some(findings) = &patch.strict else { return Ok(()) };
    let unknown = schema::new_unknown_fields(kind, object, current.value());
    let findings: Vec<&str> = findings.iter().chain(&unknown).map(String::as_str).collect();
    if findings.is_empty() {
        return Ok(());
    }
    Err(invalid_patch(patch, object, &format!("strict decoding error: {}", findings.join(", "))))
}

/// Upstream refuses it under no name, and quotes a strategic merge patch, or the object that another patch made.
fn invalid_patch(patch: &Patch, object: &Value, reason: &str) -> Status {
    let quoted = match patch.patch_type {
        PatchType::StrategicMerge => crate::patch::go_text(&patch.body),
        PatchType::Json | PatchType::Merge => object.to_string(),
    };
    let message = format!("Invalid value: {quoted:?}: {reason}");
    Status::new(Reason::Invalid, format!(" \"\" is invalid: patch: {message}")).with_details(
        Details {
            causes: vec![StatusCause {
                reason: "FieldValueInvalid".to_string(),
                field: "patch".to_string(),
                message,
            }],
            ..Details::default()
        },
    )
}

fn require_resource_version(object: &Value, kind: &Kind, name: &str) -> Result<(), Status> {
    let given = crate::value::text(object, &["metadata", "resourceVersion"]);
    if strategy::allows_unconditional_update(kind) || !given.is_empty() {
        return Ok(());
    }
    let cause = StatusCause {
        reason: "FieldValueInvalid".to_string(),
        field: "metadata.resourceVersion".to_string(),
        message: "Invalid value: 0x0: must be specified for an update".to_string(),
    };
    Err(Status::invalid(kind, name, vec![cause]))
}

/// The one way by which an object is replaced.
fn replace(
    store: &mut Store,
    kind: &'static Kind,
    endpoint: Endpoint,
    stored: &Arc<Object>,
    mut object: Value,
    options: &WriteOptions,
) -> Result<Arc<Object>, Status> {
    let current = served_as(kind, stored);
    metadata::check_locks(&object, kind, &current)?;
    metadata::prepare_update(&mut object, kind, current.value());
    rules::defaults(kind, &mut object);
    let causes = match endpoint {
        Endpoint::Main => {
            strategy::prepare_update(kind, &mut object, current.value());
            rules::on_update(kind, &object, current.value())
        }
        Endpoint::Status => {
            strategy::prepare_status_update(kind, &mut object, current.value());
            rules::on_status_update(kind, &object, current.value())
        }
    };
    rules::check(kind, current.name(), causes)?;
    write(store, kind, stored, object, options)
}

/// Writes a replacement down: nothing if nothing changed, a deletion if that was all that the object was kept for.
pub fn write(
    store: &mut Store,
    kind: &'static Kind,
    stored: &Arc<Object>,
    object: Value,
    options: &WriteOptions,
) -> Result<Arc<Object>, Status> {
    let object = stored_as(kind, object);
    if &object == stored.value() {
        return Ok(served_as(kind, stored));
    }
    if options.dry_run {
        return Ok(served_as(kind, &Arc::new(Object::new(object))));
    }
    let action = if delete::is_done(kind, &object) { Action::Deleted } else { Action::Modified };
    let written = store.commit(kind, action, object);
    Ok(served_as(kind, &written))
}
