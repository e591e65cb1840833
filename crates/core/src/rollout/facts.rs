//! The consequences of a rollout's stage. They stay the same until a revision, the policy, a window
//! or an order changes it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::{Opening, PrepareImages, RevisionHash, RolloutRecord, Timestamp, UpdateMethod};
use crate::revisions::RevisionLabels;

use super::stage::Stage;

/// The inputs of stage, gate and condition, except nodes and time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StageKey {
    pub revisions: u64,
    pub labels: u64,
    pub daemon_set: u64,
    /// Why there are too many waves, if there are.
    pub excess: Option<Arc<str>>,
    pub is_target_known: bool,
    pub wall_ahead_ms: i64,
}

/// The consequences of the rollout's stage.
#[derive(Debug, Default)]
pub(super) struct StageFacts {
    /// The record of the current revision.
    pub record: Option<Arc<RolloutRecord>>,
    pub motion: Motion,
    /// True if nothing but nodes and time can change the record.
    pub awaits_nodes: bool,
    /// True if somebody must agree that an old pod goes (G54).
    pub wants_answers: bool,
    /// The revisions whose pods go without that.
    pub unasked: BTreeSet<RevisionHash>,
    /// How nodes pull the images of the target before their old pods go (G55).
    pub images: Option<PrepareImages>,
    /// How nodes get another template (G56).
    pub update: UpdateMethod,
    /// When a failed rollout goes back to the base.
    pub rollback_at: Option<Timestamp>,
    /// When a window may open or close.
    pub window_until: Option<Timestamp>,
    /// When the next window opens, if the rollout waits for it.
    pub opening: Option<Opening>,
    /// While the record cannot be read: the last order that was there before (G44).
    pub order_before: Option<Option<Arc<str>>>,
}

/// How a rollout goes on, as far as waves and the condition read that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Motion {
    /// It does not go forward.
    #[default]
    None,
    /// It has yet to begin.
    Pending,
    /// It moves forward, or is complete.
    Forward,
}

impl Motion {
    pub(super) const fn from_stage(stage: &Stage<'_>) -> Self {
        match stage {
            Stage::Pending => Self::Pending,
            Stage::Moving(_) => Self::Forward,
            Stage::Unguarded
            | Stage::NotGuarded
            | Stage::Paused { .. }
            | Stage::Halted { .. }
            | Stage::Failed { .. } => Self::None,
        }
    }
}

impl StageFacts {
    /// The record of a rollout that moves forward.
    pub(super) fn moving(&self) -> Option<&RolloutRecord> {
        self.record.as_deref().filter(|_| self.motion == Motion::Forward)
    }

    /// True if nodes go back to the target by the template, from revisions that failed.
    pub(super) fn goes_back(&self) -> bool {
        !self.unasked.is_empty()
    }

    /// True if somebody must agree that old pods go (G54).
    pub(super) fn asks(&self) -> bool {
        self.wants_answers && self.moving().is_some()
    }

    /// True if the rollout waits for a window.
    pub(super) const fn awaits_window(&self) -> bool {
        self.opening.is_some()
    }

    /// When a window opens or closes, if that matters: a rollout is under way, or has left nodes
    /// behind.
    pub(super) fn window_due_at(&self, labels: &RevisionLabels) -> Option<Timestamp> {
        let record = self.moving();
        let is_under_way = record.is_some_and(|record| record.phase.is_under_way());
        // On nodes that only keep their pods, too: no count of the status tells of those.
        let is_done = record.is_some() && !is_under_way && !labels.has_outdated_pods();
        let waits = self.awaits_window() && !is_done;
        self.window_until.filter(|_| is_under_way || waits)
    }
}
