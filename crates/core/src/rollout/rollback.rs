//! How nodes go back from a failed revision: this controller replaces their pods, or beside the
//! built-in one the template is changed back (G15, G20).

use crate::api::{Revision, RevisionHash, RolloutPhase, RolloutRecord, UpdateStrategy};
use crate::config::RollBackDuty;
use crate::node::Slot;
use crate::plan::{Notice, Write};
use crate::revisions::RevisionSet;

use super::input::RolloutInput;
use super::stage::Stage;
use super::wave::Waves;

/// Why nodes do not go back although the attempt was rolled back before.
const CAME_AGAIN: &str =
    "its template came again after it was rolled back; nodes keep what they have";
/// Why nodes do not go back without the right to change the template.
const NOT_ALLOWED: &str =
    "nodes keep what they have until somebody undoes the change of the template";

/// Why nodes do not go back once the policy is deleted that guarded `OnDelete` (C50).
const ON_DELETE: &str =
    "nodes keep what they have: without a policy, the update strategy OnDelete replaces no pod";

/// How far the nodes of a failed rollout have gone back to the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RollbackProgress {
    /// There is no base but the failed revision itself.
    None,
    /// Only another client can change the template back, for this reason (G20).
    Barred(&'static str),
    /// A pod of the failed revision exists.
    UnderWay,
    /// None does, but on so many nodes that keep theirs: they are held, or get no other one.
    Done { kept: usize },
}

/// The nodes that have pods of the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OnTarget {
    /// True if one does not keep its pod going back.
    leaves: bool,
    /// The number of those that keep theirs.
    kept: usize,
}

impl OnTarget {
    /// Without waves, which count nodes, all of them are looked at once so few have pods of the
    /// target that they may all keep theirs.
    pub(super) fn new(waves: Option<&Waves>, goes_back: bool, input: &RolloutInput<'_>) -> Self {
        if let Some(waves) = waves {
            return Self { leaves: waves.has_target(), kept: waves.kept() };
        }
        let hashes = input.labels.current_hashes();
        let pods: u32 = hashes.map(|hash| input.labels.pods_with(hash)).sum();
        if pods == 0 || !goes_back || pods as usize > input.misscheduled {
            return Self { leaves: pods > 0, kept: 0 };
        }
        let has_target =
            |slot: &&Slot| slot.pods.as_slice().iter().any(|pod| pod.is_to_go_back(input.labels));
        let nodes = || input.slots.iter().filter(has_target);
        let leaves = nodes().any(|slot| !slot.only_keeps());
        Self { leaves, kept: nodes().filter(|slot| slot.only_keeps()).count() }
    }
}

impl RollbackProgress {
    /// How far nodes have gone back from a failed revision, to the revision `base`. Nodes that the
    /// policy holds keep what they have. `has_nodes_left` is as [`has_nodes_left`] says. Beside the
    /// built-in controller nodes go back
    /// while the revision that was complete before is the target.
    pub(super) fn new(
        input: &RolloutInput<'_>,
        stage: &Stage<'_>,
        revisions: &RevisionSet<'_>,
        (base, on_target): (Option<&RevisionHash>, OnTarget),
        has_nodes_left: bool,
    ) -> Self {
        match (stage, base) {
            (Stage::Moving(_), _)
                if has_nodes_left && input.is_beside() && input.has_bad_pods() =>
            {
                Self::UnderWay
            }
            (Stage::Moving(_), _) => Self::Done { kept: 0 },
            (Stage::Failed { record, .. }, Some(_)) if input.is_beside() => {
                match was_rolled_back(input, record, revisions) {
                    _ if !may_roll_back(input) => Self::Barred(NOT_ALLOWED),
                    true => Self::Barred(CAME_AGAIN),
                    false => Self::UnderWay,
                }
            }
            (_, None) => Self::None,
            (_, Some(_)) if on_target.leaves => match input.daemon_set.strategy() {
                UpdateStrategy::OnDelete => Self::Barred(ON_DELETE),
                UpdateStrategy::RollingUpdate { .. } | UpdateStrategy::Malformed => Self::UnderWay,
            },
            (_, Some(_)) => Self::Done { kept: on_target.kept },
        }
    }
}

/// True if nodes lack a revision that is complete: they get one that was in use or complete before.
/// `record` is that of a rollout that moves forward.
pub(super) fn has_nodes_left(record: Option<&RolloutRecord>, waves: Option<&Waves>) -> bool {
    let record = record.filter(|record| record.phase == RolloutPhase::Complete);
    record.and(waves).is_some_and(Waves::has_nodes_left)
}

/// Beside the built-in controller, the replacement of the template of a failed rollout with that of
/// the base, once for each attempt (G20).
pub(super) fn roll_back(
    input: &RolloutInput<'_>,
    base: Option<&RevisionHash>,
) -> Option<(Notice, Write)> {
    if !may_roll_back(input) || input.daemon_set.is_paused() {
        return None;
    }
    let revisions = input.revisions();
    let Stage::Failed { record, goes_back: true, .. } = Stage::new(input, &revisions) else {
        return None;
    };
    let is_base = |old: &&&Revision| Some(&old.pod_hash()) == base;
    let base = revisions.old.iter().find(is_base)?;
    let current = revisions.current?;
    if was_rolled_back(input, record, &revisions) {
        return None;
    }
    let notice = Notice::RollingBack { base: base.name.clone() };
    let write = Write::RollBack {
        resource_version: input.daemon_set.resource_version,
        base: base.reference(),
        attempt: record.attempt(&current.pod_hash()).into(),
    };
    Some((notice, write))
}

/// True if the template of this failed attempt was replaced by the base before. Then a user has
/// applied it again, and the user wins (G20).
fn was_rolled_back(
    input: &RolloutInput<'_>,
    record: &RolloutRecord,
    revisions: &RevisionSet<'_>,
) -> bool {
    let failed = revisions.current.map(|current| record.attempt(&current.pod_hash()));
    record.is_rolled_back
        || failed.is_some_and(|failed| input.daemon_set.rolled_back.as_deref() == Some(&*failed))
}

fn may_roll_back(input: &RolloutInput<'_>) -> bool {
    input.duties.roll_back == RollBackDuty::RestoreTemplate
}
