//! Which record of the rollout comes next (G9–G11): one function for each change. Pure functions.
//! Without a policy, a pause and a record, none of them is called.

use std::sync::Arc;
use std::time::Duration;

use crate::api::{
    DaemonSet, FailedNodes, Opening, Overrides, Position, RecordReason, RecordState, Revision,
    RevisionHash, RolloutPhase, RolloutRecord, Timestamp,
};
use crate::node::{Health, NodeState, Scheduling, SetAside, Slot, SlotFlags};
use crate::plan::{Supersession, Transition};
use crate::revisions::{RevisionLabels, RevisionSet};

use super::checks::ChecksVerdict;
use super::course;
use super::hindrance::{Hindrance, WaveBlocker, begins_at, wave_blocker};
use super::stage::{Halt, Stage, completed_after};
use super::wave::Waves;

/// A change of a revision's record, and what it means to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordChange<'a> {
    pub revision: &'a Revision,
    pub record: RolloutRecord,
    /// `None` if nothing happens that people need to know.
    pub transition: Option<Transition>,
}

/// A record, and what it means to people.
pub(super) type Change = (RolloutRecord, Option<Transition>);

/// The input of a change of the record.
pub(crate) struct TransitionInput<'a> {
    pub daemon_set: &'a DaemonSet,
    pub revisions: &'a RevisionSet<'a>,
    pub labels: &'a RevisionLabels,
    /// `None` without a valid policy.
    pub waves: Option<&'a Waves>,
    /// The wall clock, in whole seconds.
    pub wall: Timestamp,
    /// When the bake time of the wave was over, if it is.
    pub baked_at: Option<Timestamp>,
    /// The verdict of the wave's checks.
    pub checks: ChecksVerdict,
    /// When the next window of the policy opens, if the rollout must wait for it.
    pub opening: Option<&'a Opening>,
    /// The order that was there before the record could not be read.
    pub order_before: Option<&'a Arc<str>>,
    /// The order that was reported as one without effect, of which no record tells (G43).
    pub reported_order: Option<&'a Arc<str>>,
    /// True if the rollout has been without progress for too long.
    pub is_stuck: bool,
    /// True if all desired nodes have an available pod of the target, and no other node has a pod.
    pub is_rolled_out: bool,
    pub slots: &'a [Slot],
    /// The requirement of the policy on templates that holds the rollout, if one does (G53, G56).
    pub unmet_requirement: Option<Hindrance>,
}

impl<'a> TransitionInput<'a> {
    /// The next change of a record, if one is due (G9, G11), which is part of its course (G49). It
    /// is the only write of its plan. `blamed` returns the nodes in a state.
    pub(crate) fn change(
        &self,
        stage: &Stage<'a>,
        blamed: &dyn Fn(NodeState) -> FailedNodes,
    ) -> Option<RecordChange<'a>> {
        let mut change = self.next_change(stage, blamed)?;
        let record = &change.record;
        let wave = self.waves.and_then(|waves| waves.steps.name(&record.position));
        let transition = change.transition.as_ref();
        let event = transition.and_then(|why| course::event(why, record, wave, self.wall));
        event.into_iter().for_each(|event| change.record.course.push(event));
        Some(change)
    }

    fn next_change(
        &self,
        stage: &Stage<'a>,
        blamed: &dyn Fn(NodeState) -> FailedNodes,
    ) -> Option<RecordChange<'a>> {
        if *stage == Stage::NotGuarded {
            return None;
        }
        if let Some(change) = self.first_change() {
            return Some(change);
        }
        let target = self.target()?;
        let stored = || target.record.stored().map(|record| &**record);
        let (record, transition) = match stage {
            Stage::NotGuarded => return None,
            Stage::Unguarded | Stage::Paused { .. } => {
                let record = stored()?;
                self.apply_operator_order(record)
                    .or_else(|| self.complete_without_policy(target, record))?
            }
            Stage::Halted { why, .. } => match stored() {
                Some(record) if self.begins_anew(record) => self.register(target),
                Some(record) => self.apply_operator_order(record)?,
                None if *why != Halt::RecordUnreadable => self.register(target),
                None => self.replace_unreadable(target)?,
            },
            Stage::Pending => self.begin_or_wait(target, self.waves?)?,
            Stage::Failed { record, .. } => self.apply_operator_order(record)?,
            Stage::Moving(record) => self
                .apply_operator_order(record)
                .or_else(|| self.proceed(target, record, self.waves?, blamed))?,
        };
        Some(RecordChange { revision: target, record, transition })
    }

    /// The change of a record that comes before the rollout itself, whatever that waits for.
    fn first_change(&self) -> Option<RecordChange<'a>> {
        let adopted = || self.adopt(self.target()?);
        let adopted_again = || self.adopt_again(self.target()?);
        self.supersede().or_else(|| self.mark_rolled_back()).or_else(adopted).or_else(adopted_again)
    }

    /// The revision that is about to be recorded as complete, because it is in use (G36, G37).
    /// `None` while the labels still tell which pods had the previous target.
    pub(crate) fn in_use(&self) -> Option<&'a Revision> {
        let is_told = |target: &&Revision| {
            self.labels.current_hashes().any(|hash| *hash == target.pod_hash())
        };
        let target = self.target().filter(is_told)?;
        let change = self.adopt(target).or_else(|| self.adopt_again(target));
        change.map(|change| change.revision)
    }

    /// The target, if pods can be told by it: until it has its label back, labels tell which pods
    /// had the previous one.
    fn target(&self) -> Option<&'a Revision> {
        self.revisions.current.filter(|target| target.hash().is_some())
    }

    /// The record of the revision that is in use when a policy or a pause begins to govern the
    /// DaemonSet: the one that most pods have, available or not (G37). It is the base, so nothing
    /// goes back behind it. The first template is in use, too: nothing is older.
    fn adopt(&self, target: &'a Revision) -> Option<RecordChange<'a>> {
        if !self.daemon_set.is_guarded() {
            return None;
        }
        let is_complete = |revision: &&Revision| {
            let record = revision.record.stored();
            record.is_some_and(|record| record.phase == RolloutPhase::Complete)
        };
        // Of two that as many pods have, the older one comes last, and counts.
        let all = || [target].into_iter().chain(self.revisions.old.iter().rev().copied());
        let is_established = all().any(|revision| is_complete(&revision));
        if is_established && target.record.is_known() {
            return None;
        }
        let pods = |revision: &Revision| match revision.uid == target.uid {
            true => self.labels.updated_pods(),
            false => self.labels.pods_with(&revision.pod_hash()),
        };
        let in_use = |revision: &&Revision| pods(revision) > 0;
        let is_unknown = |revision: &&Revision| !revision.record.is_known();
        let most = all().filter(in_use).max_by_key(|revision| pods(revision));
        let chosen = match most.filter(is_unknown) {
            Some(most) => most,
            None if is_established => return self.adopt_in_use(most?),
            None => {
                let most = all().filter(in_use).filter(is_unknown);
                let first = || (!self.labels.has_outdated_pods()).then_some(target);
                most.max_by_key(|revision| pods(revision))
                    .or_else(|| {
                        all().filter_map(unproven).max_by_key(|(since, _)| *since).map(|(_, it)| it)
                    })
                    .or_else(|| first().filter(is_unknown))?
            }
        };
        let record = self.with_phase(&self.new_record(chosen), RolloutPhase::Complete);
        let record = RolloutRecord {
            reason: Some(RecordReason::Adopted),
            since: target.record.stored().map_or(record.since, |attempt| attempt.began),
            ..record
        };
        let transition = Some(Transition::Adopted { revision: chosen.pod_hash() });
        Some(RecordChange { revision: chosen, record, transition })
    }

    /// The record of a target that was complete before, and to which somebody has gone back without
    /// a guard: more pods have it than any revision that was complete later (G36).
    fn adopt_again(&self, target: &'a Revision) -> Option<RecordChange<'a>> {
        let record = target.record.stored()?;
        if record.phase != RolloutPhase::Complete || !self.daemon_set.is_guarded() {
            return None;
        }
        let later: Vec<_> =
            self.revisions.old.iter().filter(|old| completed_after(old, record)).collect();
        let on_target = self.labels.updated_pods();
        let is_left = |old: &&&Revision| self.labels.pods_with(&old.pod_hash()) < on_target;
        if later.is_empty() || !later.iter().all(is_left) {
            return None;
        }
        Some(self.adopted_again(target, record))
    }

    /// The record of the revision that most pods have, which was complete before: somebody has gone
    /// back to it without a guard, and no pod has the one that was complete last (G36).
    fn adopt_in_use(&self, most: &'a Revision) -> Option<RecordChange<'a>> {
        let record = most.record.stored().filter(|it| it.phase == RolloutPhase::Complete)?;
        let mut later = self.revisions.old.iter().filter(|old| completed_after(old, record));
        let is_used = |old: &Revision| self.labels.is_live(&old.pod_hash());
        if later.clone().next().is_none() || later.any(|old| is_used(old)) {
            return None;
        }
        Some(self.adopted_again(most, record))
    }

    fn adopted_again(&self, revision: &'a Revision, record: &RolloutRecord) -> RecordChange<'a> {
        let record = RolloutRecord {
            reason: Some(RecordReason::Adopted),
            ..self.with_phase(record, RolloutPhase::Complete)
        };
        let transition = Some(Transition::Adopted { revision: revision.pod_hash() });
        RecordChange { revision, record, transition }
    }

    /// The record of a target that goes to all nodes without a policy, once they have it: it is the
    /// base then. Its rollout was promoted in full, or was superseded before (G37).
    fn complete_without_policy(&self, target: &Revision, record: &RolloutRecord) -> Option<Change> {
        if self.daemon_set.is_paused() {
            return None;
        }
        if record.is_promoted_in_full() {
            return Some(self.completed(target, record, self.lacking_where_done()?));
        }
        if record.phase == RolloutPhase::Superseded && self.is_rolled_out {
            let complete = self.at(record, Position::AllNodes, RolloutPhase::Complete);
            let record = RolloutRecord { reason: Some(RecordReason::Adopted), ..complete };
            return Some((record, Some(Transition::Adopted { revision: target.pod_hash() })));
        }
        None
    }

    /// The number of nodes that lack an available pod of the target, if their kubelets do not
    /// answer and at least one node has it, or no node should (G40). `None` if another one lacks
    /// it.
    fn lacking_where_done(&self) -> Option<usize> {
        if self.is_rolled_out {
            return Some(0);
        }
        let lacking = |slot: &&Slot| {
            let needs_none =
                slot.assessment.scheduling == Scheduling::Unneeded || slot.only_keeps();
            !needs_none && !has_available_target(slot)
        };
        let all = || self.slots.iter().filter(lacking);
        let is_down = |slot: &Slot| slot.flags.contains(SlotFlags::UNREACHABLE);
        let is_done = all().all(is_down) && self.slots.iter().any(has_available_target);
        is_done.then(|| all().count())
    }

    /// True if this record of the target is that of an earlier rollout: another one begins once it
    /// may.
    fn begins_anew(&self, record: &RolloutRecord) -> bool {
        match record.phase {
            RolloutPhase::Superseded => true,
            RolloutPhase::Complete => {
                self.revisions.old.iter().any(|old| completed_after(old, record))
            }
            RolloutPhase::Pending
            | RolloutPhase::Updating
            | RolloutPhase::Baking
            | RolloutPhase::Failed => false,
        }
    }

    fn completed(&self, target: &Revision, record: &RolloutRecord, lacking: usize) -> Change {
        let revision = target.pod_hash();
        let record = self.with_phase(record, RolloutPhase::Complete);
        (record, Some(Transition::Completed { revision, lacking }))
    }

    /// True if nothing but nodes and time can change the record of a rollout that moves.
    pub(crate) fn awaits_nodes(&self, stage: &Stage<'a>) -> bool {
        match stage {
            Stage::Moving(record) => {
                self.first_change().is_none() && self.apply_operator_order(record).is_none()
            }
            Stage::Unguarded
            | Stage::NotGuarded
            | Stage::Paused { .. }
            | Stage::Halted { .. }
            | Stage::Pending
            | Stage::Failed { .. } => false,
        }
    }

    /// Records of earlier templates whose rollout is under way are closed before anything is done
    /// for the current one.
    fn supersede(&self) -> Option<RecordChange<'a>> {
        let under_way = |old: &Revision| {
            Some(old.record.stored()?.clone()).filter(|record| record.phase.is_under_way())
        };
        self.revisions.old.iter().find_map(|old| {
            let record = under_way(old)?;
            Some(RecordChange {
                revision: old,
                record: self.with_phase(&record, RolloutPhase::Superseded),
                transition: Some(Transition::Superseded {
                    by: self.superseded_by(old),
                    revision: old.pod_hash(),
                }),
            })
        })
    }

    /// The part of the target that differs from an earlier revision.
    fn superseded_by(&self, old: &Revision) -> Supersession {
        fn stated(of: Option<&Arc<Overrides>>) -> &str {
            of.map_or("", |overrides| &overrides.text)
        }
        let target = self.revisions.overrides.as_ref();
        match self.revisions.variants.contains(&old.pod_hash()) {
            false => Supersession::Template,
            true if stated(old.overrides.as_ref()) != stated(target) => Supersession::Overrides,
            true => Supersession::ConfigMaps,
        }
    }

    /// The record of the failed attempt whose template was replaced with that of the base. The
    /// annotation of the DaemonSet that says so is lost if a tool replaces the object.
    fn mark_rolled_back(&self) -> Option<RecordChange<'a>> {
        let attempt = self.daemon_set.rolled_back.as_deref()?;
        let is_meant = |record: &RolloutRecord, revision: &Revision| {
            record.phase == RolloutPhase::Failed
                && !record.is_rolled_back
                && record.attempt(&revision.pod_hash()) == attempt
        };
        self.revisions.old.iter().find_map(|old| {
            let record = old.record.stored().filter(|record| is_meant(record, old))?;
            let mut record = RolloutRecord { is_rolled_back: true, ..(**record).clone() };
            record.course.push(course::going_back(self.wall));
            Some(RecordChange { revision: old, record, transition: None })
        })
    }

    /// The record of a rollout that begins, or that waits because it is paused or no window is open
    /// (G38), or because of its template (G42, G53). Meanwhile it can be aborted, or promoted in
    /// full (G10).
    fn begin_or_wait(&self, target: &Revision, waves: &Waves) -> Option<Change> {
        let begun = self.begin(target, waves);
        let removes = waves.forbidden_removals(&begun.0.position).is_some();
        let is_held = self.daemon_set.is_paused() || removes || self.unmet_requirement.is_some();
        let may_begin = self.opening.is_none() && !is_held;
        if may_begin || begun.0.phase == RolloutPhase::Complete {
            return Some(begun);
        }
        // Only its end is left to be awaited, which replaces nothing (G45).
        if has_begun(target) && waves.is_rolled_out() {
            return Some(begun);
        }
        match target.record.stored().filter(|record| record.phase == RolloutPhase::Pending) {
            Some(pending) => self.apply_operator_order(pending),
            None => Some(self.register(target)),
        }
    }

    /// The record of a template that is first seen while its rollout may not begin (G38).
    fn register(&self, target: &Revision) -> Change {
        (self.new_record(target), None)
    }

    /// An order that ends an unreadable record, given since it cannot be read; any other one leaves
    /// it as it is (G44).
    pub(super) fn replace_unreadable(&self, target: &Revision) -> Option<Change> {
        let RecordState::Malformed(_) = target.record else { return None };
        if self.daemon_set.order.as_ref().map(|order| &order.text) == self.order_before {
            return None;
        }
        let failed = RolloutRecord { phase: RolloutPhase::Failed, ..self.new_record(target) };
        // A retry may be held (G42, G53).
        self.apply_operator_order(&failed)
            .filter(|(record, _)| record.phase != RolloutPhase::Failed)
    }

    /// A record of which nothing is known but the revision and, if there was one, the course of
    /// earlier attempts and the last order: an order that was given before does not concern this
    /// attempt.
    fn new_record(&self, revision: &Revision) -> RolloutRecord {
        let stored = revision.record.stored();
        let previous = stored.and_then(|record| record.order.clone());
        RolloutRecord {
            phase: RolloutPhase::Pending,
            position: Position::AllNodes,
            began: self.wall,
            since: self.wall,
            approvals: Vec::new(),
            steps_hash: self
                .waves
                .map(|waves| waves.policy().steps_hash.clone())
                .unwrap_or_default(),
            order: previous.or_else(|| Some(self.idle_order()?.text.clone())),
            reason: None,
            is_rolled_back: false,
            base: self.variant_before(),
            course: stored.map(|record| record.course.clone()).unwrap_or_default(),
        }
    }

    /// The revision that was complete last, if it has the template of the target.
    fn variant_before(&self) -> Option<RevisionHash> {
        let complete = self.revisions.old.iter().filter_map(|old| {
            let record = old.record.stored()?;
            (record.phase == RolloutPhase::Complete).then(|| (record.since, old.pod_hash()))
        });
        let last = complete.max_by_key(|(since, _)| *since).map(|(_, hash)| hash);
        last.filter(|hash| self.revisions.variants.contains(hash))
    }

    /// The record of a rollout that begins. The first revision of a DaemonSet has nothing to be
    /// kept: all nodes get it. A template that all nodes have is complete.
    fn begin(&self, target: &Revision, waves: &Waves) -> Change {
        let is_done = || {
            !waves.has_target()
                || !waves.has_absent() && self.slots.iter().any(has_available_target)
        };
        let (phase, position) = match waves.is_rolled_out() {
            true if !has_begun(target) && is_done() => (RolloutPhase::Complete, Position::AllNodes),
            true => (RolloutPhase::Updating, Position::AllNodes),
            false => (RolloutPhase::Updating, begins_at(waves, self.revisions)),
        };
        let revision = target.pod_hash();
        let why = match phase {
            RolloutPhase::Complete => Transition::Completed { revision, lacking: 0 },
            _ => Transition::Begun { revision, wave: waves.steps.name(&position) },
        };
        (self.at(&self.new_record(target), position, phase), Some(why))
    }

    /// The next record if the wave is complete and nothing is awaited. A pause stops it. A wave
    /// begins in a window.
    fn proceed(
        &self,
        target: &Revision,
        record: &RolloutRecord,
        waves: &Waves,
        blamed: &dyn Fn(NodeState) -> FailedNodes,
    ) -> Option<Change> {
        let position = &record.position;
        let failed = |reason| RolloutRecord {
            reason: Some(reason),
            ..self.with_phase(record, RolloutPhase::Failed)
        };
        if record.phase.is_under_way() && waves.has_failed_nodes() {
            let nodes = blamed(NodeState::Failed);
            let why = Transition::NodesFailed { nodes: nodes.clone() };
            return Some((failed(RecordReason::NodesFailed(nodes)), Some(why)));
        }
        if record.phase.is_under_way() && waves.has_lost_nodes() {
            let nodes = blamed(NodeState::SetAside(SetAside::Lost));
            let why = Transition::NodesLost { nodes: nodes.clone() };
            return Some((failed(RecordReason::NodesLost(nodes)), Some(why)));
        }
        if self.is_stuck {
            let why = Transition::NoProgress { nodes: waves.group(position).open.left() };
            return Some((failed(RecordReason::NoProgress), Some(why)));
        }
        if let ChecksVerdict::Failed(why) = &self.checks
            && record.has_begun()
        {
            let why = why.clone();
            let record = failed(RecordReason::CheckFailed(why.clone()));
            return Some((record, Some(Transition::CheckFailed { why })));
        }
        if self.daemon_set.is_paused() || !waves.is_complete(position) {
            return None;
        }
        let advance = || {
            let next = waves.next(position);
            if self.opening.is_some() && !waves.opens_none(&next) {
                return None;
            }
            if waves.unpromoted_removals(record, &next).is_some() {
                return None;
            }
            let why = Transition::WaveBegun { wave: waves.steps.name(&next) };
            Some((self.at(record, next, RolloutPhase::Updating), Some(why)))
        };
        let advance = || match position {
            Position::AllNodes => Some(self.completed(target, record, waves.lacking())),
            Position::Wave(_) => advance(),
        };
        // A rollout promoted in full skips the policy's steps.
        let has_wait = || !record.is_promoted_in_full() && waves.wait(position).is_some();
        match record.phase {
            RolloutPhase::Updating if has_wait() => {
                let why = Transition::WaveUpdated { wave: waves.steps.name(position) };
                Some((self.with_phase(record, RolloutPhase::Baking), Some(why)))
            }
            RolloutPhase::Updating => advance(),
            RolloutPhase::Baking => {
                let have_passed = self.checks == ChecksVerdict::Passed;
                match wave_blocker(waves, record, self.baked_at.is_some(), have_passed) {
                    WaveBlocker::Nodes
                    | WaveBlocker::Bake
                    | WaveBlocker::Checks
                    | WaveBlocker::Approval => None,
                    WaveBlocker::Nothing => advance(),
                }
            }
            RolloutPhase::Pending
            | RolloutPhase::Complete
            | RolloutPhase::Failed
            | RolloutPhase::Superseded => None,
        }
    }

    pub(super) fn at(
        &self,
        record: &RolloutRecord,
        position: Position,
        phase: RolloutPhase,
    ) -> RolloutRecord {
        RolloutRecord { position, ..self.with_phase(record, phase) }
    }

    pub(super) fn with_phase(&self, record: &RolloutRecord, phase: RolloutPhase) -> RolloutRecord {
        RolloutRecord { phase, since: self.since(phase), ..record.clone() }
    }

    /// When a phase begins that begins now. The revision that was completed last is the base, so
    /// one that is completed now must be the last even if the clock was ahead before.
    fn since(&self, phase: RolloutPhase) -> Timestamp {
        let others = self.revisions.old.iter().filter_map(|old| old.record.stored());
        let completed = others.filter(|other| other.phase == RolloutPhase::Complete);
        let last = completed.map(|other| other.since + Duration::from_secs(1)).max();
        match last.filter(|_| phase == RolloutPhase::Complete) {
            Some(last) => last.max(self.wall),
            None => self.wall,
        }
    }
}

/// The time of a complete record that names no revision, and its revision.
fn unproven(revision: &Revision) -> Option<(Timestamp, &Revision)> {
    match &revision.record {
        RecordState::Unproven(record) => Some((record.since, revision)),
        RecordState::None
        | RecordState::Malformed(_)
        | RecordState::Foreign
        | RecordState::Stored(_) => None,
    }
}

/// True if an available pod of the target is on the node.
fn has_available_target(slot: &Slot) -> bool {
    let available = Scheduling::Scheduled { health: Health::Available, is_updated: true };
    slot.assessment.scheduling == available
}

/// True if the rollout has begun by other steps: its end is still to be awaited.
fn has_begun(target: &Revision) -> bool {
    let record = target.record.stored();
    record.is_some_and(|record| record.has_begun() || record.phase == RolloutPhase::Superseded)
}
