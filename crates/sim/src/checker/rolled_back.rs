//! The mark of a failed attempt whose template was replaced with that of the base (G20).

use super::model::{Phase, Record, Revision};
use super::situation::Situation;
use crate::role::Role;

/// The record that a revision gets when the DaemonSet names its failed attempt as the one whose
/// template was replaced (G20).
pub(super) fn marked(situation: &Situation, revision: &Revision) -> Option<Record> {
    let failed = revision.record.as_ref().filter(|record| record.phase == Phase::Failed)?;
    let is_named = situation.ds.rolled_back.is_some()
        && situation.ds.rolled_back == attempt_of(revision)
        && situation.role == Role::Beside;
    let is_new = is_named && !failed.is_rolled_back;
    is_new.then(|| Record { is_rolled_back: true, ..failed.clone() })
}

/// The name of the attempt to roll out a revision: its hash, and when it began, in seconds.
pub(super) fn attempt_of(revision: &Revision) -> Option<String> {
    let began = revision.record.as_ref()?.began;
    Some(format!("{} {}", revision.metadata.pod_hash(), began.0.div_euclid(1000)))
}
