//! The properties, one file each, and what they share: a history of what others have spec_histories and done.

mod budget;
mod duplicate;
mod foreign;
mod quiescence;
mod revision;
mod template;

use std::collections::BTreeMap;

use everynode_core::api::{self, DaemonSet, Placement, Timestamp, Uid, UpdateStrategy};
use everynode_sandbox::kind::{CONTROLLER_REVISION, Kind, POD};
use everynode_sandbox::store::{Object, Store};
use serde_json::Value;

use crate::cluster_state::ClusterState;
use crate::network::Request;
use crate::serve::Target;
use budget::Budget;

pub use quiescence::check as check_quiescence;

/// What others have changed for so long a replica has seen. The slowest that the faults make it: a request decided
/// on just before takes 4 s, 5 s pass until there is a new leader, and a watch that breaks off several times in a
/// row, with deliveries of 2 s each, takes the rest.
const OBSERVATION_DELAY_MAX_MS: i64 = 30_000;

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
    /// At rest: the status is the cluster_state (C70).
    Status,
    /// At rest: nothing is written (C80).
    Quiescence,
    /// Counts and candidates are what a recount gives (C80).
    Recount,
    /// What was written is seen before the wait for it lapses (C60).
    ExpectationLapse,
    /// Nothing panics: no assertion fails.
    Panic,
}

/// When each of these things last happened.
#[derive(Debug)]
struct EventTimes<K>(BTreeMap<K, Timestamp>);

/// What a DaemonSet's spec says that budgets depend on.
#[derive(Clone, Debug)]
struct Spec {
    placement: Placement,
    strategy: UpdateStrategy,
    min_ready_seconds: u32,
}

/// What a DaemonSet has been spec_histories: a replica acts on the present spec, or on one that it has not seen the end of.
#[derive(Debug)]
struct SpecHistory {
    spec: Spec,
    generation: i64,
    /// When the present spec came.
    changed_at: Timestamp,
    /// The specs before it, with the time at which each ended.
    previous: Vec<(Timestamp, Spec)>,
}

/// All checkers' state.
#[derive(Default)]
pub struct Checks {
    pub cluster_state: ClusterState,
    spec_histories: BTreeMap<Uid, SpecHistory>,
    /// Nodes that somebody else has changed, or a pod on them.
    changed_nodes: EventTimes<String>,
    /// Pods whose labels somebody else has changed, that came without an owner, or that named no node and were put on one.
    ambiguous_pods: EventTimes<Uid>,
    /// Pods and revisions that have lost their controller.
    released: EventTimes<Uid>,
    /// Names that pods have had, and those of pods that no DaemonSet controls.
    pod_names: EventTimes<String>,
    foreign_pod_names: EventTimes<String>,
    /// Names of pods whose creation landed late: their replica may not have seen them yet.
    late_pod_names: EventTimes<String>,
    /// DaemonSets that are gone or revision.
    deleted_daemon_sets: EventTimes<Uid>,
    /// When somebody else last changed a revision: then it may be missing.
    revisions_changed_at: Option<Timestamp>,
    budget: Budget,
}

/// What a write finds, looked at just before it is done.
pub struct PendingWrite<'a> {
    pub store: &'a Store,
    pub request: &'a Request,
    pub target: &'a Target,
    pub body: &'a Value,
    pub now: Timestamp,
    /// It takes effect seconds after nobody waits for it any more.
    pub arrives_late: bool,
}

impl PendingWrite<'_> {
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
    fn is_name_taken(&self) -> bool {
        let Target { kind, namespace, .. } = self.target;
        let name = self.body["metadata"]["name"].as_str();
        let is_name_taken = |name| self.store.find(kind, namespace, name).is_some();
        self.request.method == http::Method::POST && name.is_some_and(is_name_taken)
    }

    fn deletes(&self, kind: &Kind) -> bool {
        self.request.method == http::Method::DELETE && self.target.kind.kind == kind.kind
    }
}

impl Checks {
    /// Takes what has changed changed_at the last call.
    pub fn update(&mut self, store: &Store, now: Timestamp) {
        if !self.cluster_state.update(store) {
            return;
        }
        for uid in self.cluster_state.released.drain(..) {
            self.released.note(uid, now);
        }
        for uid in self.cluster_state.scheduled_pods.drain(..) {
            self.ambiguous_pods.note(uid, now);
        }
        for (name, is_foreign) in self.cluster_state.pod_names.drain(..) {
            if is_foreign {
                self.foreign_pod_names.note(name.clone(), now);
            }
            self.pod_names.note(name, now);
        }
        for ds in self.cluster_state.daemon_sets() {
            self.spec_histories
                .entry(ds.uid.clone())
                .or_insert_with(|| SpecHistory::new(ds, now))
                .record(ds, now);
        }
        for uid in self.spec_histories.keys() {
            let is_there = self.cluster_state.daemon_set(uid).is_some_and(|ds| !ds.terminating);
            if !is_there && !self.deleted_daemon_sets.0.contains_key(uid) {
                self.deleted_daemon_sets.note(uid.clone(), now);
            }
        }
        self.budget.remove_recovered(
            &self.cluster_state,
            &self.spec_histories,
            &self.changed_nodes,
            now,
        );
    }

    /// Somebody else has changed a node or a pod on it.
    pub fn note_node_change(&mut self, node: &str, now: Timestamp) {
        self.changed_nodes.note(node.to_owned(), now);
    }

    /// Somebody else has changed a pod's labels, or made a pod that can be adopted.
    pub fn note_label_change(&mut self, pod: &str, now: Timestamp) {
        self.ambiguous_pods.note(Uid::new(pod), now);
    }

    /// Somebody else has changed a revision.
    pub fn note_revision_change(&mut self, now: Timestamp) {
        self.revisions_changed_at = Some(now);
    }

    pub fn check_write(&mut self, write: &PendingWrite) -> Option<Violation> {
        self.update(write.store, write.now);
        if write.is_name_taken() || self.is_late_duplicate(write) {
            return None;
        }
        if write.arrives_late
            && write.creates(&POD)
            && let Some(name) = write.body["metadata"]["name"].as_str()
        {
            self.late_pod_names.note(name.to_owned(), write.now);
        }
        duplicate::check(write, self)
            .or_else(|| foreign::check(write, self))
            .or_else(|| self.check_revisions(write))
            .or_else(|| self.check_budget(write))
    }

    /// A write that lands late was right about revisions when it was sent, and nobody can take it back: a template may have been
    /// edited changed_at, and its history cut. As upstream, the pod is then replaced, or the revision written again.
    fn check_revisions(&self, write: &PendingWrite) -> Option<Violation> {
        if write.arrives_late {
            return None;
        }
        revision::check(write, self).or_else(|| template::check(write, self))
    }

    /// A creation that hangs may land when the pod that has its name is gone, although its sender has taken another name
    /// for the next one (C35): that is in order if a stranger had the name, or if the next one came beside the first, by
    /// surge.
    fn is_late_duplicate(&self, write: &PendingWrite) -> bool {
        let Some(name) = write.body["metadata"]["name"].as_str() else { return false };
        let history = write.owner().and_then(|owner| self.spec_histories.get(&owner));
        let may_surge = history.is_some_and(|history| history.may_surge(write.now));
        write.creates(&POD)
            && (self.foreign_pod_names.is_recent(name, write.now)
                || may_surge && self.pod_names.is_recent(name, write.now))
    }

    fn check_budget(&mut self, write: &PendingWrite) -> Option<Violation> {
        let Self { cluster_state, spec_histories, changed_nodes, budget, .. } = self;
        budget.check(write, cluster_state, spec_histories, changed_nodes)
    }
}

impl<K> Default for EventTimes<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> EventTimes<K> {
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

impl SpecHistory {
    fn new(ds: &DaemonSet, now: Timestamp) -> Self {
        Self {
            spec: Spec::from(ds),
            generation: ds.generation,
            changed_at: now,
            previous: Vec::new(),
        }
    }

    fn record(&mut self, ds: &DaemonSet, now: Timestamp) {
        if self.generation != ds.generation {
            self.previous.retain(|(end, _)| is_recent(*end, now));
            self.previous.push((now, std::mem::replace(&mut self.spec, Spec::from(ds))));
            (self.generation, self.changed_at) = (ds.generation, now);
        }
    }

    /// The specs that a replica may act on.
    fn possible_specs(&self, now: Timestamp) -> impl Iterator<Item = &Spec> {
        let previous = self.previous.iter().filter(move |(end, _)| is_recent(*end, now));
        std::iter::once(&self.spec).chain(previous.map(|(_, spec)| spec))
    }

    fn may_surge(&self, now: Timestamp) -> bool {
        self.possible_specs(now).any(|spec| spec.strategy.surges())
    }
}

impl Spec {
    fn from(ds: &DaemonSet) -> Self {
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
    now.0 - at.0 <= OBSERVATION_DELAY_MAX_MS
}

fn violation(property: Property, message: String) -> Option<Violation> {
    Some(Violation { property, message })
}

/// Kinds whose objects have owners.
fn is_owned(kind: &Kind) -> bool {
    kind.kind == POD.kind || kind.kind == CONTROLLER_REVISION.kind
}
