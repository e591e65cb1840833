//! The record of a rollout, on the ControllerRevision of its template (G8), and orders (G10).

use everynode_core::api::{ORDER_ANNOTATION, RECORD_ANNOTATION, Timestamp};
use everynode_sandbox::json::Value;

use super::metadata::time;
use super::policy::{Group, Position};

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::checker) struct Record {
    pub phase: Phase,
    pub position: Position,
    /// When the attempt began.
    pub began: Timestamp,
    /// When the phase began.
    pub since: Timestamp,
    pub approvals: Vec<String>,
    /// Identifies the steps that the position refers to.
    pub steps: String,
    /// The text of the last order.
    pub order: Option<String>,
    pub reason: Option<String>,
    /// The first nodes by which the rollout failed (G35).
    pub failed_nodes: Vec<String>,
    /// Whether its template was replaced by that of the base (G20).
    pub is_rolled_back: bool,
    /// The hash of the base, if that differs from its revision in overrides or in copies of
    /// ConfigMaps only (G57).
    pub base: Option<String>,
}

/// The phases of a rollout (G11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::checker) enum Phase {
    Pending,
    Updating,
    Baking,
    Complete,
    Failed,
    Superseded,
}

/// What somebody ordered.
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
    /// Whether the revision with this UID has a record that cannot be read: one that names another
    /// revision is a copy, which does not count (G44).
    pub(in crate::checker) fn is_unreadable(annotations: &Value, uid: &str) -> bool {
        let Some(text) = annotations[RECORD_ANNOTATION].as_str() else { return false };
        let record: Value = serde_json::from_str(text).unwrap_or_default();
        let is_copy = record["revision"].as_str().is_some_and(|named| named != uid);
        !is_copy && Self::parse(annotations, uid).is_none()
    }

    /// The record in the annotations of a revision; `None` if it cannot be read, or if the one that
    /// it names is not this one (G44).
    pub(in crate::checker) fn parse(annotations: &Value, uid: &str) -> Option<Self> {
        let record: Value = serde_json::from_str(annotations[RECORD_ANNOTATION].as_str()?).ok()?;
        if record["revision"] != uid {
            return None;
        }
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let approvals = record["approvals"].as_array().into_iter().flatten();
        let failed = record["failedNodes"].as_array().into_iter().flatten();
        Some(Self {
            phase: match record["phase"].as_str()? {
                "Pending" => Phase::Pending,
                "Updating" => Phase::Updating,
                "Baking" => Phase::Baking,
                "Complete" => Phase::Complete,
                "Failed" => Phase::Failed,
                "Superseded" => Phase::Superseded,
                _ => return None,
            },
            position: match &record["wave"] {
                Value::Null => Position::AllNodes,
                wave => Position::Wave {
                    step: index(&wave["step"])?,
                    group: text(&wave["group"]).map_or(Group::Unlabelled, Group::Value),
                    size: index(&wave["size"])?,
                },
            },
            began: time(record["began"].as_str()?)?,
            since: time(record["since"].as_str()?)?,
            approvals: approvals.filter_map(text).collect(),
            steps: text(&record["steps"])?,
            order: text(&record["order"]),
            reason: text(&record["reason"]),
            failed_nodes: failed.filter_map(|failed| text(&failed["node"])).collect(),
            is_rolled_back: record["rolledBack"] == true,
            base: text(&record["base"]),
        })
    }

    /// Whether the rollout has yet to end.
    pub(in crate::checker) fn is_under_way(&self) -> bool {
        self.phase == Phase::Pending || self.has_begun()
    }

    /// Whether the rollout has begun and has yet to end.
    pub(in crate::checker) fn has_begun(&self) -> bool {
        matches!(self.phase, Phase::Updating | Phase::Baking)
    }

    /// Whether somebody has promoted the rollout, in full or past a wave.
    pub(in crate::checker) fn is_promoted(&self) -> bool {
        matches!(self.reason.as_deref(), Some("Promoted" | "PromotedInFull"))
    }

    /// Whether it is that of a revision that was in use before (G37).
    pub(in crate::checker) fn is_adoption(&self) -> bool {
        self.phase == Phase::Complete && self.reason.as_deref() == Some("Adopted")
    }

    /// Whether it goes to all nodes without a policy (G43).
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

fn index(value: &Value) -> Option<usize> {
    value.as_u64()?.try_into().ok()
}
