//! Starts the controller from its options and shuts it down.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::MayOverride;
use everynode_core::daemon_set::{Config, Mode, UnreachableNodes};
use everynode_core::plan::ScheduleBy;
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::{Api, RateLimit};
use crate::checks::credentials::{Credentials, InvalidCredentials};
use crate::checks::hosts::{AllowedHost, Hosts};
use crate::checks::{Runner, Tls};
use crate::client::{self, Location, Pings};
use crate::environment::Environment;
use crate::lease::other::{OtherInstallation, Presence};
use crate::lease::{self, Fence, Leadership, Timing};
use crate::metrics::Metrics;
use crate::observation::WatchOptions;
use crate::outage_log::OutageLog;
use crate::recorder::{self, Recorder};
use crate::replica::{self, Candidacy, Replica};
use crate::serve::{self, Health};
use crate::supervisor::Supervisor;

/// The configuration of a controller.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kubeconfig; by default `$KUBECONFIG`, `~/.kube/config`, or a pod's ServiceAccount.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; by default its current one.
    pub context: Option<String>,
    /// Which part of the work is done.
    pub mode: Mode,
    /// Manages only DaemonSets in this namespace. Nodes are read in any case.
    pub namespace: Option<String>,
    /// Leader election; `None` if this is the only replica.
    pub leader_election: Option<LeaderElection>,
    /// Maximum number of pods to create, and to delete, in one sync (C28).
    pub burst_replicas: usize,
    /// Who binds pods to their nodes.
    pub schedule_by: ScheduleBy,
    /// The treatment of nodes whose kubelet does not answer, without a policy (C58).
    pub unreachable_nodes: UnreachableNodes,
    /// The fields that overrides of policies may set (G57).
    pub may_override: MayOverride,
    /// True if the cluster's admission plugin restricts pods by an annotation of their namespace
    /// (C15). Only then are namespaces read.
    pub namespace_node_selectors: bool,
    /// The hosts that the checks of guarded rollouts may ask (G24).
    pub check_hosts: Vec<AllowedHost>,
    /// The file with credentials for such hosts (G46).
    pub check_credentials: Option<PathBuf>,
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
        let Config { burst_replicas, schedule_by, unreachable_nodes, .. } = Config::default();
        Self {
            kubeconfig: None,
            context: None,
            mode: Mode::Controller,
            namespace: None,
            leader_election: None,
            burst_replicas,
            schedule_by,
            unreachable_nodes,
            may_override: MayOverride::AllButImage,
            namespace_node_selectors: false,
            check_hosts: Vec::new(),
            check_credentials: None,
            kube_api_qps: None,
            kube_api_burst: 30,
            http: None,
            pings: Pings::default(),
        }
    }
}

impl Options {
    fn check(&self) -> Result<(), Error> {
        if let Some(election) = &self.leader_election {
            election.timing.check().map_err(Error::Option)?;
            if self.mode.is_beside() && election.name == lease_name(Mode::Controller) {
                return Err(Error::Option(format!(
                    "--leader-elect-resource-name {} names the lease of an installation without \
                     --beside",
                    election.name
                )));
            }
        }
        self.pings.check().map_err(Error::Option)
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
            name: lease_name(Mode::Controller).to_owned(),
            timing: Timing::default(),
        }
    }
}

/// The name of the Lease of an installation, by which others know it.
pub const fn lease_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Controller => "everynode",
        Mode::Unguarded => "everynode-unguarded",
        Mode::Beside { .. } => "everynode-beside",
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
    /// The credentials of checks can't be used.
    #[error(transparent)]
    CheckCredentials(#[from] InvalidCredentials),
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
    /// The lease was lost, or a task of the controller ended unexpectedly.
    #[error(transparent)]
    Failed(#[from] replica::Failure),
}

/// Timeout of the first request.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(8);
/// Timeout of a shutdown for the last Events and HTTP answers, after that of the replica.
const HELPERS_TIMEOUT: Duration = Duration::from_millis(800);
/// Minimum interval between two writes of a status whose counts keep changing. Otherwise most
/// writes of a rollout would be status updates, which nobody reads more often.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// Runs a controller until `shutdown` is cancelled.
///
/// # Errors
/// If the options are invalid, the cluster can't be reached, the lease is lost, or a task of the
/// controller ended unexpectedly.
pub async fn run(options: Options, shutdown: CancellationToken) -> Result<(), Error> {
    let Some(opened) = shutdown.run_until_cancelled(Opened::open(options)).await else {
        return Ok(());
    };
    let (replica, tasks) = start(opened?, &shutdown).await?;
    let result = replica.run(&shutdown).await;
    tasks.shut_down().await;
    Ok(result?)
}

/// The writer of Events and the HTTP server.
struct BackgroundTasks {
    tasks: TaskTracker,
    /// Cancelled when they must stop.
    stop: CancellationToken,
}

/// The parts that the replica and the background tasks share.
struct Shared {
    config: client::Config,
    client: Client,
    /// The replica in Events and in the Lease.
    identity: String,
    environment: Environment,
    check_credentials: Credentials,
    outages: OutageLog,
    metrics: Arc<Metrics>,
    supervisor: Supervisor,
    /// The replica's knowledge of who leads.
    role: watch::Sender<Leadership>,
    /// True if all initial lists are complete.
    synced: watch::Sender<bool>,
    /// The known state of an installation that is the DaemonSet controller itself.
    presence: watch::Sender<Presence>,
}

/// The needs of the first request.
struct Opened {
    options: Options,
    check_credentials: Credentials,
    config: client::Config,
    client: Client,
    metrics: Arc<Metrics>,
}

impl Opened {
    /// Reads files and runs the exec plugin, which may take any time, on a thread of its own.
    async fn open(options: Options) -> Result<Self, Error> {
        let reading = tokio::task::spawn_blocking(|| Self::read(options));
        reading.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    fn read(options: Options) -> Result<Self, Error> {
        options.check()?;
        let check_credentials =
            options.check_credentials.as_deref().map(Credentials::read).transpose()?;
        let config = cluster_config(&options)?;
        let metrics = Arc::new(Metrics::new());
        let client = client::measured_client(&config, options.pings, metrics.requests.clone())?;
        let check_credentials = check_credentials.unwrap_or_default();
        Ok(Self { options, check_credentials, config, client, metrics })
    }
}

async fn start(
    opened: Opened,
    shutdown: &CancellationToken,
) -> Result<(Replica<Api>, BackgroundTasks), Error> {
    let Opened { options, check_credentials, config, client, metrics } = opened;
    let listener = match options.http {
        Some(address) => Some(serve::listen(address).await?),
        None => None,
    };
    let server = config.server();
    if let Some(answer) = shutdown.run_until_cancelled(check_reachable(&client, &server)).await {
        answer?;
    }
    let environment = Environment::default();
    let shared = Shared {
        config,
        client,
        identity: identity(environment.random()),
        environment,
        check_credentials,
        outages: OutageLog::default(),
        metrics,
        supervisor: Supervisor::default(),
        role: watch::Sender::new(match options.leader_election {
            Some(_) => Leadership::Unknown,
            None => Leadership::Leading,
        }),
        synced: watch::Sender::new(false),
        presence: watch::Sender::new(Presence::Unknown),
    };
    let (tasks, recorder) =
        BackgroundTasks::start(&shared, listener, options.leader_election.is_some());
    Ok((shared.replica(options, recorder)?, tasks))
}

impl BackgroundTasks {
    fn start(shared: &Shared, listener: Option<TcpListener>, elects: bool) -> (Self, Recorder) {
        let tasks = Self { tasks: TaskTracker::new(), stop: CancellationToken::new() };
        let (recorder, writer) = recorder::recorder(
            shared.client.clone(),
            shared.identity.clone(),
            shared.outages.clone(),
            shared.environment.clone(),
            tasks.stop.child_token(),
        );
        tasks.supervise(shared, "the writer of events", writer);
        if let Some(listener) = listener {
            let role = elects.then(|| shared.role.subscribe());
            let (synced, presence) = (shared.synced.subscribe(), shared.presence.subscribe());
            let health = Health { synced, role, presence };
            let stop = tasks.stop.child_token();
            let server = serve::serve(listener, health, shared.metrics.clone(), stop);
            tasks.supervise(shared, "the server of --http", server);
        }
        (tasks, recorder)
    }

    fn supervise(
        &self,
        shared: &Shared,
        task: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.tasks.spawn(shared.supervisor.supervise_until(self.stop.clone(), task, work));
    }

    async fn shut_down(self) {
        self.stop.cancel();
        self.tasks.close();
        if timeout(HELPERS_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::debug!("some connections were closed early");
        }
    }
}

impl Shared {
    fn replica(self, options: Options, recorder: Recorder) -> Result<Replica<Api>, Error> {
        let other_installation = options.mode.is_beside().then(|| OtherInstallation {
            lease_name: lease_name(Mode::Controller).to_owned(),
            timing: Timing::default(),
            environment: self.environment.clone(),
            outages: self.outages.clone(),
            presence: self.presence,
        });
        let election = match options.leader_election {
            Some(LeaderElection { namespace, name, timing }) => Some(Candidacy {
                client: client::measured_client(
                    &self.config,
                    timing.pings(),
                    self.metrics.requests.clone(),
                )?,
                lease: lease::Config {
                    namespace,
                    name,
                    identity: self.identity,
                    timing,
                    outages: self.outages.clone(),
                },
            }),
            None => None,
        };
        let fence = match election {
            Some(_) => Fence::closed(self.environment.clone()),
            None => Fence::open(),
        };
        let limit = options.kube_api_qps.map(|qps| RateLimit::new(qps, options.kube_api_burst));
        let server = Api::new(self.client.clone(), fence.clone(), limit);
        let hosts = Hosts::Allowed(options.check_hosts);
        Ok(Replica {
            watch_options: WatchOptions {
                namespace: options.namespace,
                namespace_node_selectors: options.namespace_node_selectors,
                rollout_policies: options.mode != Mode::Unguarded,
            },
            config: Config {
                mode: options.mode,
                burst_replicas: options.burst_replicas,
                schedule_by: options.schedule_by,
                unreachable_nodes: options.unreachable_nodes,
                may_override: options.may_override,
                status_interval: STATUS_INTERVAL,
                ..Config::default()
            },
            // Its answers are stated, so they are not logged as outages.
            checks: Arc::new(Runner::new(
                hosts,
                Tls::default(),
                self.check_credentials,
                server.clone(),
            )),
            server: server.reporting_to(self.outages.clone()),
            client: self.client,
            fence,
            environment: self.environment,
            election,
            other_installation,
            role: self.role,
            synced: self.synced,
            recorder,
            outages: self.outages,
            metrics: self.metrics,
            supervisor: self.supervisor,
            decisions: Box::new(|state| Box::new(state)),
        })
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
fn identity(random: u64) -> String {
    let host = std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string("/etc/hostname").ok())
        .map(|host| host.trim().to_owned())
        .filter(|host| !host.is_empty())
        .unwrap_or_else(|| "everynode".to_owned());
    format!("{host}_{random:016x}")
}
