//! A replica: the controller's own process, from its start to its end, on a simulated machine and
//! network.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everynode_controller::environment::Environment;
use everynode_controller::event_loop::LoopState;
use everynode_controller::lease::{self, Fence, Leadership, Timing};
use everynode_controller::lease_name;
use everynode_controller::metrics::Metrics;
use everynode_controller::observation::WatchOptions;
use everynode_controller::outage_log::OutageLog;
use everynode_controller::recorder::Recorder;
use everynode_controller::replica::{Candidacy, Failure, Replica as Controller};
use everynode_controller::supervisor::Supervisor;
use everynode_core::api::Timestamp;
use everynode_core::daemon_set::{Config, Mode};
use futures::FutureExt;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::check_answers::DrawnAnswers;
use crate::checker::{Property, Violation};
use crate::decisions::CheckedDecisions;
use crate::event_ledger::EventLedger;
use crate::journal;
use crate::machine::{Clocks, VirtualMachine};
use crate::mutation::{Forgetting, Mutation};
use crate::network::{Connection, Message, Outbox, PlanServer, Views, lock};
use crate::role::Role;
use crate::statement::Statements;
use crate::view::ViewRecorder;

/// The namespace of all Leases.
pub(crate) const LEASE_NAMESPACE: &str = "default";

/// The parameters of a replica.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The number of this process, counted from 1.
    pub number: u64,
    /// The role of the replica.
    pub role: Role,
    /// The current time.
    pub now: Timestamp,
    /// How far the replica's wall clock is ahead of virtual time.
    pub clock_skew_ms: i64,
    /// How many millionths it is too fast.
    pub clock_drift_ppm: i32,
    /// The seed of the replica's random numbers.
    pub seed: u64,
    /// When to renew the lease.
    pub timing: Timing,
    /// The controller's configuration.
    pub config: Config,
    /// True if the controller reads the node selectors of namespaces.
    pub namespace_node_selectors: bool,
    /// A deliberate bug.
    pub mutation: Option<Mutation>,
    /// The metrics of all replicas together.
    pub metrics: Arc<Metrics>,
}

/// The process of a replica as the world sees it.
#[derive(Debug)]
pub(crate) struct Replica {
    /// The number of this process, counted from 1.
    pub number: u64,
    /// The role of the replica.
    pub role: Role,
    /// Its clocks.
    pub clocks: Clocks,
    /// Cancelled to stop the process as SIGTERM does.
    pub shutdown: CancellationToken,
    /// Until when the process is frozen or its network is cut.
    pub unreachable_until: Timestamp,
    /// Until when its rights are missing.
    pub forbidden_until: Timestamp,
}

impl Settings {
    fn watch_options(&self) -> WatchOptions {
        let namespace_node_selectors = self.namespace_node_selectors;
        WatchOptions { namespace: None, namespace_node_selectors, rollout_policies: false }
    }
}

impl Replica {
    /// Starts a process. Must be called in the runtime.
    pub(crate) fn start(settings: &Settings, outbox: &Outbox) -> Self {
        let &Settings { number, role, now, seed, timing, config, mutation, .. } = settings;
        let clocks = Clocks::new(now, settings.clock_skew_ms, settings.clock_drift_ppm);
        let environment = Environment::new(VirtualMachine::new(clocks.clone(), seed));
        let fence = Fence::closed(environment.clone());
        let (recorder, occurrences) = Recorder::channel();
        let views = Views::default();
        let occurrences = Mutex::new(Some(occurrences));
        let (decisions_views, decisions_clocks) = (views.clone(), clocks.clone());
        let decisions = move |state: LoopState| {
            let occurrences = lock(&occurrences).take().expect("a replica leads once");
            Box::new(CheckedDecisions {
                replica: number,
                role,
                state,
                mutation,
                forgetting: Forgetting::default(),
                clocks: decisions_clocks.clone(),
                processed_at: now,
                failed: BTreeMap::new(),
                recorder: ViewRecorder::default(),
                statements: Statements::new(),
                event_ledger: EventLedger::new(occurrences),
                views: decisions_views.clone(),
            }) as Box<_>
        };
        let outages = OutageLog::default();
        let controller = Controller {
            watch_options: settings.watch_options(),
            config,
            client: Connection::client(number, outbox.clone()),
            checks: Arc::new(DrawnAnswers::new(seed)),
            server: PlanServer::new(number, outbox.clone(), fence.clone(), views),
            fence,
            environment,
            election: Some(Candidacy {
                client: Connection::client(number, outbox.clone()),
                lease: lease_config(number, config.mode, timing, outages.clone()),
            }),
            other_installation: None,
            role: watch::Sender::new(Leadership::Unknown),
            synced: watch::Sender::new(false),
            recorder,
            outages,
            metrics: settings.metrics.clone(),
            supervisor: Supervisor::default(),
            decisions: Box::new(decisions),
        };
        let shutdown = CancellationToken::new();
        let (stop, outbox) = (shutdown.clone(), outbox.clone());
        tokio::spawn(async move {
            let result = match AssertUnwindSafe(controller.run(&stop)).catch_unwind().await {
                Ok(Ok(())) => "it was stopped".to_owned(),
                Ok(Err(failure)) => {
                    if let Failure::TaskEnded(_) = failure {
                        report_panic(failure.to_string());
                    }
                    failure.to_string()
                }
                Err(payload) => {
                    let message = panic_message(payload.as_ref());
                    report_panic(message.clone());
                    message
                }
            };
            // The world outlives all replicas except at its end.
            let _ = outbox.send(Message::Ended { replica: number, result });
        });
        Self { number, role, clocks, shutdown, unreachable_until: now, forbidden_until: now }
    }
}

fn lease_config(number: u64, mode: Mode, timing: Timing, outages: OutageLog) -> lease::Config {
    let (namespace, name) = (LEASE_NAMESPACE.to_owned(), lease_name(mode).to_owned());
    lease::Config { namespace, name, identity: identity(number), timing, outages }
}

fn report_panic(message: String) {
    journal::report(Violation { property: Property::Panic, message });
}

/// Returns the message of a panic.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let message = payload.downcast_ref::<&str>().map(|message| (*message).to_owned());
    let message = message.or_else(|| payload.downcast_ref::<String>().cloned());
    message.unwrap_or_else(|| "without a message".to_owned())
}

/// The identity of a replica in the Lease.
pub(crate) fn identity(number: u64) -> String {
    format!("replica-{number}")
}

/// The timing of the leader election, in seconds.
pub(crate) fn timing(lease_duration: u64, renew_deadline: u64, retry_period: u64) -> Timing {
    Timing {
        lease_duration: Duration::from_secs(lease_duration),
        renew_deadline: Duration::from_secs(renew_deadline),
        retry_period: Duration::from_secs(retry_period),
    }
}
