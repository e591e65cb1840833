//! What the answer to a write says.

use everynode_core::plan::Outcome;
use everynode_k8s::convert::{Meta, resource_version};

/// The object that the server answered with. A delete that is done at once may be answered with a
/// `Status`, which has neither UID nor version, and needs none.
pub(super) fn written(answer: Result<Meta, serde_json::Error>) -> Outcome {
    match answer {
        Ok(meta) => Outcome::Written {
            resource_version: resource_version(&meta.resource_version),
            uid: meta.uid,
        },
        Err(error) => Outcome::Failed { message: format!("the answer is no object: {error}") },
    }
}
