//! The record of a rollout, on the ControllerRevision of its template (G8), and orders (G10).

use everynode_core::api::{ORDER_ANNOTATION, RECORD_ANNOTATION, Timestamp};
use everynode_sandbox::json::Value;
use serde::Deserialize;

use super::metadata::at;
use super::policy::Position;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::checker) struct Record {
    /// The UID of its revision.
    pub revision: String,
    pub phase: Phase,
    #[serde(rename = "wave", default)]
    pub position: Position,
    /// When the attempt began.
    #[serde(deserialize_with = "at")]
    pub began: Timestamp,
    /// When the phase began.
    #[serde(deserialize_with = "at")]
    pub since: Timestamp,
    #[serde(default)]
    pub approvals: Vec<String>,
    /// Identifies the steps that the position refers to.
    pub steps: String,
    /// The text of the last order.
    pub order: Option<String>,
    pub reason: Option<String>,
    /// True if its template was replaced by that of the base (G20).
    #[serde(rename = "rolledBack", default)]
    pub is_rolled_back: bool,
    /// The hash of the base, if that differs from its revision in overrides or in copies of
    /// ConfigMaps only (G57).
    pub base: Option<String>,
}

/// The phases of a rollout (G11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(in crate::checker) enum Phase {
    Pending,
    Updating,
    Baking,
    Complete,
    Failed,
    Superseded,
}

/// An order that somebody gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::checker) struct Order {
    pub verb: Verb,
    pub hash: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::checker) enum Verb {
    Approve(String),
    Promote(String),
    PromoteFull,
    Abort,
    Retry,
}

impl Record {
    /// The record in the annotations of a revision, unless it is a copy: the one that it names is
    /// not this one (G44).
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub(in crate::checker) fn parse(
        annotations: &Value,
        uid: &str,
    ) -> Result<Option<Self>, serde_json::Error> {
        let Some(text) = annotations[RECORD_ANNOTATION].as_str() else { return Ok(None) };
        let named: Value = serde_json::from_str(text).unwrap_or_default();
        match named["revision"].as_str() {
            Some(named) if named != uid => Ok(None),
            _ => serde_json::from_str(text).map(Some),
        }
    }

    /// True if the rollout has yet to end.
    pub(in crate::checker) fn is_under_way(&self) -> bool {
        self.phase == Phase::Pending || self.has_begun()
    }

    /// True if the rollout has begun and has yet to end.
    pub(in crate::checker) fn has_begun(&self) -> bool {
        matches!(self.phase, Phase::Updating | Phase::Baking)
    }

    /// True if somebody has promoted the rollout, in full or past a wave.
    pub(in crate::checker) fn is_promoted(&self) -> bool {
        matches!(self.reason.as_deref(), Some("Promoted" | "PromotedInFull"))
    }

    /// True if it is that of a revision that was in use before (G37).
    pub(in crate::checker) fn is_adoption(&self) -> bool {
        self.phase == Phase::Complete && self.reason.as_deref() == Some("Adopted")
    }

    /// True if it goes to all nodes without a policy (G43).
    pub(in crate::checker) fn is_promoted_in_full(&self) -> bool {
        self.has_begun() && self.reason.as_deref() == Some("PromotedInFull")
    }
}

impl Order {
    /// The order in the annotations of a DaemonSet: `VERB HASH [WAVE] TIME`.
    pub(super) fn parse(annotations: &Value) -> Option<Self> {
        let text = annotations[ORDER_ANNOTATION].as_str()?;
        let (verb, hash) = match text.split(' ').collect::<Vec<_>>()[..] {
            ["approve", hash, wave, _] => (Verb::Approve(wave.to_owned()), hash),
            ["promote", hash, wave, _] => (Verb::Promote(wave.to_owned()), hash),
            ["promote-full", hash, _] => (Verb::PromoteFull, hash),
            ["abort", hash, _] => (Verb::Abort, hash),
            ["retry", hash, _] => (Verb::Retry, hash),
            _ => return None,
        };
        Some(Self { verb, hash: hash.to_owned(), text: text.to_owned() })
    }
}
