//! The agreement that an old pod goes: who is asked about it, and which new pods say that their
//! node is updated (G54). The questions and answers are annotations of the pods.

use crate::api::{RecordReason, RolloutPhase, RolloutRecord, Timestamp};
use crate::node::{PodFlags, PodView};

use super::input::RolloutInput;

/// The question whether an old pod may go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// True if somebody agrees.
    pub is_agreed: bool,
    /// Until when the answer is awaited.
    pub until: Timestamp,
}

impl Asked {
    /// The question whether this pod may go for the target, if the policy wants an answer and it
    /// was asked.
    pub(super) fn about(pod: &PodView, input: &RolloutInput<'_>) -> Option<Self> {
        let within = input.agree_within()?;
        let is_asked = pod.flags.contains(PodFlags::ASKED);
        let known = input.replacements.get(&pod.uid).filter(|_| is_asked)?;
        let mut target = input.labels.current_hashes();
        let is_for_target = target.any(|hash| known.replacing.as_ref() == Some(hash));
        // By the clock of whoever asked: one that was ahead lengthens the wait by that difference.
        let since = input.now.to_steady(known.since.filter(|_| is_for_target)?);
        Some(Self { is_agreed: known.is_agreed, until: since + within })
    }
}

/// Since when, by the clock of the API server, pods of the target were created that state that
/// their node is updated: those of the rollout that goes forward by this record, or once it is
/// complete those of nodes that were left.
pub(super) fn told_since(record: &RolloutRecord) -> Option<Timestamp> {
    let is_adopted = record.reason == Some(RecordReason::Adopted);
    match record.phase {
        RolloutPhase::Updating | RolloutPhase::Baking => Some(record.first_began()),
        RolloutPhase::Complete if !is_adopted => Some(record.since),
        RolloutPhase::Complete
        | RolloutPhase::Pending
        | RolloutPhase::Failed
        | RolloutPhase::Superseded => None,
    }
}
