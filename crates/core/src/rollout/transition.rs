//! Which record of the rollout comes next (G9–G11): one function for each change. Pure functions.
//! Without a policy, a pause and a record, none of them is called.

use std::time::Duration;

use crate::api::{
    DaemonSet, Opening, Order, OrderVerb, Position, RecordReason, Revision, RolloutPhase,
    RolloutRecord, Timestamp,
};
use crate::plan::Transition;
use crate::revisions::RevisionSet;

use super::checks::ChecksVerdict;
use super::stage::Stage;
use super::wave::Waves;

/// A change of a revision's record, and what it means to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordChange<'a> {
    pub revision: &'a Revision,
    pub record: RolloutRecord,
    pub transition: Transition,
}

/// The input of a change of the record.
pub(crate) struct TransitionInput<'a> {
    pub daemon_set: &'a DaemonSet,
    pub revisions: &'a RevisionSet<'a>,
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
    /// Whether the rollout has been without progress for too long.
    pub is_stuck: bool,
    /// Whether all desired nodes have an available pod of the target, and no other node has a pod.
    pub is_rolled_out: bool,
}

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

impl<'a> TransitionInput<'a> {
    /// The next change of a record, if one is due (G9, G11). It is the only write of its plan.
    pub(crate) fn change(&self, stage: &Stage<'a>) -> Option<RecordChange<'a>> {
        if *stage == Stage::NotGuarded {
            return None;
        }
        if let Some(change) = self.supersede() {
            return Some(change);
        }
        // Until the revision has its label back, labels tell which pods had the previous target.
        let target = self.revisions.current.filter(|target| target.hash().is_some())?;
        let (record, transition) = match stage {
            Stage::Unguarded => self.complete_without_policy(target)?,
            Stage::NotGuarded | Stage::Paused => return None,
            Stage::WithoutPolicy { .. } => {
                let record = target.record.stored()?;
                self.apply_operator_order(record)?
            }
            Stage::Pending => self.begin_or_wait(target, self.waves?)?,
            Stage::Failed { record, .. } => self.apply_operator_order(record)?,
            Stage::Moving(record) => self
                .apply_operator_order(record)
                .or_else(|| self.proceed(target, record, self.waves?))?,
        };
        Some(RecordChange { revision: target, record, transition })
    }

    /// The record of a rollout that goes to all nodes without a policy, once they have the target:
    /// it is the base then.
    fn complete_without_policy(&self, target: &Revision) -> Option<(RolloutRecord, Transition)> {
        let record = target.record.stored()?;
        let goes_on = record.phase.is_under_way() && record.position == Position::AllNodes;
        (goes_on && self.is_rolled_out).then(|| self.completed(target, record))
    }

    fn completed(&self, target: &Revision, record: &RolloutRecord) -> (RolloutRecord, Transition) {
        let revision = target.pod_hash();
        let record = self.with_phase(record, RolloutPhase::Complete);
        (record, Transition::Completed { revision })
    }

    /// Whether nothing but nodes and time can change the record of a rollout that moves.
    pub(crate) fn awaits_nodes(&self, stage: &Stage<'a>) -> bool {
        match stage {
            Stage::Moving(record) => {
                self.supersede().is_none() && self.apply_operator_order(record).is_none()
            }
            Stage::Unguarded
            | Stage::NotGuarded
            | Stage::Paused
            | Stage::WithoutPolicy { .. }
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
                transition: Transition::Superseded { revision: old.pod_hash() },
            })
        })
    }

    /// The record of a rollout that begins, which waits for a window if it replaces pods. Meanwhile
    /// it can be aborted, or promoted in full (G10).
    fn begin_or_wait(
        &self,
        target: &Revision,
        waves: &Waves,
    ) -> Option<(RolloutRecord, Transition)> {
        let (record, why) = self.begin(target, waves);
        if self.opening.is_none() || record.phase == RolloutPhase::Complete {
            return Some((record, why));
        }
        match self.daemon_set.order.as_ref().filter(|_| self.foreign_order().is_none())?.verb {
            OrderVerb::Abort | OrderVerb::PromoteFull => self.apply_operator_order(&record),
            OrderVerb::Approve(_) | OrderVerb::Promote(_) | OrderVerb::Retry => None,
        }
    }

    /// The record of a rollout that begins. The first revision of a DaemonSet has nothing to be
    /// kept: all nodes get it. A template that all nodes have is complete.
    fn begin(&self, target: &Revision, waves: &Waves) -> (RolloutRecord, Transition) {
        let previous = target.record.stored();
        let (phase, position) = if waves.is_rolled_out() {
            (RolloutPhase::Complete, Position::AllNodes)
        } else if self.revisions.old.is_empty() {
            (RolloutPhase::Updating, Position::AllNodes)
        } else {
            (RolloutPhase::Updating, waves.first())
        };
        let revision = target.pod_hash();
        let why = match phase {
            RolloutPhase::Complete => Transition::Completed { revision },
            _ => Transition::Begun { revision, wave: waves.name(&position) },
        };
        let record = RolloutRecord {
            phase,
            position,
            began: self.wall,
            since: self.since(phase),
            approvals: Vec::new(),
            steps_hash: waves.policy().steps_hash.clone(),
            // An order that was given before does not concern this attempt.
            order: previous
                .and_then(|record| record.order.clone())
                .or_else(|| Some(self.foreign_order()?.text.clone())),
            reason: None,
        };
        (record, why)
    }

    /// The order that names another revision than the target.
    fn foreign_order(&self) -> Option<&Order> {
        let order = self.daemon_set.order.as_ref()?;
        (!self.revisions.current_hashes().contains(&order.revision)).then_some(order)
    }

    /// Carries out an order that has not been carried out (G10).
    fn apply_operator_order(&self, record: &RolloutRecord) -> Option<(RolloutRecord, Transition)> {
        let order = self.daemon_set.order.as_ref()?;
        let was_given = |revision: &Revision| {
            revision
                .record
                .stored()
                .is_some_and(|record| record.order.as_ref() == Some(&order.text))
        };
        let was_given_before = self.revisions.old.iter().any(|old| was_given(old));
        if record.order.as_ref() == Some(&order.text) || was_given_before {
            return None;
        }
        let obeyed = match self.foreign_order() {
            Some(_) => Err("it names another revision"),
            None => self.effect(record, &order.verb),
        };
        let (changed, why) = match obeyed {
            Ok(changed) => (changed, Transition::Ordered(order.clone())),
            Err(why) => (record.clone(), Transition::OrderIgnored { order: order.clone(), why }),
        };
        Some((RolloutRecord { order: Some(order.text.clone()), ..changed }, why))
    }

    fn effect(
        &self,
        record: &RolloutRecord,
        verb: &OrderVerb,
    ) -> Result<RolloutRecord, &'static str> {
        let is_under_way = record.phase.is_under_way();
        let wave = self.waves.and_then(|waves| waves.name(&record.position));
        let waves = self.waves.ok_or("there is no valid rollout policy");
        let is_wave = |named| is_under_way && wave.as_ref() == Some(named);
        match verb {
            OrderVerb::Approve(named) if !is_wave(named) => Err("the rollout is not at this wave"),
            OrderVerb::Approve(named) => {
                let mut changed = record.clone();
                if !changed.approvals.contains(named) {
                    changed.approvals.push(named.clone());
                }
                Ok(changed)
            }
            OrderVerb::Promote(named) if !is_wave(named) => Err("the rollout is not at this wave"),
            OrderVerb::Promote(_) => {
                Ok(self.at(record, waves?.after(&record.position), RolloutPhase::Updating))
            }
            OrderVerb::PromoteFull if record.phase == RolloutPhase::Complete => {
                Err("the rollout is complete")
            }
            OrderVerb::PromoteFull => Ok(RolloutRecord {
                reason: Some(RecordReason::PromotedInFull),
                ..self.at(record, Position::AllNodes, RolloutPhase::Updating)
            }),
            OrderVerb::Abort if !is_under_way => Err("the rollout is not under way"),
            OrderVerb::Abort => Ok(RolloutRecord {
                reason: Some(RecordReason::Aborted),
                ..self.with_phase(record, RolloutPhase::Failed)
            }),
            OrderVerb::Retry if record.phase != RolloutPhase::Failed => {
                Err("the rollout has not failed")
            }
            OrderVerb::Retry => Ok(RolloutRecord {
                began: self.wall,
                approvals: Vec::new(),
                reason: None,
                steps_hash: waves?.policy().steps_hash.clone(),
                ..self.at(record, waves?.first(), RolloutPhase::Updating)
            }),
        }
    }

    /// The next record if the wave is complete and nothing is awaited. A pause stops it. A wave
    /// begins in a window.
    fn proceed(
        &self,
        target: &Revision,
        record: &RolloutRecord,
        waves: &Waves,
    ) -> Option<(RolloutRecord, Transition)> {
        let position = &record.position;
        let failed = |reason| RolloutRecord {
            reason: Some(reason),
            ..self.with_phase(record, RolloutPhase::Failed)
        };
        if record.phase.is_under_way() && waves.has_failed_nodes() {
            let nodes = waves.group(&Position::AllNodes).failed;
            return Some((failed(RecordReason::NodesFailed), Transition::NodesFailed { nodes }));
        }
        if self.is_stuck {
            let group = waves.group(position);
            let nodes = group.open - group.passed;
            return Some((failed(RecordReason::NoProgress), Transition::NoProgress { nodes }));
        }
        if let ChecksVerdict::Failed(why) = &self.checks
            && record.phase == RolloutPhase::Baking
        {
            let why = why.clone();
            let record = failed(RecordReason::CheckFailed(why.clone()));
            return Some((record, Transition::CheckFailed { why }));
        }
        if self.daemon_set.is_paused() || !waves.is_complete(position) {
            return None;
        }
        let advance = || {
            if self.opening.is_some() {
                return None;
            }
            let mut next = waves.after(position);
            // Waves in which nothing is to be done and nothing is awaited are passed over.
            while waves.step(&next).is_some_and(|step| !step.has_wait()) && waves.is_complete(&next)
            {
                next = waves.after(&next);
            }
            let why = Transition::WaveBegun { wave: waves.name(&next) };
            Some((self.at(record, next, RolloutPhase::Updating), why))
        };
        match (record.phase, waves.step(position)) {
            (RolloutPhase::Updating, None) => Some(self.completed(target, record)),
            (RolloutPhase::Updating, Some(step)) if step.has_wait() => {
                let wave = waves.name(position)?;
                let why = Transition::WaveUpdated { wave };
                Some((self.with_phase(record, RolloutPhase::Baking), why))
            }
            (RolloutPhase::Updating, Some(_)) => advance(),
            (RolloutPhase::Baking, _) => {
                let have_passed = self.checks == ChecksVerdict::Passed;
                match wave_blocker(waves, record, self.baked_at.is_some(), have_passed) {
                    WaveBlocker::Nodes
                    | WaveBlocker::Bake
                    | WaveBlocker::Checks
                    | WaveBlocker::Approval => None,
                    WaveBlocker::Nothing => advance(),
                }
            }
            (RolloutPhase::Complete | RolloutPhase::Failed | RolloutPhase::Superseded, _) => None,
        }
    }

    fn at(&self, record: &RolloutRecord, position: Position, phase: RolloutPhase) -> RolloutRecord {
        RolloutRecord { position, ..self.with_phase(record, phase) }
    }

    fn with_phase(&self, record: &RolloutRecord, phase: RolloutPhase) -> RolloutRecord {
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

/// The reason for which the wave of a record that bakes still waits.
pub(crate) fn wave_blocker(
    waves: &Waves,
    record: &RolloutRecord,
    is_baked: bool,
    have_checks_passed: bool,
) -> WaveBlocker {
    let Some(step) = waves.step(&record.position) else { return WaveBlocker::Nothing };
    let is_approved =
        waves.name(&record.position).is_some_and(|wave| record.approvals.contains(&wave));
    match (is_baked, have_checks_passed, step.approval && !is_approved) {
        (false, _, _) if !waves.is_complete(&record.position) => WaveBlocker::Nodes,
        (false, _, _) => WaveBlocker::Bake,
        (true, false, _) => WaveBlocker::Checks,
        (true, true, true) => WaveBlocker::Approval,
        (true, true, false) => WaveBlocker::Nothing,
    }
}
