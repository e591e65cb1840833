//! The loop: one task that owns all that is known, takes events, and looks at one DaemonSet after the
//! other. It waits for nothing but the next event or the next deadline.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everynode_core::name::{DaemonSetKey, Uid};
use everynode_core::plan::{Notice, Outcome, Plan};
use everynode_core::time::Timestamp;
use everynode_k8s::convert::RawDaemonSet;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::event::{Event, Observation};
use crate::index::{Effects, Index, OrphanList};
use crate::metrics::{self, Metrics, ReasonLabels, SyncLabels};
use crate::orphans;
use crate::queue::Queue;
use crate::recorder::{Occurrence, Recorder, Severity};
use crate::watch::Change;
use crate::write::{Executor, regarding};

/// Events taken at once.
const EVENTS_MAX: usize = 512;
/// DaemonSets looked at before events are taken again.
const SYNCS_MAX: usize = 64;

/// Kinds whose lists have to be complete before anything is decided (C1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Node,
    Namespace,
    DaemonSet,
    Revision,
    Pod,
}

/// The loop's state.
pub struct Control {
    pub index: Index,
    pub executor: Executor,
    pub recorder: Recorder,
    pub metrics: Arc<Metrics>,
    pub tasks: TaskTracker,
    /// Kinds not listed yet. Pods come last, so that orphans which somebody selects are known as such.
    pub unlisted: BTreeSet<Kind>,
    /// Starts the watch of pods, once the rest is listed.
    pub watch_pods: Option<Box<dyn FnOnce() + Send>>,
    pub synced: watch::Sender<bool>,
    pub queue: Queue,
}

impl Control {
    /// Runs until `stop`.
    pub async fn run(&mut self, events: &mut mpsc::Receiver<Event>, stop: &CancellationToken) {
        let mut batch = Vec::new();
        while !stop.is_cancelled() {
            tokio::select! {
                _ = events.recv_many(&mut batch, EVENTS_MAX) => {}
                () = tokio::time::sleep(self.idle_time()) => {}
                () = stop.cancelled() => return,
            }
            for event in batch.drain(..) {
                self.take(event);
            }
            for key in self.index.wake() {
                self.add(key);
            }
            self.sync_due();
        }
    }

    /// How long nothing is due.
    fn idle_time(&self) -> Duration {
        let now = now();
        let next = self.queue.next_at().filter(|_| self.unlisted.is_empty());
        next.map_or(Duration::MAX, |at| at.since(now))
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Observed(observation) => {
                self.note_list(&observation);
                let effects = self.index.observe(observation);
                self.follow(effects);
            }
            Event::Orphans(orphans) => {
                let effects = self.index.observe_orphans(orphans);
                self.follow(effects);
            }
            Event::Written { key, uid, result } => {
                if let Outcome::Failed { message } = &result.outcome {
                    tracing::warn!(daemonset = %key, error = %message, "a write failed");
                    self.queue.failed(&key);
                }
                self.index.written(&key, &uid, result, now());
            }
            Event::Executed { key } => self.executed(&key),
        }
    }

    fn follow(&mut self, effects: Effects) {
        for key in &effects.gone {
            self.metrics.forget(key);
            self.queue.remove(key);
        }
        for key in effects.changed {
            self.add(key);
        }
        for list in effects.orphan_lists {
            self.list_orphans(list);
        }
    }

    fn list_orphans(&self, list: OrphanList) {
        let Executor { api, events, stop, .. } = self.executor.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled(orphans::list(api, list, events)).await;
        });
    }

    fn add(&mut self, key: DaemonSetKey) {
        if self.queue.add(key, now()) {
            self.metrics.queue.adds.inc();
        }
    }

    /// All writes of a plan are back: the next one is due, after a failure with a back-off (C72).
    fn executed(&mut self, key: &DaemonSetKey) {
        let has_failed = self.queue.has_failed(key);
        let result = if has_failed { metrics::Outcome::error } else { metrics::Outcome::success };
        self.finish(key, result);
        if has_failed {
            self.queue.add_after_failure(key.clone(), now());
            self.metrics.queue.retries.inc();
        } else {
            self.queue.forget_failures(key);
            self.add(key.clone());
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
            Observation::Node(Change::Reset { .. }) => Kind::Node,
            Observation::Namespace(Change::Reset { .. }) => Kind::Namespace,
            Observation::DaemonSet(Change::Reset { .. }) => Kind::DaemonSet,
            Observation::Revision(Change::Reset { .. }) => Kind::Revision,
            Observation::Pod(Change::Reset { .. }) => Kind::Pod,
            Observation::Node(_)
            | Observation::Namespace(_)
            | Observation::DaemonSet(_)
            | Observation::Revision(_)
            | Observation::Pod(_) => return,
        };
        if !self.unlisted.remove(&kind) {
            return;
        }
        if self.unlisted.iter().all(|kind| *kind == Kind::Pod)
            && let Some(watch_pods) = self.watch_pods.take()
        {
            watch_pods();
        }
        if self.unlisted.is_empty() {
            tracing::info!(nodes = self.index.nodes().len(), "all lists are complete");
            self.synced.send_replace(true);
        }
    }

    fn sync_due(&mut self) {
        if !self.unlisted.is_empty() {
            return;
        }
        for _ in 0..SYNCS_MAX {
            let Some((key, waited)) = self.queue.pop(now()) else { break };
            self.metrics.taken(&key, waited);
            self.sync(&key);
        }
        self.metrics.queue.depth.set(i64::try_from(self.queue.len()).unwrap_or(i64::MAX));
    }

    fn sync(&mut self, key: &DaemonSetKey) {
        let started = Instant::now();
        let planned = self.index.plan(key, now());
        self.metrics.sync_seconds.observe(started.elapsed().as_secs_f64());
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
            self.queue.forget_failures(key);
            self.finish(key, metrics::Outcome::success);
        } else {
            self.execute(plan, raw);
        }
    }

    fn execute(&self, plan: Plan, raw: Arc<RawDaemonSet>) {
        tracing::debug!(daemonset = %raw.key, writes = ?plan.summary(), "plan");
        self.tasks.spawn(self.executor.clone().execute(plan, raw));
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
            tracing::warn!(daemonset = %key, reason, "{note}");
            Severity::Warning
        } else {
            tracing::debug!(daemonset = %key, reason, "{note}");
            Severity::Normal
        };
        let regarding = regarding(key, uid);
        let occurrence = Occurrence { regarding, severity, reason, action: "Sync", note };
        if !self.recorder.record(occurrence) {
            self.metrics.events_dropped.inc();
        }
    }
}

pub(crate) fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}
