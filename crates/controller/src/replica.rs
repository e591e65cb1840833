//! One replica of the controller, from its start to its shutdown: it waits to lead, leads until it
//! is stopped or loses its lease, and then shuts down.

use std::sync::Arc;
use std::time::Duration;

use everynode_core::daemon_set::Config;
use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::Server;
use crate::checks::CheckClient;
use crate::environment::Environment;
use crate::event::Event;
use crate::event_loop::{Decisions, EventLoop, LoopState};
use crate::executor::{Executor, PodNames};
use crate::index::Index;
use crate::lease::other::{self, OtherInstallation, Presence};
use crate::lease::{self, Fence, Leadership};
use crate::metrics::Metrics;
use crate::observation::{WatchOptions, WatchedResource};
use crate::outage_log::OutageLog;
use crate::recorder::Recorder;
use crate::supervisor::{self, Supervisor};
use crate::watch::{ConnectionState, WatchContext};

/// Timeouts of a shutdown: first for writes in flight, then for the release of the lease.
const WRITES_TIMEOUT: Duration = Duration::from_millis(2000);
const RELEASE_TIMEOUT: Duration = Duration::from_millis(1200);
/// Maximum number of events that wait for the loop. Watches and writes wait while it is reached.
const EVENTS_WAITING_MAX: usize = 1024;

/// A replica and its dependencies.
pub struct Replica<S> {
    /// The choice of watched objects.
    pub watch_options: WatchOptions,
    /// The configuration of decisions.
    pub config: Config,
    /// The API server, for lists and watches.
    pub client: Client,
    /// The API server, for all other requests. It must refuse writes when `fence` is closed.
    pub server: S,
    /// Asks the checks of guarded rollouts.
    pub checks: Arc<dyn CheckClient>,
    /// Stops writes once the lease could have expired.
    pub fence: Fence,
    /// The clocks and random numbers.
    pub environment: Environment,
    /// The leader election; `None` if this is the only replica.
    pub election: Option<Candidacy>,
    /// While this other installation is present, a leader does nothing; `None` if there may be any.
    pub other_installation: Option<OtherInstallation>,
    /// The replica's knowledge of who leads. Without an election it must be
    /// [`Leadership::Leading`].
    pub role: watch::Sender<Leadership>,
    /// True if all initial lists are complete.
    pub synced: watch::Sender<bool>,
    /// Takes Kubernetes Events.
    pub recorder: Recorder,
    /// For the log.
    pub outages: OutageLog,
    /// The controller's metrics.
    pub metrics: Arc<Metrics>,
    /// Learns of tasks that panic.
    pub supervisor: Supervisor,
    /// Makes the decisions of the event loop from its state.
    pub decisions: Box<dyn Fn(LoopState) -> Box<dyn Decisions> + Send + Sync>,
}

/// A replica's candidacy for the lease.
#[derive(Clone)]
pub struct Candidacy {
    /// The API server. Renewals have their own connection, so that no other request delays them.
    pub client: Client,
    /// The Lease to compete for.
    pub lease: lease::Config,
}

/// Why a replica can't continue.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The lease was lost.
    #[error(transparent)]
    LostLease(#[from] lease::Lost),
    /// A task of the controller ended unexpectedly.
    #[error(transparent)]
    TaskEnded(#[from] supervisor::TaskEnded),
}

/// How a replica stopped working.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shutdown {
    /// No write is in flight.
    Clean,
    /// Some writes may still take effect.
    WritesInFlight,
}

/// A running leader election.
struct Election {
    task: JoinHandle<Result<(), lease::Lost>>,
    /// True if the lease was lost.
    lost: watch::Receiver<bool>,
    /// Cancelled when the lease may be released.
    release: CancellationToken,
}

impl<S: Server> Replica<S> {
    /// Runs until `shutdown` is cancelled.
    ///
    /// # Errors
    /// If the lease is lost or a task ended unexpectedly.
    pub async fn run(self, shutdown: &CancellationToken) -> Result<(), Failure> {
        let election = self.election.clone().map(|candidacy| self.start_election(candidacy));
        let result = self.work(election.as_ref(), shutdown).await;
        let is_clean = matches!(result, Ok(Shutdown::Clean));
        self.fence.close();
        if let Some(election) = election {
            election.end(is_clean).await;
        }
        result.map(|_| ())
    }

    fn start_election(&self, Candidacy { client, lease }: Candidacy) -> Election {
        let (lost_sender, lost) = watch::channel(false);
        let release = CancellationToken::new();
        let competing =
            lease::compete(client, lease, self.fence.clone(), self.role.clone(), release.clone());
        let task = async move {
            let result = competing.await;
            lost_sender.send_replace(result.is_err());
            result
        };
        let task = tokio::spawn(self.supervisor.supervise("leader election", task));
        Election { task, lost, release }
    }

    /// Waits to lead, then leads until `shutdown` or until the lease is lost.
    async fn work(
        &self,
        election: Option<&Election>,
        shutdown: &CancellationToken,
    ) -> Result<Shutdown, Failure> {
        let mut role = self.role.subscribe();
        let lost = election.map(|election| election.lost.clone());
        tokio::select! {
            // A replica that leads shuts down its loop, even if `shutdown` is cancelled already.
            biased;
            leads = role.wait_for(|role| *role == Leadership::Leading) => {
                leads.map_err(|_| self.failure())?;
            }
            // The lease may be lost as soon as it is won: the machine slept, or its clock was set.
            () = is_lost(lost.clone()) => return Err(self.failure()),
            ended = self.supervisor.wait_for_failure() => return Err(ended.into()),
            () = shutdown.cancelled() => return Ok(Shutdown::Clean),
        }
        self.metrics.leader.set(1);
        let stop = shutdown.child_token();
        let stopped = stop.clone();
        let watchdog = async move {
            tokio::select! {
                biased;
                () = is_lost(lost) => {}
                _ = self.supervisor.wait_for_failure() => {}
            }
            // Stop writing before another replica may lead.
            self.fence.close();
            stopped.cancel();
        };
        let ended = tokio::select! {
            biased;
            () = watchdog => Shutdown::WritesInFlight,
            ended = self.lead_alone(&stop) => ended,
        };
        self.metrics.leader.set(0);
        self.synced.send_replace(false);
        let is_lost = election.is_some_and(|election| *election.lost.borrow());
        let is_over = is_lost || self.supervisor.failure().is_some();
        if is_over { Err(self.failure()) } else { Ok(ended) }
    }

    /// Why this replica can't continue: a task ended unexpectedly, or else the lease was lost.
    fn failure(&self) -> Failure {
        if let Some(ended) = self.supervisor.failure() {
            return ended.into();
        }
        self.election.as_ref().map_or_else(
            || unreachable!("without an election no lease can be lost"),
            |candidacy| lease::Lost::from(&candidacy.lease).into(),
        )
    }

    /// Leads while the other installation is absent.
    async fn lead_alone(&self, stop: &CancellationToken) -> Shutdown {
        let Some(other) = self.other_installation.clone() else { return self.lead(stop).await };
        let mut seen = other.presence.subscribe();
        let following = other::follow(self.client.clone(), other);
        let leading = async {
            loop {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return Shutdown::Clean,
                    () = is_seen(&mut seen, Presence::Absent) => {}
                }
                let turn = stop.child_token();
                let end_of_turn = async {
                    is_seen(&mut seen, Presence::Present).await;
                    turn.cancel();
                    std::future::pending().await
                };
                let ended = tokio::select! {
                    biased;
                    ended = self.lead(&turn) => ended,
                    ended = end_of_turn => ended,
                };
                self.synced.send_replace(false);
                if stop.is_cancelled() {
                    return ended;
                }
            }
        };
        tokio::select! {
            biased;
            ended = leading => ended,
            () = following => unreachable!("it never ends"),
        }
    }

    async fn lead(&self, stop: &CancellationToken) -> Shutdown {
        let (sender, mut events) = mpsc::channel(EVENTS_WAITING_MAX);
        let tasks = TaskTracker::new();
        let watching = CancellationToken::new();
        let _stop_watches_on_drop = watching.clone().drop_guard();
        let mut event_loop = self.event_loop(sender, &tasks, stop, &watching);
        event_loop.run(&mut events, stop).await;
        watching.cancel();
        drop(events);
        tasks.close();
        match timeout(WRITES_TIMEOUT, tasks.wait()).await {
            Ok(()) => Shutdown::Clean,
            Err(_) => {
                tracing::warn!("some writes did not finish before the timeout");
                Shutdown::WritesInFlight
            }
        }
    }

    fn event_loop(
        &self,
        events: mpsc::Sender<Event>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
        watching: &CancellationToken,
    ) -> EventLoop<S> {
        if self.watch_options.namespace_node_selectors {
            tracing::info!(
                "--namespace-node-selectors is set: nothing is done before namespaces are listed, \
                 which requires permission to list and watch them"
            );
        }
        let state = LoopState::new(
            Index::new(self.config),
            WatchedResource::initial(&self.watch_options).collect(),
            self.recorder.clone(),
            self.metrics.clone(),
            self.outages.clone(),
            self.synced.clone(),
        );
        let watches = WatchContext {
            client: self.client.clone(),
            sender: events.clone(),
            wrap_connection: |connection| match connection {
                ConnectionState::Connected(_) => Some(Event::Connected),
                ConnectionState::Lost(_) => None,
            },
            outages: self.outages.clone(),
            environment: self.environment.clone(),
            metrics: self.metrics.clone(),
        };
        let executor = Executor {
            api: self.server.clone(),
            events,
            recorder: self.recorder.clone(),
            metrics: self.metrics.clone(),
            names: Arc::new(PodNames::seeded(self.environment.random())),
            stop: stop.clone(),
        };
        EventLoop {
            decisions: (self.decisions)(state),
            executor,
            outages: self.outages.clone(),
            environment: self.environment.clone(),
            tasks: tasks.clone(),
            supervisor: self.supervisor.clone(),
            checks: self.checks.clone(),
            watch_options: self.watch_options.clone(),
            watches: Arc::new(watches),
            stop_watches: watching.clone(),
        }
    }
}

impl Election {
    /// Ends the election and releases the lease. While writes may still take effect, no other
    /// replica may lead: then the lease is left to expire (C63).
    async fn end(self, is_clean: bool) {
        if !is_clean {
            return self.task.abort();
        }
        self.release.cancel();
        if timeout(RELEASE_TIMEOUT, self.task).await.is_err() {
            tracing::warn!("the lease was not released before the timeout");
        }
    }
}

/// Waits until this is known.
async fn is_seen(seen: &mut watch::Receiver<Presence>, expected: Presence) {
    if seen.wait_for(|seen| *seen == expected).await.is_err() {
        std::future::pending().await
    }
}

/// Waits until the lease is lost.
async fn is_lost(lost: Option<watch::Receiver<bool>>) {
    if let Some(mut lost) = lost
        && lost.wait_for(|lost| *lost).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests;
