//! The state of the event loop. It handles events, plans for one DaemonSet after another, and
//! returns the I/O to do as [`Task`]s. It reads no clock: the caller passes the time, and durations
//! for metrics and the log are measured by [`Metrics`] and [`OutageLog`]. The simulation drives the
//! same code as [`run`](crate::run()).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::{DaemonSetKey, Namespace, Now, Timestamp, Uid, UpdateStrategy};
use everynode_core::plan::{
    CREATION_RETRY_MAX, CheckQuestion, Notice, Outcome, Plan, Write, WriteResult,
};
use everynode_k8s::convert::{PolicyReference, RawDaemonSet};
use tokio::sync::watch;

use crate::event::Event;
use crate::executor::regarding;
use crate::index::{Effects, Index, PolicyStatusWrite, Urgency};
use crate::metrics::{self, DaemonSetFigures, Metrics, ReasonLabels, SyncLabels};
use crate::observation::{Observation, OrphanListRequest, WatchedResource};
use crate::outage_log::{FailureKind, OutageLog};
use crate::queue::{Queue, UNKNOWN_RETRY_MAX};
use crate::recorder::{Occurrence, Recorder, Severity};
use crate::watch::Change;

/// Maximum number of DaemonSets to plan for before events are handled again.
const SYNCS_MAX: usize = 64;
/// Maximum number of problems of a plan that are logged and recorded as Events. Thousands of
/// malformed revisions must not hide everything else.
const PROBLEMS_MAX: usize = 20;

/// How long after a change the status of a policy object is written, so that many changes cost one
/// write.
const POLICY_STATUS_AFTER: Duration = Duration::from_secs(1);

/// The same if nothing but numbers of nodes has changed, as for each replaced pod. The condition of
/// the DaemonSet has them earlier.
const POLICY_COUNTS_AFTER: Duration = Duration::from_secs(10);

/// For how long everything waits for the first list of namespaces, because a policy selects by
/// their labels. After that only the DaemonSets are held that it may select.
const NAMESPACES_AWAITED: Duration = Duration::from_secs(5);

/// How far the wall clock must have been set before decisions follow it, in milliseconds: half of
/// the resolution of the times in objects. All nodes are assessed again then, which would cost too
/// much for each of the small corrections of a time server.
const WALL_CLOCK_TOLERANCE_MS: u64 = 500;

/// Work to do beside the event loop. Its results arrive as events.
#[derive(Debug)]
pub enum Task {
    /// Executes a plan. Each write is reported as [`Event::Written`], then the plan as
    /// [`Event::Executed`].
    Execute {
        /// The writes.
        plan: Plan,
        /// The object from which their bodies are made.
        raw: Arc<RawDaemonSet>,
    },
    /// Lists orphan pods; the answer arrives as [`Event::OrphansListed`].
    ListOrphans(OrphanListRequest),
    /// Starts the watch of a resource.
    Watch(WatchedResource),
    /// Starts the watch of the ConfigMaps of a namespace, which arrive as
    /// [`Event::ConfigMapsObserved`].
    WatchConfigMaps(Namespace),
    /// Writes the status of a policy object. The outcome arrives as
    /// [`Event::PolicyStatusWritten`].
    WritePolicyStatus(PolicyStatusWrite),
    /// Asks a check. The answer arrives as [`Event::CheckAnswered`].
    AskCheck(CheckQuestion),
}

/// The state of the event loop.
pub struct LoopState {
    /// The known state of the cluster.
    pub index: Index,
    /// Takes Kubernetes Events.
    pub recorder: Recorder,
    /// The controller's metrics.
    pub metrics: Arc<Metrics>,
    /// Logs requests that fail.
    pub outages: OutageLog,
    /// Resources whose first list is not complete. Nothing is decided before all are (C1).
    pub pending_lists: BTreeSet<WatchedResource>,
    /// When that of namespaces, which only policies need, is not awaited any more.
    pub namespaces_awaited_until: Option<Timestamp>,
    /// Set to true when all initial lists are complete.
    pub synced: watch::Sender<bool>,
    /// When to plan for which DaemonSet.
    pub queue: Queue,
    /// When to write the status of which policy object.
    pub policy_queue: Queue<PolicyReference>,
    /// Resources whose watch is started.
    pub watched: BTreeSet<WatchedResource>,
    /// Tasks that the next return of [`process`](Self::process) hands out.
    pub tasks: Vec<Task>,
    /// How far the wall clock is ahead of the steady one for decisions, in milliseconds.
    pub wall_ahead_ms: i64,
}

impl LoopState {
    /// A state that waits for the first list of each resource in `pending_lists`. The watches of
    /// all but the [last](WatchedResource::LAST) are started already. `synced` becomes true when
    /// all lists are complete.
    pub fn new(
        index: Index,
        pending_lists: BTreeSet<WatchedResource>,
        recorder: Recorder,
        metrics: Arc<Metrics>,
        outages: OutageLog,
        synced: watch::Sender<bool>,
    ) -> Self {
        let mut watched = pending_lists.clone();
        watched.remove(&WatchedResource::LAST);
        Self {
            index,
            recorder,
            metrics,
            outages,
            watched,
            pending_lists,
            namespaces_awaited_until: None,
            synced,
            queue: Queue::default(),
            policy_queue: Queue::default(),
            tasks: Vec::new(),
            wall_ahead_ms: 0,
        }
    }

    /// Handles the events and plans for the DaemonSets that are due. Returns the tasks to start.
    #[must_use]
    pub fn process(
        &mut self,
        events: impl IntoIterator<Item = Event>,
        now: impl Into<Now>,
    ) -> Vec<Task> {
        let now = now.into();
        self.follow_wall_clock(now);
        if self.namespaces_awaited_until.take_if(|at| *at <= now.steady).is_some() {
            self.record_initial_list(WatchedResource::Namespace);
        }
        for event in events {
            self.handle(event, now.steady);
        }
        for key in self.index.wake() {
            self.enqueue(key, now.steady);
        }
        self.sync_due(now.steady);
        self.write_policy_statuses(now);
        std::mem::take(&mut self.tasks)
    }

    /// When [`process`](Self::process) must be called next, by the steady clock, if no event
    /// arrives before.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let deadlines = [self.queue.next_at(), self.policy_queue.next_at()];
        match self.pending_lists.is_empty() {
            true => deadlines.into_iter().flatten().min(),
            false => self.namespaces_awaited_until,
        }
    }

    /// True if nothing is left to do for a DaemonSet until something changes or a timer ends: it is
    /// not queued, none of its writes has failed, and all of them were seen. For checkers.
    pub fn is_idle(&self, key: &DaemonSetKey) -> bool {
        self.pending_lists.is_empty() && self.queue.is_idle(key) && !self.index.awaits_anything(key)
    }

    /// Plans for all DaemonSets when the wall clock was set: other pods may be available (C54).
    fn follow_wall_clock(&mut self, now: Now) {
        if now.wall_ahead_ms.abs_diff(self.wall_ahead_ms) < WALL_CLOCK_TOLERANCE_MS {
            return;
        }
        let by_ms = now.wall_ahead_ms - self.wall_ahead_ms;
        let by = by_ms as f64 / 1000.0;
        tracing::info!("the wall clock was set by {by:+.3} s, or the machine was suspended");
        self.wall_ahead_ms = now.wall_ahead_ms;
        let keys: Vec<DaemonSetKey> = self.index.keys().collect();
        for key in keys {
            self.enqueue(key, now.steady);
        }
    }

    fn handle(&mut self, event: Event, now: Timestamp) {
        match event {
            Event::Observed(observation) => self.observe(observation, now),
            Event::ConfigMapsObserved { namespace, change } => {
                let effects = self.index.observe_config_maps(&namespace, change);
                self.apply_effects(effects, now);
            }
            Event::Connected => self.queue.retry_all(now),
            Event::OrphansListed(orphans) => {
                let effects = self.index.observe_orphans(orphans);
                self.apply_effects(effects, now);
            }
            Event::Written { key, uid, result } => {
                self.record_outcome(&key, &result, now);
                self.index.written(&key, &uid, result, now);
            }
            Event::Executed { key, was_waiting } => self.handle_executed(&key, was_waiting, now),
            Event::PolicyStatusWritten { reference, result } => {
                self.record_policy_status(reference, result, now);
            }
            Event::CheckAnswered { question, answer } => {
                self.metrics.count_answer(&question.check.kind, answer.verdict);
                if self.index.check_answered(&question, answer) {
                    self.enqueue(question.daemon_set, now);
                }
            }
        }
    }

    fn observe(&mut self, observation: Observation, now: Timestamp) {
        let (resource, change) = (observation.resource(), observation.change());
        let effects = self.index.observe(observation);
        self.apply_effects(effects, now);
        // What a policy selects by the labels of namespaces is not known until they are listed.
        if resource == WatchedResource::ClusterRolloutPolicy
            && self.index.needs_namespaces()
            && self.watch(WatchedResource::Namespace)
        {
            self.namespaces_awaited_until = Some(now + NAMESPACES_AWAITED);
        }
        if matches!(change, Change::Reset { .. }) {
            self.record_initial_list(resource);
        }
    }

    /// Records a failure. Some writes are tried again before the back-off has grown to its longest.
    fn record_outcome(&mut self, key: &DaemonSetKey, result: &WriteResult, now: Timestamp) {
        let (message, retry_max) = match &result.outcome {
            Outcome::Unknown { message } => (message, Some(UNKNOWN_RETRY_MAX)),
            // One pod is tried as a probe, and the others follow it (C28).
            Outcome::Failed { message } if matches!(result.write, Write::CreatePod(_)) => {
                (message, Some(CREATION_RETRY_MAX))
            }
            Outcome::Failed { message } | Outcome::Begun { message, .. } => (message, None),
            Outcome::Written { .. }
            | Outcome::Changed { .. }
            | Outcome::Gone
            | Outcome::RevisionExists { .. }
            | Outcome::NamespaceTerminating
            | Outcome::ImagesPresent
            | Outcome::CannotChange { .. }
            | Outcome::Skipped => return,
        };
        self.outages.failed(&subject(key), FailureKind::Unknown, message);
        self.queue.failed(key);
        if let Some(delay) = retry_max {
            self.queue.add_at(key.clone(), now + delay);
        }
    }

    fn apply_effects(&mut self, effects: Effects, now: Timestamp) {
        if let Some(resource) = effects.restored {
            tracing::warn!(
                "the API server lists an older state of {} than it has shown before, \
                 as after a restore of etcd",
                resource.name()
            );
        }
        for key in &effects.deleted {
            self.metrics.remove_daemon_set(key);
            self.outages.forget(&subject(key));
            self.queue.remove(key);
        }
        for key in effects.changed {
            self.enqueue(key, now);
        }
        self.tasks.extend(effects.orphan_lists.into_iter().map(Task::ListOrphans));
    }

    fn enqueue(&mut self, key: DaemonSetKey, now: Timestamp) {
        if self.queue.add(key, now) {
            self.metrics.queue.adds.inc();
        }
    }

    /// All writes of a plan are reported: plans again at once, or with a back-off after a failure
    /// (C72). A plan that only waited does not reset the back-off, since it does not show that the
    /// failed writes would succeed now.
    fn handle_executed(&mut self, key: &DaemonSetKey, was_waiting: bool, now: Timestamp) {
        let has_failed = self.queue.has_failed(key);
        let result = if has_failed { metrics::Outcome::error } else { metrics::Outcome::success };
        self.finish_sync(key, result);
        if has_failed {
            self.queue.add_after_failure(key.clone(), now);
            self.metrics.queue.retries.inc();
        } else {
            if !was_waiting {
                self.queue.forget_failures(key);
                self.outages.recovered(&subject(key));
            }
            self.enqueue(key.clone(), now);
        }
    }

    fn finish_sync(&mut self, key: &DaemonSetKey, result: metrics::Outcome) {
        self.metrics.syncs.get_or_create(&SyncLabels { result }).inc();
        self.queue.done(key);
        self.metrics.sync_finished(key);
    }

    /// Records that an initial list is complete.
    fn record_initial_list(&mut self, resource: WatchedResource) {
        if !self.pending_lists.remove(&resource) {
            return;
        }
        if self.pending_lists.iter().eq([&WatchedResource::LAST]) {
            self.watch(WatchedResource::LAST);
        }
        if self.pending_lists.is_empty() {
            tracing::info!("all lists are complete: {} nodes", self.index.nodes().len());
            self.synced.send_replace(true);
        }
    }

    /// Starts a watch, unless it is started already; returns whether it does. Until its first list
    /// is complete, nothing is decided.
    fn watch(&mut self, resource: WatchedResource) -> bool {
        let is_new = self.watched.insert(resource);
        if is_new {
            self.pending_lists.insert(resource);
            self.tasks.push(Task::Watch(resource));
        }
        is_new
    }

    /// Writes the statuses of policy objects that have changed.
    fn write_policy_statuses(&mut self, now: Now) {
        for (reference, urgency) in self.index.take_changed_policies() {
            let after = match urgency {
                Urgency::Transition => POLICY_STATUS_AFTER,
                Urgency::Counts => POLICY_COUNTS_AFTER,
            };
            self.policy_queue.add_at(reference, now.steady + after);
        }
        while self.pending_lists.is_empty()
            && let Some((reference, _)) = self.policy_queue.pop(now.steady)
        {
            match self.index.policy_status(&reference, now) {
                Some(write) => self.tasks.push(Task::WritePolicyStatus(write)),
                None => self.policy_queue.done(&reference),
            }
        }
    }

    fn record_policy_status(
        &mut self,
        reference: PolicyReference,
        result: Result<(), String>,
        now: Timestamp,
    ) {
        let subject = reference.to_string();
        match result {
            Ok(()) => {
                self.policy_queue.forget_failures(&reference);
                self.outages.recovered(&subject);
            }
            Err(message) => {
                self.outages.failed(&subject, FailureKind::Unknown, &message);
                self.policy_queue.add_after_failure(reference.clone(), now);
            }
        }
        self.policy_queue.done(&reference);
    }

    fn sync_due(&mut self, now: Timestamp) {
        if !self.pending_lists.is_empty() {
            return;
        }
        for _ in 0..SYNCS_MAX {
            let Some((key, wait)) = self.queue.pop(now) else { break };
            self.metrics.sync_started(&key, wait);
            self.sync(&key, now);
        }
        self.metrics.queue.depth.set(i64::try_from(self.queue.len()).unwrap_or(i64::MAX));
    }

    fn sync(&mut self, key: &DaemonSetKey, now: Timestamp) {
        let now = Now { steady: now, wall_ahead_ms: self.wall_ahead_ms };
        let planned = self.metrics.time_sync(|| self.index.plan(key, now));
        let Some(planned) = planned else {
            // A result may have arrived after the deletion of its DaemonSet.
            if !self.index.has(key) {
                self.queue.forget_failures(key);
                self.outages.forget(&subject(key));
            }
            return self.finish_sync(key, metrics::Outcome::success);
        };
        if planned.reads_config_maps {
            self.tasks.push(Task::WatchConfigMaps(key.namespace.clone()));
        }
        let (plan, raw) = (planned.plan, planned.raw);
        self.report_notices(key, &raw.uid, &plan);
        if let Some(at) = plan.requeue_at {
            self.queue.add_at(key.clone(), at);
        }
        if let Some(state) = self.index.state(key) {
            let rollout = state.rollout_status();
            let is_on_delete = state.daemon_set().strategy() == UpdateStrategy::OnDelete;
            let figures = DaemonSetFigures {
                counts: *state.counts(),
                down: self.index.down_nodes(state),
                awaits_deletion: is_on_delete && rollout.is_none(),
            };
            self.metrics.set_daemon_set(key, &figures);
            self.metrics.set_rollout(key, rollout.as_ref());
        }
        self.tasks.extend(plan.questions.iter().cloned().map(Task::AskCheck));
        if plan.writes.is_empty() {
            if plan.waiting.is_none() {
                self.queue.forget_failures(key);
                self.outages.recovered(&subject(key));
            }
            self.finish_sync(key, metrics::Outcome::success);
        } else {
            tracing::debug!("daemonset {key}: plan: {}", plan_summary(&plan));
            self.tasks.push(Task::Execute { plan, raw });
        }
    }

    /// Reports a plan's notices: as Kubernetes Events, in the log and in the metrics.
    fn report_notices(&self, key: &DaemonSetKey, uid: &Uid, plan: &Plan) {
        if plan.waiting.is_some() {
            self.metrics.stale_syncs_skipped.inc();
        }
        let mut problems = 0;
        for notice in &plan.notices {
            match notice {
                Notice::ExpectationLapsed { .. } => {
                    self.metrics.expectations_lapsed.inc();
                }
                Notice::Problem(problem) => {
                    let reason = problem.reason();
                    self.metrics.problems.get_or_create(&ReasonLabels { reason }).inc();
                    problems += 1;
                    if problems > PROBLEMS_MAX {
                        continue;
                    }
                }
                Notice::FailedDaemonPod { .. }
                | Notice::SucceededDaemonPod { .. }
                | Notice::RolloutPaused
                | Notice::RolloutResumed
                | Notice::OutsideWindow { .. }
                | Notice::WindowOpened
                | Notice::NotGuarded
                | Notice::RollingBack { .. }
                | Notice::Check { .. }
                | Notice::SelectingAll => {}
                Notice::Rollout(transition) => self.metrics.count_transition(transition),
            }
            self.record_notice(key, uid, notice);
        }
        let more = usize::saturating_sub(problems, PROBLEMS_MAX);
        if more > 0 {
            tracing::warn!("daemonset {key}: {more} more problems");
        }
    }

    fn record_notice(&self, key: &DaemonSetKey, uid: &Uid, notice: &Notice) {
        let (reason, note) = (notice.reason(), notice.to_string());
        let severity = if notice.is_warning() {
            tracing::warn!("daemonset {key}: {reason}: {note}");
            Severity::Warning
        } else {
            tracing::debug!("daemonset {key}: {reason}: {note}");
            Severity::Normal
        };
        let regarding = regarding(key, uid);
        let is_unique = matches!(notice, Notice::Rollout(_));
        let backoff = notice.backoff().map(|(node, delay)| (node.clone(), delay));
        let action = "Sync";
        let occurrence =
            Occurrence { regarding, severity, reason, action, note, is_unique, backoff };
        if !self.recorder.record(occurrence) {
            self.metrics.events_dropped.inc();
        }
    }
}

/// The subject of a DaemonSet's writes in the log.
fn subject(key: &DaemonSetKey) -> String {
    format!("daemonset {key}")
}

/// The number of writes of each kind, such as `create pod: 3, update status: 1`.
fn plan_summary(plan: &Plan) -> String {
    let counts = plan.summary();
    let parts: Vec<String> =
        counts.iter().map(|(verb, count)| format!("{verb}: {count}")).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests;
