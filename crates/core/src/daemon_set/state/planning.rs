//! A plan: which writes are due, and when the next plan is (C60, C61).

use crate::api::{
    CheckAnswer, NodeName, Now, PodName, Problem, Revision, RevisionHash, RolloutReason, Timestamp,
};
use crate::daemon_set::index::PodPresence;
use crate::daemon_set::sync::{self, Draft, PodRevision, StatusState, SyncInput};
use crate::node::{Assessor, BudgetUse, PodView, Slot, ended_pods, surplus_pods};
use crate::node_table::NodeTable;
use crate::plan::{
    CheckQuestion, Notice, ObjectKind, Plan, PodReference, Transition, Watermarks, Write,
};

use crate::rollout::revision_beside;

use super::{DaemonSetState, Index};

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
            if !self.still_waiting(now.steady, watermarks, &mut draft.plan) {
                sync::delete_pullers(&self.rollout, &mut draft);
                self.record_planned(&draft.plan, now.steady);
            }
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
            self.plan_status(None, now, nodes, &mut draft);
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
        let Self { index: Index { pending_names, retry_order, .. }, slots, .. } = self;
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
            retry_order.clear(&node);
        }
        if surges {
            let mut pending_names = std::mem::take(&mut self.index.pending_names);
            let assessor = Assessor::new(&self.daemon_set, self.rollout.rules(), &self.labels, now);
            let slots = &self.slots;
            let slot = |node: &NodeName| nodes.id(node).and_then(|id| slots.get(id.index()));
            // A node that surges already counts once.
            let is_another = |slot: &Slot| {
                assessor.old_pod(slot).is_some()
                    && !slot.assessment.budget_use.contains(BudgetUse::SURGE)
            };
            pending_names.update_surges(|node| slot(node).is_some_and(is_another));
            self.index.pending_names = pending_names;
        }
    }

    fn plan_writes(&mut self, now: Now, nodes: &NodeTable, draft: &mut Draft) {
        if self.awaits_adoption() {
            // The built-in controller adopts them itself (G18).
            if self.creates_pods() {
                sync::plan_ownership(&self.sync_input(now, nodes), draft);
                sync::plan_revisions(&self.sync_input(now, nodes), draft);
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
            self.plan_status(None, now, nodes, draft);
            return;
        }
        if !self.creates_pods() {
            self.plan_beside(now, nodes, draft);
            return;
        }
        sync::plan_copies(&self.sync_input(now, nodes), draft);
        sync::plan_ownership(&self.sync_input(now, nodes), draft);
        let Some(hash) = self.plan_revisions(now, nodes, draft) else { return };
        let input = self.sync_input(now, nodes);
        let is_delayed =
            self.backoffs.creations.delay.is_some_and(|delay| delay.is_running(now.steady));
        if input.creations_suspended || is_delayed {
            draft.suspend_creations();
        }
        sync::manage(&input, &hash, draft);
        sync::tell(&input, draft);
        sync::finish_changes(&input, draft);
        sync::rolling_update(&input, &hash, draft);
        sync::pull_images(&input, draft);
        self.index.retry_order.sort_creations(&mut draft.plan.writes);
        sync::truncate_history(&input, draft);
        self.plan_status(Some(self.daemon_set.generation), now, nodes, draft);
        for (id, pod) in draft.ended.drain(..) {
            let delay = self.backoffs.ended_pods.next(id, now.steady);
            draft.plan.notices.push(sync::notice_of_end(&pod, nodes.name(id), delay));
            // The back-off takes the node out of the set of those with ended pods.
            self.slots[id.index()].mark(id, &mut self.assessing.marked);
        }
    }

    /// Plans what is to be repaired of the revisions. Returns the hash for new pods; `None` if
    /// something must be written before pods can be.
    fn plan_revisions(
        &mut self,
        now: Now,
        nodes: &NodeTable,
        draft: &mut Draft,
    ) -> Option<RevisionHash> {
        let key = self.target_key();
        let writes = draft.plan.writes.len();
        let revision = match self.target.repaired.get(&key).cloned().flatten() {
            Some(hash) => PodRevision::Stored { hash, has_duplicates: false },
            None => sync::plan_revisions(&self.sync_input(now, nodes), draft),
        };
        match revision {
            PodRevision::Missing => None,
            PodRevision::StoredByOther { hash } => Some(hash),
            PodRevision::Stored { hash, has_duplicates } => {
                self.history.record_current(has_duplicates, now.steady);
                if !has_duplicates && draft.plan.writes.len() == writes {
                    self.target.repaired.set(key, Some(hash.clone()));
                }
                Some(hash)
            }
        }
    }

    /// True if a guarded or paused rollout waits for the adoption of a revision (C21). That of the
    /// target has the record, that of the base decides where missing pods are created from: without
    /// them neither pods nor counts are right.
    fn awaits_adoption(&self) -> bool {
        let is_repaired = self.target.repaired.get(&self.target_key()).is_some();
        !self.rollout.gate.is_open() && !is_repaired && self.history.has_orphans(&self.daemon_set)
    }

    /// Plans the status. That of a guarded or paused rollout waits for the revision of the target:
    /// its record decides which revision governs a node without a pod.
    fn plan_status(
        &self,
        observed_generation: Option<i64>,
        now: Now,
        nodes: &NodeTable,
        draft: &mut Draft,
    ) {
        let are_counts_known = self.rollout.gate.is_open()
            || *self.target.is_stored.last()
            // Then the status has no counts.
            || !self.creates_pods();
        if are_counts_known && !self.awaits_adoption() {
            let (input, state) = (self.sync_input(now, nodes), self.status_state());
            sync::plan_status(&input, state, observed_generation, draft);
        }
    }

    /// Plans the writes of a guard beside the built-in controller (G18–G20).
    fn plan_beside(&mut self, now: Now, nodes: &NodeTable, draft: &mut Draft) {
        let (rollout, input) = self.rollout_parts(now);
        if let Some((notice, write)) = rollout.roll_back(&input) {
            draft.plan.notices.push(notice);
            draft.write(write);
            return;
        }
        let input = self.sync_input(now, nodes);
        sync::tell(&input, draft);
        sync::finish_changes(&input, draft);
        if sync::override_starting(&input, draft) {
            if let Some(hash) = self.revision_beside() {
                sync::rolling_update(&input, &hash, draft);
            }
            sync::override_running(&input, draft);
        }
        sync::pull_images(&input, draft);
        self.plan_status(None, now, nodes, draft);
    }

    fn revision_beside(&self) -> Option<RevisionHash> {
        revision_beside(&self.daemon_set, &self.history.classify(&self.daemon_set))
    }

    fn report_problems(&mut self, plan: &mut Plan) {
        let known = [&mut self.reports.problems, self.changes.reports_mut()];
        for problems in known.into_iter().filter(|problems| !problems.is_empty()) {
            plan.notices.extend(problems.drain(..).map(Notice::Problem));
        }
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

    pub(super) fn sync_input<'a>(&'a self, now: Now, nodes: &'a NodeTable) -> SyncInput<'a> {
        SyncInput {
            now,
            config: &self.config,
            daemon_set: &self.daemon_set,
            slots: &self.slots,
            replacements: &self.asking.replacements,
            changes: &self.changes,
            copying: &self.copying,
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
            pending_names: &self.index.pending_names,
            creations_suspended: self
                .backoffs
                .creations
                .not_before
                .is_some_and(|at| now.steady < at),
            nodes,
        }
    }

    fn status_state(&self) -> StatusState {
        StatusState {
            is_stale: self.reports.status.is_in_flight
                || self.expectations.is_stale(ObjectKind::DaemonSet)
                || self.expectations.awaits_deletion(&self.daemon_set.uid),
            written_at: self.reports.status.last_at,
        }
    }

    fn requeue_at(&self, now: Timestamp, waiting: bool) -> Option<Timestamp> {
        let timer = self.assessing.timers.first().map(|(at, _)| *at);
        let lapse = if waiting { self.expectations.lapses_at() } else { None };
        let surge_release = self.index.pending_names.next_surge_release(now);
        let [collision_ends, duplicates_end] = self.history.due_at();
        let times = [
            timer,
            collision_ends,
            duplicates_end,
            self.backoffs.creations.not_before,
            self.backoffs.creations.delay.map(|delay| delay.end()),
            lapse,
            self.rollout.due_at(&self.labels, now),
            self.copying.due_at(self.snapshots(), now),
            self.next_given_up_at(),
            self.changes.next_settled_at(),
            self.backoffs.ended_pods.collect_at(),
            self.backoffs.lost_pods.collect_at(),
            self.expectations.next_give_up_at(),
            surge_release.filter(|_| self.daemon_set.strategy().surges()),
        ];
        times.iter().flatten().copied().filter(|at| *at > now).min()
    }

    /// Applies the answer to a check of a plan. One that concerns another wave or another check
    /// than the current ones means nothing.
    pub fn apply_check_answer(&mut self, question: &CheckQuestion, answer: CheckAnswer) -> bool {
        let checks = self.rollout.checks.as_mut();
        checks.is_some_and(|checks| checks.apply_answer(question, answer))
    }

    /// Records the writes of a plan that is about to be executed.
    pub(super) fn record_planned(&mut self, plan: &Plan, now: Timestamp) {
        self.expectations.record_sent(plan.writes.len());
        for write in &plan.writes {
            if let Some(uid) = write.deleted() {
                self.expectations.expect_deletion(uid.clone());
            }
            self.copying.record_planned(write, now);
            if let Write::PullImages(new) = write {
                self.rollout.images.record_planned(&new.node, now);
            }
            if write.is_of_status() {
                self.reports.status.is_in_flight = true;
                self.reports.status.last_at = Some(now);
            }
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
        let input = SyncInput { counts: &counts, ..self.sync_input(now, nodes) };
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
            let slot = id.and_then(|id| self.slots.get(id.index()));
            // The node may have lost its other pods already, and is to keep one.
            let may_be_last = slot.is_some_and(|slot| {
                let mut others = slot.pods.as_slice().iter().filter(|view| !is_it(view));
                slot.eligibility.should_continue_running()
                    && others.any(|other| self.expectations.awaits_deletion(&other.uid))
            });
            let is_surplus = slot.is_some_and(|slot| {
                surplus_pods(slot, &assessor).into_iter().any(is_it) || ended_pods(slot).any(is_it)
            });
            !may_be_last
                && (is_surplus && creates_pods
                    || wanted.plan.writes.iter().any(|w| w.deleted() == Some(&pod.uid)))
        };
        pods.iter().filter(is_wanted).copied().collect()
    }
}
