//! Reason and message of the condition `Progressing` of a guarded or paused rollout (G21). Pure
//! functions.

use std::sync::Arc;

use crate::api::{
    CheckStatement, DaemonSet, Opening, PAUSED_ANNOTATION, PolicySource, RecordReason,
    RolloutPhase, RolloutReason, RolloutRecord, with_statements,
};

use super::rollback::RollbackProgress;
use super::stage::{Halt, Stage};
use super::transition::WaveBlocker;
use super::wave::Waves;

/// The parts of the condition that the stage does not determine.
pub(super) struct Situation<'a> {
    /// `None` without a valid policy.
    pub waves: Option<&'a Waves>,
    /// The reason for which a wave that bakes still waits.
    pub blocker: Option<WaveBlocker>,
    /// The last answers to its checks.
    pub checks: &'a [CheckStatement],
    pub rollback: RollbackProgress,
    /// When the next window opens, if the rollout waits for it.
    pub opening: Option<&'a Opening>,
    /// The number of nodes that have the target although their wave is closed.
    pub leaked: usize,
    /// Whether nodes lack a revision that is complete.
    pub has_nodes_left: bool,
}

/// The reason and the message of the condition.
pub(super) fn condition(
    daemon_set: &DaemonSet,
    stage: &Stage<'_>,
    situation: &Situation<'_>,
) -> Option<(RolloutReason, Arc<str>)> {
    let (reason, message) = stated(daemon_set, stage, situation)?;
    Some((
        reason,
        match situation.leaked {
            0 => message.into(),
            1 => format!("{message}; 1 node of a later wave got the new template already").into(),
            leaked => {
                format!("{message}; {leaked} nodes of later waves got the new template already")
                    .into()
            }
        },
    ))
}

fn stated(
    daemon_set: &DaemonSet,
    stage: &Stage<'_>,
    situation: &Situation<'_>,
) -> Option<(RolloutReason, String)> {
    let Situation { waves, blocker, checks, rollback, opening, .. } = *situation;
    let wave = |record: &RolloutRecord| {
        let name = waves.and_then(|waves| waves.name(&record.position));
        name.map_or_else(|| "all nodes".to_owned(), |name| format!("wave {name}"))
    };
    let (reason, message) = match stage {
        Stage::Unguarded => return None,
        Stage::NotGuarded if !daemon_set.is_guarded() => return None,
        Stage::NotGuarded => (
            RolloutReason::NotGuarded,
            "the built-in controller rolls out by itself, because spec.updateStrategy.type is not \
             OnDelete"
                .to_owned(),
        ),
        _ if daemon_set.is_paused() => (RolloutReason::Paused, paused_by(daemon_set)),
        Stage::Failed { record, goes_back, .. } => failed(record, *goes_back, rollback),
        Stage::Halted { why, .. } => halted(*why, &daemon_set.policy),
        Stage::Moving(record)
            if record.phase == RolloutPhase::Complete && rollback == RollbackProgress::UnderWay =>
        {
            let message = "nodes go back to this revision, which was complete before";
            (RolloutReason::Updating, message.to_owned())
        }
        Stage::Moving(record)
            if record.reason == Some(RecordReason::Adopted) && situation.has_nodes_left =>
        {
            (RolloutReason::Updating, "nodes get the revision that is in use".to_owned())
        }
        Stage::Moving(record) if record.phase == RolloutPhase::Complete => {
            (RolloutReason::Complete, "the rollout is complete".to_owned())
        }
        Stage::Paused | Stage::Pending => match opening {
            Some(opening) => outside(opening, "the rollout begins"),
            None => (RolloutReason::Updating, "the rollout begins".to_owned()),
        },
        Stage::Moving(record) => moving(&wave(record), blocker, opening),
    };
    let checks = checks.iter().filter(|_| blocker.is_some());
    Some((reason, with_statements(&message, checks)))
}

/// The condition of a rollout that is under way, at this wave.
fn moving(
    wave: &str,
    blocker: Option<WaveBlocker>,
    opening: Option<&Opening>,
) -> (RolloutReason, String) {
    match (blocker, opening) {
        (Some(WaveBlocker::Nodes), _) => (
            RolloutReason::Baking,
            format!(
                "not all nodes of {wave} are updated and available, so its bake time does not end"
            ),
        ),
        (Some(WaveBlocker::Bake), _) => {
            (RolloutReason::Baking, format!("{wave} is updated, and its bake time is not over"))
        }
        (Some(WaveBlocker::Checks), _) => (
            RolloutReason::AwaitingChecks,
            format!("{wave} is updated, and its checks have not passed yet"),
        ),
        (Some(WaveBlocker::Approval), _) => {
            (RolloutReason::AwaitingApproval, format!("{wave} must be approved"))
        }
        (Some(WaveBlocker::Nothing) | None, None) => {
            (RolloutReason::Updating, format!("updating {wave}"))
        }
        (None, Some(opening)) => outside(opening, &format!("the update of {wave} goes on")),
        (Some(WaveBlocker::Nothing), Some(opening)) => {
            outside(opening, &format!("{wave} is updated; the next one begins"))
        }
    }
}

/// The condition of a rollout that is held until somebody acts.
fn halted(why: Halt, policy: &PolicySource) -> (RolloutReason, String) {
    match (why, policy) {
        (Halt::RecordUnreadable, _) => (
            RolloutReason::InvalidRecord,
            "the record of the rollout cannot be read, so no pod is replaced".to_owned(),
        ),
        (Halt::PolicyInvalid, PolicySource::Invalid(why)) => (
            RolloutReason::InvalidPolicy,
            format!("the rollout policy is invalid, so no pod is replaced: {why}"),
        ),
        (Halt::PolicyInvalid | Halt::PolicyRemoved, _) => (
            RolloutReason::InvalidPolicy,
            "the rollout policy was removed before the rollout was complete; no pod is replaced"
                .to_owned(),
        ),
    }
}

/// The condition of a rollout that waits for a window.
fn outside(opening: &Opening, what: &str) -> (RolloutReason, String) {
    (RolloutReason::OutsideWindow, format!("{what} in the next window, at {opening}"))
}

/// The condition of a failed rollout.
fn failed(
    record: &RolloutRecord,
    goes_back: bool,
    rollback: RollbackProgress,
) -> (RolloutReason, String) {
    let reason = match &record.reason {
        Some(RecordReason::Aborted) => "was aborted".to_owned(),
        Some(RecordReason::NodesFailed) => "has failed: too many nodes failed".to_owned(),
        Some(RecordReason::NoProgress) => "has failed: it made no progress".to_owned(),
        Some(RecordReason::CheckFailed(why)) => format!("has failed: {why}"),
        Some(RecordReason::Adopted | RecordReason::PromotedInFull) | None => {
            "has failed".to_owned()
        }
    };
    let (is_over, message) = match rollback {
        _ if !goes_back => (true, "nodes keep what they have"),
        RollbackProgress::Barred(why) => (true, why),
        RollbackProgress::None => (true, "there is no complete revision to go back to"),
        RollbackProgress::UnderWay => (false, "nodes go back to the last complete revision"),
        RollbackProgress::Done => (true, "no node has its revision"),
    };
    let state = if is_over { RolloutReason::Failed } else { RolloutReason::RollingBack };
    (state, format!("the rollout {reason}; {message}"))
}

fn paused_by(daemon_set: &DaemonSet) -> String {
    if daemon_set.paused {
        format!("the annotation {PAUSED_ANNOTATION} pauses the rollout")
    } else {
        "the rollout policy pauses the rollout".to_owned()
    }
}
