//! The refusals of admission.

use crate::json::Value;

use crate::kinds::POD;
use crate::status::Status;
use crate::value::text;

/// The name for messages. Names are generated after admission, so until then messages have
/// `generateName`. The refusals of all pods of a controller have the same text, and its events are
/// aggregated.
pub(super) fn name_so_far(object: &Value) -> &str {
    match text(object, &["metadata", "name"]) {
        "" => text(object, &["metadata", "generateName"]),
        name => name,
    }
}

/// 403 for a pod that an admission plugin refuses.
pub(super) fn refuse_pod(object: &Value, cause: &str) -> Status {
    Status::forbidden(&POD, name_so_far(object), cause)
}
