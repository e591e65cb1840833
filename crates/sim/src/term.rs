//! One replica while it leads: the controller's own loop, executor and watches, without a runtime.

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
use crate::feed::{Feed, Follow};
use crate::mutation::Mutation;
use crate::network::Network;
use crate::watch_fault::Outage;

/// What a term is set up with.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// How far its clock is ahead.
    pub skew_ms: i64,
    /// Whether its API server understands streaming lists.
    pub streams: bool,
    pub config: Config,
    pub mutation: Option<Mutation>,
    /// The seed of the schedule.
    pub seed: u64,
}

pub struct Term {
    pub number: u64,
    pub network: Network,
    pub feeds: Vec<Box<dyn Follow>>,
    /// Feeds for which a delivery is on its way.
    pub polled: Vec<bool>,
    /// When the next turn is due at the latest.
    pub wake_at: Option<Timestamp>,
    /// For when a turn is on the agenda already.
    pub woken_at: Option<Timestamp>,
    /// The last restart of its API server.
    pub outage: Option<Outage>,
    setup: Setup,
    control: LoopState,
    executor: Executor<Network>,
    events: mpsc::Receiver<Event>,
    tasks: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>,
    occurrences: mpsc::Receiver<Occurrence>,
    pods: Option<Box<dyn Follow>>,
}

const EVENTS_WAITING_MAX: usize = 4096;

impl Term {
    pub fn new(number: u64, setup: Setup) -> Self {
        let (recorder, occurrences) = Recorder::channel();
        let metrics = Arc::new(Metrics::new());
        let network = Network::default();
        let (sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
        let pending_lists = [
            ListedResource::Node,
            ListedResource::Namespace,
            ListedResource::DaemonSet,
            ListedResource::Revision,
            ListedResource::Pod,
        ];
        let control = LoopState::new(
            Index::new(setup.config),
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
            names: Arc::new(PodNames::seeded(setup.seed.wrapping_add(number))),
            stop: CancellationToken::new(),
        };
        let feeds = feeds(&setup);
        let pods = feed(&setup, Feed::new(&POD, decode::Pods::default(), Observation::Pod));
        Self {
            number,
            network,
            polled: vec![false; feeds.len() + 1],
            feeds,
            wake_at: None,
            woken_at: None,
            outage: None,
            setup,
            control,
            executor,
            events,
            tasks: Vec::new(),
            occurrences,
            pods: Some(pods),
        }
    }

    /// Takes what was seen, and goes on until nothing is left to do at this instant.
    pub fn turn(
        &mut self,
        seen: Vec<Observation>,
        now: Timestamp,
        say: &mut dyn FnMut(String),
    ) -> Option<Violation> {
        let now = Timestamp(now.0 + self.setup.skew_ms);
        let mut events: Vec<Event> = seen.into_iter().map(Event::Observed).collect();
        let mutation = self.setup.mutation;
        let mut late = events.pop_if(|event| match (mutation, event) {
            (Some(mutation), Event::Observed(observation)) => mutation.comes_late(observation),
            _ => false,
        });
        let taken_for = mutation.map_or(now, |mutation| mutation.now(now));
        loop {
            let tasks = self.control.process(events.drain(..), taken_for);
            if let Some(Event::Observed(observation)) = late.take() {
                self.control.index.observe(observation);
            }
            let planned = tasks.iter().find_map(|task| self.misjudged(task, now));
            if planned.is_some() {
                return planned;
            }
            for task in tasks {
                self.start(task, say);
            }
            self.poll();
            while let Ok(mut event) = self.events.try_recv() {
                if let (Event::Written { result, .. }, Some(mutation)) = (&mut event, mutation) {
                    mutation.result(result);
                }
                events.push(event);
            }
            if let Some(violation) = self.listen(say) {
                return Some(violation);
            }
            if events.is_empty() && self.control.next_deadline().is_none_or(|at| at > taken_for) {
                break;
            }
        }
        let due = self.control.next_deadline();
        let due = mutation.map_or(due, |mutation| mutation.wake_at(due));
        self.wake_at = due.map(|at| Timestamp(at.0 - self.setup.skew_ms));
        None
    }

    fn start(&mut self, task: Task, say: &mut dyn FnMut(String)) {
        match task {
            Task::Execute { mut plan, raw } => {
                if let Some(mutation) = self.setup.mutation {
                    mutation.plan(&mut plan);
                }
                for write in &plan.writes {
                    say(format!("{} plans: {write}", raw.key));
                }
                self.tasks.push(Box::pin(self.executor.clone().execute(plan, raw)));
            }
            Task::ListOrphans(request) => {
                let executor = self.executor.clone();
                self.tasks.push(Box::pin(list_orphans(executor, request)));
            }
            Task::WatchPods => self.feeds.extend(self.pods.take()),
        }
    }

    fn poll(&mut self) {
        let waker = noop_waker();
        let mut context = Context::from_waker(&waker);
        self.tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
    }

    /// Counts and candidates, right after a plan, must be those of a recount (C80).
    fn misjudged(&self, task: &Task, now: Timestamp) -> Option<Violation> {
        let Task::Execute { raw, .. } = task else { return None };
        let state = self.control.index.state(&raw.key)?;
        if state.is_consistent(now, self.control.index.nodes()) {
            return None;
        }
        let message = format!("{}: counts or candidates are not those of a recount", raw.key);
        Some(Violation { property: Property::Recount, message })
    }

    fn listen(&mut self, say: &mut dyn FnMut(String)) -> Option<Violation> {
        while let Ok(occurrence) = self.occurrences.try_recv() {
            say(format!("event {}: {}", occurrence.reason, occurrence.note));
            if occurrence.reason == "ExpectationLapsed" {
                let message = format!("{}: {}", occurrence.regarding.name, occurrence.note);
                return Some(Violation { property: Property::Lapse, message });
            }
        }
        None
    }
}

async fn list_orphans(executor: Executor<Network>, request: OrphanListRequest) {
    loop {
        if let Ok(orphans) = orphans::read(&executor.api, &request).await {
            // A loop that has ended needs none.
            let _ = executor.events.send(Event::OrphansListed(orphans)).await;
            return;
        }
    }
}

fn feeds(setup: &Setup) -> Vec<Box<dyn Follow>> {
    vec![
        feed(setup, Feed::new(&NODE, decode::Nodes::default(), Observation::Node)),
        feed(setup, Feed::new(&NAMESPACE, decode::Namespaces::default(), Observation::Namespace)),
        feed(setup, Feed::new(&DAEMON_SET, decode::DaemonSets::default(), Observation::DaemonSet)),
        feed(
            setup,
            Feed::new(&CONTROLLER_REVISION, decode::Revisions::default(), Observation::Revision),
        ),
    ]
}

fn feed<D: everynode_controller::watch::Decode + 'static>(
    setup: &Setup,
    mut feed: Feed<D>,
) -> Box<dyn Follow> {
    feed.mutation = setup.mutation;
    feed.streams = setup.streams;
    feed.seed = setup.seed;
    Box::new(feed)
}
