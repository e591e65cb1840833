//! Why a rollout waits at a wave that is updated, and why no wave begins or ends although the
//! policy's steps let it. Pure functions.

use crate::api::{Position, RolloutRecord};
use crate::revisions::RevisionSet;

use super::wave::Waves;

/// The reason for which a rollout waits between two waves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaveBlocker {
    Nothing,
    /// Nodes of the wave: they have joined it since, or become unavailable.
    Nodes,
    /// The end of the bake time.
    Bake,
    /// An answer after that which lets a check pass.
    Checks,
    Approval,
}

/// The reason for which no wave begins or ends, although the policy's steps let it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hindrance {
    /// The next wave would remove a pod, and the rollout so many in all; beside the built-in
    /// controller, that one has removed them (G42).
    Removals { pods: usize, is_beside: bool },
    /// The built-in controller, beside which this one works, has yet to act on the target (G19).
    BuiltIn,
    /// Going back would not restore the configuration, as the policy requires (G53).
    MutableConfig,
    /// Its ConfigMaps cannot be copied yet (G58).
    ConfigNotReady,
    /// Its ConfigMaps are about to be copied (G58).
    ConfigSoonReady,
    /// Pods cannot be changed to the template in place, as the policy requires (G56).
    NotInPlace,
    /// All nodes of the wave are set aside (G39).
    NotTried { nodes: usize },
}

/// The position at which a rollout begins that has something to do: without an older revision,
/// that of all nodes.
pub(crate) fn begins_at(waves: &Waves, revisions: &RevisionSet<'_>) -> Position {
    if revisions.old.is_empty() { Position::AllNodes } else { waves.steps.first() }
}

/// The hindrance of a rollout with this record, if there is one.
pub(crate) fn hindrance(
    waves: &Waves,
    record: &RolloutRecord,
    is_beside: bool,
) -> Option<Hindrance> {
    let position = &record.position;
    let group = waves.group(position);
    match (waves.is_passed(position, group), waves.lacks_trial(position, group)) {
        (false, _) => None,
        (true, true) => Some(Hindrance::NotTried { nodes: group.open.total() + group.held }),
        (true, false) => {
            let removals = waves.unpromoted_removals(record, &waves.next(position));
            removals.map(|pods| Hindrance::Removals { pods, is_beside })
        }
    }
}

/// The reason for which the wave of a record that bakes still waits.
pub(crate) fn wave_blocker(
    waves: &Waves,
    record: &RolloutRecord,
    is_baked: bool,
    have_checks_passed: bool,
) -> WaveBlocker {
    let policy = waves.policy();
    let is_approved = record.approvals.contains(&policy.order_name(&record.position));
    let needs_approval = policy.wait(&record.position).approval && !is_approved;
    match (is_baked, have_checks_passed, needs_approval) {
        (false, _, _) if !waves.is_complete(&record.position) => WaveBlocker::Nodes,
        (false, _, _) => WaveBlocker::Bake,
        (true, false, _) => WaveBlocker::Checks,
        (true, true, true) => WaveBlocker::Approval,
        (true, true, false) => WaveBlocker::Nothing,
    }
}
