//! Everything at once: the sandbox's cluster, the replicas, and an agenda of what happens when. The world
//! jumps from one moment to the next; all chance comes from one seed.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use everynode_controller::api::Error;
use everynode_controller::observation::Observation;
use everynode_core::api::Timestamp;
use everynode_sandbox::cluster::lifecycle::Lifecycles;
use everynode_sandbox::cluster::{Cluster, Settings};
use everynode_sandbox::fault::InvalidUtf8;
use everynode_sandbox::nodes;
use everynode_sandbox::store::{Options, Store, WriteOptions};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use crate::checker::{Checks, Property, Violation};
use crate::fault::Faults;
use crate::mutation::Mutation;
use crate::network::{Answer, Reply, Request};

use crate::term::Term;

mod foreign_object;
mod leader;
mod outage;
mod request;
mod write;

pub(crate) use write::place;

pub use crate::feed::Reading;

/// Namespace of all namespaced objects.
pub const NAMESPACE: &str = "default";

pub const START: Timestamp = Timestamp(1_767_225_600_000);

/// How long nobody leads after a leader has stopped: what is between renew deadline and lease (C63).
const INTERREGNUM_MS: i64 = 5_000;

/// A lease that is not renewed while a schedule lasts: time is cheap then, and nothing wakes replicas up that know of no
/// reason of their own.
pub const LEASE_NEVER_MS: i64 = 1_000 * 3_600_000;

const BOOKMARK_MS: i64 = 60_000;

/// What happens at some moment.
enum Due {
    /// A feed of a term delivers.
    Poll {
        term: u64,
        feed: usize,
    },
    Arrive {
        term: u64,
        request: Request,
        reply: Reply,
    },
    Answer {
        term: u64,
        reply: Reply,
        answer: Answer,
    },
    /// A write takes effect for which nobody waits any more.
    Land {
        request: Request,
    },
    Turn {
        term: u64,
    },
    /// Watches say how far they are, as API servers do every minute.
    Bookmark {
        term: u64,
    },
    /// A new leader.
    Elect,
    /// A deposed leader notices.
    End {
        term: u64,
    },
    /// The node is under way again; the exhaustive tests' watch goes on.
    Thaw,
}

/// What an exhaustive test does right after one write has landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// The leader crashes; the answer is lost.
    Crash,
    /// The leader is fenced, and goes on deciding while another one leads.
    Depose,
    /// Watches stand still for a while.
    Freeze,
    /// Watches break off, and what happened meanwhile is compacted away.
    Hide,
    /// The answer is lost.
    LoseAnswer,
    /// The answer is a 5xx.
    Committed5xx,
    /// Just before it lands, somebody else's object has taken the name of the one that it is meant for, or that is to be.
    Impostor,
}

/// What a world is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Of all chance that is not the workload's.
    pub seed: u64,
    pub nodes: u32,
    /// How many nodes there may be later.
    pub nodes_max: u32,
    /// How often kubelets renew their leases.
    pub lease_ms: i64,
    pub burst_replicas: u32,
}

pub struct World {
    pub now: Timestamp,
    pub setting: Setting,
    /// What becomes of messages.
    pub rng: Pcg64Mcg,
    pub cluster: Cluster,
    pub faults: Faults,
    pub checks: Checks,
    pub violation: Option<Violation>,
    /// Every line, if it is kept.
    pub transcript: Option<Vec<String>>,
    pub writes: u64,
    pub last_write_at: Timestamp,
    pub strike: Option<(u64, Strike)>,
    pub mutation: Option<Mutation>,
    /// Objects that lists and watches serve with bytes that are not UTF-8.
    pub invalid: Vec<InvalidUtf8>,
    /// Objects with invalid bytes, and reports about objects, of all replicas.
    pub reading: Reading,
    terms: Vec<Term>,
    term_number: u64,
    agenda: BTreeMap<(Timestamp, u64), Due>,
    sequence: u64,
    cluster_due: Option<Timestamp>,
    /// The store's resourceVersion when the cluster was last found settled.
    settled: u64,
    frozen: bool,
}

/// How nodes with the label `life` treat their pods.
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
    Lifecycles::parse(TEXT).expect("the lifecycles are right")
});

impl World {
    /// A cluster, and no replica yet.
    pub fn new(setting: Setting) -> Self {
        let store = Store::new(&Options { seed: setting.seed, ..Options::default() }, START);
        let settings = Settings {
            seed: setting.seed,
            lease_renew_ms: setting.lease_ms,
            node_monitor_grace_ms: setting.lease_ms * 3 / 2,
            // Nobody reads them.
            event_age_ms: 0,
            ..Settings::default()
        };
        let mut cluster = Cluster::new(store, settings, (*LIFECYCLES).clone(), START);
        let made = nodes::generate(setting.nodes, 1).expect("the number is possible");
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
            strike: None,
            mutation: None,
            invalid: Vec::new(),
            reading: Reading::default(),
            terms: Vec::new(),
            term_number: 0,
            agenda: BTreeMap::new(),
            sequence: 0,
            cluster_due: Some(START),
            settled: 0,
            frozen: false,
        };
        world.settle();
        world
    }

    pub fn at(&self) -> WriteOptions {
        WriteOptions::at(self.now)
    }

    pub fn store(&mut self) -> &mut Store {
        self.cluster.store_mut()
    }

    pub fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(transcript) = &mut self.transcript {
            transcript.push(format!("{:>9.3} {}", (self.now.0 - START.0) as f64 / 1000.0, line()));
        }
    }

    /// Goes on until then, or to the first violation.
    pub fn run_until(&mut self, end: Timestamp) {
        while self.violation.is_none() {
            let next = self.agenda.first_key_value().map(|((at, _), _)| *at);
            let Some(at) = next.into_iter().chain(self.cluster_due).min().filter(|at| *at <= end)
            else {
                break;
            };
            self.now = self.now.max(at);
            if self.cluster_due.is_some_and(|due| due <= self.now) {
                self.settle();
            }
            while let Some(entry) = self.agenda.first_entry()
                && entry.key().0 <= self.now
            {
                let due = entry.remove();
                self.happen(due);
                self.settle();
            }
        }
        self.now = self.now.max(end);
    }

    pub fn run_for(&mut self, millis: i64) {
        self.run_until(Timestamp(self.now.0 + millis));
    }

    /// Lets the cluster act and the checkers look, and has news delivered.
    pub fn settle(&mut self) {
        let is_due = self.cluster_due.is_some_and(|due| due <= self.now);
        if is_due || self.settled != self.cluster.store().resource_version() {
            self.cluster_due = self.cluster.settle(self.now);
            self.settled = self.cluster.store().resource_version();
        }
        self.checks.follow(self.cluster.store(), self.now);
        if self.frozen {
            return;
        }
        let mut polls = Vec::new();
        for term in &mut self.terms {
            for (index, feed) in term.feeds.iter().enumerate() {
                if !term.polled[index] && feed.has_news(self.cluster.store()) {
                    term.polled[index] = true;
                    polls.push((term.number, index));
                }
            }
        }
        for (term, feed) in polls {
            let stall = self.faults.on_delivery(&mut self.rng).map(|delay| delay.lasts.0);
            let delay = stall.unwrap_or_else(|| self.faults.delay_ms(&mut self.rng));
            self.schedule(delay, Due::Poll { term, feed });
        }
    }

    fn schedule(&mut self, delay_ms: i64, due: Due) {
        self.sequence += 1;
        self.agenda.insert((Timestamp(self.now.0 + delay_ms.max(0)), self.sequence), due);
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Poll { term, feed } => self.poll(term, feed),
            Due::Turn { term } => self.turn(term, Vec::new()),
            Due::Bookmark { term } => self.bookmark(term),
            Due::Arrive { term, request, reply } => self.arrive(term, request, reply),
            Due::Answer { term, reply, answer } => {
                let fenced = self.term(term).is_some_and(|term| term.network.is_fenced());
                // Whoever waited for it may be gone.
                let _ = reply.send(if fenced { Err(Error::Fenced) } else { answer });
                self.turn(term, Vec::new());
            }
            Due::Land { request } => self.land(&request),
            Due::Elect if self.terms.iter().all(|term| term.network.is_fenced()) => self.elect(),
            Due::Elect => {}
            Due::End { term } => self.terms.retain(|known| known.number != term),
            Due::Thaw => self.frozen = false,
        }
    }

    fn bookmark(&mut self, number: u64) {
        let store = self.cluster.store();
        let Some(term) = self.terms.iter_mut().find(|term| term.number == number) else { return };
        let mut seen = Vec::new();
        if !self.frozen {
            let idle = term.feeds.iter_mut().zip(&term.polled).filter(|(_, polled)| !**polled);
            seen.extend(idle.filter_map(|(feed, _)| feed.bookmark(store)));
        }
        if !seen.is_empty() {
            self.turn(number, seen);
        }
        self.schedule(BOOKMARK_MS, Due::Bookmark { term: number });
    }

    fn term(&mut self, number: u64) -> Option<&mut Term> {
        self.terms.iter_mut().find(|term| term.number == number)
    }

    fn poll(&mut self, number: u64, feed: usize) {
        let Some(term) = self.terms.iter_mut().find(|term| term.number == number) else { return };
        term.polled[feed] = false;
        if self.frozen {
            return;
        }
        if self.is_refused(number).is_some() {
            return self.ask_again(number, feed);
        }
        let Some(term) = self.terms.iter_mut().find(|term| term.number == number) else { return };
        let (faults, store) = (self.faults, self.cluster.store_mut());
        let feed = &mut term.feeds[feed];
        feed.set_invalid(&self.invalid);
        let seen = feed.poll(store, &faults, &mut self.rng);
        let (kind, reading) = (feed.kind().kind, feed.take_reading());
        self.note_reading(number, reading);
        if !seen.is_empty() {
            self.say(|| {
                format!("replica {number} sees {} of {kind}: {}", seen.len(), summary(&seen))
            });
            self.turn(number, seen);
        }
    }

    fn note_reading(&mut self, number: u64, reading: Reading) {
        self.reading.invalid += reading.invalid;
        for problem in reading.problems {
            self.say(|| format!("replica {number} reports {problem}"));
            self.reading.problems.push(problem);
        }
    }

    fn turn(&mut self, number: u64, seen: Vec<Observation>) {
        let now = self.now;
        let keeps = self.transcript.is_some();
        let mut lines = Vec::new();
        let Some(term) = self.term(number) else { return };
        let violation = term.turn(seen, now, &mut |line| {
            if keeps {
                lines.push(line);
            }
        });
        let sent = term.network.drain();
        let wake_at = term.wake_at.filter(|at| term.woken_at != Some(*at));
        term.woken_at = wake_at.or(term.woken_at);
        for line in lines {
            self.say(|| line);
        }
        self.fail(violation);
        if let Some(at) = wake_at {
            self.schedule(at.0 - now.0, Due::Turn { term: number });
        }
        for (mut request, reply) in sent {
            let delay = self.faults.delay_ms(&mut self.rng);
            let store = self.cluster.store();
            let answer = self.mutation.and_then(|mutation| mutation.request(store, &mut request));
            let due = match answer {
                None => Due::Arrive { term: number, request, reply },
                Some(answer) => Due::Answer { term: number, reply, answer },
            };
            self.schedule(delay, due);
        }
    }

    pub fn fail(&mut self, violation: Option<Violation>) {
        if let Some(violation) = violation
            && self.violation.is_none()
        {
            self.say(|| format!("VIOLATION {violation:?}"));
            self.violation = Some(violation);
        }
    }

    /// Ends the chaos and checks what must hold at rest.
    pub fn come_to_rest(&mut self) {
        const REST_MS: i64 = 45 * 60_000;
        const QUIET_MS: i64 = 20 * 60_000;
        // Invalid bytes are stored, so they stay. The cluster must come to rest all the same.
        let invalid_utf8 = self.faults.invalid_utf8;
        self.faults = Faults { invalid_utf8, ..Faults::default() };
        self.say(|| "rest".to_owned());
        self.run_for(REST_MS);
        if self.violation.is_some() {
            return;
        }
        if self.now.0 - self.last_write_at.0 < QUIET_MS {
            let message = "writes go on although nothing changes".to_owned();
            return self.fail(Some(Violation { property: Property::Rest, message }));
        }
        let violation = crate::checker::at_rest(&self.checks.truth, self.now);
        self.fail(violation);
    }
}

fn summary(seen: &[Observation]) -> String {
    let mut text = format!("{:?}", seen.first());
    text.truncate(text.floor_char_boundary(120));
    text
}
