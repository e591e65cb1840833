//! The JSON form of answers: each document names its version and kind, as Kubernetes' objects do.
//!
//! Scripts rely on these documents. Within one version no field is removed or renamed, and none
//! changes its type or meaning; fields, words and kinds may be added. [`schema`] describes them
//! all.

mod schema;

use schemars::JsonSchema;
use serde::Serialize;

use crate::explain::{Explanation, NodeExplanation};
use crate::forecast::Forecast;
use crate::guarded::{GuardedRollout, RolloutChecks};
use crate::history::RevisionEntry;
use crate::revision_diff::RevisionDiff;
use crate::rollout::Rollout;

pub use schema::schema;

/// The version of all documents.
pub const API_VERSION: &str = "everynode.dev/v1";

/// An answer with a kind.
pub trait Answer: Serialize + JsonSchema {
    /// The kind of a document with one answer. Lists have this kind with `List` appended.
    const KIND: &'static str;
}

impl Answer for Rollout {
    const KIND: &'static str = "Rollout";
}

impl Answer for Explanation {
    const KIND: &'static str = "Explanation";
}

impl Answer for NodeExplanation {
    const KIND: &'static str = "NodeExplanation";
}

impl Answer for Forecast {
    const KIND: &'static str = "Plan";
}

impl Answer for RevisionEntry {
    const KIND: &'static str = "Revision";
}

impl Answer for RevisionDiff {
    const KIND: &'static str = "RevisionDiff";
}

impl Answer for GuardedRollout {
    const KIND: &'static str = "GuardedRollout";
}

impl Answer for RolloutChecks {
    const KIND: &'static str = "RolloutChecks";
}

/// One answer.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a, T> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    answer: &'a T,
}

/// Several answers.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DocumentList<'a, T> {
    api_version: &'static str,
    kind: String,
    items: Vec<Document<'a, T>>,
}

impl<'a, T: Answer> Document<'a, T> {
    /// The document of an answer.
    pub fn new(answer: &'a T) -> Self {
        Self { api_version: API_VERSION, kind: T::KIND, answer }
    }
}

impl<'a, T: Answer> DocumentList<'a, T> {
    /// The document of several answers, whose items are documents, too.
    pub fn new(answers: impl IntoIterator<Item = &'a T>) -> Self {
        let items = answers.into_iter().map(Document::new).collect();
        Self { api_version: API_VERSION, kind: format!("{}List", T::KIND), items }
    }
}
