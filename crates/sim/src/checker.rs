//! Checkers of the properties, one file each, and their common state: what others have changed
//! recently.

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

use crate::cluster_state::ClusterState;
use crate::network::Request;
use crate::serve::Target;
use budget::Budget;

pub use quiescence::check as check_quiescence;

/// Every replica has observed a change after this time. The slowest observation takes this long: a
/// request that was decided just before takes 4 s, no replica leads for 5 s, and a watch that is
/// closed several times in a row, with deliveries of 2 s each, takes the rest.
const OBSERVATION_DELAY_MAX_MS: i64 = 30_000;

/// A violation of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The violated property.
    pub property: Property,
    /// The objects concerned and what is wrong with them.
    pub message: String,
}

/// A property that the controller must have. Each deliberate bug violates one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// A node has at most one pod of a DaemonSet, or two with surge (C22, C26, C34).
    Duplicate,
    /// The controller makes at most `maxUnavailable` pods unavailable (C52, C53).
    Budget,
    /// The controller writes no object of another owner (C21, C61).
    Foreign,
    /// The controller deletes no revision that a live pod uses (C44).
    Revision,
    /// The template of a pod is that of its revision (C30).
    Template,
    /// At rest every node that should run a pod has exactly one, and a node that must not run one
    /// has none (C23).
    Placement,
    /// At rest the status is correct (C70).
    Status,
    /// At rest the controller writes nothing (C80).
    Quiescence,
    /// The controller writes at most a certain number of times a minute.
    WriteRate,
    /// Counts and work sets equal recomputed ones (C80).
    Recount,
    /// The controller observes every write before the expectation lapses (C60).
    ExpectationLapse,
    /// The controller does not panic, and no assertion fails.
    Panic,
}

/// The times at which something last happened, by key.
#[derive(Debug)]
struct EventTimes<K>(BTreeMap<K, Timestamp>);

/// The fields of a DaemonSet's spec that budgets depend on.
#[derive(Clone, Debug)]
struct Spec {
    placement: Placement,
    strategy: UpdateStrategy,
    min_ready_seconds: u32,
}

/// The specs of a DaemonSet. A replica acts on the current spec, or on an earlier one until it
/// observes the change.
#[derive(Debug)]
struct SpecHistory {
    spec: Spec,
    generation: i64,
    /// When the spec last changed.
    changed_at: Timestamp,
    /// The earlier specs, with the time at which each was replaced.
    previous: Vec<(Timestamp, Spec)>,
}

/// The state of all checkers.
#[derive(Default)]
pub struct Checks {
    /// The actual state of the cluster.
    pub cluster_state: ClusterState,
    spec_histories: BTreeMap<Uid, SpecHistory>,
    /// Nodes that others have changed, or on which they have changed a pod.
    changed_nodes: EventTimes<String>,
    /// Pods that a replica may not count as the DaemonSet's: others have changed their labels, or
    /// created them without a controller, or the scheduler has bound them only now.
    ambiguous_pods: EventTimes<Uid>,
    /// Pods and revisions that have lost their controller.
    released: EventTimes<Uid>,
    /// Names of pods.
    pod_names: EventTimes<String>,
    foreign_pod_names: EventTimes<String>,
    /// Names of pods that a delayed request has created. Their replica may not have observed them.
    late_pod_names: EventTimes<String>,
    /// DaemonSets that are deleted or terminating.
    deleted_daemon_sets: EventTimes<Uid>,
    /// When others last changed a revision. A revision may be missing after that.
    revisions_changed_at: Option<Timestamp>,
    budget: Budget,
}

/// A write of the controller just before it takes effect.
pub struct PendingWrite<'a> {
    /// The store before the write.
    pub store: &'a Store,
    /// The request.
    pub request: &'a Request,
    /// The resource that the request writes.
    pub target: &'a Target,
    /// The body of the request, or null.
    pub body: &'a Value,
    /// The current time.
    pub now: Timestamp,
    /// Whether the write takes effect seconds after its sender stopped waiting for it.
    pub arrives_late: bool,
    /// Whether faults stall watches in this schedule.
    pub watches_stall: bool,
}

impl PendingWrite<'_> {
    fn object(&self) -> Option<&Object> {
        let Target { kind, namespace, name, .. } = self.target;
        Some(self.store.find(kind, namespace, name)?)
    }

    /// The UID of the controller that the body sets.
    fn owner(&self) -> Option<Uid> {
        let owner = &self.body["metadata"]["ownerReferences"][0];
        owner["controller"].as_bool().filter(|is_controller| *is_controller)?;
        owner["uid"].as_str().map(Uid::new)
    }

    fn creates(&self, kind: &Kind) -> bool {
        self.request.method == http::Method::POST && self.target.kind.kind == kind.kind
    }

    /// Whether the server refuses the creation because the name is taken.
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
    /// Reads all changes of the store since the last call.
    pub fn update(&mut self, store: &Store, now: Timestamp) {
        if !self.cluster_state.update(store) {
            return;
        }
        for uid in self.cluster_state.released.drain(..) {
            self.released.record(uid, now);
        }
        for uid in self.cluster_state.scheduled_pods.drain(..) {
            self.ambiguous_pods.record(uid, now);
        }
        for (name, is_foreign) in self.cluster_state.pod_names.drain(..) {
            if is_foreign {
                self.foreign_pod_names.record(name.clone(), now);
            }
            self.pod_names.record(name, now);
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
                self.deleted_daemon_sets.record(uid.clone(), now);
            }
        }
        self.budget.remove_recovered(
            &self.cluster_state,
            &self.spec_histories,
            &self.changed_nodes,
            now,
        );
    }

    /// Records that others have changed a node or a pod on it.
    pub fn note_node_change(&mut self, node: &str, now: Timestamp) {
        self.changed_nodes.record(node.to_owned(), now);
    }

    /// Records that others have changed a pod's labels, or have created a pod without a controller.
    pub fn note_label_change(&mut self, pod: &str, now: Timestamp) {
        self.ambiguous_pods.record(Uid::new(pod), now);
    }

    /// Records that others have changed a revision.
    pub fn note_revision_change(&mut self, now: Timestamp) {
        self.revisions_changed_at = Some(now);
    }

    /// Checks a write of the controller before it takes effect. A write that the server refuses is
    /// no violation.
    pub fn check_write(&mut self, write: &PendingWrite) -> Option<Violation> {
        self.update(write.store, write.now);
        if write.is_name_taken() || self.is_late_duplicate(write) {
            return None;
        }
        if write.arrives_late
            && write.creates(&POD)
            && let Some(name) = write.body["metadata"]["name"].as_str()
        {
            self.late_pod_names.record(name.to_owned(), write.now);
        }
        duplicate::check(write, self)
            .or_else(|| foreign::check(write, self))
            .or_else(|| self.check_revisions(write))
            .or_else(|| self.check_budget(write))
    }

    /// Checks the rules about revisions.
    ///
    /// Exemption: a delayed write was correct when it was sent and cannot be withdrawn. The
    /// template may have changed since, and its history may have been truncated. The controller
    /// then replaces the pod or writes the revision again, as upstream does.
    fn check_revisions(&self, write: &PendingWrite) -> Option<Violation> {
        if write.arrives_late {
            return None;
        }
        revision::check(write, self).or_else(|| template::check(write, self))
    }

    /// Whether a creation is a delayed request whose pod has since got another name. C35 reserves a
    /// name while a request may be in flight, so this is only possible in two cases, which are
    /// exempt: the name belonged to a foreign pod, or surge created the next pod beside the first
    /// one.
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
    fn record(&mut self, key: K, now: Timestamp) {
        self.0.insert(key, now);
    }

    /// Whether it happened so recently that a replica may not have observed it.
    fn is_recent<Q: Ord + ?Sized>(&self, key: &Q, now: Timestamp) -> bool
    where
        K: std::borrow::Borrow<Q>,
    {
        self.0.get(key).is_some_and(|at| is_recent(*at, now))
    }

    /// Number of keys for which it happened recently.
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

    /// Maximum number of unavailable pods during a rolling update over this number of nodes. It is
    /// 0 with surge.
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

/// Whether objects of this kind have owners.
fn is_owned(kind: &Kind) -> bool {
    kind.kind == POD.kind || kind.kind == CONTROLLER_REVISION.kind
}
