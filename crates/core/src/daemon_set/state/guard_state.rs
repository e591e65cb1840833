//! Where a guarded or paused rollout is, for reports, metrics and forecasts (G21, G22). No decision
//! reads this.

use std::sync::Arc;

use crate::api::{Position, RolloutReason, RolloutRecord, Timestamp, WaveName};

use super::DaemonSetState;

/// A guarded or paused rollout, as of the last plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardState {
    /// The reason of the condition `Progressing`.
    pub reason: RolloutReason,
    /// The message of the condition.
    pub message: Arc<str>,
    /// The record of the current revision. `None` while there is none, as without a policy.
    pub record: Option<Arc<RolloutRecord>>,
    /// The number of failed nodes (G15); zero without a valid policy.
    pub failed_nodes: usize,
    /// The number of nodes that have the new template although their wave is closed: the built-in
    /// controller has created their pods (G17).
    pub leaked_nodes: usize,
    /// The wave that the record states. `None` without a record of the policy's steps.
    pub wave: Option<WaveState>,
}

/// A wave of a guarded rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaveState {
    /// Its name. `None` after the last step: all other nodes.
    pub name: Option<WaveName>,
    /// The number of waves before it.
    pub waves_before: usize,
    /// The number of all waves. The last one is that of all other nodes, if there are
    /// any.
    pub waves: usize,
    /// The number of nodes that have the new template at its end: of the step's nodes with the
    /// wave's label, or after the last step of all nodes.
    pub nodes: usize,
    /// How many of these nodes are updated and available.
    pub nodes_done: usize,
    /// When its bake time ends, by the steady clock, if all nodes remain available. `None` if it
    /// does not bake.
    pub bake_ends_at: Option<Timestamp>,
}

impl DaemonSetState {
    /// Where the rollout is; `None` if it is neither guarded nor paused.
    pub fn guard_state(&self) -> Option<GuardState> {
        let (reason, message) = self.rollout.guarding.condition()?;
        let record = self.rollout.guarding.record();
        Some(GuardState {
            reason: *reason,
            message: message.clone(),
            record: record.cloned(),
            failed_nodes: self
                .rollout
                .waves
                .as_ref()
                .map_or(0, |waves| waves.group(&Position::AllNodes).failed),
            leaked_nodes: self.leaked_nodes(),
            wave: record.and_then(|record| self.wave_state(record)),
        })
    }

    /// The number of nodes that have the target although their wave is closed, while the rollout
    /// moves on beside the built-in controller (G17).
    pub(super) fn leaked_nodes(&self) -> usize {
        let is_under_way =
            self.rollout.guarding.moving().is_some_and(|record| record.phase.is_under_way());
        let waves = self.rollout.waves.as_ref().filter(|_| is_under_way && !self.creates_pods());
        waves.map_or(0, |waves| waves.group(&Position::AllNodes).on_target_but_closed)
    }

    /// Counts the waves, if the answer may have changed. Then waves are filled as well, which costs
    /// as much.
    pub(super) fn recount_waves(&mut self) {
        if let (Some(waves), Some(record)) =
            (&mut self.rollout.waves, self.rollout.guarding.record())
            && record.steps_hash == waves.policy().steps_hash
        {
            waves.recount(&record.position);
        }
    }

    fn wave_state(&self, record: &RolloutRecord) -> Option<WaveState> {
        let waves = self.rollout.waves.as_deref()?;
        let count = waves.counted(&record.position)?;
        let (nodes, nodes_done) = waves.nodes_at(&record.position);
        Some(WaveState {
            name: waves.name(&record.position),
            waves_before: count.done,
            waves: count.total,
            nodes,
            nodes_done,
            bake_ends_at: self.rollout.guarding.bake_ends_at(),
        })
    }
}
