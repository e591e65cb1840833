//! The rules of the registry that only some kinds have, as upstream's strategies.

use crate::json::Value;

/// The rules of the registry for a kind.
#[derive(Clone, Copy)]
pub(crate) struct Strategy {
    /// The status of a new object, for kinds that have one.
    pub(crate) initial_status: InitialStatus,
    /// Sets what no client sets in a new object.
    pub(crate) prepare_create: fn(&mut Value),
    /// Restores what an update may not change, besides the status. The last argument is the object
    /// before.
    pub(crate) prepare_update: fn(&mut Value, &Value),
    /// Restores what an update of the status may not change, besides the spec.
    pub(crate) prepare_status_update: fn(&mut Value, &Value),
    /// The fields that an update of the status leaves unchanged, whatever a request contains.
    pub(crate) unchanged_by_status: &'static [&'static [&'static str]],
    /// Why upstream's conversion from the served version fails, in Go's words.
    pub(crate) check_conversion: fn(&Value) -> Result<(), String>,
    /// Sets what upstream's conversion to the served version always writes. So the writer of the
    /// object owns it.
    pub(crate) convert: fn(&mut Value),
    /// Whether a PUT of an absent object creates it, as upstream allows for a few kinds.
    pub(crate) is_created_by_update: bool,
    /// Whether a PUT without a resourceVersion is refused.
    pub(crate) needs_resource_version: bool,
    /// Whether the response to a completed deletion is the object instead of a Status.
    pub(crate) returns_deleted_object: bool,
    /// Whether the objects are stored as JSON, which has empty lists, and not as protobuf.
    pub(crate) is_stored_as_json: bool,
}

/// The status of a new object.
#[derive(Clone, Copy)]
pub(crate) enum InitialStatus {
    /// What the request has: a kubelet creates its node with a status.
    Given,
    /// Its defaults.
    Defaults,
    /// What a function makes of the object.
    Of(fn(&Value) -> Value),
}

impl Strategy {
    /// The common rules.
    pub(crate) const PLAIN: Self = Self {
        initial_status: InitialStatus::Defaults,
        prepare_create: |_| {},
        prepare_update: |_, _| {},
        prepare_status_update: |_, _| {},
        unchanged_by_status: &[&["spec"]],
        check_conversion: |_| Ok(()),
        convert: |_| {},
        is_created_by_update: false,
        needs_resource_version: false,
        returns_deleted_object: false,
        is_stored_as_json: false,
    };
}

/// Gives a field the value that it has in `current`.
pub(crate) fn keep(object: &mut Value, current: &Value, field: &str) {
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
pub(crate) fn bump_generation(object: &mut Value, current: &Value) {
    let generation = current["metadata"]["generation"].as_i64().unwrap_or(0);
    object["metadata"]["generation"] = Value::from(generation + 1);
}
