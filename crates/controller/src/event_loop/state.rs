//! What the loop does with events: it owns all that is known, and looks at one DaemonSet after the other.
//! No I/O: what is to be done beside the loop comes out as [`Task`]s, and the caller says what time it
//! is. So the simulation drives the very same code as [`run`](crate::run).

use std::collections::BTreeSet;
use std::sync::Arc;

use everynode_core::api::{DaemonSetKey, Timestamp, Uid};
use everynode_core::plan::{Notice, Outcome, Plan};
use everynode_k8s::convert::RawDaemonSet;
use tokio::sync::watch;

use crate::event::Event;
use crate::executor::regarding;
use crate::index::{Effects, Index};
use crate::metrics::{self, Metrics, ReasonLabels, SyncLabels};
use crate::observation::{Observation, OrphanList};
use crate::outage_log::{FailureKind, OutageLog};
use crate::queue::{Queue, UNKNOWN_RETRY_MAX};
use crate::recorder::{Occurrence, Recorder, Severity};
use crate::watch::Change;

/// DaemonSets looked at before events are taken again.
const SYNCS_MAX: usize = 64;

/// Kinds whose lists have to be complete before anything is decided (C1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListedResource {
    Node,
    Namespace,
    DaemonSet,
    Revision,
    Pod,
}

/// What is to be done beside the loop, and reports back as events.
#[derive(Debug)]
pub enum Task {
    /// Every write comes back as [`Event::Written`], then the whole as [`Event::Executed`].
    Execute { plan: Plan, raw: Arc<RawDaemonSet> },
    /// Comes back as [`Event::Orphans`].
    ListOrphans(OrphanList),
    /// The rest is listed: pods may be watched.
    WatchPods,
}

/// The loop's state.
pub struct LoopState {
    pub index: Index,
    pub recorder: Recorder,
    pub metrics: Arc<Metrics>,
    /// For the log.
    pub outages: OutageLog,
    /// Kinds not listed yet. Pods come last, so that orphans which somebody selects are known as such.
    pub unlisted: BTreeSet<ListedResource>,
    pub synced: watch::Sender<bool>,
    pub queue: Queue,
    /// To be handed out.
    pub tasks: Vec<Task>,
}

impl LoopState {
    /// A state that waits for the first list of each resource in `unlisted`. `synced` becomes true
    /// when all of them are complete.
    pub fn new(
        index: Index,
        unlisted: BTreeSet<ListedResource>,
        recorder: Recorder,
        metrics: Arc<Metrics>,
        outages: OutageLog,
        synced: watch::Sender<bool>,
    ) -> Self {
        Self {
            index,
            recorder,
            metrics,
            outages,
            unlisted,
            synced,
            queue: Queue::default(),
            tasks: Vec::new(),
        }
    }

    /// Takes what has happened and looks at the DaemonSets that are due. Returns what is to be done.
    #[must_use]
    pub fn turn(&mut self, events: impl IntoIterator<Item = Event>, now: Timestamp) -> Vec<Task> {
        for event in events {
            self.take(event, now);
        }
        for key in self.index.wake() {
            self.add(key, now);
        }
        self.sync_due(now);
        std::mem::take(&mut self.tasks)
    }

    /// When the next turn is due even if nothing happens.
    pub fn due_at(&self) -> Option<Timestamp> {
        self.queue.next_at().filter(|_| self.unlisted.is_empty())
    }

    fn take(&mut self, event: Event, now: Timestamp) {
        match event {
            Event::Observed(observation) => {
                self.note_list(&observation);
                let effects = self.index.observe(observation);
                self.follow(effects, now);
            }
            Event::Connected => self.queue.retry_all(now),
            Event::Orphans(orphans) => {
                let effects = self.index.observe_orphans(orphans);
                self.follow(effects, now);
            }
            Event::Written { key, uid, result } => {
                self.note_outcome(&key, &result.outcome, now);
                self.index.written(&key, &uid, result, now);
            }
            Event::Executed { key, was_waiting } => self.executed(&key, was_waiting, now),
        }
    }

    fn note_outcome(&mut self, key: &DaemonSetKey, outcome: &Outcome, now: Timestamp) {
        let (Outcome::Failed { message } | Outcome::Unknown { message }) = outcome else { return };
        self.outages.failed(&subject(key), FailureKind::Refused, message);
        self.queue.failed(key);
        if matches!(outcome, Outcome::Unknown { .. }) {
            self.queue.add_at(key.clone(), now + UNKNOWN_RETRY_MAX);
        }
    }

    fn follow(&mut self, effects: Effects, now: Timestamp) {
        if let Some(resource) = effects.restored {
            tracing::warn!(
                "the API server lists {resource} of an older state than it has shown before, as after a restore of etcd"
            );
        }
        for key in &effects.gone {
            self.metrics.forget(key);
            self.outages.forget(&subject(key));
            self.queue.remove(key);
        }
        for key in effects.changed {
            self.add(key, now);
        }
        self.tasks.extend(effects.orphan_lists.into_iter().map(Task::ListOrphans));
    }

    fn add(&mut self, key: DaemonSetKey, now: Timestamp) {
        if self.queue.add(key, now) {
            self.metrics.queue.adds.inc();
        }
    }

    /// All writes of a plan are back: the next one is due, after a failure with a back-off (C72). A plan
    /// that only waited is no sign that what failed before would succeed now.
    fn executed(&mut self, key: &DaemonSetKey, was_waiting: bool, now: Timestamp) {
        let has_failed = self.queue.has_failed(key);
        let result = if has_failed { metrics::Outcome::error } else { metrics::Outcome::success };
        self.finish(key, result);
        if has_failed {
            self.queue.add_after_failure(key.clone(), now);
            self.metrics.queue.retries.inc();
        } else {
            if !was_waiting {
                self.queue.forget_failures(key);
                self.outages.recovered(&subject(key));
            }
            self.add(key.clone(), now);
        }
    }

    fn finish(&mut self, key: &DaemonSetKey, result: metrics::Outcome) {
        self.metrics.syncs.get_or_create(&SyncLabels { result }).inc();
        self.queue.done(key);
        self.metrics.finished(key);
    }

    /// C1: nothing is decided before all lists are complete.
    fn note_list(&mut self, observation: &Observation) {
        let kind = match observation {
            Observation::Node(Change::Reset { .. }) => ListedResource::Node,
            Observation::Namespace(Change::Reset { .. }) => ListedResource::Namespace,
            Observation::DaemonSet(Change::Reset { .. }) => ListedResource::DaemonSet,
            Observation::Revision(Change::Reset { .. }) => ListedResource::Revision,
            Observation::Pod(Change::Reset { .. }) => ListedResource::Pod,
            Observation::Node(_)
            | Observation::Namespace(_)
            | Observation::DaemonSet(_)
            | Observation::Revision(_)
            | Observation::Pod(_) => return,
        };
        if !self.unlisted.remove(&kind) {
            return;
        }
        if self.unlisted.iter().eq([&ListedResource::Pod]) {
            self.tasks.push(Task::WatchPods);
        }
        if self.unlisted.is_empty() {
            tracing::info!("all lists are complete: {} nodes", self.index.nodes().len());
            self.synced.send_replace(true);
        }
    }

    fn sync_due(&mut self, now: Timestamp) {
        if !self.unlisted.is_empty() {
            return;
        }
        for _ in 0..SYNCS_MAX {
            let Some((key, waited)) = self.queue.pop(now) else { break };
            self.metrics.taken(&key, waited);
            self.sync(&key, now);
        }
        self.metrics.queue.depth.set(i64::try_from(self.queue.len()).unwrap_or(i64::MAX));
    }

    fn sync(&mut self, key: &DaemonSetKey, now: Timestamp) {
        let planned = self.metrics.time_sync(|| self.index.plan(key, now));
        let Some(planned) = planned else { return self.finish(key, metrics::Outcome::success) };
        let (plan, raw) = (planned.plan, planned.raw);
        self.tell(key, &raw.uid, &plan);
        if let Some(at) = plan.requeue_at {
            self.queue.add_at(key.clone(), at);
        }
        if let Some(tally) = self.index.tally(key) {
            self.metrics.show(key, tally);
        }
        if plan.writes.is_empty() {
            if plan.waiting.is_none() {
                self.queue.forget_failures(key);
                self.outages.forget(&subject(key));
            }
            self.finish(key, metrics::Outcome::success);
        } else {
            tracing::debug!("daemonset {key}: plan: {}", summary(&plan));
            self.tasks.push(Task::Execute { plan, raw });
        }
    }

    /// What there is to tell people: on the DaemonSet, in the log, in the metrics.
    fn tell(&self, key: &DaemonSetKey, uid: &Uid, plan: &Plan) {
        if plan.waiting.is_some() {
            self.metrics.stale_syncs_skipped.inc();
        }
        for notice in &plan.notices {
            match notice {
                Notice::ExpectationLapsed { .. } => {
                    self.metrics.expectations_lapsed.inc();
                }
                Notice::Problem(problem) => {
                    let reason = problem.reason();
                    self.metrics.problems.get_or_create(&ReasonLabels { reason }).inc();
                }
                Notice::FailedDaemonPod { .. }
                | Notice::SucceededDaemonPod { .. }
                | Notice::SelectingAll => {}
            }
            self.record(key, uid, notice);
        }
    }

    fn record(&self, key: &DaemonSetKey, uid: &Uid, notice: &Notice) {
        let (reason, note) = (notice.reason(), notice.to_string());
        let severity = if notice.is_warning() {
            tracing::warn!("daemonset {key}: {reason}: {note}");
            Severity::Warning
        } else {
            tracing::debug!("daemonset {key}: {reason}: {note}");
            Severity::Normal
        };
        let regarding = regarding(key, uid);
        let occurrence = Occurrence { regarding, severity, reason, action: "Sync", note };
        if !self.recorder.record(occurrence) {
            self.metrics.events_dropped.inc();
        }
    }
}

/// What writes are made for, in the log.
fn subject(key: &DaemonSetKey) -> String {
    format!("daemonset {key}")
}

/// `create pod: 3, update status: 1`.
fn summary(plan: &Plan) -> String {
    let counts = plan.summary();
    let parts: Vec<String> =
        counts.iter().map(|(verb, count)| format!("{verb}: {count}")).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests;
