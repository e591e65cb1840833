//! What a guarded or paused rollout needs of the state: waves and gate are brought up to date, and
//! the next record is planned (G1–G11). Without a policy, a pause and a record, nothing here is
//! done.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::api::{
    Now, Opening, PolicySource, Position, RevisionHash, RolloutPhase, RolloutReason, RolloutRecord,
    Timestamp, UpdateStrategy,
};
use crate::daemon_set::sync::{Draft, whole_seconds};
use crate::node::{NodeProgress, PodView, Wanted};
use crate::node_table::{NodeId, NodeTable};
use crate::placement;
use crate::plan::{Notice, Outcome, RevisionReference, Write};
use crate::revisions::RevisionSet;
use crate::rollout::{
    self, ChecksVerdict, Gate, Holding, NodeStatus, Rank, Situation, Stage, TransitionInput, Waves,
};

use super::DaemonSetState;
use super::checks::Checks;
use super::progress::Progress;

/// Time until a record is written again after a failure. Until then the stored record holds, and
/// missing pods are created (G9).
const RECORD_RETRY_AFTER: Duration = Duration::from_secs(5);

/// How long a record of unknown outcome is awaited: an API server executes a request within a
/// minute, and a watch shows it soon after.
const UNKNOWN_RECORD_FOR: Duration = Duration::from_secs(90);

/// What is known of a guarded or paused rollout, as of the last plan. Most plans change nothing of
/// what it is determined from.
#[derive(Debug, Default)]
pub(super) struct Guarding {
    as_of: Option<AsOf>,
    /// The record of the current revision.
    record: Option<Arc<RolloutRecord>>,
    /// The record of a rollout that moves forward.
    pub(super) moving: Option<Arc<RolloutRecord>>,
    /// Whether nothing but nodes and time can change the record.
    awaits_nodes: bool,
    bake: Option<Bake>,
    /// The checks of a wave that bakes; `None` if it has none.
    pub(super) checks: Option<Box<Checks>>,
    pub(super) progress: Progress,
    /// When a failed rollout goes back to the base.
    rollback_at: Option<Timestamp>,
    /// When a window may open or close.
    pub(super) window_until: Option<Timestamp>,
    /// When the next window opens, if the rollout waits for it.
    opening: Option<Opening>,
    condition: Option<(RolloutReason, Arc<str>)>,
    /// `None` if the condition must be determined again.
    condition_as_of: Option<ConditionAsOf>,
}

/// What the condition is determined from, beside what [`AsOf`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ConditionAsOf {
    is_baked: bool,
    is_wave_complete: bool,
    have_checks_passed: bool,
    /// How often what is stated of the checks has changed.
    check_changes: u64,
    leaked: usize,
    goes_back_beside: bool,
}

/// A record whose last write has an unknown outcome: the stored record may be another one than the
/// watch has shown.
#[derive(Debug)]
pub(super) struct UnknownRecord {
    revision: RevisionReference,
    since: Timestamp,
}

/// What stage, gate and condition are determined from, beside nodes and time.
#[derive(Debug, PartialEq, Eq)]
struct AsOf {
    revisions: u64,
    labels: u64,
    template: Arc<str>,
    policy: PolicySource,
    order: Option<Arc<str>>,
    paused: bool,
    strategy: UpdateStrategy,
    rolled_back: Option<Arc<str>>,
    is_target_known: bool,
    wall_ahead_ms: i64,
}

/// How long the current wave bakes. Once its bake time is over, that remains so.
#[derive(Clone, Debug)]
struct Bake {
    position: Position,
    /// When the phase began, by the record.
    since: Timestamp,
    /// The same by the steady clock. A time that was ahead when the phase was first seen was
    /// written by a clock that was wrong: then it is that moment. A wall clock that is set later
    /// only moves it forward: no bake time ends early because a clock was wrong.
    began: Timestamp,
    /// How far the wall clock was ahead when that was determined.
    wall_ahead_ms: i64,
    end: BakeEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BakeEnd {
    /// At this time, by the steady clock, unless a node is not available then.
    At(Timestamp),
    /// It was at this time.
    Over(Timestamp),
}

impl UnknownRecord {
    /// When the wait for it ends.
    pub(super) fn ends_at(&self) -> Timestamp {
        self.since + UNKNOWN_RECORD_FOR
    }
}

impl Guarding {
    /// What the condition states.
    pub(super) const fn condition(&self) -> Option<&(RolloutReason, Arc<str>)> {
        self.condition.as_ref()
    }

    /// The record of the current revision.
    pub(super) const fn record(&self) -> Option<&Arc<RolloutRecord>> {
        self.record.as_ref()
    }

    /// The record of a rollout that moves forward.
    pub(super) fn moving(&self) -> Option<&RolloutRecord> {
        self.moving.as_deref()
    }

    /// When the bake time of the current wave ends, by the steady clock, if that lies ahead.
    pub(super) fn bake_ends_at(&self) -> Option<Timestamp> {
        self.bake.as_ref().and_then(|bake| match bake.end {
            BakeEnd::At(at) => Some(at),
            BakeEnd::Over(_) => None,
        })
    }

    /// Whether the rollout waits for a window.
    pub(super) const fn awaits_window(&self) -> bool {
        self.opening.is_some()
    }

    /// When a bake time ends, a check is asked, a failed rollout goes back, or one without progress
    /// fails, if that lies ahead.
    pub(super) fn due_at(&self, now: Timestamp) -> Option<Timestamp> {
        let check_at = self.checks.as_ref().and_then(|checks| checks.due_at(self.baked_at()));
        let times = [self.bake_ends_at(), self.rollback_at, self.progress.ends_at(), check_at];
        times.into_iter().flatten().filter(|at| *at > now).min()
    }

    /// When the bake time of the current wave was over, by the steady clock, if it is.
    pub(super) fn baked_at(&self) -> Option<Timestamp> {
        self.bake.as_ref().and_then(|bake| match bake.end {
            BakeEnd::At(_) => None,
            BakeEnd::Over(at) => Some(at),
        })
    }

    /// What the checks of the current wave say.
    fn checks_verdict(&self) -> ChecksVerdict {
        let checks = self.checks.as_ref();
        checks.map_or(ChecksVerdict::Passed, |checks| checks.verdict(self.baked_at()))
    }
}

impl DaemonSetState {
    /// Determines which revisions govern nodes, if anything has changed of what says so.
    pub(super) fn refresh_guard(&mut self, is_target_known: bool, now: Now, nodes: &NodeTable) {
        self.refresh_groups(nodes);
        if !self.is_guarded() {
            self.rollout.guarding = Guarding::default();
            self.apply_gate(Gate::Open, None, nodes);
            return;
        }
        let as_of = AsOf {
            revisions: self.history.changes(),
            labels: self.labels.changes(),
            template: self.daemon_set.template.canonical.clone(),
            policy: self.daemon_set.policy.clone(),
            order: self.daemon_set.order.as_ref().map(|order| order.text.clone()),
            paused: self.daemon_set.paused,
            strategy: self.daemon_set.update_strategy,
            rolled_back: self.daemon_set.rolled_back.clone(),
            is_target_known,
            wall_ahead_ms: now.wall_ahead_ms,
        };
        let times = [self.rollout.guarding.rollback_at, self.rollout.guarding.window_until];
        let is_due = times.into_iter().flatten().any(|at| at <= now.steady);
        if self.rollout.guarding.as_of.as_ref() == Some(&as_of) && !is_due {
            return;
        }
        let revisions = self.history.classify(&self.daemon_set);
        let stage = self.stage(&revisions, now);
        let (window_until, opening) = self.window(&stage, &revisions, now);
        let movement =
            stage.movement(self.config.mode.duties(), &self.daemon_set, opening.is_some());
        let gate = movement.map_or(Gate::Open, |movement| {
            self.rollout.gate.guarded(&revisions, &self.labels, is_target_known, movement)
        });
        let position = stage.position().cloned();
        let record = revisions.current.and_then(|current| current.record.stored()).cloned();
        let moving = match stage {
            Stage::Moving(_) => record.clone(),
            Stage::Unguarded
            | Stage::NotGuarded
            | Stage::Paused
            | Stage::WithoutPolicy { .. }
            | Stage::Pending
            | Stage::Failed { .. } => None,
        };
        self.rollout.guarding.awaits_nodes =
            moving.is_some() && self.guard_input(&revisions, now).awaits_nodes(&stage);
        let progress_limit = self.progress_limit(&revisions);
        self.rollout.guarding.progress.limit = progress_limit;
        self.rollout.guarding.rollback_at = stage.back_at().map(|at| now.to_steady(at));
        (self.rollout.guarding.window_until, self.rollout.guarding.opening) =
            (window_until, opening);
        self.rollout.guarding.moving = moving;
        self.rollout.guarding.record = record;
        self.rollout.guarding.as_of = Some(as_of);
        self.rollout.guarding.condition_as_of = None;
        self.apply_gate(gate, position, nodes);
    }

    pub(super) fn is_guarded(&self) -> bool {
        self.daemon_set.is_guarded() || self.history.has_records()
    }

    fn apply_gate(&mut self, gate: Gate, position: Option<Position>, nodes: &NodeTable) {
        let is_rebuilt = self.refresh_waves(position, nodes);
        if gate != self.rollout.gate || is_rebuilt {
            self.rollout.gate = gate;
            self.evaluate_all(nodes);
        }
    }

    /// Moves the waves on to this position, or makes them anew if the policy or the template is
    /// another one, or the rollout begins again. Returns whether they are new.
    fn refresh_waves(&mut self, position: Option<Position>, nodes: &NodeTable) -> bool {
        let Some(policy) = self.daemon_set.policy.valid() else {
            return self.rollout.waves.take().is_some();
        };
        let template = &self.daemon_set.template.canonical;
        let continued =
            self.rollout.waves.take().filter(|waves| {
                waves.is_of(policy, template) && waves.position() <= position.as_ref()
            });
        let is_new = continued.is_none();
        let mut waves = continued.unwrap_or_else(|| {
            let mut waves = Waves::new(policy.clone(), template.clone());
            for (id, node) in nodes.iter() {
                waves.apply_node(id, Some(&node.labels));
            }
            Box::new(waves)
        });
        if let Some(position) = position.filter(|position| waves.position() != Some(position)) {
            waves.advance(position);
        }
        self.rollout.waves = Some(waves);
        is_new
    }

    /// Opens nodes of the current waves, and marks them. Returns whether it opened any.
    pub(super) fn open_waves(&mut self, nodes: &NodeTable) -> bool {
        let Some(mut waves) = self.rollout.waves.take_if(|waves| waves.must_fill()) else {
            return false;
        };
        let bad = self.bad_revisions();
        let is_ready = |id| nodes.node(id).is_some_and(|node| node.not_ready_since.is_none());
        let rank = |id: NodeId| {
            let slot = &self.slots[id.index()];
            let hash = |pod: &PodView| self.labels.hash(pod.labels);
            if slot.pods.as_slice().iter().filter_map(hash).any(|hash| bad.contains(hash)) {
                Rank::BadRevision
            } else if slot.assessment.is_available() && is_ready(id) {
                Rank::Healthy
            } else {
                Rank::Other
            }
        };
        let opened = waves.fill(|id| nodes.name(id).clone(), rank);
        self.rollout.waves = Some(waves);
        for id in &opened {
            self.mark(*id);
        }
        !opened.is_empty()
    }

    /// The older revisions that failed or were superseded.
    pub(super) fn bad_revisions(&self) -> BTreeSet<RevisionHash> {
        let revisions = self.history.classify(&self.daemon_set);
        let is_bad = |phase| matches!(phase, RolloutPhase::Failed | RolloutPhase::Superseded);
        let bad = revisions
            .old
            .iter()
            .filter(|old| old.record.stored().is_some_and(|record| is_bad(record.phase)));
        bad.map(|old| old.pod_hash()).collect()
    }

    /// Applies a node's assessment to the waves.
    pub(super) fn apply_to_waves(&mut self, id: NodeId, now: Timestamp, nodes: &NodeTable) {
        let Some(waves) = &mut self.rollout.waves else { return };
        let slot = &self.slots[id.index()];
        let pods = slot.pods.as_slice();
        let Some(node) = nodes.node(id) else {
            waves.apply_status(id, NodeStatus::default());
            return;
        };
        let should_run = || match slot.wanted {
            Wanted::Target => slot.eligibility.should_run(),
            Wanted::Kept | Wanted::Base => {
                let selector = &self.namespace_node_selector.labels;
                let placement = &self.daemon_set.template.placement;
                placement::eligibility(placement, selector, node).should_run()
            }
        };
        let assessment = slot.assessment;
        let rule = self.daemon_set.policy.valid().and_then(|policy| policy.failure);
        let limit = rule.and_then(|rule| rule.ready_within).map(|ready_within| {
            ready_within + Duration::from_secs(self.daemon_set.min_ready_seconds.into())
        });
        let is_starting = assessment.progress == NodeProgress::Starting;
        let since = waves.starting_since(id, is_starting, now);
        let fails_at = since.zip(limit).map(|(since, limit)| since + limit);
        if let Some(at) = fails_at.filter(|at| *at > now) {
            self.assessing.timers.insert((at, id));
        }
        // A failed pod is deleted soon: its node has failed until another one is available.
        let is_failing = assessment.has_failed || fails_at.is_some_and(|at| at <= now);
        let has_failed = rule.is_some() && (is_failing || waves.has_failed(id) && is_starting);
        let has_pod = pods.iter().any(PodView::counts);
        let has_target =
            || pods.iter().any(|pod| pod.counts() && self.labels.is_updated(pod.labels));
        let holding = match slot.wanted {
            Wanted::Target if has_target() => Holding::Target,
            _ if has_pod || should_run() => Holding::Outdated,
            _ if slot.eligibility.should_run() => Holding::NothingOfTarget,
            _ => Holding::Nothing,
        };
        let is_done = slot.wanted == Wanted::Target && assessment.progress == NodeProgress::Done;
        let status = NodeStatus { holding, is_done, has_failed };
        waves.apply_status(id, status);
    }

    /// Determines whether the bake time of the current wave is over: its end is that time after
    /// the last node became available, without the pods that were created since the wave was
    /// complete. Otherwise a cluster that grows would never end it.
    pub(super) fn refresh_bake(&mut self, now: Now) {
        let known = self.rollout.guarding.bake.take();
        let (Some(waves), Some(record)) = (&self.rollout.waves, &self.rollout.guarding.moving)
        else {
            return;
        };
        let step = waves.step(&record.position);
        let Some(step) = step.filter(|_| record.phase == RolloutPhase::Baking) else { return };
        let is_same = |bake: &Bake| bake.position == record.position && bake.since == record.since;
        let wall_ahead_ms = now.wall_ahead_ms;
        let began = now.to_steady(record.since).min(now.steady);
        let mut bake = known.filter(is_same).unwrap_or_else(|| {
            let (position, since) = (record.position.clone(), record.since);
            Bake { position, since, began, wall_ahead_ms, end: BakeEnd::At(began + step.bake) }
        });
        if bake.wall_ahead_ms != wall_ahead_ms {
            bake.wall_ahead_ms = wall_ahead_ms;
            bake.began = bake.began.max(began);
        }
        bake.end = match bake.end {
            BakeEnd::Over(at) => BakeEnd::Over(at),
            BakeEnd::At(at) if at > now.steady || !waves.is_complete(&record.position) => {
                BakeEnd::At(at)
            }
            BakeEnd::At(_) => {
                let available = self.available_since(waves, &record.position, record.since, now);
                let at = available.max(bake.began) + step.bake;
                if at <= now.steady { BakeEnd::Over(at) } else { BakeEnd::At(at) }
            }
        };
        self.rollout.guarding.bake = Some(bake);
    }

    /// When the last of the open nodes at a position became available, by the steady clock. Pods
    /// created after `created_until` make no difference.
    fn available_since(
        &self,
        waves: &Waves,
        position: &Position,
        created_until: Timestamp,
        now: Now,
    ) -> Timestamp {
        let pods = waves.open_nodes(position).flat_map(|id| self.slots[id.index()].pods.as_slice());
        let min_ready_seconds = self.daemon_set.min_ready_seconds;
        let known =
            pods.filter(|pod| !pod.is_terminating() && pod.creation_timestamp <= created_until);
        let since = known.filter_map(|pod| pod.available_at(min_ready_seconds, now));
        since.max().unwrap_or(Timestamp(i64::MIN))
    }

    /// Determines what the condition states, if that may have changed.
    pub(super) fn refresh_condition(&mut self, now: Now) {
        let is_baked = self.rollout.guarding.baked_at().is_some();
        let have_checks_passed = self.rollout.guarding.checks_verdict() == ChecksVerdict::Passed;
        let leaked = self.leaked_nodes();
        if self.rollout.gate.is_open() {
            self.rollout.guarding.condition = None;
            return;
        }
        let as_of = Some(ConditionAsOf {
            is_baked,
            is_wave_complete: self.is_wave_complete(),
            have_checks_passed,
            check_changes: self
                .rollout
                .guarding
                .checks
                .as_ref()
                .map_or(0, |checks| checks.changes()),
            leaked,
            goes_back_beside: self.goes_back_beside(),
        });
        if self.rollout.guarding.condition_as_of == as_of {
            return;
        }
        let revisions = self.history.classify(&self.daemon_set);
        let stage = self.stage(&revisions, now);
        let blocker = match (&stage, self.rollout.waves.as_deref()) {
            (Stage::Moving(record), Some(waves)) if record.phase == RolloutPhase::Baking => {
                Some(rollout::wave_blocker(waves, record, is_baked, have_checks_passed))
            }
            _ => None,
        };
        let rollback = self.rollback(&stage, &revisions);
        let checks = self.rollout.guarding.checks.as_ref().map(|checks| checks.statements());
        let checks = &checks.unwrap_or_default()[..];
        let (waves, opening) =
            (self.rollout.waves.as_deref(), self.rollout.guarding.opening.as_ref());
        let situation = Situation { waves, blocker, checks, rollback, opening, leaked };
        self.rollout.guarding.condition = rollout::condition(&self.daemon_set, &stage, &situation);
        self.rollout.guarding.condition_as_of = as_of;
    }

    /// Whether nothing is left to do in the wave of the rollout.
    fn is_wave_complete(&self) -> bool {
        let (waves, record) =
            (self.rollout.waves.as_deref(), self.rollout.guarding.moving.as_ref());
        waves.zip(record).is_some_and(|(waves, record)| waves.is_complete(&record.position))
    }

    pub(super) fn stage<'a>(&self, revisions: &RevisionSet<'a>, now: Now) -> Stage<'a> {
        Stage::of(self.config.mode.duties(), &self.daemon_set, revisions, now)
    }

    /// Plans the next change of a record, if one is due. Returns whether it did.
    pub(super) fn plan_record(&self, now: Now, draft: &mut Draft) -> bool {
        let is_delayed = self.rollout.record_retry_at.is_some_and(|at| now.steady < at);
        if !self.is_guarded() || is_delayed || self.awaits_nodes(now.steady) {
            return false;
        }
        let revisions = self.history.classify(&self.daemon_set);
        let stage = self.stage(&revisions, now);
        let Some(change) = self.guard_input(&revisions, now).change(&stage) else { return false };
        draft.plan.notices.push(Notice::Rollout(change.transition));
        let (revision, record) = (change.revision.reference(), change.record.into());
        draft.write(Write::WriteRecord { revision, record });
        true
    }

    /// Records the outcome of a write of a record, which is tried again after a failure (G9). If
    /// it was about a failed rollout, all times are measured anew: while the API server does not
    /// answer, pods may have become available that the watch has not shown (G15).
    pub(super) fn record_written(
        &mut self,
        revision: &RevisionReference,
        phase: RolloutPhase,
        outcome: &Outcome,
        now: Timestamp,
    ) {
        let is_written = matches!(outcome, Outcome::Written { .. } | Outcome::Gone);
        self.rollout.record_retry_at = (!is_written).then(|| now + RECORD_RETRY_AFTER);
        if !is_written && phase == RolloutPhase::Failed {
            self.rollout.guarding.progress.restart();
            if let Some(waves) = &mut self.rollout.waves {
                waves.restart_clocks(now);
            }
            self.mark_all();
        }
        if is_written {
            self.rollout.unknown_record = None;
        } else if matches!(outcome, Outcome::Unknown { .. })
            && self.rollout.unknown_record.is_none()
        {
            self.rollout.unknown_record =
                Some(UnknownRecord { revision: revision.clone(), since: now });
        }
    }

    /// Whether the watch has yet to show whether a record was written: until then nothing is done
    /// by the one that it has shown (G9).
    pub(super) fn awaits_record(&mut self, now: Timestamp) -> bool {
        let Some(unknown) = &self.rollout.unknown_record else { return false };
        let is_seen = !self.history.has_version(&unknown.revision);
        if is_seen || unknown.ends_at() <= now {
            self.rollout.unknown_record = None;
        }
        self.rollout.unknown_record.is_some()
    }

    /// Whether the record stays as it is until the nodes of the wave have changed.
    fn awaits_nodes(&self, now: Timestamp) -> bool {
        let (Some(waves), Some(record)) = (&self.rollout.waves, &self.rollout.guarding.moving)
        else {
            return false;
        };
        let is_complete = record.phase == RolloutPhase::Complete;
        self.rollout.guarding.awaits_nodes
            && !self.is_stuck(now)
            && !matches!(self.rollout.guarding.checks_verdict(), ChecksVerdict::Failed(_))
            && (is_complete || !waves.is_complete(&record.position) && !waves.has_failed_nodes())
    }

    fn guard_input<'a>(&'a self, revisions: &'a RevisionSet<'a>, now: Now) -> TransitionInput<'a> {
        TransitionInput {
            daemon_set: &self.daemon_set,
            revisions,
            waves: self.rollout.waves.as_deref(),
            wall: whole_seconds(now),
            is_baked: self.rollout.guarding.baked_at().is_some(),
            checks: self.rollout.guarding.checks_verdict(),
            is_stuck: self.is_stuck(now.steady),
            awaits_window: self.rollout.guarding.awaits_window(),
            is_rolled_out: self.index.counts.updated == self.index.counts.desired
                && self.index.counts.available == self.index.counts.desired
                && self.index.counts.misscheduled == 0,
        }
    }
}
