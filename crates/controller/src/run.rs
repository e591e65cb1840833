//! From options to a running controller, and back to none.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use everynode_core::daemon_set::Config;
use everynode_core::plan::ScheduleBy;
use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::{Api, RateLimit};
use crate::client::{self, Location, Pings};
use crate::event::Event;
use crate::event_loop::{EventLoop, ListedResource, LoopState};
use crate::executor::{Executor, PodNames};
use crate::index::Index;
use crate::lease::{self, Fence, Leadership, Timing};
use crate::metrics::Metrics;
use crate::observation::Observation;
use crate::outage_log::OutageLog;
use crate::serve::{self, Health};
use crate::supervisor::{self, Supervisor};
use crate::watch::{Change, ConnectionState, Decode, Resource, Watch};
use crate::{decode, recorder};

/// All that can be told to a controller.
#[derive(Clone, Debug)]
pub struct Options {
    /// Else `$KUBECONFIG`, `~/.kube/config`, or what a pod has in a cluster.
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
    /// Only DaemonSets of this namespace; nodes are read all the same.
    pub namespace: Option<String>,
    /// `None`: this is the only replica, or so the user says.
    pub leader_election: Option<LeaderElection>,
    /// At most so many pods are created, and so many deleted, in one sync (C28).
    pub burst_replicas: usize,
    pub schedule_by: ScheduleBy,
    /// Whether the cluster's admission restricts pods by their namespace's annotation (C15). Namespaces are read only then.
    pub namespace_node_selectors: bool,
    /// Requests per second; `None`: as many as the server takes.
    pub kube_api_qps: Option<f64>,
    /// Requests beyond that at once.
    pub kube_api_burst: u32,
    /// Where `/livez`, `/readyz` and `/metrics` are served.
    pub http: Option<SocketAddr>,
    /// How soon a dead connection is noticed. That of the lease goes by the lease's own timing.
    pub pings: Pings,
}

impl Default for Options {
    fn default() -> Self {
        let Config { burst_replicas, schedule_by, .. } = Config::default();
        Self {
            kubeconfig: None,
            context: None,
            namespace: None,
            leader_election: None,
            burst_replicas,
            schedule_by,
            namespace_node_selectors: false,
            kube_api_qps: None,
            kube_api_burst: 30,
            http: None,
            pings: Pings::default(),
        }
    }
}

/// Where the Lease is and how it is kept (C63).
#[derive(Clone, Debug)]
pub struct LeaderElection {
    pub namespace: String,
    pub name: String,
    pub timing: Timing,
}

impl Default for LeaderElection {
    fn default() -> Self {
        Self {
            namespace: "kube-system".to_owned(),
            name: "everynode".to_owned(),
            timing: Timing::default(),
        }
    }
}

/// Why the controller ended, or did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Option(String),
    #[error(transparent)]
    Config(#[from] client::Error),
    #[error("cluster {server} is not reachable: {cause}")]
    Unreachable { server: String, cause: String },
    #[error("cluster {server} refuses us: {cause}")]
    Refused { server: String, cause: String },
    #[error(transparent)]
    Listen(#[from] serve::ListenError),
    #[error(transparent)]
    LostLease(#[from] lease::Lost),
    #[error(transparent)]
    Ended(#[from] supervisor::Ended),
}

/// How long the first request may take.
const FIRST_ANSWER: Duration = Duration::from_secs(8);
/// How long writes in flight get on shutdown, after that the release of the lease, and then the last
/// events and pages.
const WRITES_FINISH: Duration = Duration::from_millis(2000);
const LEASE_RELEASE: Duration = Duration::from_millis(1200);
const FAREWELL: Duration = Duration::from_millis(800);
/// While counts go on changing, the status is written at most this often: people don't see the difference, and
/// during a rollout most writes would be of the status else.
const STATUS_INTERVAL: Duration = Duration::from_millis(100);
/// Events that wait for the loop. Watches and writes wait when it is full.
const EVENTS_WAITING_MAX: usize = 1024;

/// Runs a controller until `shutdown`.
///
/// # Errors
/// If there is no cluster to run against, or the lease is lost, or a part of the controller has died.
pub async fn run(options: Options, shutdown: CancellationToken) -> Result<(), Error> {
    let replica = Replica::start(options, &shutdown).await?;
    let result = replica.work(&shutdown).await;
    let is_clean = matches!(result, Ok(Ended::Clean));
    replica.end(is_clean).await;
    result.map(|_| ())
}

/// How a replica's work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// Nothing of it is under way any more.
    Clean,
    /// Some writes may still land.
    WritesInFlight,
}

/// One replica: what lives from its start to its end.
struct Replica {
    options: Options,
    client: Client,
    outages: OutageLog,
    metrics: Arc<Metrics>,
    fence: Fence,
    role: watch::Receiver<Leadership>,
    synced: watch::Sender<bool>,
    recorder: recorder::Recorder,
    /// Cancelled when the last event may be written and the last page served.
    farewell: CancellationToken,
    /// Cancelled when the lease may be given up.
    release: CancellationToken,
    lost: watch::Receiver<bool>,
    supervisor: Supervisor,
    election: Option<JoinHandle<Result<(), lease::Lost>>>,
    helpers: TaskTracker,
}

impl Replica {
    async fn start(options: Options, shutdown: &CancellationToken) -> Result<Self, Error> {
        if let Some(election) = &options.leader_election {
            election.timing.check().map_err(Error::Option)?;
        }
        options.pings.check().map_err(Error::Option)?;
        let location = Location {
            kubeconfig: options.kubeconfig.clone(),
            context: options.context.clone(),
            impersonate: None,
        };
        let config = client::config(&location)?;
        let listener = match options.http {
            Some(address) => Some(serve::listen(address).await?),
            None => None,
        };
        if config.skips_verification() {
            let server = config.server();
            tracing::warn!(
                "the certificate of {server} is not verified: insecure-skip-tls-verify is set"
            );
        }
        let client = client::client(&config, options.pings)?;
        let server = config.server();
        if let Some(answer) = shutdown.run_until_cancelled(greet(&client, &server)).await {
            answer?;
        }
        let (metrics, outages) = (Arc::new(Metrics::new()), OutageLog::default());
        let helpers = TaskTracker::new();
        let (supervisor, farewell) = (Supervisor::default(), CancellationToken::new());
        let stop = farewell.child_token();
        let (recorder, writer) =
            recorder::recorder(client.clone(), identity(), outages.clone(), stop);
        helpers.spawn(supervisor.until(farewell.clone(), "the writer of events", writer));
        let (synced, is_synced) = watch::channel(false);
        let (role_sender, role) = watch::channel(Leadership::Unknown);
        if let Some(listener) = listener {
            let role = options.leader_election.is_some().then(|| role.clone());
            let health = Health { synced: is_synced, role };
            let page = serve::serve(listener, health, metrics.clone(), farewell.child_token());
            helpers.spawn(supervisor.until(farewell.clone(), "the server of --http", page));
        }
        let mut replica = Self {
            client,
            outages,
            metrics,
            fence: Fence::open(),
            role,
            synced,
            recorder,
            farewell,
            release: CancellationToken::new(),
            lost: watch::channel(false).1,
            supervisor,
            election: None,
            helpers,
            options,
        };
        if let Some(election) = replica.options.leader_election.clone() {
            // Renewals have a connection of their own, so that nothing else can hold them up.
            let client = client::client(&config, election.timing.pings())?;
            replica.compete(client, election, role_sender);
        } else {
            role_sender.send_replace(Leadership::Leading);
        }
        Ok(replica)
    }

    fn compete(
        &mut self,
        client: Client,
        election: LeaderElection,
        role: watch::Sender<Leadership>,
    ) {
        self.fence = Fence::closed();
        let config = lease::Config {
            namespace: election.namespace,
            name: election.name,
            identity: identity(),
            timing: election.timing,
            outages: self.outages.clone(),
        };
        let (lost_sender, lost) = watch::channel(false);
        self.lost = lost;
        let held = lease::hold(client, config, self.fence.clone(), role, self.release.clone());
        let task = async move {
            let result = held.await;
            lost_sender.send_replace(result.is_err());
            result
        };
        self.election = Some(tokio::spawn(self.supervisor.to_its_end("leader election", task)));
    }

    /// Waits to lead, then leads until `shutdown` or the loss of the lease.
    async fn work(&self, shutdown: &CancellationToken) -> Result<Ended, Error> {
        let mut role = self.role.clone();
        let mut lost = self.lost.clone();
        tokio::select! {
            // Whoever leads stops in order, also at once.
            biased;
            leads = role.wait_for(|role| *role == Leadership::Leading) => {
                leads.map_err(|_| self.failure())?;
            }
            ended = self.supervisor.failed() => return Err(ended.into()),
            () = shutdown.cancelled() => return Ok(Ended::Clean),
        }
        self.metrics.leader.set(1);
        let stop = shutdown.child_token();
        let stopped = stop.clone();
        let is_lost = async move {
            let Ok(_) = lost.wait_for(|lost| *lost).await else {
                return std::future::pending().await;
            };
        };
        let watchdog = async move {
            tokio::select! {
                () = is_lost => {}
                _ = self.supervisor.failed() => {}
            }
            // Nothing more is written before others may lead.
            self.fence.close();
            stopped.cancel();
        };
        let ended = tokio::select! {
            ended = self.lead(&stop) => ended,
            () = watchdog => Ended::WritesInFlight,
        };
        self.metrics.leader.set(0);
        self.synced.send_replace(false);
        let is_over = *self.lost.borrow() || self.supervisor.failure().is_some();
        if is_over { Err(self.failure()) } else { Ok(ended) }
    }

    /// Why this replica can't go on: a task that has ended, else the loss of the lease.
    fn failure(&self) -> Error {
        if let Some(ended) = self.supervisor.failure() {
            return ended.into();
        }
        let LeaderElection { namespace, name, timing } =
            self.options.leader_election.clone().unwrap_or_default();
        lease::Lost { namespace, name, renew_deadline: timing.renew_deadline }.into()
    }

    async fn lead(&self, stop: &CancellationToken) -> Ended {
        let (sender, mut events) = mpsc::channel(EVENTS_WAITING_MAX);
        let tasks = TaskTracker::new();
        let watches = CancellationToken::new();
        let _stopped_with_this = watches.clone().drop_guard();
        let mut event_loop = self.event_loop(sender.clone(), &tasks, stop);
        let watcher = Watcher {
            client: self.client.clone(),
            sender,
            outages: self.outages.clone(),
            metrics: self.metrics.clone(),
            supervisor: self.supervisor.clone(),
            namespace: self.options.namespace.clone(),
            stop: watches.clone(),
        };
        watcher.watch_all_but_pods(self.options.namespace_node_selectors);
        event_loop.watch_pods = Some(Box::new(move || watcher.watch_pods()));
        event_loop.run(&mut events, stop).await;
        watches.cancel();
        drop(events);
        tasks.close();
        match timeout(WRITES_FINISH, tasks.wait()).await {
            Ok(()) => Ended::Clean,
            Err(_) => {
                tracing::warn!("some writes did not finish in time");
                Ended::WritesInFlight
            }
        }
    }

    fn event_loop(
        &self,
        events: mpsc::Sender<Event>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> EventLoop {
        let limit = self.options.kube_api_qps;
        let limit = limit.map(|qps| RateLimit::new(qps, self.options.kube_api_burst));
        let api = Api::new(self.client.clone(), self.fence.clone(), limit)
            .reporting_to(self.outages.clone());
        let mut unlisted: BTreeSet<ListedResource> = [
            ListedResource::Node,
            ListedResource::DaemonSet,
            ListedResource::Revision,
            ListedResource::Pod,
        ]
        .into();
        if self.options.namespace_node_selectors {
            unlisted.insert(ListedResource::Namespace);
            tracing::info!(
                "--namespace-node-selectors is set: nothing is done before namespaces are listed, which takes the right to list and watch them"
            );
        }
        let config = Config {
            burst_replicas: self.options.burst_replicas,
            schedule_by: self.options.schedule_by,
            status_interval: STATUS_INTERVAL,
        };
        let (recorder, metrics) = (self.recorder.clone(), self.metrics.clone());
        let names = Arc::new(PodNames::seeded(rand::random()));
        EventLoop {
            state: LoopState::new(
                Index::new(config),
                unlisted,
                recorder.clone(),
                metrics.clone(),
                self.outages.clone(),
                self.synced.clone(),
            ),
            executor: Executor { api, events, recorder, metrics, names, stop: stop.clone() },
            tasks: tasks.clone(),
            supervisor: self.supervisor.clone(),
            watch_pods: None,
        }
    }

    /// Gives up the lease, then says goodbye. While writes of ours may still land nobody else may lead:
    /// then the lease is left to expire (C63).
    async fn end(mut self, is_clean: bool) {
        self.fence.close();
        match self.election.take() {
            Some(election) if is_clean => {
                self.release.cancel();
                if timeout(LEASE_RELEASE, election).await.is_err() {
                    tracing::warn!("the lease was not released in time");
                }
            }
            Some(election) => election.abort(),
            None => {}
        }
        self.farewell.cancel();
        self.helpers.close();
        if timeout(FAREWELL, self.helpers.wait()).await.is_err() {
            tracing::debug!("some connections were cut");
        }
    }
}

/// Starts watches.
struct Watcher {
    client: Client,
    sender: mpsc::Sender<Event>,
    outages: OutageLog,
    metrics: Arc<Metrics>,
    supervisor: Supervisor,
    namespace: Option<String>,
    stop: CancellationToken,
}

impl Watcher {
    fn watch_all_but_pods(&self, namespaces: bool) {
        let path = "/api/v1/nodes".to_owned();
        self.watch("nodes", path, decode::Nodes::default(), |change| {
            Event::Observed(Observation::Node(change))
        });
        let path = self.path("apis/apps/v1", "daemonsets");
        self.watch("daemonsets", path, decode::DaemonSets::default(), |change| {
            Event::Observed(Observation::DaemonSet(change))
        });
        let path = self.path("apis/apps/v1", "controllerrevisions");
        self.watch("controllerrevisions", path, decode::Revisions::default(), |change| {
            Event::Observed(Observation::Revision(change))
        });
        if namespaces {
            let path = namespaces_path(self.namespace.as_deref());
            self.watch("namespaces", path, decode::Namespaces::default(), |change| {
                Event::Observed(Observation::Namespace(change))
            });
        }
    }

    fn watch_pods(&self) {
        let path = self.path("api/v1", "pods");
        self.watch("pods", path, decode::Pods::default(), |change| {
            Event::Observed(Observation::Pod(change))
        });
    }

    fn path(&self, group: &str, plural: &str) -> String {
        match &self.namespace {
            Some(namespace) => format!("/{group}/namespaces/{namespace}/{plural}"),
            None => format!("/{group}/{plural}"),
        }
    }

    fn watch<D: Decode + 'static>(
        &self,
        name: &'static str,
        path: String,
        decoder: D,
        wrap: fn(Change<D::Item>) -> Event,
    ) {
        let watch = Watch {
            client: self.client.clone(),
            resource: Resource { name, path },
            decoder,
            sender: self.sender.clone(),
            wrap,
            wrap_connection: |connection| match connection {
                ConnectionState::Connected(_) => Some(Event::Connected),
                ConnectionState::Lost(_) => None,
            },
            outages: self.outages.clone(),
            metrics: self.metrics.clone(),
        };
        let stop = self.stop.clone();
        let task = async move {
            stop.run_until_cancelled(watch.run()).await;
        };
        tokio::spawn(self.supervisor.until(
            self.stop.clone(),
            format!("the watch of {name}"),
            task,
        ));
    }
}

fn namespaces_path(namespace: Option<&str>) -> String {
    match namespace {
        Some(name) => format!("/api/v1/namespaces?fieldSelector=metadata.name%3D{name}"),
        None => "/api/v1/namespaces".to_owned(),
    }
}

/// Asks once before anything else: a cluster that is not there is said so at once.
async fn greet(client: &Client, server: &str) -> Result<(), Error> {
    let unreachable = |cause: String| Error::Unreachable { server: server.to_owned(), cause };
    let request = http::Request::get("/version").body(Vec::new()).expect("it is a valid request");
    match timeout(FIRST_ANSWER, client.request_text(request)).await {
        Err(_) => Err(unreachable(format!("no answer within {FIRST_ANSWER:?}"))),
        Ok(Ok(_)) => Ok(()),
        Ok(Err(kube::Error::Api(status))) if status.code == 401 => {
            Err(Error::Refused { server: server.to_owned(), cause: status.message.clone() })
        }
        // Whoever answers is there; what it lets us do shows later.
        Ok(Err(kube::Error::Api(_))) => Ok(()),
        Ok(Err(error)) => Err(unreachable(client::root_cause(&error))),
    }
}

/// Different for every process that ever ran.
fn identity() -> String {
    let host = std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string("/etc/hostname").ok())
        .map(|host| host.trim().to_owned())
        .filter(|host| !host.is_empty())
        .unwrap_or_else(|| "everynode".to_owned());
    format!("{host}_{:016x}", rand::random::<u64>())
}

#[cfg(test)]
mod tests;
