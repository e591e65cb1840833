//! Where a guarded or paused rollout is, for reports, metrics and forecasts (G21, G22). No decision
//! reads this.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::{RolloutReason, RolloutRecord, Timestamp, WaveName};

use crate::revisions::RevisionLabels;

use super::state::RolloutState;
use super::wave::{StateCounts, Waves};

/// A guarded or paused rollout, as of the last plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutStatus {
    /// The reason of the condition `Progressing`.
    pub reason: RolloutReason,
    /// The message of the condition.
    pub message: Arc<str>,
    /// The record of the current revision. `None` while there is none, as without a policy.
    pub record: Option<Arc<RolloutRecord>>,
    /// The numbers of nodes by their state (G31); zeros without a valid policy.
    pub nodes: StateCounts,
    /// The number of nodes that have the new template although their wave is closed: the built-in
    /// controller has created their pods (G17).
    pub leaked_nodes: usize,
    /// The wave that the record states. `None` without a record of the policy's steps.
    pub wave: Option<WaveStatus>,
    /// The tags of overrides that pods have, each with their number (G57).
    pub overrides: BTreeMap<Arc<str>, u32>,
}

/// A wave of a guarded rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaveStatus {
    /// Its name. `None` after the last step: all other nodes.
    pub name: Option<WaveName>,
    /// The number of waves before it.
    pub waves_before: usize,
    /// The number of all waves. The last one is that of all other nodes, if there are
    /// any.
    pub waves: usize,
    /// The nodes that have the new template at its end, by their state (G32): of the step's nodes
    /// with the wave's label, or after the last step of all nodes.
    pub states: StateCounts,
    /// When its bake time ends, by the steady clock, if all nodes remain available. `None` if it
    /// does not bake, or some are not available.
    pub bake_ends_at: Option<Timestamp>,
}

impl RolloutStatus {
    /// `leaked_nodes` is as [`RolloutState::leaked_nodes`] says. `None` if the rollout is neither
    /// guarded nor paused.
    pub(crate) fn new(
        rollout: &RolloutState,
        leaked_nodes: usize,
        labels: &RevisionLabels,
    ) -> Option<Self> {
        let stated = rollout.condition()?;
        let (record, waves) = (rollout.record(), rollout.waves.as_deref());
        Some(Self {
            reason: stated.reason,
            message: stated.message.clone(),
            record: record.cloned(),
            nodes: waves.map(Waves::states).unwrap_or_default(),
            leaked_nodes,
            overrides: labels.pods_by_tag(),
            wave: record
                .zip(waves)
                .and_then(|(record, waves)| WaveStatus::new(record, waves, rollout.bake.ends_at())),
        })
    }
}

impl WaveStatus {
    fn new(record: &RolloutRecord, waves: &Waves, bake_ends_at: Option<Timestamp>) -> Option<Self> {
        let count = waves.counted(&record.position)?;
        let bake_ends_at = bake_ends_at.filter(|_| waves.is_complete(&record.position));
        Some(Self {
            name: waves.steps.name(&record.position),
            waves_before: count.done,
            waves: count.total,
            states: waves.states_at(&record.position),
            bake_ends_at,
        })
    }
}
