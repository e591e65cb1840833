//! Conditions in the status of nodes and pods.

use serde::Deserialize;

/// One condition, as the API server writes it.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) message: Option<String>,
}
