//! The loop: one task that hands [`LoopState`] what happens, and starts what it says. It waits for nothing
//! but the next event or the next deadline.

use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::event::Event;
use crate::event_loop::{LoopState, Task};
use crate::executor::Executor;
use crate::observation::OrphanList;
use crate::orphans;
use crate::supervisor::Supervisor;
use crate::wall_clock;

/// Events taken at once.
const EVENTS_MAX: usize = 512;

/// Deadlines are by the wall clock, which may be set: they are looked at again after so long.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Deadlines are in milliseconds.
const ALARM_LATE_MAX: Duration = Duration::from_millis(1);

/// The loop, and what it works with.
pub struct EventLoop {
    pub state: LoopState,
    pub executor: Executor,
    pub tasks: TaskTracker,
    pub supervisor: Supervisor,
    /// Starts the watch of pods.
    pub watch_pods: Option<Box<dyn FnOnce() + Send>>,
}

impl EventLoop {
    /// Runs until `stop`.
    pub async fn run(&mut self, events: &mut mpsc::Receiver<Event>, stop: &CancellationToken) {
        let mut batch = Vec::new();
        let mut alarm = pin!(sleep(Duration::ZERO));
        while !stop.is_cancelled() {
            self.set(alarm.as_mut());
            tokio::select! {
                _ = events.recv_many(&mut batch, EVENTS_MAX) => {}
                () = alarm.as_mut() => {}
                () = stop.cancelled() => return,
            }
            for task in self.state.turn(batch.drain(..), wall_clock::timestamp()) {
                self.start(task);
            }
        }
    }

    /// Sets the alarm unless it rings in time. That it may ring early costs less than setting it for each event, for
    /// which the runtime wakes itself up.
    fn set(&self, alarm: Pin<&mut Sleep>) {
        let due = Instant::now() + self.idle_time();
        if alarm.is_elapsed() || alarm.deadline() > due + ALARM_LATE_MAX {
            alarm.reset(due);
        }
    }

    /// How long nothing is due, if the clock is not set meanwhile.
    fn idle_time(&self) -> Duration {
        let now = wall_clock::timestamp();
        self.state.due_at().map_or(LOOK_AGAIN, |at| at.since(now)).min(LOOK_AGAIN)
    }

    fn start(&mut self, task: Task) {
        match task {
            Task::Execute { plan, raw } => {
                let execution = self.executor.clone().execute(plan, raw);
                self.tasks.spawn(self.supervisor.supervise("the execution of a plan", execution));
            }
            Task::ListOrphans(list) => self.list_orphans(list),
            Task::WatchPods => {
                if let Some(watch_pods) = self.watch_pods.take() {
                    watch_pods();
                }
            }
        }
    }

    fn list_orphans(&self, list: OrphanList) {
        let Executor { api, events, stop, .. } = self.executor.clone();
        let outages = self.state.outages.clone();
        let listing = async move {
            stop.run_until_cancelled(orphans::list(api, list, events, outages)).await;
        };
        self.tasks.spawn(self.supervisor.supervise("the list of orphans", listing));
    }
}
