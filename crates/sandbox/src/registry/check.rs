//! Decoding and validation, with their results as the `Status` that refuses a write (S8, S9).

use serde_json::Value;

use crate::kind::Kind;
use crate::status::{Status, StatusCause};
use crate::validation::{self, Cause};

/// Refuses with 400 an object that can't be decoded as its kind.
pub(super) fn decode(kind: &Kind, object: &Value) -> Result<(), Status> {
    validation::decode(kind, object).map_err(|error| Status::bad_request(error.to_string()))
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
