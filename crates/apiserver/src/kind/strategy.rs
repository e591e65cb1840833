//! The rules of the registry that only some kinds have, as upstream's strategies.

use super::Kind;
use super::rules::Cause;
use crate::json::Value;

/// The rules of the registry for a kind.
#[derive(Clone, Copy)]
pub struct Strategy {
    /// The status of a new object, for kinds that have one.
    pub initial_status: InitialStatus,
    /// Sets what no client sets in a new object.
    pub prepare_create: fn(&mut Value),
    /// Restores what an update may not change, besides the status. The last argument is the object
    /// before.
    pub prepare_update: fn(&mut Value, &Value),
    /// Restores what an update of the status may not change, besides the spec.
    pub prepare_status_update: fn(&mut Value, &Value),
    /// The fields that an update of the status leaves unchanged, whatever a request contains.
    pub unchanged_by_status: &'static [&'static [&'static str]],
    /// Why upstream's conversion from the served version fails, in Go's words.
    pub check_conversion: fn(&Value) -> Result<(), String>,
    /// Sets what upstream's conversion to the served version always writes. So the writer of the
    /// object owns it.
    pub convert: fn(&mut Value),
    /// Makes the served form of a stored object, if the kind is stored as another one.
    pub to_served: fn(Value) -> Value,
    /// Makes the stored form of a served object, if the kind is stored as another one.
    pub to_stored: fn(Value) -> Value,
    /// A fact about a new object that its defaults would hide, for `after_uid`.
    pub before_defaults: fn(&Value) -> bool,
    /// Sets what depends on the UID of a new object. The last argument is the result of
    /// `before_defaults`.
    pub after_uid: fn(&mut Value, bool),
    /// The object that is created with each object, which has the given name.
    pub companion: Option<fn(&str) -> Companion>,
    /// The rules of the endpoint `resize`, if the kind has it.
    pub resize: Option<&'static Resize>,
    /// Why the object with a name may not be deleted.
    pub check_delete: fn(&str) -> Result<(), String>,
    /// The grace period of a deletion in seconds, from that of the request.
    pub grace_seconds: fn(&Value, Option<i64>) -> Result<i64, String>,
    /// Marks an object whose deletion has to wait, besides its metadata.
    pub mark_deleted: fn(&mut Value),
    /// True if `spec.finalizers` keep the object, too.
    pub has_spec_finalizers: bool,
    /// The directory of the objects in etcd, if it is not their plural name.
    pub directory: Option<&'static str>,
    /// True if a PUT of an absent object creates it, as upstream allows for a few kinds.
    pub is_created_by_update: bool,
    /// True if a PUT without a resourceVersion is refused.
    pub needs_resource_version: bool,
    /// True if the response to a completed deletion is the object instead of a Status.
    pub returns_deleted_object: bool,
    /// True if the objects are stored as JSON, which has empty lists, and not as protobuf.
    pub is_stored_as_json: bool,
}

/// An object that is created with another one, so that nobody has to wait for it.
pub struct Companion {
    /// The kind.
    pub kind: &'static Kind,
    /// The namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// The object.
    pub object: Value,
}

/// The rules of the endpoint `resize`.
pub struct Resize {
    /// Restores what the endpoint may not change. The last argument is the object before.
    pub prepare: fn(&mut Value, &Value),
    /// The errors that prevent the new object from replacing the old one.
    pub check: fn(&Kind, &Value, &Value) -> Vec<Cause>,
    /// The fields that the endpoint can change, so that its writer owns them. `*` is any element.
    pub fields: &'static [&'static [&'static str]],
}

/// The status of a new object.
#[derive(Clone, Copy)]
pub enum InitialStatus {
    /// The status in the request: a kubelet creates its node with one.
    Given,
    /// Its defaults.
    Defaults,
    /// The status that a function makes of the object.
    Of(fn(&Value) -> Value),
}

impl Strategy {
    /// The common rules.
    pub const PLAIN: Self = Self {
        initial_status: InitialStatus::Defaults,
        prepare_create: |_| {},
        prepare_update: |_, _| {},
        prepare_status_update: |_, _| {},
        unchanged_by_status: &[&["spec"]],
        check_conversion: |_| Ok(()),
        convert: |_| {},
        to_served: |object| object,
        to_stored: |object| object,
        before_defaults: |_| false,
        after_uid: |_, _| {},
        companion: None,
        resize: None,
        check_delete: |_| Ok(()),
        grace_seconds: |_, requested| match requested {
            Some(seconds) if seconds < 0 => {
                Err(format!("gracePeriodSeconds must be non-negative, not {seconds}"))
            }
            Some(_) | None => Ok(0),
        },
        mark_deleted: |_| {},
        has_spec_finalizers: false,
        directory: None,
        is_created_by_update: false,
        needs_resource_version: false,
        returns_deleted_object: false,
        is_stored_as_json: false,
    };
}

/// Gives a field the value that it has in `current`.
pub fn keep(object: &mut Value, current: &Value, field: &str) {
    match current.get(field) {
        // Most writers don't change it, and a comparison is cheaper than a copy.
        Some(value) if object.get(field) == Some(value) => {}
        Some(value) => object[field] = value.clone(),
        None => {
            if let Some(fields) = object.as_object_mut() {
                fields.remove(field);
            }
        }
    }
}

/// Increments the generation.
pub fn bump_generation(object: &mut Value, current: &Value) {
    let generation = current["metadata"]["generation"].as_i64().unwrap_or(0);
    object["metadata"]["generation"] = Value::from(generation + 1);
}
