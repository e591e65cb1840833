//! A plan and the results of its writes: which writes are due, when the next plan is, and what each
//! outcome means for it (C60, C61).

use std::time::Duration;

use crate::api::{
    AdmissionChange, CheckAnswer, NodeName, Now, PodName, Problem, ResourceVersion, Revision,
    RevisionHash, RolloutReason, Timestamp, Uid, UpdateStrategy,
};
use crate::backoff::{Cause, Delay};
use crate::daemon_set::index::PodPresence;
use crate::daemon_set::sync::{self, Draft, PodRevision, StatusState, SyncInput};
use crate::node::{Assessor, BudgetUse, PodView, Slot, ended_pods, surplus_pods};
use crate::node_table::NodeTable;
use crate::plan::{
    CheckQuestion, NewPod, Notice, ObjectKind, Outcome, Plan, PodReference, Transition, Watermarks,
    Write, WriteResult, WriteTarget,
};

use crate::rollout::revision_beside;

use super::DaemonSetState;

/// Time for which no pod is created after the API server refused one because the namespace is
/// terminating (C28).
const TERMINATING_NAMESPACE_PAUSE: Duration = Duration::from_secs(60);

impl DaemonSetState {
    /// Plans the next writes.
    ///
    /// The result of each write must be returned through [`apply_result`](Self::apply_result).
    /// While results are missing, a plan only updates the status. While a write has not been seen,
    /// it may also repeat deletions of unknown outcome.
    /// When the difference between the two clocks of `now` changes, the plan assesses all nodes.
    pub fn plan(
        &mut self,
        now: impl Into<Now>,
        watermarks: &Watermarks,
        nodes: &NodeTable,
    ) -> Plan {
        let now = now.into();
        let mut draft = Draft::new(self.config.burst_replicas);
        if self.daemon_set.terminating {
            return draft.plan;
        }
        self.report_problems(&mut draft.plan);
        if !self.creates_pods() && !self.rollout_parts(now).1.is_guarded() {
            // Its controller reports them.
            draft.plan.notices.clear();
        }
        if !self.may_act(&mut draft.plan) {
            return draft.plan;
        }
        self.refresh(now, nodes);
        self.report_problems(&mut draft.plan);
        self.report_not_guarded(&mut draft.plan);
        self.report_order(now, &mut draft.plan);
        self.give_up_deletions(now.steady);
        self.update_pending_names(now, nodes);
        if self.still_waiting(now.steady, watermarks, &mut draft.plan) {
            self.repeat_deletions(now, nodes, &mut draft);
            self.plan_status(None, now, &mut draft);
        } else {
            self.plan_writes(now, nodes, &mut draft);
        }
        let (rollout, input) = self.rollout_parts(now);
        rollout.ask_checks(&input, nodes, &mut draft.plan);
        let requeue_at = self.requeue_at(now.steady, draft.plan.waiting.is_some());
        draft.plan.requeue_at = requeue_at.into_iter().chain(draft.delayed_until).min();
        if let Some(pace) = &mut self.rollout.pace {
            draft.begun.iter().for_each(|node| pace.begin(node, now.steady));
        }
        self.record_planned(&draft.plan, now.steady);
        draft.plan
    }

    /// True if selector and template allow a sync (C4, C33). While the current template is
    /// malformed, the previous one is not used either: a user has replaced it, and an event reports
    /// why nothing happens.
    fn may_act(&mut self, plan: &mut Plan) -> bool {
        let Some(selector) = &self.daemon_set.selector else { return false };
        let is_template = |problem: &Problem| matches!(problem, Problem::Template { .. });
        if self.daemon_set.problems.iter().any(is_template) {
            return false;
        }
        if selector.is_empty() && !self.reports.was_selecting_all_reported {
            self.reports.was_selecting_all_reported = true;
            plan.notices.push(Notice::SelectingAll);
        }
        !selector.is_empty()
    }

    /// True if the watches have yet to show something written (C56, C60).
    fn still_waiting(&mut self, now: Timestamp, watermarks: &Watermarks, plan: &mut Plan) -> bool {
        plan.waiting = self.expectations.waiting(watermarks);
        self.expectations.start_restore_timer(now);
        if plan.waiting.is_some()
            && let Some(lapsed) = self.expectations.lapse(now)
        {
            plan.notices.push(lapsed);
            plan.waiting = None;
        }
        plan.waiting.is_some()
    }

    /// Looks for the pods whose creation had an unknown outcome. If one exists, its creation
    /// succeeded (C35).
    fn update_pending_names(&mut self, now: Now, nodes: &NodeTable) {
        // Without surge, a pod must be deleted before the next one on its node can be created.
        let surges = self.daemon_set.strategy().surges();
        let Self { pending_names, slots, .. } = self;
        let find = |node: &NodeName, name: &PodName| {
            let slot = nodes.id(node).and_then(|id| slots.get(id.index()))?;
            let pod = slot.pods.as_slice().iter().find(|pod| pod.name == *name)?;
            let is_leaving = pod.is_terminating() && !surges;
            Some(if is_leaving { PodPresence::Terminating } else { PodPresence::Staying })
        };
        let is_deleted = |node: &NodeName| {
            let slot = nodes.id(node).and_then(|id| slots.get(id.index()));
            slot.is_none_or(Slot::is_vacant)
        };
        for node in pending_names.update(find, is_deleted, now.steady) {
            self.index.retry_order.clear(&node);
        }
        if surges {
            let mut pending_names = std::mem::take(&mut self.pending_names);
            let assessor = Assessor::new(&self.daemon_set, self.rollout.rules(), &self.labels, now);
            let slots = &self.slots;
            let slot = |node: &NodeName| nodes.id(node).and_then(|id| slots.get(id.index()));
            // A node that surges already counts once.
            let is_another = |slot: &Slot| {
                assessor.old_pod(slot).is_some()
                    && !slot.assessment.budget_use.contains(BudgetUse::SURGE)
            };
            pending_names.update_surges(|node| slot(node).is_some_and(is_another));
            self.pending_names = pending_names;
        }
    }

    fn plan_writes(&mut self, now: Now, nodes: &NodeTable, draft: &mut Draft) {
        if self.awaits_adoption() {
            // The built-in controller adopts them itself (G18).
            if self.creates_pods() {
                sync::plan_ownership(&self.sync_input(now), draft);
                sync::plan_revisions(&self.sync_input(now), draft);
            }
            return;
        }
        // A controller that starts once the rollout is complete does not know which to mark (G54).
        let awaits_marks = self.awaits_marks();
        let (rollout, input) = self.rollout_parts(now);
        if !awaits_marks && let Some((notice, write)) = rollout.record_change(&input, nodes) {
            draft.plan.notices.extend(notice);
            draft.write(write);
            return;
        }
        if self.rollout.record_writes.await_watch(&self.history, now.steady) {
            self.plan_status(None, now, draft);
            return;
        }
        if !self.creates_pods() {
            self.plan_beside(now, draft);
            return;
        }
        sync::plan_ownership(&self.sync_input(now), draft);
        let hash = match sync::plan_revisions(&self.sync_input(now), draft) {
            PodRevision::Missing => return,
            PodRevision::StoredByOther { hash } => hash,
            PodRevision::Stored { hash, has_duplicates } => {
                self.history.record_current(has_duplicates, now.steady);
                hash
            }
        };
        let input = self.sync_input(now);
        let is_delayed =
            self.creation_limits.delay.is_some_and(|delay| delay.is_running(now.steady));
        if input.creations_suspended || is_delayed {
            draft.suspend_creations();
        }
        sync::manage(&input, &hash, draft);
        sync::tell(&input, draft);
        sync::rolling_update(&input, &hash, draft);
        self.index.retry_order.sort_creations(&mut draft.plan.writes);
        sync::truncate_history(&input, draft);
        self.plan_status(Some(self.daemon_set.generation), now, draft);
        for (id, pod) in draft.ended.drain(..) {
            let delay = self.backoffs.ended_pods.next(id, now.steady);
            draft.plan.notices.push(sync::notice_of_end(&pod, nodes.name(id), delay));
            // The back-off takes the node out of the set of those with ended pods.
            self.slots[id.index()].mark(id, &mut self.assessing.marked);
        }
    }

    /// True if a guarded or paused rollout waits for the adoption of a revision (C21). That of the
    /// target has the record, that of the base decides where missing pods are created from: without
    /// them neither pods nor counts are right.
    fn awaits_adoption(&self) -> bool {
        !self.rollout.gate.is_open() && self.history.has_orphans(&self.daemon_set)
    }

    /// Plans the status. That of a guarded or paused rollout waits for the revision of the target:
    /// its record decides which revision governs a node without a pod.
    fn plan_status(&self, observed_generation: Option<i64>, now: Now, draft: &mut Draft) {
        let are_counts_known = self.rollout.gate.is_open()
            || *self.is_target_stored.last()
            // Then the status has no counts.
            || !self.creates_pods();
        if are_counts_known && !self.awaits_adoption() {
            let (input, state) = (self.sync_input(now), self.status_state());
            sync::plan_status(&input, state, observed_generation, draft);
        }
    }

    /// Plans the writes of a guard beside the built-in controller (G18–G20).
    fn plan_beside(&mut self, now: Now, draft: &mut Draft) {
        let (rollout, input) = self.rollout_parts(now);
        if let Some((notice, write)) = rollout.roll_back(&input) {
            draft.plan.notices.push(notice);
            draft.write(write);
            return;
        }
        let input = self.sync_input(now);
        sync::tell(&input, draft);
        if let Some(hash) = self.revision_beside() {
            sync::rolling_update(&input, &hash, draft);
        }
        self.plan_status(None, now, draft);
    }

    fn revision_beside(&self) -> Option<RevisionHash> {
        revision_beside(&self.daemon_set, &self.history.classify(&self.daemon_set))
    }

    fn report_problems(&mut self, plan: &mut Plan) {
        plan.notices.extend(self.reports.problems.drain(..).map(Notice::Problem));
    }

    /// Reports once that an order has no effect of which no record can tell (G43).
    fn report_order(&mut self, now: Now, plan: &mut Plan) {
        let order = self.daemon_set.order.as_deref();
        let is_reported =
            order.is_none_or(|order| self.reports.reported_order.as_deref() == Some(&order.text));
        let Some(order) = order.filter(|_| !is_reported).cloned() else { return };
        let (rollout, input) = self.rollout_parts(now);
        if let Some(why) = rollout.unrecorded_order(&order, &input) {
            self.reports.reported_order = Some(order.text.clone());
            plan.notices.push(Notice::Rollout(Transition::OrderIgnored { order, why }));
        }
    }

    /// Reports once that a policy has no effect, because of the update strategy (G18).
    fn report_not_guarded(&mut self, plan: &mut Plan) {
        let stated = self.rollout.condition();
        if stated.is_some_and(|stated| stated.reason == RolloutReason::NotGuarded)
            && !std::mem::replace(&mut self.reports.was_not_guarded_reported, true)
        {
            plan.notices.push(Notice::NotGuarded);
        }
    }

    pub(super) fn sync_input(&self, now: Now) -> SyncInput<'_> {
        SyncInput {
            now,
            config: &self.config,
            daemon_set: &self.daemon_set,
            slots: &self.slots,
            replacements: &self.replacements,
            unplaced: &self.other_pods.unplaced,
            releases: &self.other_pods.releases,
            history: &self.history,
            rules: self.rollout.rules(),
            rollout: &self.rollout,
            labels: &self.labels,
            counts: &self.index.counts,
            work_sets: &self.index.work_sets,
            groups: self.index.groups.as_deref(),
            retry_order: &self.index.retry_order,
            pending_names: &self.pending_names,
            creations_suspended: self.creation_limits.not_before.is_some_and(|at| now.steady < at),
        }
    }

    fn status_state(&self) -> StatusState {
        StatusState {
            is_stale: self.status_writes.is_in_flight
                || self.expectations.is_stale(ObjectKind::DaemonSet)
                || self.expectations.awaits_deletion(&self.daemon_set.uid),
            written_at: self.status_writes.last_at,
        }
    }

    fn requeue_at(&self, now: Timestamp, waiting: bool) -> Option<Timestamp> {
        let timer = self.assessing.timers.first().map(|(at, _)| *at);
        let lapse = if waiting { self.expectations.lapses_at() } else { None };
        let surge_release = self.pending_names.next_surge_release(now);
        let [collision_ends, duplicates_end] = self.history.due_at();
        let times = [
            timer,
            collision_ends,
            duplicates_end,
            self.creation_limits.not_before,
            self.creation_limits.delay.map(|delay| delay.end()),
            lapse,
            self.rollout.due_at(&self.labels, now),
            self.backoffs.ended_pods.collect_at(),
            self.backoffs.lost_pods.collect_at(),
            self.expectations.next_give_up_at(),
            surge_release.filter(|_| self.daemon_set.strategy().surges()),
        ];
        times.into_iter().flatten().filter(|at| *at > now).min()
    }

    /// Applies the result of a write. After the last result of a plan, the next plan is due: with a
    /// back-off after an [`Outcome::Failed`] or [`Outcome::Unknown`], else at once.
    pub fn apply_result(&mut self, result: WriteResult, now: Timestamp) {
        let WriteResult { write, outcome } = result;
        if write.is_of_status() {
            self.status_writes.is_in_flight = false;
        }
        if let Write::WriteRecord { revision, record } = &write {
            let phase = record.phase;
            if self.rollout.apply_record_outcome(revision, phase, &outcome, now) {
                self.mark_all();
            }
        }
        self.apply_outcome_to_pace(&write, &outcome, now);
        match outcome {
            Outcome::Written { uid, resource_version } => {
                self.succeeded(&write, now);
                self.written(&write, uid, resource_version, now);
            }
            Outcome::Changed { uid, resource_version, change } => {
                match &write {
                    Write::CreatePod(new) if self.is_replaced(&change) => {
                        self.delay_creations(new, change, now);
                    }
                    _ => self.succeeded(&write, now),
                }
                self.written(&write, uid, resource_version, now);
            }
            Outcome::Gone => {
                self.clear_failure(&write);
                self.gone(&write);
            }
            Outcome::RevisionExists { revision, collision_count } => {
                if let Some(revision) = &revision {
                    let version = revision.resource_version;
                    self.expectations.expect_version(write.target().kind(), version);
                }
                if let Write::CreateRevision(new) = &write {
                    let existing = revision.as_deref();
                    self.history.record_collision(
                        new,
                        existing,
                        collision_count,
                        &self.daemon_set,
                        now,
                    );
                }
            }
            Outcome::NamespaceTerminating => {
                self.creation_limits.not_before = Some(now + TERMINATING_NAMESPACE_PAUSE);
            }
            Outcome::Skipped => self.not_written(&write),
            Outcome::Failed { message } => self.refused(&write, message),
            Outcome::Unknown { .. } => self.unknown(&write, now),
        }
        self.expectations.record_result(now);
    }

    /// Applies the answer to a check of a plan. One that concerns another wave or another check
    /// than the current ones means nothing.
    pub fn apply_check_answer(&mut self, question: &CheckQuestion, answer: CheckAnswer) -> bool {
        let checks = self.rollout.checks.as_mut();
        checks.is_some_and(|checks| checks.apply_answer(question, answer))
    }

    /// Applies the outcome of a write by which the rollout may have begun on a node.
    fn apply_outcome_to_pace(&mut self, write: &Write, outcome: &Outcome, now: Timestamp) {
        let is_of_pod = matches!(write, Write::CreatePod(_) | Write::DeletePod(_));
        let node = write.target().node().filter(|_| is_of_pod);
        let (Some(pace), Some(node)) = (&mut self.rollout.pace, node) else { return };
        let is_repeated = match write.deleted() {
            Some(uid) => self.expectations.is_outcome_unknown(uid),
            None => self.pending_names.unsettled_nodes().any(|unsettled| unsettled == node),
        };
        pace.apply_outcome(node, outcome, is_repeated, now);
    }

    /// Records the writes of a plan that is about to be executed.
    pub(super) fn record_planned(&mut self, plan: &Plan, now: Timestamp) {
        self.expectations.record_sent(plan.writes.len());
        for write in &plan.writes {
            if let Some(uid) = write.deleted() {
                self.expectations.expect_deletion(uid.clone());
            }
            if write.is_of_status() {
                self.status_writes.is_in_flight = true;
                self.status_writes.last_at = Some(now);
            }
        }
    }

    /// A write was executed.
    fn written(
        &mut self,
        write: &Write,
        uid: Uid,
        resource_version: ResourceVersion,
        now: Timestamp,
    ) {
        // The pod may be seen with an earlier owner first, which ends the wait for its deletion. A
        // `Status` as answer has no version: then only the deletion is awaited.
        if let Some(uid) = write.deleted() {
            self.expectations.record_deletion_outcome(uid);
        }
        if let Write::CreatePod(new) = write {
            self.pending_names.settle(&new.node);
            self.expectations.expect_creation(uid, resource_version);
        }
        if let Write::CreateRevision(new) = write {
            self.history.record_creation(new, now);
        }
        self.expectations.expect_version(write.target().kind(), resource_version);
    }

    /// The API server has refused a write.
    fn refused(&mut self, write: &Write, why: String) {
        match write {
            Write::CreatePod(_) => self.creation_limits.refusal = Some(why.into()),
            Write::AskForReplacement { .. } => self.question_refusal = Some(why.into()),
            _ => {}
        }
        self.failed(write);
    }

    /// A write failed. A deletion that an earlier request may have executed is still awaited.
    fn failed(&mut self, write: &Write) {
        self.failed_marks += u32::from(matches!(write, Write::MarkReplaced { .. }));
        if !write.deleted().is_some_and(|uid| self.expectations.is_outcome_unknown(uid)) {
            write
                .target()
                .node()
                .into_iter()
                .for_each(|node| self.index.retry_order.record_failure(node));
            self.not_written(write);
        }
    }

    /// The outcome of a write is unknown. A creation is repeated under the same name (C35), after
    /// the nodes that have not been tried (C29). A deletion is still awaited, and repeated (C52).
    fn unknown(&mut self, write: &Write, now: Timestamp) {
        if let Write::CreatePod(new) = write {
            self.index.retry_order.record_failure(&new.node);
            if let Some(name) = &new.name {
                self.pending_names.record(&new.node, name, now);
            }
        } else if let Write::DeletePod(pod) = write {
            self.expectations.record_unknown_deletion(pod, now);
        } else {
            self.failed(write);
        }
    }

    fn succeeded(&mut self, write: &Write, now: Timestamp) {
        self.clear_failure(write);
        self.failed_marks *= u32::from(!matches!(write, Write::MarkReplaced { .. }));
        self.question_refusal.take_if(|_| matches!(write, Write::AskForReplacement { .. }));
        // While the delay runs, this may be the result of an earlier creation.
        if matches!(write, Write::CreatePod(_)) {
            self.creation_limits.delay.take_if(|delay| !delay.is_running(now));
            self.creation_limits.refusal = None;
        }
    }

    /// True if the node still needs a pod, now or after the pod is deleted, because admission has
    /// changed this (C28).
    fn is_replaced(&self, change: &AdmissionChange) -> bool {
        match change {
            AdmissionChange::Labels | AdmissionChange::Controller | AdmissionChange::Node(_) => {
                true
            }
            AdmissionChange::RevisionLabels => {
                matches!(self.daemon_set.strategy(), UpdateStrategy::RollingUpdate { .. })
            }
        }
    }

    /// Delays the next creation, because admission has changed a pod so that another one would be
    /// created at once. Other pods that were created at the same time do not lengthen the delay.
    fn delay_creations(&mut self, new: &NewPod, change: AdmissionChange, now: Timestamp) {
        self.index.retry_order.record_failure(&new.node);
        if !self.creation_limits.delay.is_some_and(|delay| delay.is_running(now)) {
            self.creation_limits.delay =
                Some(Delay::after(Cause::Failure, self.creation_limits.delay, now));
        }
        if let Some(pod) = new.name.clone() {
            self.reports.problems.push(Problem::ChangedPod { pod, node: new.node.clone(), change });
        }
    }

    fn clear_failure(&mut self, write: &Write) {
        write.target().node().into_iter().for_each(|node| self.index.retry_order.clear(node));
    }

    /// A write was not executed, so its deletion is not awaited.
    fn not_written(&mut self, write: &Write) {
        if let Some(uid) = write.deleted().filter(|uid| !self.expectations.is_outcome_unknown(uid))
        {
            self.expectations.saw_deletion(uid);
        }
    }

    /// Counts deletions as failed whose outcome has been unknown for too long (C52).
    pub(super) fn give_up_deletions(&mut self, now: Timestamp) {
        for pod in self.expectations.give_up_deletions(now) {
            pod.node.iter().for_each(|node| self.index.retry_order.record_failure(node));
        }
    }

    /// Repeats the deletions of unknown outcome that would be planned now (C52).
    ///
    /// Each of them may already be executed. So if one would not be planned now, for example
    /// because maxUnavailable has become smaller, only those are repeated that need no budget.
    pub(super) fn repeat_deletions(&self, now: Now, nodes: &NodeTable, draft: &mut Draft) {
        let unknown: Vec<_> = self.expectations.deletions_to_repeat().collect();
        if unknown.is_empty() {
            return;
        }
        // Pods whose deletion has succeeded still count as available until the watch shows it. So
        // do nodes that have got a second pod, if the strategy does not surge any more.
        let surges = self.daemon_set.strategy().surges();
        let created = if surges { 0 } else { self.expectations.unseen_creations() };
        let deleted = self.expectations.unseen_deletions() + created;
        let mut repeated = self.wanted_deletions(&unknown, deleted, now, nodes);
        if repeated.len() < unknown.len() {
            repeated = self.wanted_deletions(&unknown, deleted + unknown.len(), now, nodes);
        }
        for pod in repeated {
            let pace = self.rollout.pace.as_deref();
            let begun = pod.node.iter().filter(|node| pace.is_some_and(|pace| pace.counts(node)));
            begun.for_each(|node| draft.begin(node, pace));
            draft.write(Write::DeletePod(pod.clone()));
        }
    }

    /// Those of `pods` that would be deleted now if `deleted` more pods were unavailable.
    fn wanted_deletions<'a>(
        &self,
        pods: &[&'a PodReference],
        deleted: usize,
        now: Now,
        nodes: &NodeTable,
    ) -> Vec<&'a PodReference> {
        let mut counts = self.index.counts;
        counts.uses_unavailable += deleted;
        counts.in_flight += deleted;
        counts.in_use += deleted;
        let input = SyncInput { counts: &counts, ..self.sync_input(now) };
        let assessor = input.assessor();
        let mut wanted = Draft::new(self.config.burst_replicas);
        let creates_pods = self.creates_pods();
        let hash = if creates_pods {
            self.history.classify(&self.daemon_set).current.and_then(Revision::hash)
        } else {
            self.revision_beside()
        };
        // The counts of groups do not tell to which group the deleted pods belong.
        if let Some(hash) = hash.filter(|_| input.groups.is_none() || deleted == 0) {
            sync::rolling_update(&input, &hash, &mut wanted);
        }
        let is_wanted = |pod: &&&PodReference| {
            let is_it = |view: &PodView| view.uid == pod.uid;
            let id = pod.node.as_ref().and_then(|node| nodes.id(node));
            let is_surplus = id.and_then(|id| self.slots.get(id.index())).is_some_and(|slot| {
                surplus_pods(slot, &assessor).into_iter().any(is_it) || ended_pods(slot).any(is_it)
            });
            is_surplus && creates_pods
                || wanted.plan.writes.iter().any(|w| w.deleted() == Some(&pod.uid))
        };
        pods.iter().filter(is_wanted).copied().collect()
    }

    /// The object of a write does not exist, which its watch has yet to show.
    fn gone(&mut self, write: &Write) {
        // The deletion is awaited already.
        if let Some(uid) = write.deleted() {
            self.expectations.record_deletion_outcome(uid);
            return;
        }
        match write.target() {
            WriteTarget::Pod(pod) => self.expectations.record_gone(&pod.uid),
            WriteTarget::Revision(revision) => self.expectations.record_gone(&revision.uid),
            WriteTarget::DaemonSet => self.expectations.record_gone(&self.daemon_set.uid),
            // A creation has no existing target.
            WriteTarget::NewPod(_) | WriteTarget::NewRevision => {}
        }
    }
}
