//! Replacing and patching objects and their status (S5, S8, S9).

use std::sync::Arc;

use crate::json::Value;

use super::ownership::{self, Apply, Writer};
use super::strategy::Endpoint;
use super::{Registry, check, metadata, strategy};
use crate::kind::Kind;
use crate::kinds::DEFINITION;
use crate::managed_fields::ManagedFields;
use crate::object::Object;
use crate::patch::{self, PatchType};
use crate::status::{Details, Reason, Status, StatusCause};
use crate::store::{WriteOptions, served_form};
use crate::value::text;
use crate::{defaults, schema, validation};

/// A patch request.
#[derive(Clone, Debug)]
pub struct Patch {
    /// The form of the patch.
    pub patch_type: PatchType,
    /// The patch document.
    pub body: Value,
    /// The endpoint of the request.
    pub endpoint: Endpoint,
    /// `None` unless the request asks for strict field validation; then the findings in the text
    /// of the patch, such as duplicate fields. Strict validation refuses these and unknown fields.
    pub strict: Option<Vec<String>>,
}

/// A change of an object on its way to the store. Only its
/// [`commit`](Registry::commit_replacement) needs the store, so that the rest can be done while
/// others use it.
pub struct Replacement {
    kind: &'static Kind,
    endpoint: Endpoint,
    stored: Arc<Object>,
    current: Arc<Object>,
    object: Value,
    /// `metadata.managedFields` of the request.
    sent_managed_fields: Value,
    managed_fields: ManagedFields,
}

impl Replacement {
    /// Replaces `stored` with `object`, which was checked with [`check_target`].
    pub fn of_update(
        kind: &'static Kind,
        endpoint: Endpoint,
        stored: &Arc<Object>,
        object: Value,
    ) -> Result<Self, Status> {
        if endpoint == Endpoint::Main {
            require_resource_version(&object, kind, stored.name())?;
        }
        Self::new(kind, endpoint, stored, served_form(kind, stored), object)
    }

    /// Applies a patch to `stored` (S5).
    pub fn of_patch(
        kind: &'static Kind,
        stored: &Arc<Object>,
        patch: &Patch,
    ) -> Result<Self, Status> {
        let served = served_form(kind, stored);
        let object = if mentions_managed_fields(patch) {
            patch::apply(kind, patch.patch_type, &served.served(), &patch.body)?
        } else {
            patch::apply(kind, patch.patch_type, served.value(), &patch.body)?
        };
        decode_patched(patch, &object, &served, kind)?;
        metadata::check_shape(&object)?;
        check_patched(&object, &served, kind)?;
        Self::new(kind, patch.endpoint, stored, served, object)
    }

    /// Applies an object to `stored` (S14).
    pub fn of_apply(
        kind: &'static Kind,
        stored: &Arc<Object>,
        apply: &Apply,
        writer: Writer<'_>,
    ) -> Result<Self, Status> {
        let served = served_form(kind, stored);
        let (object, managed_fields) = ownership::apply(kind, Some(&served), apply, writer)?;
        let object = object.unwrap_or_else(|| served.value().clone());
        check_patched(&object, &served, kind)?;
        let set_defaults =
            |kind: &Kind, object: &mut Value, _: &Value| defaults::apply_to_applied(kind, object);
        let change = Self::prepared(kind, apply.endpoint, stored, served, object, set_defaults)?;
        Ok(Self { managed_fields, ..change })
    }

    /// Makes the writer the owner of the fields that the change writes.
    pub fn track(&mut self, writer: Writer<'_>) {
        if self.endpoint == Endpoint::Scale && self.kind.custom.is_some() {
            // As upstream, only an apply to the scale of a custom resource owns its field.
            return;
        }
        (self.kind.strategy.convert)(&mut self.object);
        let (kind, endpoint) = (self.kind, self.endpoint);
        let (current, object, sent) = (&self.current, &self.object, &self.sent_managed_fields);
        self.managed_fields = ownership::on_update(kind, endpoint, current, object, sent, writer);
    }

    fn new(
        kind: &'static Kind,
        endpoint: Endpoint,
        stored: &Arc<Object>,
        current: Arc<Object>,
        object: Value,
    ) -> Result<Self, Status> {
        Self::prepared(kind, endpoint, stored, current, object, defaults::apply_to_changed)
    }

    fn prepared(
        kind: &'static Kind,
        endpoint: Endpoint,
        stored: &Arc<Object>,
        current: Arc<Object>,
        mut object: Value,
        set_defaults: fn(&Kind, &mut Value, &Value),
    ) -> Result<Self, Status> {
        metadata::check_locks(&object, kind, &current)?;
        let sent_managed_fields = metadata::take_managed_fields(&mut object);
        metadata::prepare_update(&mut object, kind, current.value());
        set_defaults(kind, &mut object, current.value());
        if kind.custom.is_some() {
            // Before anything visits all of its defaults.
            check::refuse_too_large(&object)?;
        }
        let (stored, managed_fields) = (Arc::clone(stored), stored.managed_fields().clone());
        Ok(Self { kind, endpoint, stored, current, object, sent_managed_fields, managed_fields })
    }

    /// The object before the change.
    pub fn current(&self) -> &Arc<Object> {
        &self.current
    }

    /// The object after the change.
    pub fn object(&self) -> &Value {
        &self.object
    }

    /// Restores what the endpoint may not change, and refuses an invalid object.
    pub fn validate(&mut self) -> Result<(), Status> {
        let (kind, current, object) = (self.kind, self.current.value(), &mut self.object);
        let causes = match self.endpoint {
            Endpoint::Main | Endpoint::Scale => {
                strategy::prepare_update(kind, object, current);
                validation::on_update(kind, object, current)
            }
            Endpoint::Status => {
                strategy::prepare_status_update(kind, object, current);
                validation::on_status_update(kind, object, current)
            }
            Endpoint::Resize => {
                let resize = kind.strategy.resize.expect("only a kind with it has this endpoint");
                (resize.prepare)(object, current);
                (resize.check)(kind, object, current)
            }
        };
        check::refuse_invalid(kind, self.current.name(), causes)?;
        let owners = std::mem::take(&mut self.managed_fields);
        self.managed_fields = check::owners_that_fit(object, owners)?;
        Ok(())
    }
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
        object: Value,
        options: &WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        self.update_part(kind, Endpoint::Main, namespace, name, object, options)
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
        self.update_part(kind, Endpoint::Status, namespace, name, object, options)
    }

    /// Replaces what an endpoint may change of an object.
    ///
    /// # Errors
    /// Those of [`update`](Self::update).
    pub fn update_part(
        &mut self,
        kind: &'static Kind,
        endpoint: Endpoint,
        namespace: &str,
        name: &str,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        let stored = self.store.find_with_tree(kind, namespace, name);
        check_request(&object, kind, namespace, name, stored.as_deref())?;
        let Some(stored) = stored else {
            let object = created_by_update(kind, endpoint, name, object)?;
            return self.create(kind, namespace, object, options);
        };
        let change = Replacement::of_update(kind, endpoint, &stored, object)?;
        self.replace(change, options)
    }

    /// Replaces `known`, or its status, with an object that was made from it. What both share is
    /// not checked again, even if the store has dropped the tree of `known`.
    ///
    /// # Errors
    /// Those of [`update`](Self::update); 409 if `known` is not the newest version.
    pub fn update_known(
        &mut self,
        kind: &'static Kind,
        endpoint: Endpoint,
        known: &Arc<Object>,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        if !self.store.is_newest(kind, known) {
            return Err(Status::modified(kind, known.name()));
        }
        check_request(&object, kind, known.namespace(), known.name(), Some(known))?;
        let change = Replacement::of_update(kind, endpoint, known, object)?;
        self.replace(change, options)
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
        let Some(stored) = self.store.find_with_tree(kind, namespace, name) else {
            return Err(Status::not_found(kind, name));
        };
        self.replace(Replacement::of_patch(kind, &stored, patch)?, options)
    }

    fn replace(
        &mut self,
        mut change: Replacement,
        options: &WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        change.validate()?;
        self.commit_replacement(change, options)
    }

    /// Stores a validated change and returns the object as it is served.
    ///
    /// # Errors
    /// 409 if the object is not the one that the change was made for.
    pub fn commit_replacement(
        &mut self,
        change: Replacement,
        options: &WriteOptions,
    ) -> Result<Arc<Object>, Status> {
        if !self.is_current(&change) {
            return Err(Status::modified(change.kind, change.stored.name()));
        }
        let Replacement { kind, endpoint, stored, current, mut object, managed_fields, .. } =
            change;
        let before = Some(current.value());
        self.plugins.allocate(&self.store, kind, endpoint, &mut object, before)?;
        schema::forget_empty(kind, &mut object);
        let written = self.write(kind, &stored, object, managed_fields, options)?;
        if kind == &DEFINITION && !options.dry_run {
            self.sync_definitions(&written, options.now);
        }
        Ok(written)
    }

    /// True if the object is still the one that the change was made for.
    pub fn is_current(&self, change: &Replacement) -> bool {
        self.store.is_newest(change.kind, &change.stored)
    }
}

/// The object that an update of an absent object creates.
///
/// # Errors
/// 404 for the kinds and endpoints that create none.
pub fn created_by_update(
    kind: &Kind,
    endpoint: Endpoint,
    name: &str,
    mut object: Value,
) -> Result<Value, Status> {
    if endpoint != Endpoint::Main || !kind.strategy.is_created_by_update {
        return Err(Status::not_found(kind, name));
    }
    metadata::metadata_mut(&mut object).insert("name", Value::from(name));
    Ok(object)
}

/// Decodes the object of an update, and checks it against the path of the request.
fn check_request(
    object: &Value,
    kind: &Kind,
    namespace: &str,
    name: &str,
    stored: Option<&Object>,
) -> Result<(), Status> {
    metadata::check_shape(object)?;
    check::decode(kind, object, stored.map_or(&Value::Null, Object::value))?;
    check_target(object, kind, namespace, name)
}

/// Checks the decoded object of an update against the path of the request.
pub fn check_target(
    object: &Value,
    kind: &Kind,
    namespace: &str,
    name: &str,
) -> Result<(), Status> {
    metadata::check_name(object, name)?;
    metadata::check_namespace(object, kind, namespace)
}

/// True if a patch can read or write `metadata.managedFields`.
fn mentions_managed_fields(patch: &Patch) -> bool {
    let is_above = |path: &Value| {
        let path = path.as_str().unwrap_or_default();
        matches!(path, "" | "/metadata") || path.starts_with("/metadata/managedFields")
    };
    match patch.patch_type {
        PatchType::Json => {
            let mut operations = patch.body.as_array().into_iter().flatten();
            operations.any(|operation| {
                is_above(&operation["path"]) || operation.get("from").is_some_and(is_above)
            })
        }
        PatchType::Merge | PatchType::StrategicMerge => {
            patch.body["metadata"].get("managedFields").is_some()
        }
    }
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
    let message = format!("Invalid value: \"{uid}\": field is immutable");
    let cause = StatusCause::new("FieldValueInvalid", "metadata.uid", message);
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
        PatchType::StrategicMerge => schema::convert(kind, object, current.value()),
        PatchType::Json | PatchType::Merge => {
            schema::decode_changed(kind, object, current.value()).map_err(|error| error.reason)
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
            causes: vec![StatusCause::new("FieldValueInvalid", "patch", message)],
            ..Details::default()
        },
    )
}

fn require_resource_version(object: &Value, kind: &Kind, name: &str) -> Result<(), Status> {
    let given = text(object, &["metadata", "resourceVersion"]);
    if !kind.strategy.needs_resource_version || !given.is_empty() {
        return Ok(());
    }
    let message = "Invalid value: 0x0: must be specified for an update";
    let cause = StatusCause::new("FieldValueInvalid", "metadata.resourceVersion", message);
    Err(Status::invalid(kind, name, vec![cause]))
}
