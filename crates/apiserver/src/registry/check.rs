//! Decoding and validation, with their results as the `Status` that refuses a write (S8, S9).

use crate::json::Value;

use super::metadata;
use crate::custom::OBJECT_BYTES_MAX;
use crate::kind::Kind;
use crate::managed_fields::ManagedFields;
use crate::schema;
use crate::status::{Reason, Status, StatusCause};
use crate::store::Store;
use crate::validation::Cause;

/// Refuses with 400 a value that is no object, or can't be decoded as its kind.
pub(super) fn decode_whole(kind: &Kind, object: &Value) -> Result<(), Status> {
    metadata::check_shape(object)?;
    decode(kind, object, &Value::Null)
}

/// Refuses with 400 an object that can't be decoded as its kind. `stored` is the object before the
/// change, or null.
pub(super) fn decode(kind: &Kind, object: &Value, stored: &Value) -> Result<(), Status> {
    schema::decode_changed(kind, object, stored)
        .map_err(|error| Status::bad_request(error.to_string()))
}

/// Refuses with 422 an object in which validation found something invalid.
pub(super) fn refuse_invalid(kind: &Kind, name: &str, causes: Vec<Cause>) -> Result<(), Status> {
    if causes.is_empty() {
        return Ok(());
    }
    let causes = causes
        .into_iter()
        .map(|cause| StatusCause {
            reason: cause.reason.as_str().to_string(),
            field: cause.field,
            message: cause.message,
        })
        .collect();
    Err(Status::invalid(kind, name, causes))
}

fn fits(object: &Value, bytes_max: usize) -> bool {
    object.size().json <= bytes_max
}

/// Refuses an object that is too large to be stored, with etcd's message.
pub fn refuse_too_large(object: &Value) -> Result<(), Status> {
    if fits(object, OBJECT_BYTES_MAX) {
        return Ok(());
    }
    Err(Status::new(Reason::Unknown, "etcdserver: request is too large"))
}

/// Refuses an object that is too large to be stored. Returns its owners if they fit into the
/// maximum size, else none: as upstream, an object is not refused because of them.
pub(super) fn owners_that_fit(
    object: &Value,
    owners: ManagedFields,
) -> Result<ManagedFields, Status> {
    if fits(object, OBJECT_BYTES_MAX.saturating_sub(owners.bytes())) {
        return Ok(owners);
    }
    refuse_too_large(object)?;
    Ok(ManagedFields::default())
}

/// Refuses to store more bytes than the store has room for, with etcd's message.
pub(super) fn refuse_without_room(store: &Store, object: &Value) -> Result<(), Status> {
    if fits(object, store.bytes_left()) {
        return Ok(());
    }
    Err(Status::new(Reason::Unknown, "etcdserver: mvcc: database space exceeded"))
}
