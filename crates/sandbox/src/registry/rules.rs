//! The way to the rules of the kinds: defaults and validation.

use serde_json::Value;

use crate::kind::Kind;
use crate::status::{Status, StatusCause};
use crate::validation::Cause;
use crate::{defaults, validation};

pub fn defaults(kind: &Kind, object: &mut Value) {
    defaults::apply(kind, object);
}

/// Whether it can be read as its kind at all.
pub fn decode(kind: &Kind, object: &Value) -> Result<(), Status> {
    validation::decode(kind, object).map_err(|error| Status::bad_request(error.to_string()))
}

pub fn on_create(kind: &Kind, object: &Value) -> Vec<Cause> {
    validation::on_create(kind, object)
}

pub fn on_update(kind: &Kind, new: &Value, old: &Value) -> Vec<Cause> {
    validation::on_update(kind, new, old)
}

pub fn on_status_update(kind: &Kind, new: &Value, old: &Value) -> Vec<Cause> {
    validation::on_status_update(kind, new, old)
}

/// Causes, if there are any, as the Status that refuses the write.
pub fn check(kind: &Kind, name: &str, causes: Vec<Cause>) -> Result<(), Status> {
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
