//! Reads the answers to writes.

use everynode_core::plan::Outcome;
use everynode_k8s::convert::{Meta, resource_version};

/// The outcome of a write that the server answered with an object. A deletion may be answered with
/// a `Status` instead, which has neither UID nor version; they are not needed then.
pub(super) fn written(answer: Result<Meta, serde_json::Error>) -> Outcome {
    match answer {
        Ok(meta) => Outcome::Written {
            resource_version: resource_version(&meta.resource_version),
            uid: meta.uid,
        },
        Err(error) => Outcome::Failed { message: format!("the answer is not an object: {error}") },
    }
}
