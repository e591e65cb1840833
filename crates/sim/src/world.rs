//! The simulated world: the sandbox's cluster, the controller's replicas, and a queue of scheduled
//! events. Virtual time advances from one event to the next. All random choices come from one seed.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use everynode_controller::api::Error;
use everynode_controller::observation::Observation;
use everynode_core::api::Timestamp;
use everynode_sandbox::cluster::lifecycle::Lifecycles;
use everynode_sandbox::cluster::{Cluster, Settings};
use everynode_sandbox::fault::InvalidUtf8;
use everynode_sandbox::nodes;
use everynode_sandbox::registry::Registry;
use everynode_sandbox::store::{Options, WriteOptions};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use crate::checker::{Checks, Property, Violation};
use crate::fault::Faults;
use crate::mutation::Mutation;
use crate::network::{Answer, Reply, Request};

use crate::leader_run::LeaderRun;

mod foreign_object;
mod leader;
mod outage;
mod request;
mod write;

pub(crate) use write::name_and_namespace;

pub use crate::list_watch::ReadReport;

/// Namespace of all namespaced objects.
pub const NAMESPACE: &str = "default";

/// The time at which every world starts.
pub const START: Timestamp = Timestamp(1_767_225_600_000);

/// Time without a leader after a leader has stopped: the difference between the renew deadline and
/// the lease duration (C63).
const NO_LEADER_MS: i64 = 5_000;

/// A renewal interval that exceeds every schedule. Without renewals virtual time costs little, and
/// no lease starts a sync that the controller did not schedule.
pub const LEASE_NEVER_MS: i64 = 1_000 * 3_600_000;

const BOOKMARK_MS: i64 = 60_000;

/// An event that happens at a certain time.
enum ScheduledEvent {
    /// A watch of a replica delivers changes or sends a request.
    DeliverWatch {
        run: u64,
        watch: usize,
    },
    RequestArrives {
        run: u64,
        request: Request,
        reply: Reply,
    },
    AnswerArrives {
        run: u64,
        reply: Reply,
        answer: Answer,
    },
    /// A write takes effect although its sender has stopped waiting for it.
    LateRequestArrives {
        request: Request,
    },
    Turn {
        run: u64,
    },
    /// Idle watches get a bookmark, as API servers send them every minute.
    Bookmark {
        run: u64,
    },
    /// A replica becomes the leader.
    Elect,
    /// A fenced leader stops.
    EndRun {
        run: u64,
    },
    /// The watches that an exhaustive test stalled continue.
    ResumeWatches,
}

/// A fault that an exhaustive test injects at one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The leader crashes after the write, and the answer is lost.
    CrashLeader,
    /// The leader is fenced after the write and continues to decide while another one leads.
    FenceLeader,
    /// Watches are stalled for 20 s after the write.
    StallWatches,
    /// Watches are closed after the write, and the changes they miss are compacted.
    CompactLog,
    /// The write takes effect, and its answer is lost.
    LoseAnswer,
    /// The write takes effect and is answered with a 5xx.
    Committed5xx,
    /// Just before the write, a foreign object takes the name of the object that it changes or
    /// creates.
    TakeName,
}

/// The parameters of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Seed of all random choices except those of the workload.
    pub seed: u64,
    /// Number of nodes at the start.
    pub nodes: u32,
    /// Maximum number of nodes that the workload may create.
    pub nodes_max: u32,
    /// Interval at which kubelets renew their leases.
    pub lease_ms: i64,
    /// The controller's limit of creations and deletions in one sync.
    pub burst_replicas: u32,
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
    /// When the last of these writes took effect.
    pub last_write_at: Timestamp,
    /// A fault, with the number of the write at which it is injected.
    pub injected_fault: Option<(u64, InjectedFault)>,
    /// The deliberate bug of every replica.
    pub mutation: Option<Mutation>,
    /// Objects that lists and watches serve with bytes that are not UTF-8.
    pub invalid_objects: Vec<InvalidUtf8>,
    /// Objects with invalid bytes and the reports about them, of all replicas.
    pub read_report: ReadReport,
    leader_runs: Vec<LeaderRun>,
    leader_run_number: u64,
    event_queue: BTreeMap<(Timestamp, u64), ScheduledEvent>,
    event_number: u64,
    cluster_due_at: Option<Timestamp>,
    /// The store's resourceVersion after the components of the cluster last acted.
    settled_version: u64,
    watches_stalled: bool,
}

/// The lifecycles of pods on nodes with the label `life`.
static LIFECYCLES: LazyLock<Lifecycles> = LazyLock::new(|| {
    const TEXT: &str = "
lifecycles:
  - name: quick
    stages: [{stage: pull, delay: 5ms}, {stage: start, delay: 5ms}, {stage: stop, delay: 20ms}]
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
        let mut world = Self {
            now: START,
            setting,
            rng: Pcg64Mcg::seed_from_u64(setting.seed),
            cluster,
            faults: Faults::default(),
            checks: Checks::default(),
            violation: None,
            transcript: None,
            writes: 0,
            last_write_at: START,
            injected_fault: None,
            mutation: None,
            invalid_objects: Vec::new(),
            read_report: ReadReport::default(),
            leader_runs: Vec::new(),
            leader_run_number: 0,
            event_queue: BTreeMap::new(),
            event_number: 0,
            cluster_due_at: Some(START),
            settled_version: 0,
            watches_stalled: false,
        };
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

    /// Processes events up to this time or to the first violation.
    pub fn run_until(&mut self, end: Timestamp) {
        while self.violation.is_none() {
            let next = self.event_queue.first_key_value().map(|((at, _), _)| *at);
            let Some(at) =
                next.into_iter().chain(self.cluster_due_at).min().filter(|at| *at <= end)
            else {
                break;
            };
            self.now = self.now.max(at);
            if self.cluster_due_at.is_some_and(|due| due <= self.now) {
                self.settle();
            }
            while let Some(entry) = self.event_queue.first_entry()
                && entry.key().0 <= self.now
            {
                let event = entry.remove();
                self.handle(event);
                self.settle();
            }
        }
        self.now = self.now.max(end);
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
        self.checks.update(self.cluster.store(), self.now);
        if self.watches_stalled {
            return;
        }
        let mut deliveries = Vec::new();
        for run in &mut self.leader_runs {
            for (index, watch) in run.watches.iter().enumerate() {
                if !run.delivery_scheduled[index] && watch.has_changes(self.cluster.store()) {
                    run.delivery_scheduled[index] = true;
                    deliveries.push((run.number, index));
                }
            }
        }
        for (run, watch) in deliveries {
            let stall = self.faults.draw_delivery_delay(&mut self.rng).map(|delay| delay.lasts.0);
            if stall.is_some() {
                self.checks.record_fault("stalled watch");
            }
            let delay = stall.unwrap_or_else(|| self.faults.delay_ms(&mut self.rng));
            self.schedule(delay, ScheduledEvent::DeliverWatch { run, watch });
        }
    }

    fn schedule(&mut self, delay_ms: i64, event: ScheduledEvent) {
        self.event_number += 1;
        self.event_queue
            .insert((Timestamp(self.now.0 + delay_ms.max(0)), self.event_number), event);
    }

    fn handle(&mut self, event: ScheduledEvent) {
        match event {
            ScheduledEvent::DeliverWatch { run, watch } => self.deliver_watch(run, watch),
            ScheduledEvent::Turn { run } => self.turn(run, Vec::new()),
            ScheduledEvent::Bookmark { run } => self.bookmark(run),
            ScheduledEvent::RequestArrives { run, request, reply } => {
                self.receive_request(run, request, reply)
            }
            ScheduledEvent::AnswerArrives { run, reply, answer } => {
                let fenced = self.leader_run(run).is_some_and(|run| run.network.is_fenced());
                // The receiver no longer exists if its replica has stopped.
                let _ = reply.send(if fenced { Err(Error::Fenced) } else { answer });
                self.turn(run, Vec::new());
            }
            ScheduledEvent::LateRequestArrives { request } => self.serve_late(&request),
            ScheduledEvent::Elect if self.leader_runs.iter().all(|run| run.network.is_fenced()) => {
                self.elect()
            }
            ScheduledEvent::Elect => {}
            ScheduledEvent::EndRun { run } => self.leader_runs.retain(|other| other.number != run),
            ScheduledEvent::ResumeWatches => self.watches_stalled = false,
        }
    }

    fn bookmark(&mut self, number: u64) {
        let store = self.cluster.store();
        let Some(run) = self.leader_runs.iter_mut().find(|run| run.number == number) else {
            return;
        };
        let mut observations = Vec::new();
        if !self.watches_stalled {
            let idle = run
                .watches
                .iter_mut()
                .zip(&run.delivery_scheduled)
                .filter(|(_, is_scheduled)| !**is_scheduled);
            observations.extend(idle.filter_map(|(watch, _)| watch.bookmark(store)));
        }
        if !observations.is_empty() {
            self.turn(number, observations);
        }
        self.schedule(BOOKMARK_MS, ScheduledEvent::Bookmark { run: number });
    }

    fn leader_run(&mut self, number: u64) -> Option<&mut LeaderRun> {
        self.leader_runs.iter_mut().find(|run| run.number == number)
    }

    fn deliver_watch(&mut self, number: u64, watch: usize) {
        let Some(run) = self.leader_runs.iter_mut().find(|run| run.number == number) else {
            return;
        };
        run.delivery_scheduled[watch] = false;
        if self.watches_stalled {
            return;
        }
        if self.server_refusal(number).is_some() {
            return self.retry_watch(number, watch);
        }
        let Some(run) = self.leader_runs.iter_mut().find(|run| run.number == number) else {
            return;
        };
        let (faults, registry) = (self.faults, self.cluster.registry_mut());
        let watch = &mut run.watches[watch];
        watch.set_invalid_objects(&self.invalid_objects);
        let observations = watch.deliver(registry.store_mut(), &faults, &mut self.rng);
        let (kind, read_report) = (watch.kind().kind, watch.take_read_report());
        self.add_read_report(number, read_report);
        if !observations.is_empty() {
            self.log(|| {
                format!(
                    "replica {number} sees {} of {kind}: {}",
                    observations.len(),
                    summary(&observations)
                )
            });
            self.turn(number, observations);
        }
    }

    fn add_read_report(&mut self, number: u64, read_report: ReadReport) {
        self.read_report.invalid_objects += read_report.invalid_objects;
        for problem in read_report.problems {
            self.log(|| format!("replica {number} reports {problem}"));
            self.read_report.problems.push(problem);
        }
    }

    fn turn(&mut self, number: u64, observations: Vec<Observation>) {
        let now = self.now;
        let is_recorded = self.transcript.is_some();
        let mut lines = Vec::new();
        let Some(run) = self.leader_run(number) else { return };
        let violation = run.turn(observations, now, &mut |line| {
            if is_recorded {
                lines.push(line);
            }
        });
        let sent = run.network.take_requests();
        let next_turn_at = run.next_turn_at.filter(|at| run.scheduled_turn_at != Some(*at));
        run.scheduled_turn_at = next_turn_at.or(run.scheduled_turn_at);
        for line in lines {
            self.log(|| line);
        }
        self.report_violation(violation);
        if let Some(at) = next_turn_at {
            self.schedule(at.0 - now.0, ScheduledEvent::Turn { run: number });
        }
        for (mut request, reply) in sent {
            let delay = self.faults.delay_ms(&mut self.rng);
            let store = self.cluster.store();
            let answer = self.mutation.and_then(|mutation| mutation.request(store, &mut request));
            let event = match answer {
                None => ScheduledEvent::RequestArrives { run: number, request, reply },
                Some(answer) => ScheduledEvent::AnswerArrives { run: number, reply, answer },
            };
            self.schedule(delay, event);
        }
    }

    /// Records the first violation, which ends the run.
    pub fn report_violation(&mut self, violation: Option<Violation>) {
        if let Some(violation) = violation
            && self.violation.is_none()
        {
            self.log(|| format!("VIOLATION {violation:?}"));
            self.violation = Some(violation);
        }
    }

    /// Removes all faults except invalid bytes, waits, and checks the properties that hold at rest.
    pub fn run_to_quiescence(&mut self) {
        const REST_MS: i64 = 45 * 60_000;
        const QUIET_MS: i64 = 20 * 60_000;
        // Invalid bytes are stored, so they stay. The cluster must come to rest all the same.
        let invalid_utf8 = self.faults.invalid_utf8;
        self.faults = Faults { invalid_utf8, ..Faults::default() };
        self.log(|| "rest".to_owned());
        self.run_for(REST_MS);
        if self.violation.is_some() {
            return;
        }
        if self.now.0 - self.last_write_at.0 < QUIET_MS {
            let message = "the controller still writes although nothing changes".to_owned();
            return self
                .report_violation(Some(Violation { property: Property::Quiescence, message }));
        }
        let violation = self.checks.check_quiescence(self.now);
        self.report_violation(violation);
    }
}

fn summary(observations: &[Observation]) -> String {
    let mut text = format!("{:?}", observations.first());
    text.truncate(text.floor_char_boundary(120));
    text
}
