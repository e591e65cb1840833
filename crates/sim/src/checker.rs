//! The properties, one file each, and what they share: a history of what others have told and done.

mod budget;
mod duplicate;
mod foreign;
mod quiescence;
mod revision;
mod template;

use std::collections::BTreeMap;

use everynode_core::api::{self, DaemonSet, Placement, Timestamp, Uid, UpdateStrategy};
use everynode_sandbox::kind::{CONTROLLER_REVISION, Kind, POD};
use everynode_sandbox::object::Object;
use everynode_sandbox::store::Store;
use serde_json::Value;

use crate::network::Request;
use crate::serve::Target;
use crate::truth::Truth;
use budget::Budget;

pub use quiescence::check as at_rest;

/// What others have changed for so long a replica has seen. The slowest that the faults make it: a request decided
/// on just before takes 4 s, 5 s pass until there is a new leader, and a watch that breaks off several times in a
/// row, with deliveries of 2 s each, takes the rest.
const CALM_MS: i64 = 30_000;

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub property: Property,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// Never two pods of a DaemonSet on a node without surge, nor three with (C22, C26, C34).
    Duplicate,
    /// Never more taken down by us than maxUnavailable (C52, C53).
    Budget,
    /// Nothing of another owner is touched (C21, C61).
    Foreign,
    /// No revision goes that a live pod carries (C44).
    Revision,
    /// A pod's template is its revision's (C30).
    Template,
    /// At rest: exactly one pod where it must be, none where it must not (C23).
    Placement,
    /// At rest: the status is the truth (C70).
    Status,
    /// At rest: nothing is written (C80).
    Rest,
    /// Counts and candidates are what a recount gives (C80).
    Recount,
    /// What was written is seen before the wait for it lapses (C60).
    Lapse,
    /// Nothing panics: no assertion fails.
    Panic,
}

/// When each of these things last happened.
#[derive(Debug)]
struct Times<K>(BTreeMap<K, Timestamp>);

/// What a DaemonSet's spec says that budgets depend on.
#[derive(Clone, Debug)]
struct Spec {
    placement: Placement,
    strategy: UpdateStrategy,
    min_ready_seconds: u32,
}

/// What a DaemonSet has been told: a replica acts on the present spec, or on one that it has not seen the end of.
#[derive(Debug)]
struct Told {
    spec: Spec,
    generation: i64,
    /// When the present spec came.
    since: Timestamp,
    /// The specs before it, with the time at which each ended.
    before: Vec<(Timestamp, Spec)>,
}

/// All checkers' state.
#[derive(Default)]
pub struct Checks {
    pub truth: Truth,
    told: BTreeMap<Uid, Told>,
    /// Nodes that somebody else has changed, or a pod on them.
    disturbed: Times<String>,
    /// Pods whose labels somebody else has changed, that came without an owner, or that named no node and were put on one.
    relabelled: Times<Uid>,
    /// Pods and revisions that have lost their controller.
    let_go: Times<Uid>,
    /// Names that pods have had, and those of pods that no DaemonSet controls.
    names: Times<String>,
    names_of_strangers: Times<String>,
    /// Names of pods whose creation landed late: their replica may not have seen them yet.
    landed_late: Times<String>,
    /// DaemonSets that are gone or going.
    ended: Times<Uid>,
    /// When somebody else last changed a revision: then it may be missing.
    revisions_disturbed_at: Option<Timestamp>,
    budget: Budget,
}

/// What a write finds, looked at just before it is done.
pub struct Before<'a> {
    pub store: &'a Store,
    pub request: &'a Request,
    pub target: &'a Target,
    pub body: &'a Value,
    pub now: Timestamp,
    /// It takes effect seconds after nobody waits for it any more.
    pub is_late: bool,
}

impl Before<'_> {
    fn object(&self) -> Option<&Object> {
        let Target { kind, namespace, name, .. } = self.target;
        Some(self.store.find(kind, namespace, name)?)
    }

    /// The UID of the DaemonSet that the body makes the controller.
    fn owner(&self) -> Option<Uid> {
        let owner = &self.body["metadata"]["ownerReferences"][0];
        owner["controller"].as_bool().filter(|is_controller| *is_controller)?;
        owner["uid"].as_str().map(Uid::new)
    }

    fn creates(&self, kind: &Kind) -> bool {
        self.request.method == http::Method::POST && self.target.kind.kind == kind.kind
    }

    /// Whether it is to be created under a name that is taken: the server refuses it.
    fn is_taken(&self) -> bool {
        let Target { kind, namespace, .. } = self.target;
        let name = self.body["metadata"]["name"].as_str();
        let is_taken = |name| self.store.find(kind, namespace, name).is_some();
        self.request.method == http::Method::POST && name.is_some_and(is_taken)
    }

    fn deletes(&self, kind: &Kind) -> bool {
        self.request.method == http::Method::DELETE && self.target.kind.kind == kind.kind
    }
}

impl Checks {
    /// Takes what has changed since the last call.
    pub fn follow(&mut self, store: &Store, now: Timestamp) {
        if !self.truth.follow(store) {
            return;
        }
        for uid in self.truth.let_go.drain(..) {
            self.let_go.note(uid, now);
        }
        for uid in self.truth.put_on_a_node.drain(..) {
            self.relabelled.note(uid, now);
        }
        for (name, is_stranger) in self.truth.names.drain(..) {
            if is_stranger {
                self.names_of_strangers.note(name.clone(), now);
            }
            self.names.note(name, now);
        }
        for ds in self.truth.daemon_sets() {
            self.told.entry(ds.uid.clone()).or_insert_with(|| Told::new(ds, now)).tell(ds, now);
        }
        for uid in self.told.keys() {
            let is_there = self.truth.daemon_set(uid).is_some_and(|ds| !ds.terminating);
            if !is_there && !self.ended.0.contains_key(uid) {
                self.ended.note(uid.clone(), now);
            }
        }
        self.budget.recover(&self.truth, &self.told, &self.disturbed, now);
    }

    /// Somebody else has changed a node or a pod on it.
    pub fn disturb(&mut self, node: &str, now: Timestamp) {
        self.disturbed.note(node.to_owned(), now);
    }

    /// Somebody else has changed a pod's labels, or made a pod that can be adopted.
    pub fn relabel(&mut self, pod: &str, now: Timestamp) {
        self.relabelled.note(Uid::new(pod), now);
    }

    /// Somebody else has changed a revision.
    pub fn disturb_revisions(&mut self, now: Timestamp) {
        self.revisions_disturbed_at = Some(now);
    }

    pub fn before_write(&mut self, before: &Before) -> Option<Violation> {
        self.follow(before.store, before.now);
        if before.is_taken() || self.is_echo(before) {
            return None;
        }
        if before.is_late
            && before.creates(&POD)
            && let Some(name) = before.body["metadata"]["name"].as_str()
        {
            self.landed_late.note(name.to_owned(), before.now);
        }
        duplicate::check(before, self)
            .or_else(|| foreign::check(before, self))
            .or_else(|| self.check_revisions(before))
            .or_else(|| self.check_budget(before))
    }

    /// A write that lands late was right about revisions when it was sent, and nobody can take it back: a template may have been
    /// edited since, and its history cut. As upstream, the pod is then replaced, or the revision written again.
    fn check_revisions(&self, before: &Before) -> Option<Violation> {
        if before.is_late {
            return None;
        }
        revision::check(before, self).or_else(|| template::check(before, self))
    }

    /// A creation that hangs may land when the pod that has its name is gone, although its sender has taken another name
    /// for the next one (C35): that is in order if a stranger had the name, or if the next one came beside the first, by
    /// surge.
    fn is_echo(&self, before: &Before) -> bool {
        let Some(name) = before.body["metadata"]["name"].as_str() else { return false };
        let told = before.owner().and_then(|owner| self.told.get(&owner));
        let may_surge = told.is_some_and(|told| told.may_surge(before.now));
        before.creates(&POD)
            && (self.names_of_strangers.is_recent(name, before.now)
                || may_surge && self.names.is_recent(name, before.now))
    }

    fn check_budget(&mut self, before: &Before) -> Option<Violation> {
        let Self { truth, told, disturbed, budget, .. } = self;
        budget.check(before, truth, told, disturbed)
    }
}

impl<K> Default for Times<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Times<K> {
    fn note(&mut self, key: K, now: Timestamp) {
        self.0.insert(key, now);
    }

    /// Whether it happened so lately that a replica may not have seen it.
    fn is_recent<Q: Ord + ?Sized>(&self, key: &Q, now: Timestamp) -> bool
    where
        K: std::borrow::Borrow<Q>,
    {
        self.0.get(key).is_some_and(|at| is_recent(*at, now))
    }

    /// How many happened so lately.
    fn recent_count(&self, now: Timestamp) -> usize {
        self.0.values().filter(|at| is_recent(**at, now)).count()
    }
}

impl Told {
    fn new(ds: &DaemonSet, now: Timestamp) -> Self {
        Self { spec: Spec::of(ds), generation: ds.generation, since: now, before: Vec::new() }
    }

    fn tell(&mut self, ds: &DaemonSet, now: Timestamp) {
        if self.generation != ds.generation {
            self.before.retain(|(end, _)| is_recent(*end, now));
            self.before.push((now, std::mem::replace(&mut self.spec, Spec::of(ds))));
            (self.generation, self.since) = (ds.generation, now);
        }
    }

    /// The specs that a replica may act on.
    fn in_force(&self, now: Timestamp) -> impl Iterator<Item = &Spec> {
        let before = self.before.iter().filter(move |(end, _)| is_recent(*end, now));
        std::iter::once(&self.spec).chain(before.map(|(_, spec)| spec))
    }

    fn may_surge(&self, now: Timestamp) -> bool {
        self.in_force(now).any(|spec| spec.strategy.surges())
    }
}

impl Spec {
    fn of(ds: &DaemonSet) -> Self {
        Self {
            placement: ds.template.placement.clone(),
            strategy: ds.update_strategy,
            min_ready_seconds: ds.min_ready_seconds,
        }
    }

    /// How many of so many nodes a rolling update may take down at once; none while it surges.
    fn max_unavailable(&self, nodes: usize) -> usize {
        match self.strategy.budget(nodes) {
            Some(api::Budget::Unavailable(max_unavailable)) => max_unavailable,
            Some(api::Budget::Surge(_)) | None => 0,
        }
    }
}

fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    now.0 - at.0 <= CALM_MS
}

fn violation(property: Property, message: String) -> Option<Violation> {
    Some(Violation { property, message })
}

/// Kinds whose objects have owners.
fn is_owned(kind: &Kind) -> bool {
    kind.kind == POD.kind || kind.kind == CONTROLLER_REVISION.kind
}
