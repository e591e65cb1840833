//! The state of the rollout of one DaemonSet: observations, results of writes and answers to checks
//! change it, and it says which revision governs a node, which nodes are next and which record
//! comes next (G1–G11, G15). Without a policy, a pause and a record it stays empty.

mod candidate;
mod images;
mod requirements;
mod stated;

use std::sync::Arc;

use crate::api::{
    CheckSubject, Labels, NodeName, Order, Position, RecordReason, RevisionHash, RolloutPhase,
    RolloutPolicy, RolloutRecord, Timestamp, WaveName,
};
use crate::memo::Memo;
use crate::node::{NodeAssessment, PodView, RolloutRules, Wave};
use crate::node_table::{NodeId, NodeTable};
use crate::plan::{Notice, Outcome, Plan, RevisionReference, Write};
use crate::revisions::{RevisionLabels, RevisionSet};

use super::agreement::{told_since, unasked};
use super::bake::Bake;
use super::checks::{Checks, ChecksVerdict};
use super::condition::{Headline, Stated};
use super::facts::{Motion, StageFacts, StageKey};
use super::gate::Gate;
use super::images::{ImagePulls, image_rule};
use super::input::RolloutInput;
use super::pace::Pace;
use super::progress::{Progress, deadline};
use super::record_writes::RecordWrites;
use super::rollback::roll_back;
use super::stage::{Halt, Stage};
use super::transition::TransitionInput;
use super::wave::{Judgement, Shown, Target, Waves};
use candidate::rank;
use stated::{Details, HeadlineKey};

/// A guarded or paused rollout, as of the last plan. Most plans change nothing of what it is
/// determined from.
#[derive(Debug, Default)]
pub(crate) struct RolloutState {
    /// Which revision governs a node.
    pub gate: Gate,
    /// The waves of the policy, if a valid one guards the rollout.
    pub waves: Option<Box<Waves>>,
    /// The waves of the last valid policy, while none is and the rollout is held for that: which
    /// nodes it had begun on, and how they were before, remains known (G33).
    left_waves: Option<Box<Waves>>,
    facts: Memo<StageKey, StageFacts>,
    pub bake: Bake,
    /// The checks of a wave; `None` if it has none, or no node of it has the target.
    pub checks: Option<Box<Checks>>,
    pub progress: Progress,
    /// The statement of the condition without its details. New facts invalidate it.
    headline: Memo<HeadlineKey, Option<Headline>>,
    /// The statement of the condition. A new headline invalidates it.
    condition: Memo<Details, Option<Stated>>,
    /// On how many nodes a rollout may begin now, if its policy limits that.
    pub pace: Option<Box<Pace>>,
    pub record_writes: RecordWrites,
    /// The images of the target on nodes.
    pub images: ImagePulls,
    /// True if the policy forbids what the target's placement removes, and nobody has promoted the
    /// rollout (G42).
    are_removals_forbidden: bool,
    /// True if so many nodes have failed since the rollout was complete that it begins on no
    /// further one (G40).
    has_late_failures: bool,
}

impl RolloutState {
    /// The state of the node's wave.
    pub(crate) fn wave(&self, id: NodeId) -> Wave {
        self.waves.as_deref().map_or(Wave::Closed, |waves| waves.wave(id))
    }

    /// The waves of the policy, or of the last valid one while the rollout is held for that.
    pub(crate) fn known_waves(&self) -> Option<&Waves> {
        self.waves.as_deref().or(self.left_waves.as_deref())
    }

    /// Applies the labels of a node; `None` if it is gone, so that another one may get its number.
    pub(crate) fn apply_node(&mut self, id: NodeId, name: &NodeName, labels: Option<&Labels>) {
        if let Some(waves) = self.known_waves_mut() {
            waves.apply_node(id, name, labels);
        }
    }

    /// Records what the watch shows of a pod of the node, if there are waves.
    pub(crate) fn record_shown(&mut self, id: NodeId, shown: Shown) {
        if let Some(waves) = self.known_waves_mut() {
            waves.record(id, shown);
        }
    }

    fn known_waves_mut(&mut self) -> Option<&mut Waves> {
        self.waves.as_deref_mut().or(self.left_waves.as_deref_mut())
    }

    /// True if anything guards or pauses the rollout, or has before.
    pub(crate) const fn is_followed(&self) -> bool {
        self.facts.is_known()
    }

    /// The statement of the condition.
    pub(crate) const fn condition(&self) -> Option<&Stated> {
        self.condition.last().as_ref()
    }

    /// The record of the current revision.
    pub(crate) const fn record(&self) -> Option<&Arc<RolloutRecord>> {
        self.facts.last().record.as_ref()
    }

    /// The record of a rollout that moves forward.
    pub(crate) fn moving(&self) -> Option<&RolloutRecord> {
        self.facts.last().moving()
    }

    /// True if the policy makes too many waves of the nodes that there are (G50).
    pub(crate) fn has_too_many_waves(&self) -> bool {
        self.waves.as_ref().is_some_and(|waves| waves.excess().is_some())
    }

    /// True if the rollout waits for a window.
    pub(crate) const fn awaits_window(&self) -> bool {
        self.facts.last().awaits_window()
    }

    /// The rules of the rollout that an assessment reads.
    pub(crate) fn rules(&self) -> RolloutRules<'_> {
        let guarded = self.waves.is_some().then(|| self.gate.direction());
        let replaces = self.gate.replaces() && !self.has_late_failures;
        let told_since = self.moving().filter(|_| self.asks()).and_then(told_since);
        RolloutRules { replaces, of_base: self.gate.of_base(), guarded, told_since }
    }

    /// True if somebody must agree that this old pod goes (G54).
    pub(crate) fn asks_about(&self, pod: &PodView, labels: &RevisionLabels) -> bool {
        let unasked = &self.facts.last().unasked;
        self.asks() && !labels.hash(pod.labels).is_some_and(|hash| unasked.contains(hash))
    }

    /// True if somebody must agree that old pods go (G54).
    pub(crate) fn asks(&self) -> bool {
        self.facts.last().asks()
    }

    /// The assessment of a node, by its state in a guarded rollout.
    pub(crate) fn judged(&self, id: NodeId, assessment: NodeAssessment) -> NodeAssessment {
        let Some(waves) = self.waves.as_deref() else { return assessment };
        assessment.in_state(waves.state(id), self.gate.direction())
    }

    /// When the next plan is due for the rollout.
    pub(crate) fn due_at(&self, labels: &RevisionLabels, now: Timestamp) -> Option<Timestamp> {
        let (facts, baked_at) = (self.facts.last(), self.bake.ended_at());
        let [retry_at, unknown_until] = self.record_writes.due_at();
        let times = [
            retry_at,
            unknown_until,
            self.bake.ends_at(),
            self.checks.as_ref().and_then(|checks| checks.due_at(baked_at)),
            self.progress.ends_at(),
            facts.rollback_at,
            facts.window_due_at(labels),
        ];
        times.iter().flatten().copied().filter(|at| *at > now).min()
    }

    /// Determines which revisions govern nodes, if anything has changed of what says so. Returns
    /// whether all nodes must be evaluated again.
    pub(crate) fn refresh_stage(
        &mut self,
        input: &RolloutInput<'_>,
        is_target_known: bool,
        nodes: &NodeTable,
    ) -> bool {
        if !input.is_guarded() {
            if !self.facts.is_known() {
                return false;
            }
            (self.facts, self.bake, self.checks, self.progress) = Default::default();
            (self.headline, self.condition) = Default::default();
            (self.are_removals_forbidden, self.has_late_failures) = Default::default();
            let is_changed = self.apply_gate(Gate::Open, None, input, nodes);
            return self.left_waves.take().is_some() || is_changed;
        }
        let now = input.now;
        let key = StageKey {
            revisions: input.history.changes(),
            labels: input.labels.changes(),
            daemon_set: input.daemon_set_changes,
            excess: self.waves.as_ref().and_then(|waves| waves.excess().cloned()),
            is_target_known,
            wall_ahead_ms: now.wall_ahead_ms,
        };
        let is_due = |known: &StageFacts| {
            let times = [known.rollback_at, known.window_until];
            times.into_iter().flatten().any(|at| at <= now.steady)
        };
        if self.facts.get(&key).is_some_and(|known| !is_due(known)) {
            return false;
        }
        let revisions = input.revisions();
        let stage = Stage::new(input, &revisions);
        let facts = self.facts(&stage, &revisions, input);
        let movement = stage.movement(input.duties, input.daemon_set, facts.awaits_window());
        let in_use = self.transition_input(input, &revisions).in_use();
        let gate = movement.map_or(Gate::Open, |movement| {
            self.gate.guarded(&revisions, in_use, input.labels, is_target_known, movement)
        });
        self.progress.deadline = deadline(input, &revisions);
        let known = self.facts.last();
        let preparation = |facts: &StageFacts| (facts.images, facts.update);
        let prepares_alike =
            known.unasked == facts.unasked && preparation(known) == preparation(&facts);
        self.facts.set(key, facts);
        self.headline.invalidate();
        let is_changed = self.apply_gate(gate, stage.position().cloned(), input, nodes);
        if stage.halt().is_none() {
            self.left_waves = None;
        }
        is_changed || !prepares_alike
    }

    fn facts(
        &self,
        stage: &Stage<'_>,
        revisions: &RevisionSet<'_>,
        input: &RolloutInput<'_>,
    ) -> StageFacts {
        let now = input.now;
        let windows = input.policy().map(|policy| &policy.windows);
        let window = windows.and_then(|windows| windows.at(now.to_wall(now.steady)));
        let opening = window.as_ref().and_then(|window| window.opening());
        let opening =
            opening.filter(|_| stage.needs_window(revisions, || input.has_bad_pods())).cloned();
        let motion = Motion::from_stage(stage);
        let record = revisions.current.and_then(|current| current.record.stored());
        StageFacts {
            record: record.cloned(),
            motion,
            wants_answers: input.agree_within().is_some(),
            unasked: record.map(|record| unasked(record, input)).unwrap_or_default(),
            images: record.and_then(|record| image_rule(record, input)),
            update: input.update_method(),
            awaits_nodes: motion == Motion::Forward
                && self.transition_input(input, revisions).awaits_nodes(stage),
            order_before: (stage.halt() == Some(Halt::RecordUnreadable)).then(|| {
                let order = input.daemon_set.order.as_ref();
                let known = self.facts.last().order_before.clone();
                known.unwrap_or_else(|| order.map(|order| order.text.clone()))
            }),
            rollback_at: stage.back_at().map(|at| now.to_steady(at)),
            window_until: window.map(|window| now.to_steady(window.until())),
            opening,
        }
    }

    fn apply_gate(
        &mut self,
        gate: Gate,
        position: Option<Position>,
        input: &RolloutInput<'_>,
        nodes: &NodeTable,
    ) -> bool {
        let is_rebuilt = self.refresh_waves(position, input, nodes);
        let is_changed = gate != self.gate || is_rebuilt;
        self.gate = gate;
        is_changed
    }

    /// Moves the waves on to this position, or makes them anew if the steps or the template are
    /// other ones, or the rollout begins again. Returns whether they are new, or judge nodes
    /// otherwise.
    fn refresh_waves(
        &mut self,
        position: Option<Position>,
        input: &RolloutInput<'_>,
        nodes: &NodeTable,
    ) -> bool {
        let Some(policy) = input.policy() else {
            // Nobody pulls meanwhile.
            self.images.restart();
            let waves = self.waves.take();
            let is_left = waves.is_some();
            self.left_waves = waves.or_else(|| self.left_waves.take());
            return is_left;
        };
        let target = Target::new(input);
        let continues =
            |waves: &Waves| waves.are_for(policy, &target) && waves.position() <= position.as_ref();
        let is_back = self.waves.is_none();
        let earlier = self.waves.take().or_else(|| {
            let mut left = self.left_waves.take()?;
            // Nobody looked at its nodes meanwhile.
            left.restart_clocks(input.now.steady);
            Some(left)
        });
        let (mut waves, is_new) = match earlier {
            Some(waves) if continues(&waves) && waves.policy() == policy => (waves, is_back),
            Some(mut waves) if continues(&waves) => {
                waves.set_policy(policy.clone(), nodes);
                (waves, true)
            }
            earlier => {
                let mut waves = Box::new(Waves::new(policy.clone(), target));
                waves.apply_nodes(nodes);
                if !waves.continue_from(earlier.as_deref(), input) {
                    self.images.forget_nodes();
                }
                (waves, true)
            }
        };
        waves.refresh_excess();
        let record = self.facts.last().record.as_deref();
        let attempt = record.filter(|record| record.phase != RolloutPhase::Pending);
        let is_restarted = attempt.is_some_and(|attempt| waves.set_attempt(attempt, input.now));
        if attempt.is_none() {
            waves.await_attempt(input.now);
        }
        if is_restarted {
            self.images.restart();
        }
        if let Some(position) = position.filter(|position| waves.position() != Some(position)) {
            waves.advance(position);
        }
        self.waves = Some(waves);
        is_new || is_restarted
    }

    /// Brings the pace up to date: which nodes count, and how many may. `in_doubt` are the nodes of
    /// which a request without an answer may still take effect. Returns whether the pods of all
    /// nodes must be read.
    pub(crate) fn refresh_pace<'a>(
        &mut self,
        policy: Option<&Arc<RolloutPolicy>>,
        in_doubt: impl Iterator<Item = &'a NodeName>,
        now: Timestamp,
    ) -> bool {
        let Some(limit) = policy.and_then(|policy| policy.pods_per_minute) else {
            self.pace = None;
            return false;
        };
        let is_new = self.pace.is_none();
        let pace = self.pace.get_or_insert_with(|| Box::new(Pace::new(limit, now)));
        pace.set_limit(limit);
        in_doubt.for_each(|node| pace.prolong(node, now));
        pace.expire(now);
        is_new
    }

    /// Applies a node's assessment. Returns when its state may change by itself.
    pub(crate) fn apply_slot(
        &mut self,
        id: NodeId,
        input: &RolloutInput<'_>,
        nodes: &NodeTable,
    ) -> Option<Timestamp> {
        let images = self.observe_images(id, input, nodes);
        let waves = self.waves.as_mut()?;
        let slot = &input.slots[id.index()];
        if let Some(pace) = &mut self.pace {
            pace.apply_slot(nodes.name(id), slot, input.now);
        }
        let record = self.facts.last().record.as_deref();
        let may_remove = !self.are_removals_forbidden;
        let goes_back = self.facts.last().goes_back();
        let attempt = (waves.began(), goes_back);
        let mut judgement = Judgement::new(record, &self.gate, attempt, may_remove, input);
        judgement.images = self.facts.last().images;
        let node = nodes.node(id).map(|node| (node, images));
        let changes_at = waves.apply_slot(id, node, slot, &judgement, input);
        self.refresh_need(id, input, nodes);
        changes_at
    }

    /// Determines from the assessments of all nodes whether the target's placement may remove pods,
    /// and whether too many nodes have failed since the rollout was complete. Returns whether all
    /// nodes must be assessed again.
    pub(crate) fn refresh_limits(&mut self, input: &RolloutInput<'_>) -> bool {
        self.waves.iter_mut().for_each(|waves| waves.refresh_excess());
        let waves = self.waves.as_deref();
        let is_promoted = self.record().is_some_and(|record| record.is_promoted());
        let is_complete = self.moving().is_some_and(|record| {
            record.phase == RolloutPhase::Complete && record.reason != Some(RecordReason::Adopted)
        });
        let limits = (
            !is_promoted && waves.is_some_and(|waves| waves.too_many_removals().is_some()),
            // Nodes that go back, or get the revision in use, do not count as tried.
            is_complete && waves.is_some_and(Waves::has_late_failures) && !input.has_bad_pods(),
        );
        let known = (self.are_removals_forbidden, self.has_late_failures);
        (self.are_removals_forbidden, self.has_late_failures) = limits;
        known != limits
    }

    /// Opens nodes of the current waves, and returns them.
    pub(crate) fn open_nodes(
        &mut self,
        input: &RolloutInput<'_>,
        nodes: &NodeTable,
    ) -> Vec<NodeId> {
        let Some(waves) = self.waves.as_mut().filter(|waves| waves.must_fill()) else {
            return Vec::new();
        };
        let bad = input.bad_revisions();
        let rank = |waves: &Waves, id: NodeId| rank(waves, id, &bad, input, nodes);
        waves.fill(|id| nodes.name(id).clone(), rank)
    }

    /// Determines what follows from the assessments of all nodes: whether the wave is baked, which
    /// checks it must pass, how far the rollout is, and what the condition states.
    pub(crate) fn refresh_wave(&mut self, input: &RolloutInput<'_>, nodes: &NodeTable) {
        self.refresh_next_wave(input, nodes);
        let facts = self.facts.last();
        let record = facts.record.as_deref();
        let moving = facts.moving();
        self.bake.refresh(moving, self.waves.as_deref_mut(), input);
        // Then waves are filled as well, which costs as much.
        if let (Some(waves), Some(record)) = (&mut self.waves, record)
            && record.steps_hash == waves.policy().steps_hash
        {
            waves.recount(&record.position);
        }
        let waves = self.waves.as_deref();
        self.checks = Checks::refreshed(self.checks.take(), moving, waves, input);
        let is_held = input.daemon_set.is_paused() || facts.awaits_window();
        let waves = self.waves.as_deref_mut();
        let is_refused =
            self.images.refusal().is_some() && self.images.under_way(input.now.steady) == 0;
        self.progress.refresh(moving.filter(|_| !is_held), waves, is_refused, input);
        if self.record_writes.is_retry_due(input.now.steady)
            && self.record_change(input, nodes).is_none()
        {
            self.record_writes.forget_failures();
        }
        self.refresh_condition(input, nodes);
    }

    /// The verdict of the current wave's checks.
    fn checks_verdict(&self) -> ChecksVerdict {
        let checks = self.checks.as_ref();
        checks.map_or(ChecksVerdict::Passed, |checks| checks.verdict(self.bake.ended_at()))
    }

    /// Adds the checks that are due to the plan.
    pub(crate) fn ask_checks(
        &mut self,
        input: &RolloutInput<'_>,
        nodes: &NodeTable,
        plan: &mut Plan,
    ) {
        let Some(mut checks) = self.checks.take() else { return };
        let key = &input.daemon_set.key;
        let position = checks.position().clone();
        let subject = |revision: &RevisionHash, wave: &WaveName| {
            let on_target =
                || self.waves.iter().flat_map(|waves| waves.nodes_with_target(&position));
            let pods = |id: NodeId| {
                let pods = input.slots[id.index()].pods.as_slice().iter();
                pods.filter(|pod| pod.is_updated(input.labels)).map(|pod| pod.name.clone())
            };
            CheckSubject {
                daemon_set: key.clone(),
                revision: revision.clone(),
                base: self.gate.base().cloned(),
                wave: wave.clone(),
                nodes: on_target().map(|id| nodes.name(id).clone()).collect(),
                pods: on_target().flat_map(pods).collect(),
            }
        };
        checks.ask(key, subject, self.bake.ended_at(), input.now, plan);
        self.checks = Some(checks);
    }

    /// The next change of a record, if one is due, and what people need to know of it.
    pub(crate) fn record_change(
        &self,
        input: &RolloutInput<'_>,
        nodes: &NodeTable,
    ) -> Option<(Option<Notice>, Write)> {
        let now = input.now.steady;
        let is_delayed = self.record_writes.is_delayed(now);
        if !input.is_guarded() || is_delayed || self.awaits_nodes(now) {
            return None;
        }
        let revisions = input.revisions();
        let stage = Stage::new(input, &revisions);
        let blamed = |state| self.blamed(state, input, nodes);
        let change = self.transition_input(input, &revisions).change(&stage, &blamed)?;
        let (revision, record) = (change.revision.reference(), change.record.into());
        let notice = change.transition.map(Notice::Rollout);
        Some((notice, Write::WriteRecord { revision, record }))
    }

    /// Why an order has no effect of which no record can tell (G43).
    pub(crate) fn unrecorded_order(
        &self,
        order: &Order,
        input: &RolloutInput<'_>,
    ) -> Option<&'static str> {
        let revisions = input.revisions();
        let stage = Stage::new(input, &revisions);
        self.transition_input(input, &revisions).unrecorded(&stage, order)
    }

    /// True if the record stays as it is until the nodes of the wave have changed.
    fn awaits_nodes(&self, now: Timestamp) -> bool {
        let (Some(waves), Some(record)) = (self.waves.as_deref(), self.moving()) else {
            return false;
        };
        let is_complete = record.phase == RolloutPhase::Complete;
        self.facts.last().awaits_nodes
            && !self.progress.has_failed(now)
            && !matches!(self.checks_verdict(), ChecksVerdict::Failed(_))
            && (is_complete
                || !waves.is_complete(&record.position)
                    && !waves.has_failed_nodes()
                    && !waves.has_lost_nodes())
    }

    fn transition_input<'a>(
        &'a self,
        input: &RolloutInput<'a>,
        revisions: &'a RevisionSet<'a>,
    ) -> TransitionInput<'a> {
        TransitionInput {
            daemon_set: input.daemon_set,
            revisions,
            labels: input.labels,
            waves: self.waves.as_deref(),
            wall: input.now.wall_seconds(),
            baked_at: self.bake.ended_at(),
            checks: self.checks_verdict(),
            opening: self.facts.last().opening.as_ref(),
            order_before: self.facts.last().order_before.as_ref().and_then(|it| it.as_ref()),
            reported_order: input.reported_order,
            is_stuck: self.progress.has_failed(input.now.steady),
            is_rolled_out: input.is_rolled_out,
            slots: input.slots,
            unmet_requirement: self.unmet_requirement(input, revisions),
        }
    }

    /// Applies the outcome of a write of a record. If it failed, and was about a failed rollout,
    /// all times are measured anew: while the API server does not answer, pods may have become
    /// available that the watch has not shown (G15). Returns whether all nodes must be assessed
    /// again.
    pub(crate) fn apply_record_outcome(
        &mut self,
        revision: &RevisionReference,
        phase: RolloutPhase,
        outcome: &Outcome,
        now: Timestamp,
    ) -> bool {
        let is_written = self.record_writes.apply_outcome(revision, outcome, now);
        let restarts = !is_written && phase == RolloutPhase::Failed;
        if restarts {
            self.progress.restart();
            self.images.restart();
            if let Some(waves) = &mut self.waves {
                waves.restart_clocks(now);
            }
        }
        restarts
    }

    /// Beside the built-in controller, the replacement of the template of a failed rollout with
    /// that of the base, if it is due.
    pub(crate) fn roll_back(&self, input: &RolloutInput<'_>) -> Option<(Notice, Write)> {
        roll_back(input, self.gate.base())
    }
}
