//! Replacing and patching objects and their status (S5, S8, S9).

use std::sync::Arc;

use serde_json::Value;

use super::write::write;
use super::{Registry, check, metadata, strategy};
use crate::kind::Kind;
use crate::object::Object;
use crate::patch::{self, PatchType};
use crate::status::{Details, Reason, Status, StatusCause};
use crate::store::{Store, WriteOptions, served_form};
use crate::value::text;
use crate::{defaults, schema, validation};

/// A patch request.
#[derive(Clone, Debug)]
pub struct Patch {
    /// The form of the patch.
    pub patch_type: PatchType,
    /// The patch document.
    pub body: Value,
    /// Whether the request is for the status subresource.
    pub status: bool,
    /// `None` unless the request asks for strict field validation; then the findings in the text
    /// of the patch, such as duplicate fields. Strict validation refuses these and unknown fields.
    pub strict: Option<Vec<String>>,
}

/// The part of an object that a request may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    Main,
    Status,
}

impl Registry {
    /// Replaces an object through its main endpoint and returns it as it is served. For a few
    /// kinds a replacement of an absent object creates it, as upstream.
    ///
    /// # Errors
    /// 400 for an object that can't be decoded, 404 if there is no such object, 409 if its
    /// resourceVersion or UID is another, 422 if the replacement is invalid.
    pub fn update(
        &mut self,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        check_request(&object, kind, namespace, name)?;
        let Some(current) = self.store.find_with_tree(kind, namespace, name) else {
            if strategy::allows_create_on_update(kind) {
                metadata::metadata_mut(&mut object).insert("name".to_string(), Value::from(name));
                return self.create(kind, namespace, object, options);
            }
            return Err(Status::not_found(kind, name));
        };
        require_resource_version(&object, kind, name)?;
        replace(&mut self.store, kind, Endpoint::Main, &current, object, options)
    }

    /// Replaces an object's status and returns the object as it is served.
    ///
    /// # Errors
    /// Those of [`update`](Self::update).
    pub fn update_status(
        &mut self,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        check_request(&object, kind, namespace, name)?;
        let current = existing(&self.store, kind, namespace, name)?;
        replace(&mut self.store, kind, Endpoint::Status, &current, object, options)
    }

    /// Applies a patch to an object or to its status, and returns the object as it is served (S5).
    ///
    /// # Errors
    /// Those of [`update`](Self::update) and of [`patch::apply`].
    pub fn patch(
        &mut self,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        let current = existing(&self.store, kind, namespace, name)?;
        let served = served_form(kind, &current);
        let object = patch::apply(kind, patch.patch_type, served.value(), &patch.body)?;
        decode_patched(patch, &object, &served, kind)?;
        metadata::check_shape(&object)?;
        check_patched(&object, &served, kind)?;
        let endpoint = if patch.status { Endpoint::Status } else { Endpoint::Main };
        replace(&mut self.store, kind, endpoint, &current, object, options)
    }
}

fn existing(
    store: &Store,
    kind: &'static Kind,
    namespace: &str,
    name: &str,
) -> Result<Arc<Object>, Status> {
    store.find_with_tree(kind, namespace, name).ok_or_else(|| Status::not_found(kind, name))
}

fn check_request(object: &Value, kind: &Kind, namespace: &str, name: &str) -> Result<(), Status> {
    metadata::check_shape(object)?;
    check::decode(kind, object)?;
    metadata::check_name(object, name)?;
    metadata::check_namespace(object, kind, namespace)
}

/// Refuses a patch that changes the identity of the object.
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
    let uid = text(object, &["metadata", "uid"]);
    if uid.is_empty() || uid == current.uid() {
        return Ok(());
    }
    // A controller that patches with a UID learns from this error that another object of the same
    // name has replaced the one that it knows.
    let cause = StatusCause {
        reason: "FieldValueInvalid".to_string(),
        field: "metadata.uid".to_string(),
        message: format!("Invalid value: \"{uid}\": field is immutable"),
    };
    Err(Status::invalid(kind, current.name(), vec![cause]))
}

/// Checks that the patched object can be decoded as its kind, with upstream's strict decoder under
/// strict validation.
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

/// As upstream: the error has no object name, and quotes the patch if it is a strategic merge
/// patch, else the patched object.
fn invalid_patch(patch: &Patch, object: &Value, reason: &str) -> Status {
    let quoted = match patch.patch_type {
        PatchType::StrategicMerge => patch::go_text(&patch.body),
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
    let given = text(object, &["metadata", "resourceVersion"]);
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

/// The common path of updates and patches.
fn replace(
    store: &mut Store,
    kind: &'static Kind,
    endpoint: Endpoint,
    stored: &Arc<Object>,
    mut object: Value,
    options: &WriteOptions,
) -> Result<Arc<Object>, Status> {
    let current = served_form(kind, stored);
    metadata::check_locks(&object, kind, &current)?;
    metadata::prepare_update(&mut object, kind, current.value());
    defaults::apply(kind, &mut object);
    let causes = match endpoint {
        Endpoint::Main => {
            strategy::prepare_update(kind, &mut object, current.value());
            validation::on_update(kind, &object, current.value())
        }
        Endpoint::Status => {
            strategy::prepare_status_update(kind, &mut object, current.value());
            validation::on_status_update(kind, &object, current.value())
        }
    };
    check::refuse_invalid(kind, current.name(), causes)?;
    write(store, kind, stored, object, options)
}
