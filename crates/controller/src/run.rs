//! Starts the controller from its options and shuts it down.

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

/// The configuration of a controller.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kubeconfig; by default `$KUBECONFIG`, `~/.kube/config`, or a pod's ServiceAccount.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; by default its current one.
    pub context: Option<String>,
    /// Manages only DaemonSets in this namespace. Nodes are read in any case.
    pub namespace: Option<String>,
    /// Leader election; `None` if this is the only replica.
    pub leader_election: Option<LeaderElection>,
    /// Maximum number of pods to create, and to delete, in one sync (C28).
    pub burst_replicas: usize,
    /// Who binds pods to their nodes.
    pub schedule_by: ScheduleBy,
    /// Whether the cluster's admission plugin restricts pods by an annotation of their namespace
    /// (C15). Only then are namespaces read.
    pub namespace_node_selectors: bool,
    /// Maximum number of requests per second; `None` for no limit.
    pub kube_api_qps: Option<f64>,
    /// Number of requests that may exceed the limit at once.
    pub kube_api_burst: u32,
    /// The address of `/livez`, `/readyz` and `/metrics`.
    pub http: Option<SocketAddr>,
    /// How fast a dead connection is detected. The lease's connection has pings of its own.
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

/// The Lease of the leader election, and how it is renewed (C63).
#[derive(Clone, Debug)]
pub struct LeaderElection {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// When to renew and when to stop leading.
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

/// Why the controller ended or did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option is invalid.
    #[error("{0}")]
    Option(String),
    /// The cluster's address or credentials can't be read.
    #[error(transparent)]
    Config(#[from] client::Error),
    /// The API server did not answer the first request.
    #[error("cluster {server} is not reachable: {cause}")]
    Unreachable {
        /// The address of the API server.
        server: String,
        /// Why there was no answer.
        cause: String,
    },
    /// The API server does not accept the credentials.
    #[error("cluster {server} refuses the credentials: {cause}")]
    Refused {
        /// The address of the API server.
        server: String,
        /// The server's message.
        cause: String,
    },
    /// The address of `--http` can't be listened on.
    #[error(transparent)]
    Listen(#[from] serve::ListenError),
    /// The lease was lost.
    #[error(transparent)]
    LostLease(#[from] lease::Lost),
    /// A task of the controller ended unexpectedly.
    #[error(transparent)]
    TaskEnded(#[from] supervisor::TaskEnded),
}

/// Timeout of the first request.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(8);
/// Timeouts of a shutdown: first for writes in flight, then for the release of the lease, then for
/// the last Events and HTTP answers.
const WRITES_TIMEOUT: Duration = Duration::from_millis(2000);
const RELEASE_TIMEOUT: Duration = Duration::from_millis(1200);
const HELPERS_TIMEOUT: Duration = Duration::from_millis(800);
/// Minimum interval between two writes of a status whose counts keep changing. Otherwise most
/// writes of a rollout would be status updates.
const STATUS_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of events that wait for the loop. Watches and writes wait while it is reached.
const EVENTS_WAITING_MAX: usize = 1024;

/// Runs a controller until `shutdown` is cancelled.
///
/// # Errors
/// If the options are invalid, the cluster can't be reached, the lease is lost, or a task of the
/// controller ended unexpectedly.
pub async fn run(options: Options, shutdown: CancellationToken) -> Result<(), Error> {
    let replica = Replica::start(options, &shutdown).await?;
    let result = replica.run(&shutdown).await;
    let is_clean = matches!(result, Ok(Shutdown::Clean));
    replica.shut_down(is_clean).await;
    result.map(|_| ())
}

/// How a replica stopped working.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shutdown {
    /// No write is in flight.
    Clean,
    /// Some writes may still take effect.
    WritesInFlight,
}

/// One replica, from its start to its shutdown.
struct Replica {
    options: Options,
    client: Client,
    outages: OutageLog,
    metrics: Arc<Metrics>,
    fence: Fence,
    role: watch::Receiver<Leadership>,
    synced: watch::Sender<bool>,
    recorder: recorder::Recorder,
    /// Cancelled when the writer of Events and the HTTP server must stop.
    stop_helpers: CancellationToken,
    /// Cancelled when the lease may be released.
    release: CancellationToken,
    lease_lost: watch::Receiver<bool>,
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
        let config = cluster_config(&options)?;
        let listener = match options.http {
            Some(address) => Some(serve::listen(address).await?),
            None => None,
        };
        let client = client::client(&config, options.pings)?;
        let server = config.server();
        if let Some(answer) = shutdown.run_until_cancelled(check_reachable(&client, &server)).await
        {
            answer?;
        }
        let (metrics, outages) = (Arc::new(Metrics::new()), OutageLog::default());
        let helpers = TaskTracker::new();
        let (supervisor, stop_helpers) = (Supervisor::default(), CancellationToken::new());
        let stop = stop_helpers.child_token();
        let (recorder, writer) =
            recorder::recorder(client.clone(), identity(), outages.clone(), stop);
        helpers.spawn(supervisor.supervise_until(
            stop_helpers.clone(),
            "the writer of events",
            writer,
        ));
        let (synced, is_synced) = watch::channel(false);
        let (role_sender, role) = watch::channel(Leadership::Unknown);
        if let Some(listener) = listener {
            let role = options.leader_election.is_some().then(|| role.clone());
            let health = Health { synced: is_synced, role };
            let server =
                serve::serve(listener, health, metrics.clone(), stop_helpers.child_token());
            helpers.spawn(supervisor.supervise_until(
                stop_helpers.clone(),
                "the server of --http",
                server,
            ));
        }
        let mut replica = Self {
            client,
            outages,
            metrics,
            fence: Fence::open(),
            role,
            synced,
            recorder,
            stop_helpers,
            release: CancellationToken::new(),
            lease_lost: watch::channel(false).1,
            supervisor,
            election: None,
            helpers,
            options,
        };
        if let Some(election) = replica.options.leader_election.clone() {
            // Renewals have their own connection, so that no other request delays them.
            let client = client::client(&config, election.timing.pings())?;
            replica.start_election(client, election, role_sender);
        } else {
            role_sender.send_replace(Leadership::Leading);
        }
        Ok(replica)
    }

    fn start_election(
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
        self.lease_lost = lost;
        let election =
            lease::compete(client, config, self.fence.clone(), role, self.release.clone());
        let task = async move {
            let result = election.await;
            lost_sender.send_replace(result.is_err());
            result
        };
        self.election = Some(tokio::spawn(self.supervisor.supervise("leader election", task)));
    }

    /// Waits to lead, then leads until `shutdown` or until the lease is lost.
    async fn run(&self, shutdown: &CancellationToken) -> Result<Shutdown, Error> {
        let mut role = self.role.clone();
        let mut lost = self.lease_lost.clone();
        tokio::select! {
            // A replica that leads shuts down its loop, even if `shutdown` is cancelled already.
            biased;
            leads = role.wait_for(|role| *role == Leadership::Leading) => {
                leads.map_err(|_| self.failure())?;
            }
            ended = self.supervisor.wait_for_failure() => return Err(ended.into()),
            () = shutdown.cancelled() => return Ok(Shutdown::Clean),
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
                _ = self.supervisor.wait_for_failure() => {}
            }
            // Stop writing before another replica may lead.
            self.fence.close();
            stopped.cancel();
        };
        let ended = tokio::select! {
            ended = self.lead(&stop) => ended,
            () = watchdog => Shutdown::WritesInFlight,
        };
        self.metrics.leader.set(0);
        self.synced.send_replace(false);
        let is_over = *self.lease_lost.borrow() || self.supervisor.failure().is_some();
        if is_over { Err(self.failure()) } else { Ok(ended) }
    }

    /// Why this replica can't continue: a task ended unexpectedly, or else the lease was lost.
    fn failure(&self) -> Error {
        if let Some(ended) = self.supervisor.failure() {
            return ended.into();
        }
        let LeaderElection { namespace, name, timing } =
            self.options.leader_election.clone().unwrap_or_default();
        lease::Lost { namespace, name, renew_deadline: timing.renew_deadline }.into()
    }

    async fn lead(&self, stop: &CancellationToken) -> Shutdown {
        let (sender, mut events) = mpsc::channel(EVENTS_WAITING_MAX);
        let tasks = TaskTracker::new();
        let watches = CancellationToken::new();
        let _stop_watches_on_drop = watches.clone().drop_guard();
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
    ) -> EventLoop {
        let limit = self.options.kube_api_qps;
        let limit = limit.map(|qps| RateLimit::new(qps, self.options.kube_api_burst));
        let api = Api::new(self.client.clone(), self.fence.clone(), limit)
            .reporting_to(self.outages.clone());
        let mut pending_lists: BTreeSet<ListedResource> = [
            ListedResource::Node,
            ListedResource::DaemonSet,
            ListedResource::Revision,
            ListedResource::Pod,
        ]
        .into();
        if self.options.namespace_node_selectors {
            pending_lists.insert(ListedResource::Namespace);
            tracing::info!(
                "--namespace-node-selectors is set: nothing is done before namespaces are listed, \
                 which requires permission to list and watch them"
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
                pending_lists,
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

    /// Releases the lease and stops the helpers. While writes may still take effect, no other
    /// replica may lead: then the lease is left to expire (C63).
    async fn shut_down(mut self, is_clean: bool) {
        self.fence.close();
        match self.election.take() {
            Some(election) if is_clean => {
                self.release.cancel();
                if timeout(RELEASE_TIMEOUT, election).await.is_err() {
                    tracing::warn!("the lease was not released before the timeout");
                }
            }
            Some(election) => election.abort(),
            None => {}
        }
        self.stop_helpers.cancel();
        self.helpers.close();
        if timeout(HELPERS_TIMEOUT, self.helpers.wait()).await.is_err() {
            tracing::debug!("some connections were closed early");
        }
    }
}

/// Starts the watches.
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
        tokio::spawn(self.supervisor.supervise_until(
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

/// Reads the cluster's configuration, and warns if its certificate is not verified.
fn cluster_config(options: &Options) -> Result<client::Config, Error> {
    let config = client::config(&Location {
        kubeconfig: options.kubeconfig.clone(),
        context: options.context.clone(),
        impersonate: None,
    })?;
    if config.skips_verification() {
        let server = config.server();
        tracing::warn!(
            "the certificate of {server} is not verified: insecure-skip-tls-verify is set"
        );
    }
    Ok(config)
}

/// Sends one request, so that an unreachable cluster is reported at once.
async fn check_reachable(client: &Client, server: &str) -> Result<(), Error> {
    let unreachable = |cause: String| Error::Unreachable { server: server.to_owned(), cause };
    let request = http::Request::get("/version").body(Vec::new()).expect("the path is valid");
    match timeout(FIRST_REQUEST_TIMEOUT, client.request_text(request)).await {
        Err(_) => Err(unreachable(format!("no answer within {FIRST_REQUEST_TIMEOUT:?}"))),
        Ok(Ok(_)) => Ok(()),
        Ok(Err(kube::Error::Api(status))) if status.code == 401 => {
            Err(Error::Refused { server: server.to_owned(), cause: status.message.clone() })
        }
        // Any other answer shows that the server is reachable. Missing permissions show later.
        Ok(Err(kube::Error::Api(_))) => Ok(()),
        Ok(Err(error)) => Err(unreachable(client::root_cause(&error))),
    }
}

/// Unique for every process that ever ran.
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
