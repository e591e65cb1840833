//! The driver of the event loop: it feeds events to [`LoopState`] and starts the tasks that it
//! returns. It waits only for the next event or the next deadline.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::{Now, Timestamp};
use everynode_core::plan::CheckQuestion;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::{Api, Server};
use crate::checks::CheckClient;
use crate::config_maps;
use crate::environment::Environment;
use crate::event::Event;
use crate::event_loop::{LoopState, Task};
use crate::executor::Executor;
use crate::observation::{OrphanListRequest, WatchOptions, WatchedResource};
use crate::orphans;
use crate::outage_log::OutageLog;
use crate::supervisor::Supervisor;
use crate::watch::WatchContext;

/// Maximum number of events that are handled in one step.
const EVENTS_MAX: usize = 512;

/// How long a step should take at most. Some events concern all DaemonSets of a namespace, so that
/// steps with fewer events follow one that took longer, and others may use the thread before.
const STEP_MAX: Duration = Duration::from_millis(20);

/// Longest sleep between two steps. The wall clock may be set meanwhile, which nothing announces.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// How much later than its deadline the alarm may be: deadlines have a resolution of 1 ms.
const ALARM_LATE_MAX: Duration = Duration::from_millis(1);

/// The decisions of the event loop. The simulation records those of [`LoopState`].
pub trait Decisions: Send {
    /// Handles the events and returns the tasks to start.
    fn process(&mut self, events: &mut Vec<Event>, now: Now) -> Vec<Task>;

    /// When [`process`](Self::process) must be called next, by the steady clock, if no event
    /// arrives before.
    fn next_deadline(&self) -> Option<Timestamp>;
}

impl Decisions for LoopState {
    fn process(&mut self, events: &mut Vec<Event>, now: Now) -> Vec<Task> {
        self.process(events.drain(..), now)
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        self.next_deadline()
    }
}

/// The event loop with what it needs to start tasks.
pub struct EventLoop<S = Api> {
    /// Decides what to do.
    pub decisions: Box<dyn Decisions>,
    /// Runs plans.
    pub executor: Executor<S>,
    /// For the log.
    pub outages: OutageLog,
    /// The clock that decisions use.
    pub environment: Environment,
    /// Tracks the started tasks, so that a shutdown can wait for them.
    pub tasks: TaskTracker,
    /// Learns of tasks that panic.
    pub supervisor: Supervisor,
    /// Asks checks.
    pub checks: Arc<dyn CheckClient>,
    /// The choice of watched objects.
    pub watch_options: WatchOptions,
    /// The context that the watches share.
    pub watches: Arc<WatchContext<Event>>,
    /// Stops the watches.
    pub stop_watches: CancellationToken,
}

impl<S: Server> EventLoop<S> {
    /// Starts the first watches, and runs until `stop` is cancelled.
    pub async fn run(&mut self, events: &mut mpsc::Receiver<Event>, stop: &CancellationToken) {
        let initial = WatchedResource::initial(&self.watch_options);
        initial.filter(|first| *first != WatchedResource::LAST).for_each(|first| self.watch(first));
        let (mut batch, mut events_max) = (Vec::new(), EVENTS_MAX);
        let mut alarm = pin!(sleep(Duration::ZERO));
        while !stop.is_cancelled() {
            self.set_alarm(alarm.as_mut());
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = events.recv_many(&mut batch, events_max) => {}
                () = alarm.as_mut() => {}
            }
            let started = Instant::now();
            for task in self.decisions.process(&mut batch, self.environment.now()) {
                self.start(task);
            }
            if started.elapsed() > STEP_MAX {
                events_max = (events_max / 2).max(1);
                tokio::task::yield_now().await;
            } else {
                events_max = (events_max * 2).min(EVENTS_MAX);
            }
        }
    }

    /// Sets the alarm, unless it is already set to ring in time. An alarm that rings early costs
    /// less than one that is set for every event, because setting it wakes the runtime.
    fn set_alarm(&self, alarm: Pin<&mut Sleep>) {
        let due = Instant::now() + self.idle_time();
        if alarm.is_elapsed() || alarm.deadline() > due + ALARM_LATE_MAX {
            alarm.reset(due);
        }
    }

    /// How long nothing is due, unless the wall clock is set.
    fn idle_time(&self) -> Duration {
        let now = self.environment.now();
        let wait = self.decisions.next_deadline().map(|deadline| deadline.since(now.steady));
        wait.map_or(IDLE_MAX, |wait| wait.min(IDLE_MAX))
    }

    fn start(&self, task: Task) {
        match task {
            Task::Execute { plan, raw } => {
                let execution = self.executor.clone().execute(plan, raw);
                self.tasks.spawn(self.supervisor.supervise("the execution of a plan", execution));
            }
            Task::ListOrphans(request) => self.list_orphans(request),
            Task::Watch(resource) => self.watch(resource),
            Task::WatchConfigMaps(namespace) => {
                let name = format!("the watch of configmaps in {namespace}");
                self.run_watch(name, config_maps::watch(namespace, self.watches.clone()));
            }
            Task::WritePolicyStatus(write) => {
                let writing = self.executor.clone().write_policy_status(write);
                let task = "the write of a policy's status";
                self.tasks.spawn(self.supervisor.supervise(task, writing));
            }
            Task::AskCheck(question) => self.ask_check(question),
        }
    }

    fn watch(&self, resource: WatchedResource) {
        let name = format!("the watch of {}", resource.name());
        self.run_watch(name, resource.watch(&self.watch_options, self.watches.clone()));
    }

    fn run_watch(&self, name: String, watch: BoxFuture<'static, ()>) {
        let stop = self.stop_watches.clone();
        let watching = async move {
            stop.run_until_cancelled(watch).await;
        };
        tokio::spawn(self.supervisor.supervise_until(self.stop_watches.clone(), name, watching));
    }

    fn ask_check(&self, question: CheckQuestion) {
        let Executor { events, stop, .. } = self.executor.clone();
        let answer = self.checks.ask(question.clone());
        let asking = async move {
            let Some(answer) = stop.run_until_cancelled(answer).await else { return };
            let event = Event::CheckAnswered { question: Box::new(question), answer };
            if events.send(event).await.is_err() {
                tracing::debug!("a check was not reported: the event loop has ended");
            }
        };
        self.tasks.spawn(self.supervisor.supervise("a check", asking));
    }

    fn list_orphans(&self, request: OrphanListRequest) {
        let Executor { api, events, stop, .. } = self.executor.clone();
        let outages = self.outages.clone();
        let listing = async move {
            stop.run_until_cancelled(orphans::list(api, request, events, outages)).await;
        };
        self.tasks.spawn(self.supervisor.supervise("the list of orphans", listing));
    }
}
