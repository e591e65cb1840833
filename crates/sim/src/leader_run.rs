//! A replica from its election to its end: the controller's own event loop, executor and watches,
//! without an async runtime.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;

use everynode_controller::event::Event;
use everynode_controller::event_loop::{ListedResource, LoopState, Task};
use everynode_controller::executor::{Executor, PodNames};
use everynode_controller::index::Index;
use everynode_controller::metrics::Metrics;
use everynode_controller::observation::{Observation, OrphanListRequest};
use everynode_controller::outage_log::OutageLog;
use everynode_controller::recorder::{Occurrence, Recorder};
use everynode_controller::{decode, orphans};
use everynode_core::api::Timestamp;
use everynode_core::daemon_set::Config;
use everynode_sandbox::kind::{CONTROLLER_REVISION, DAEMON_SET, NAMESPACE, NODE, POD};
use futures::task::noop_waker;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::checker::{Property, Violation};
use crate::list_watch::{ListWatch, ListerWatcher};
use crate::mutation::Mutation;
use crate::network::Network;
use crate::view::ViewRecorder;
use crate::watch_fault::Outage;

/// The parameters of a leader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaderRunSettings {
    /// How far the replica's clock is ahead of virtual time.
    pub clock_skew_ms: i64,
    /// Whether the API server of the replica supports streaming lists.
    pub supports_streaming_lists: bool,
    /// The controller's configuration.
    pub config: Config,
    /// A deliberate bug.
    pub mutation: Option<Mutation>,
    /// The seed of the schedule.
    pub seed: u64,
}

/// A replica that leads.
pub(crate) struct LeaderRun {
    /// The number of this leader, counted from 1.
    pub number: u64,
    /// The connection to the API server.
    pub network: Network,
    /// The lists and watches of all resources.
    pub watches: Vec<Box<dyn ListerWatcher>>,
    /// For each watch, whether a delivery is scheduled.
    pub delivery_scheduled: Vec<bool>,
    /// When the next turn is due at the latest.
    pub next_turn_at: Option<Timestamp>,
    /// The time of the last turn that has been scheduled for `next_turn_at`.
    pub scheduled_turn_at: Option<Timestamp>,
    /// The last restart of the replica's API server.
    pub outage: Option<Outage>,
    settings: LeaderRunSettings,
    loop_state: LoopState,
    executor: Executor<Network>,
    events: mpsc::Receiver<Event>,
    tasks: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>,
    occurrences: mpsc::Receiver<Occurrence>,
    /// The watch of pods, until the loop starts it.
    pod_watch: Option<Box<dyn ListerWatcher>>,
    views: ViewRecorder,
}

const QUEUED_EVENTS_MAX: usize = 4096;

impl LeaderRun {
    pub(crate) fn new(number: u64, settings: LeaderRunSettings) -> Self {
        let (recorder, occurrences) = Recorder::channel();
        let metrics = Arc::new(Metrics::new());
        let network = Network::default();
        let (sender, events) = mpsc::channel(QUEUED_EVENTS_MAX);
        let pending_lists = [
            ListedResource::Node,
            ListedResource::Namespace,
            ListedResource::DaemonSet,
            ListedResource::Revision,
            ListedResource::Pod,
        ];
        let loop_state = LoopState::new(
            Index::new(settings.config),
            pending_lists.into(),
            recorder.clone(),
            metrics.clone(),
            OutageLog::default(),
            watch::channel(false).0,
        );
        let executor = Executor {
            api: network.clone(),
            events: sender,
            recorder,
            metrics,
            names: Arc::new(PodNames::seeded(settings.seed.wrapping_add(number))),
            stop: CancellationToken::new(),
        };
        let watches = watches(&settings);
        let pod_watch =
            list_watch(&settings, ListWatch::new(&POD, decode::Pods::default(), Observation::Pod));
        Self {
            number,
            network,
            delivery_scheduled: vec![false; watches.len() + 1],
            watches,
            next_turn_at: None,
            scheduled_turn_at: None,
            outage: None,
            settings,
            loop_state,
            executor,
            events,
            tasks: Vec::new(),
            occurrences,
            pod_watch: Some(pod_watch),
            views: ViewRecorder::default(),
        }
    }

    /// Processes observations and everything else that is due now.
    pub(crate) fn turn(
        &mut self,
        observations: Vec<Observation>,
        now: Timestamp,
        log: &mut dyn FnMut(String),
    ) -> Option<Violation> {
        let planned_at = now;
        let now = Timestamp(now.0 + self.settings.clock_skew_ms);
        let mut events: Vec<Event> = observations.into_iter().map(Event::Observed).collect();
        events.iter().for_each(|event| self.views.record(event, now));
        let mutation = self.settings.mutation;
        let mut late = events.pop_if(|event| match (mutation, event) {
            (Some(mutation), Event::Observed(observation)) => mutation.applies_late(observation),
            _ => false,
        });
        let believed_now = mutation.map_or(now, |mutation| mutation.now(now));
        loop {
            let tasks = self.loop_state.process(events.drain(..), believed_now);
            if let Some(Event::Observed(observation)) = late.take() {
                self.loop_state.index.observe(observation);
            }
            let violation = tasks.iter().find_map(|task| self.recount_violation(task, now));
            if violation.is_some() {
                return violation;
            }
            for task in tasks {
                self.start(task, (planned_at, now), log);
            }
            self.poll();
            while let Ok(mut event) = self.events.try_recv() {
                self.views.record(&event, now);
                if let (Event::Written { result, .. }, Some(mutation)) = (&mut event, mutation) {
                    mutation.result(result);
                }
                events.push(event);
            }
            if let Some(violation) = self.drain_events(log) {
                return Some(violation);
            }
            if events.is_empty()
                && self.loop_state.next_deadline().is_none_or(|at| at > believed_now)
            {
                break;
            }
        }
        let due = self.loop_state.next_deadline();
        let due = mutation.map_or(due, |mutation| mutation.next_turn_at(due));
        self.next_turn_at = due.map(|at| Timestamp(at.0 - self.settings.clock_skew_ms));
        None
    }

    /// Starts a task. `times` are the current time and that of the replica's clock.
    fn start(&mut self, task: Task, times: (Timestamp, Timestamp), log: &mut dyn FnMut(String)) {
        match task {
            Task::Execute { mut plan, raw } => {
                if let Some(mutation) = self.settings.mutation {
                    mutation.plan(&mut plan);
                }
                for write in &plan.writes {
                    log(format!("{} plans: {write}", raw.key));
                }
                let burst = self.settings.config.burst_replicas;
                let view = self.views.view(self.number, &raw, &plan, times, burst);
                let api = self.network.stamped(view);
                let executor = Executor { api, ..self.executor.clone() };
                self.tasks.push(Box::pin(executor.execute(plan, raw)));
            }
            Task::ListOrphans(request) => {
                let executor = self.executor.clone();
                self.tasks.push(Box::pin(list_orphans(executor, request)));
            }
            Task::WatchPods => self.watches.extend(self.pod_watch.take()),
        }
    }

    fn poll(&mut self) {
        let waker = noop_waker();
        let mut context = Context::from_waker(&waker);
        self.tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
    }

    /// Checks that the counts and work sets equal recomputed ones right after a plan (C80).
    fn recount_violation(&self, task: &Task, now: Timestamp) -> Option<Violation> {
        let Task::Execute { raw, .. } = task else { return None };
        let state = self.loop_state.index.state(&raw.key)?;
        if state.is_consistent(now, self.loop_state.index.nodes()) {
            return None;
        }
        let message = format!("{}: counts or work sets differ from recomputed ones", raw.key);
        Some(Violation { property: Property::Recount, message })
    }

    /// Logs the events that the controller writes. An expectation that lapses is a violation (C60).
    fn drain_events(&mut self, log: &mut dyn FnMut(String)) -> Option<Violation> {
        while let Ok(occurrence) = self.occurrences.try_recv() {
            log(format!("event {}: {}", occurrence.reason, occurrence.note));
            if occurrence.reason == "ExpectationLapsed" {
                let message = format!("{}: {}", occurrence.regarding.name, occurrence.note);
                return Some(Violation { property: Property::ExpectationLapse, message });
            }
        }
        None
    }
}

async fn list_orphans(executor: Executor<Network>, request: OrphanListRequest) {
    loop {
        if let Ok(orphans) = orphans::read(&executor.api, &request).await {
            // The receiver no longer exists if the loop has ended.
            let _ = executor.events.send(Event::OrphansListed(orphans)).await;
            return;
        }
    }
}

fn watches(settings: &LeaderRunSettings) -> Vec<Box<dyn ListerWatcher>> {
    vec![
        list_watch(settings, ListWatch::new(&NODE, decode::Nodes::default(), Observation::Node)),
        list_watch(
            settings,
            ListWatch::new(&NAMESPACE, decode::Namespaces::default(), Observation::Namespace),
        ),
        list_watch(
            settings,
            ListWatch::new(&DAEMON_SET, decode::DaemonSets::default(), Observation::DaemonSet),
        ),
        list_watch(
            settings,
            ListWatch::new(
                &CONTROLLER_REVISION,
                decode::Revisions::default(),
                Observation::Revision,
            ),
        ),
    ]
}

fn list_watch<D: everynode_controller::watch::Decode + 'static>(
    settings: &LeaderRunSettings,
    mut list_watch: ListWatch<D>,
) -> Box<dyn ListerWatcher> {
    list_watch.mutation = settings.mutation;
    list_watch.supports_streaming_lists = settings.supports_streaming_lists;
    list_watch.seed = settings.seed;
    Box::new(list_watch)
}
