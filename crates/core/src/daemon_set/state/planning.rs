//! A plan: which writes are due, and when the next plan is.

use crate::api::{FailureRule, NodeName, Now, PodName, Problem, RolloutReason, Timestamp};
use crate::daemon_set::index::PodPresence;
use crate::daemon_set::sync::{self, Draft, PodRevision, StatusState, SyncInput};
use crate::node::{Assessor, BudgetUse, GuardRules, RolloutRules, Slot};
use crate::node_table::NodeTable;
use crate::plan::{Notice, ObjectKind, Plan, Watermarks};

use super::DaemonSetState;
use super::guarding::UnknownRecord;

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
        if !self.creates_pods() && !self.is_guarded() {
            // Its controller reports them.
            draft.plan.notices.clear();
        }
        if !self.may_act(&mut draft.plan) {
            return draft.plan;
        }
        self.refresh(now, nodes);
        self.report_problems(&mut draft.plan);
        self.report_not_guarded(&mut draft.plan);
        self.give_up_deletions(now.steady);
        self.update_pending_names(now, nodes);
        if self.still_waiting(now.steady, watermarks, &mut draft.plan) {
            self.repeat_deletions(now, nodes, &mut draft);
            self.plan_status(None, now, &mut draft);
        } else {
            self.plan_writes(now, &mut draft);
        }
        self.ask_checks(now, &mut draft.plan);
        let requeue_at = self.requeue_at(now.steady, draft.plan.waiting.is_some());
        draft.plan.requeue_at = requeue_at.into_iter().chain(draft.delayed_until).min();
        if let Some(pace) = &mut self.rollout.pace {
            draft.begun.iter().for_each(|node| pace.begin(node, now.steady));
        }
        self.record_planned(&draft.plan, now.steady);
        draft.plan
    }

    /// Whether selector and template allow a sync (C4, C33). While the current template is
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

    /// Whether the watches have yet to show something written (C56, C60).
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
            self.retry_order.clear(&node);
        }
        if surges {
            let mut pending_names = std::mem::take(&mut self.pending_names);
            let assessor = Assessor::new(&self.daemon_set, self.rollout_rules(), &self.labels, now);
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

    fn plan_writes(&mut self, now: Now, draft: &mut Draft) {
        if self.awaits_adoption() {
            // The built-in controller adopts them itself (G18).
            if self.creates_pods() {
                sync::plan_ownership(&self.sync_input(now), draft);
                sync::plan_revisions(&self.sync_input(now), draft);
            }
            return;
        }
        if self.plan_record(now, draft) {
            return;
        }
        if self.awaits_record(now.steady) {
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
        sync::rolling_update(&input, &hash, draft);
        self.retry_order.sort_creations(&mut draft.plan.writes);
        sync::truncate_history(&input, draft);
        self.plan_status(Some(self.daemon_set.generation), now, draft);
        for id in draft.failed.drain(..) {
            self.backoffs.failed_pods.next(id, now.steady);
            // The back-off takes the node out of the set of those with ended pods.
            self.slots[id.index()].mark(id, &mut self.assessing.marked);
        }
    }

    /// Whether a guarded or paused rollout waits for the adoption of a revision (C21). That of the
    /// target has the record, that of the base decides where missing pods are created from: without
    /// them neither pods nor counts are right.
    fn awaits_adoption(&self) -> bool {
        !self.rollout.gate.is_open() && self.history.has_orphans(&self.daemon_set)
    }

    /// Plans the status. That of a guarded or paused rollout waits for the revision of the target:
    /// its record decides which revision governs a node without a pod.
    fn plan_status(&self, observed_generation: Option<i64>, now: Now, draft: &mut Draft) {
        let are_counts_known = self.rollout.gate.is_open() || *self.is_target_stored.last();
        if are_counts_known && !self.awaits_adoption() {
            let (input, state) = (self.sync_input(now), self.status_state());
            sync::plan_status(&input, state, observed_generation, draft);
        }
    }

    /// Plans what is done beside the built-in controller (G18–G20).
    fn plan_beside(&self, now: Now, draft: &mut Draft) {
        if self.plan_roll_back(now, draft) {
            return;
        }
        let input = self.sync_input(now);
        if let Some(hash) = sync::revision_beside(&input) {
            sync::rolling_update(&input, &hash, draft);
        }
        self.plan_status(None, now, draft);
    }

    fn report_problems(&mut self, plan: &mut Plan) {
        plan.notices.extend(self.reports.problems.drain(..).map(Notice::Problem));
    }

    /// Reports once that a policy has no effect, because of the update strategy (G18).
    fn report_not_guarded(&mut self, plan: &mut Plan) {
        let stated = self.rollout.guarding.condition();
        if stated.is_some_and(|(reason, _)| *reason == RolloutReason::NotGuarded)
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
            unplaced: &self.unplaced,
            releases: &self.releases,
            history: &self.history,
            gate: &self.rollout.gate,
            rules: self.rollout_rules(),
            rollout: self.rollout.guarding.condition(),
            awaits_window: self.rollout.guarding.awaits_window(),
            pace: self.rollout.pace.as_deref(),
            labels: &self.labels,
            counts: &self.index.counts,
            work_sets: &self.index.work_sets,
            groups: self.index.groups.as_deref(),
            retry_order: &self.retry_order,
            pending_names: &self.pending_names,
            failed_pods: &self.backoffs.failed_pods,
            creations_suspended: self.creation_limits.not_before.is_some_and(|at| now.steady < at),
        }
    }

    fn failure_rule(&self) -> Option<&FailureRule> {
        self.daemon_set.policy.valid()?.failure.as_ref()
    }

    pub(super) fn rollout_rules(&self) -> RolloutRules<'_> {
        let guard = self.rollout.waves.is_some().then(|| GuardRules {
            spares_down_nodes: self.rollout.gate.spares_down_nodes(),
            max_restarts: self.failure_rule().and_then(|rule| rule.max_restarts),
        });
        let gate = &self.rollout.gate;
        RolloutRules { replaces: gate.replaces(), base: gate.base(), guard }
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
        let others = [
            self.creation_limits.not_before,
            self.creation_limits.delay.map(|delay| delay.end()),
            lapse,
            self.rollout.record_retry_at,
            self.rollout.unknown_record.as_ref().map(UnknownRecord::ends_at),
            self.rollout.guarding.due_at(now),
            self.window_due_at(),
            self.backoffs.failed_pods.collect_at(),
            self.backoffs.lost_pods.collect_at(),
            self.expectations.next_give_up_at(),
            surge_release.filter(|_| self.daemon_set.strategy().surges()),
        ];
        let others = others.into_iter().chain(self.history.due_at());
        timer.into_iter().chain(others.flatten()).filter(|at| *at > now).min()
    }
}
