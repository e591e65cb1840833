//! The simulated world: the sandbox's cluster, the controller's replicas, and a queue of scheduled
//! events. Virtual time advances from one event to the next. All random choices come from one seed.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use everynode_controller::metrics::Metrics;
use everynode_core::api::Timestamp;
use everynode_sandbox::cluster::lifecycle::Lifecycles;
use everynode_sandbox::cluster::{Cluster, Settings};
use everynode_sandbox::fault::InvalidUtf8;
use everynode_sandbox::nodes;
use everynode_sandbox::registry::Registry;
use everynode_sandbox::store::{Options, WriteOptions};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::admission::Admission;
use crate::api_servers::ApiServers;
use crate::checker::{Checks, Property, Violation};
use crate::fault::Faults;
use crate::journal;
use crate::mutation::Mutation;
use crate::network::{Message, Outbox, Reply, Request};
use crate::open_watch::OpenWatch;
use crate::replica::Replica;
use crate::response::Answer;
use crate::role::Role;
use crate::statement;
use crate::write_rate::WriteRates;

pub use crate::injected_fault::{CombinedFault, InjectedFault, WatchFailure, WriteFailure};
pub use crate::setting::{ElectionTiming, LEASE_NEVER_MS, Setting};

mod foreign_object;
mod inject;
mod outage;
mod read;
mod replicas;
mod request;
mod watches;
mod write;

pub(crate) use foreign_object::foreign_owner;
pub(crate) use write::name_and_namespace;

/// Namespace of all namespaced objects.
pub const NAMESPACE: &str = "default";

/// The time at which every world starts.
pub const START: Timestamp = Timestamp(1_767_225_600_000);

const BOOKMARK_MS: i64 = 60_000;

/// An event that happens at a certain time.
enum ScheduledEvent {
    /// The process of a replica starts.
    StartReplica { role: Role },
    /// An open watch sends changes.
    DeliverWatch { watch: u64 },
    /// The server ends a watch.
    EndWatch { watch: u64 },
    /// Idle watches get a bookmark, as API servers send them every minute.
    SendBookmarks,
    /// A request of a replica reaches the API server.
    RequestArrives { replica: u64, request: Request, reply: Reply },
    /// An answer reaches the replica.
    AnswerArrives { replica: u64, reply: Reply, answer: Answer },
    /// A write takes effect although its sender has stopped waiting for it.
    LateRequestArrives { replica: u64, request: Request },
    /// A replica whose process was frozen or whose network was cut continues.
    Reconnect { replica: u64 },
    /// The watch caches of API servers see what was written some time ago.
    AdvanceCaches,
    /// The watches that an exhaustive test stalled continue.
    ResumeWatches,
}

/// A cluster and its controller in virtual time.
pub struct World {
    /// The current time.
    pub now: Timestamp,
    /// The parameters of the world.
    pub setting: Setting,
    /// Generator for the outcomes and delays of messages.
    pub rng: Pcg64Mcg,
    /// The simulated cluster with its store.
    pub cluster: Cluster,
    /// The rates of faults.
    pub faults: Faults,
    /// The checkers.
    pub checks: Checks,
    /// The first violation.
    pub violation: Option<Violation>,
    /// Lines that record all events, if they are recorded.
    pub transcript: Option<Vec<String>>,
    /// Number of writes of the controller that took effect.
    pub writes: u64,
    /// The times of the latest writes of the controller.
    pub write_rates: WriteRates,
    /// When the last of these writes took effect.
    pub last_write_at: Timestamp,
    /// The replica of each role that wrote last, and when it first did.
    writers: BTreeMap<Role, (u64, Timestamp)>,
    /// A fault, with the number of the write at which it is injected.
    pub injected_fault: Option<(u64, InjectedFault)>,
    /// The deliberate bug of every replica.
    pub mutation: Option<Mutation>,
    /// Objects that lists and watches serve with bytes that are not UTF-8.
    pub invalid_objects: Vec<InvalidUtf8>,
    /// Objects with invalid bytes and the reports about them, of all replicas.
    pub read_report: ReadReport,
    /// The metrics of all replicas together.
    pub metrics: Arc<Metrics>,
    /// Runs the replicas in virtual time.
    runtime: Runtime,
    /// The runtime's time at [`START`].
    started: Instant,
    outbox: Outbox,
    messages: mpsc::UnboundedReceiver<Message>,
    replicas: Vec<Replica>,
    /// The roles of all replicas that were ever started, by their numbers from 1.
    roles: Vec<Role>,
    watches: Vec<OpenWatch>,
    watch_number: u64,
    event_queue: BTreeMap<(Timestamp, u64), ScheduledEvent>,
    event_number: u64,
    /// The admission of created pods, if it has an effect.
    pub(crate) admission: Option<Admission>,
    api_servers: ApiServers,
    /// True if the next GET of an object fails.
    fails_next_get: bool,
    /// Until when reopened watches repeat earlier events.
    repeat_until: Timestamp,
    /// The identities of the replicas that hold the leases, and how many have held them.
    leaders: BTreeMap<Role, (String, u64)>,
    cluster_due_at: Option<Timestamp>,
    /// The store's resourceVersion after the components of the cluster last acted.
    settled_version: u64,
    watches_stalled: bool,
    /// True if the workload is over: then replicas that end are not started again.
    is_at_rest: bool,
}

/// Objects with invalid bytes, and what the controller reported when it read lists and watches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadReport {
    /// Number of objects that were served with bytes that are not UTF-8.
    pub invalid_objects: usize,
    /// The controller's reports about single objects.
    pub problems: Vec<String>,
}

/// The lifecycles of pods on nodes with the label `life`.
static LIFECYCLES: LazyLock<Lifecycles> = LazyLock::new(|| {
    const TEXT: &str = "
lifecycles:
  - name: quick
    stages: [{stage: pull, delay: 5ms}, {stage: start, delay: 5ms}, {stage: stop, delay: 20ms}]
  - name: slow-resize
    stages: [{stage: resize, delay: 2s, jitter: 20s}]
choose:
  - {nodeLabels: {life: reject}, lifecycle: admission-failure}
  - {nodeLabels: {life: never-ready}, lifecycle: never-ready}
  - {nodeLabels: {life: crash}, lifecycle: crash-loop-at-first}
  - {nodeLabels: {life: slow}, lifecycle: slow}
  - {nodeLabels: {life: stubborn}, lifecycle: ignores-sigterm}
";
    Lifecycles::parse(TEXT).expect("the lifecycles are valid")
});

impl World {
    /// Returns a cluster without a replica.
    pub fn new(setting: Setting) -> Self {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without I/O needs no resources");
        let started = runtime.block_on(async { Instant::now() });
        let (outbox, messages) = mpsc::unbounded_channel();
        journal::start(false);
        statement::start();
        let registry = Registry::new(&Options { seed: setting.seed, ..Options::default() }, START);
        let settings = Settings {
            seed: setting.seed,
            lease_renew_ms: setting.lease_ms,
            node_monitor_grace_ms: setting.lease_ms * 3 / 2,
            // No component of the simulation reads events.
            event_age_ms: 0,
            ..Settings::default()
        };
        let mut cluster = Cluster::new(registry, settings, (*LIFECYCLES).clone(), START);
        let made = nodes::generate(setting.nodes, 1).expect("the number is in range");
        cluster.add_nodes(made, START).expect("the nodes are valid");
        let api_servers = ApiServers::new(setting.api_servers, setting.seed);
        let mut world = Self {
            now: START,
            setting,
            rng: Pcg64Mcg::seed_from_u64(setting.seed),
            cluster,
            faults: Faults::default(),
            checks: Checks::new(setting),
            violation: None,
            transcript: None,
            writes: 0,
            write_rates: WriteRates::default(),
            last_write_at: START,
            writers: BTreeMap::new(),
            injected_fault: None,
            mutation: None,
            invalid_objects: Vec::new(),
            read_report: ReadReport::default(),
            metrics: Arc::new(Metrics::new()),
            runtime,
            started,
            outbox,
            messages,
            replicas: Vec::new(),
            roles: Vec::new(),
            watches: Vec::new(),
            watch_number: 0,
            event_queue: BTreeMap::new(),
            event_number: 0,
            admission: None,
            api_servers,
            fails_next_get: false,
            repeat_until: START,
            leaders: BTreeMap::new(),
            cluster_due_at: Some(START),
            settled_version: 0,
            watches_stalled: false,
            is_at_rest: false,
        };
        world.schedule(BOOKMARK_MS, ScheduledEvent::SendBookmarks);
        world.settle();
        world
    }

    /// Returns options for a write at the current time.
    pub fn write_options(&self) -> WriteOptions {
        WriteOptions::at(self.now)
    }

    /// Returns the registry, which writes to the store.
    pub fn registry(&mut self) -> &mut Registry {
        self.cluster.registry_mut()
    }

    /// Adds a line to the transcript, if there is one.
    pub fn log(&mut self, line: impl FnOnce() -> String) {
        if let Some(transcript) = &mut self.transcript {
            transcript.push(format!("{:>9.3} {}", (self.now.0 - START.0) as f64 / 1000.0, line()));
        }
    }

    /// Records a transcript from now on.
    pub fn record(&mut self) {
        self.transcript = Some(Vec::new());
        journal::start(true);
    }

    /// Processes events up to this time or to the first violation.
    pub fn run_until(&mut self, end: Timestamp) {
        while self.violation.is_none() {
            let next = self.event_queue.first_key_value().map(|((at, _), _)| *at);
            let next = next.into_iter().chain(self.cluster_due_at).min().unwrap_or(end).min(end);
            self.run_replicas(next);
            if self.now < next {
                continue;
            }
            if self.cluster_due_at.is_some_and(|due| due <= self.now) {
                self.settle();
            }
            let mut has_handled = false;
            while let Some(entry) = self.event_queue.first_entry()
                && entry.key().0 <= self.now
            {
                has_handled = true;
                let event = entry.remove();
                self.handle(event);
                self.settle();
            }
            if !has_handled && self.now >= end {
                break;
            }
        }
    }

    /// Lets the replicas run until one of them sends a message, or until this time.
    fn run_replicas(&mut self, until: Timestamp) {
        let wait = u64::try_from(until.0 - START.0).unwrap_or_default();
        let at = self.started + Duration::from_millis(wait);
        let messages = &mut self.messages;
        let (now, message) = self.runtime.block_on(async {
            let message = tokio::select! {
                biased;
                message = messages.recv() => message,
                () = sleep_until(at) => None,
            };
            (Instant::now(), message)
        });
        let elapsed = now.duration_since(self.started).as_millis();
        self.now = Timestamp(START.0 + i64::try_from(elapsed).unwrap_or(i64::MAX));
        self.read_journal();
        if let Some(message) = message {
            self.receive(message);
        }
        while let Ok(message) = self.messages.try_recv() {
            self.receive(message);
        }
    }

    /// Takes what replicas have logged and reported.
    fn read_journal(&mut self) {
        let journal = journal::take();
        for line in journal.lines {
            self.log(|| line);
        }
        for error in journal.errors {
            // Watches report the resource first.
            if let Some((_, problem)) = error.split_once(": ")
                && error.contains("not UTF-8")
            {
                self.read_report.problems.push(problem.to_owned());
            }
        }
        self.report_violation(journal.violation);
        if !journal.events.is_empty() {
            self.checks.update(self.cluster.store(), self.now);
        }
        for occurrence in &journal.events {
            let violation = self.checks.check_event(occurrence);
            self.report_violation(violation);
        }
        for idle in &journal.idle {
            let violation = self.checks.check_idle(idle);
            self.report_violation(violation);
        }
    }

    /// Processes the events of this number of milliseconds.
    pub fn run_for(&mut self, millis: i64) {
        self.run_until(Timestamp(self.now.0 + millis));
    }

    /// Lets the components of the cluster act, updates the checkers, and schedules deliveries of
    /// changes to watches.
    pub fn settle(&mut self) {
        let is_due = self.cluster_due_at.is_some_and(|due| due <= self.now);
        if is_due || self.settled_version != self.cluster.store().resource_version() {
            self.cluster_due_at = self.cluster.settle(self.now);
            self.settled_version = self.cluster.store().resource_version();
        }
        for delay in self.api_servers.note_version(self.now, self.settled_version) {
            self.schedule(delay, ScheduledEvent::AdvanceCaches);
        }
        self.checks.update(self.cluster.store(), self.now);
        if self.watches_stalled {
            return;
        }
        self.schedule_deliveries();
    }

    fn schedule(&mut self, delay_ms: i64, event: ScheduledEvent) {
        self.event_number += 1;
        self.event_queue
            .insert((Timestamp(self.now.0 + delay_ms.max(0)), self.event_number), event);
    }

    fn handle(&mut self, event: ScheduledEvent) {
        match event {
            ScheduledEvent::StartReplica { role } => self.start_replica(role),
            ScheduledEvent::DeliverWatch { watch } => self.deliver_watch(watch),
            ScheduledEvent::EndWatch { watch } => self.watches.retain(|open| open.number != watch),
            ScheduledEvent::SendBookmarks => self.send_bookmarks(),
            ScheduledEvent::RequestArrives { replica, request, reply } => {
                self.receive_request(replica, request, reply);
            }
            ScheduledEvent::AnswerArrives { replica, reply, answer } => {
                self.deliver_answer(replica, reply, answer);
            }
            ScheduledEvent::LateRequestArrives { replica, request } => {
                self.serve_late(replica, &request);
            }
            ScheduledEvent::Reconnect { replica } => self.reconnect(replica),
            ScheduledEvent::AdvanceCaches => self.api_servers.advance(self.now),
            ScheduledEvent::ResumeWatches => self.watches_stalled = false,
        }
    }

    /// Records the first violation, which ends the run.
    pub fn report_violation(&mut self, violation: Option<Violation>) {
        let is_judged = |violation: &Violation| {
            self.mutation.is_none_or(|mutation| mutation.is_judged(violation.property))
        };
        if let Some(violation) = violation.filter(is_judged)
            && self.violation.is_none()
        {
            self.log(|| format!("VIOLATION {violation:?}"));
            self.violation = Some(violation);
        }
    }

    /// Ends or limits all faults except invalid bytes, waits, and checks the properties that hold
    /// at rest.
    ///
    /// The wait ends as soon as nothing has been written for some time and all properties hold.
    pub fn run_to_quiescence(&mut self) {
        // One or two of the failed pods of a node are deleted in each back-off of 15 minutes.
        const REST_MAX_MS: i64 = 90 * 60_000;
        const CHECK_INTERVAL_MS: i64 = 3 * 60_000;
        const QUIET_MS: i64 = 6 * 60_000;
        // The cluster must come to rest even if some faults never end.
        self.faults = self.faults.limited(self.setting.rest_faults);
        self.log(|| "rest".to_owned());
        self.rest_replicas();
        let end = Timestamp(self.now.0 + REST_MAX_MS);
        loop {
            self.run_for(CHECK_INTERVAL_MS);
            if self.violation.is_some() {
                return;
            }
            let violation = if self.now.0 - self.last_write_at.0 < QUIET_MS {
                let message = "the controller still writes although nothing changes".to_owned();
                Some(Violation { property: Property::Quiescence, message })
            } else {
                self.checks.check_quiescence(self.now)
            };
            if violation.is_none() || self.now >= end {
                return self.report_violation(violation);
            }
        }
    }
}
