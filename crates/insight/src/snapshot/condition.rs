//! Conditions, as nodes and pods have them in their status.

use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub message: Option<String>,
}
