//! The index: the state of every DaemonSet, and which of them an observation affects. Sans-IO.
//!
//! Everything but nodes and ClusterRolloutPolicies belongs to one namespace, and so does every
//! decision about it. The index passes an observation to the DaemonSets that it affects and returns
//! the keys of those that changed. It makes no decisions; [`DaemonSetState`] does.

mod config_maps;
mod entry;
mod namespace;
mod policies;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everynode_core::api::{
    CheckAnswer, ConfigMap, DaemonSetKey, Namespace, NamespaceNodeSelector, Node, Now, Pod,
    ResourceVersion, Timestamp, Uid,
};
use everynode_core::daemon_set::{Config, DaemonSetState};
use everynode_core::node_table::{NodeId, NodeTable};
use everynode_core::plan::{CheckQuestion, Plan, Watermarks, WriteResult};
use everynode_k8s::convert::{
    DaemonSetObject, NamespaceObject, PodObject, RawDaemonSet, RevisionObject,
};
use everynode_k8s::policies::Policies;

use crate::observation::{Observation, OrphanListRequest, OrphanPods, WatchedResource};
use crate::watch::Change;
pub use entry::{ChangedPolicies, Urgency};
use namespace::NamespaceIndex;
pub use policies::PolicyStatusWrite;

/// The effects of an observation.
#[derive(Debug, Default, PartialEq)]
pub struct Effects {
    /// DaemonSets to plan for.
    pub changed: BTreeSet<DaemonSetKey>,
    /// DaemonSets that were deleted.
    pub deleted: BTreeSet<DaemonSetKey>,
    /// Orphan pods to list live: they were dropped if no DaemonSet selected them before (C3).
    pub orphan_lists: Vec<OrphanListRequest>,
    /// The resource of which the API server listed an older state than it had shown before.
    pub restored: Option<WatchedResource>,
}

/// A plan with the DaemonSet that its writes are made from.
#[derive(Debug)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// The DaemonSet in its JSON form.
    pub raw: Arc<RawDaemonSet>,
    /// True if the ConfigMaps of its namespace must be watched from now on.
    pub reads_config_maps: bool,
}

/// The known state of the cluster.
#[derive(Debug, Default)]
pub struct Index {
    config: Config,
    nodes: NodeTable,
    namespaces: BTreeMap<Namespace, NamespaceIndex>,
    /// Nodes that are not ready.
    down_nodes: BTreeSet<NodeId>,
    policies: Policies,
    /// Policy objects whose status may have to change.
    changed_policies: ChangedPolicies,
    watermarks: Watermarks,
    /// The version of the newest change that each watch has shown.
    shown: BTreeMap<WatchedResource, ResourceVersion>,
    /// DaemonSets whose last plan waited for a watch to catch up (C60).
    waiting: BTreeSet<DaemonSetKey>,
    /// The watermarks at the last [`wake`](Self::wake).
    woken_at: Watermarks,
    /// Live lists of orphans that are ahead of the watch of pods.
    early_lists: Vec<OrphanPods>,
    /// True if pods have been listed. No orphan was dropped before that.
    has_pods: bool,
}

impl Index {
    /// An empty index. `config` applies to every DaemonSet.
    pub fn new(config: Config) -> Self {
        Self { config, ..Self::default() }
    }

    /// Applies a change that a watch reports.
    pub fn observe(&mut self, observation: Observation) -> Effects {
        let mut effects = Effects::default();
        let (resource, change) = (observation.resource(), observation.change());
        let watermark = resource.watermark(&mut self.watermarks);
        if watermark.is_some_and(|watermark| advance(watermark, &change)) {
            self.server_restored(resource, &mut effects);
        }
        if !is_new(self.shown.entry(resource).or_default(), &change) {
            return effects;
        }
        match observation {
            Observation::Node(change) => self.observe_node(change, &mut effects),
            Observation::DaemonSet(change) => self.observe_daemon_set(change, &mut effects),
            Observation::Revision(change) => self.observe_revision(change, &mut effects),
            Observation::Namespace(change) => self.observe_namespace(change, &mut effects),
            Observation::RolloutPolicy(change) => self.observe_policy(true, change, &mut effects),
            Observation::ClusterRolloutPolicy(change) => {
                self.observe_policy(false, change, &mut effects);
            }
            Observation::Pod(change) => {
                self.observe_pod(change, &mut effects);
                self.apply_early_lists(&mut effects);
            }
        }
        effects
    }

    /// Applies a change of the ConfigMaps of a namespace.
    pub fn observe_config_maps(
        &mut self,
        namespace: &Namespace,
        change: Change<ConfigMap>,
    ) -> Effects {
        let mut effects = Effects::default();
        let index = self.namespaces.entry(namespace.clone()).or_default();
        if index.config_maps.apply(change) {
            let entries = index.daemon_sets.values_mut();
            for entry in entries.filter(|entry| entry.state.needs_config_maps()) {
                let known = index.config_maps.of(&entry.state);
                if entry.state.apply_config_maps(known) {
                    effects.changed.insert(entry.raw.key.clone());
                }
            }
        }
        effects
    }

    /// The server was restored: the next list of this resource replaces everything.
    fn server_restored(&mut self, resource: WatchedResource, effects: &mut Effects) {
        effects.restored = Some(resource);
        for namespace_index in self.namespaces.values_mut() {
            namespace_index.server_restored(&mut effects.changed);
        }
        if resource == WatchedResource::Pod {
            // The list has all orphans. The live lists are of versions that the restored server
            // may never reach.
            self.early_lists.clear();
            self.namespaces.values_mut().for_each(NamespaceIndex::cancel_listings);
        }
    }

    /// The DaemonSets that waited for a watch, if any watch has advanced since the last call. Call
    /// it after a batch of observations: its cost then does not depend on how many wait.
    pub fn wake(&mut self) -> BTreeSet<DaemonSetKey> {
        if self.woken_at == self.watermarks {
            return BTreeSet::new();
        }
        self.woken_at = self.watermarks;
        std::mem::take(&mut self.waiting)
    }

    /// Applies the answer to an [`OrphanListRequest`]. It takes effect once the watch of pods has
    /// reached the list's version: the watched pods are then at least as recent, and the DaemonSet
    /// can be planned for.
    pub fn observe_orphans(&mut self, orphans: OrphanPods) -> Effects {
        let mut effects = Effects::default();
        self.early_lists.push(orphans);
        self.apply_early_lists(&mut effects);
        effects
    }

    fn apply_early_lists(&mut self, effects: &mut Effects) {
        let reached = self.watermarks.pods;
        for orphans in self.early_lists.extract_if(.., |orphans| orphans.version <= reached) {
            let Some(namespace_index) = self.namespaces.get_mut(&orphans.key.namespace) else {
                continue;
            };
            for pod in namespace_index.end_listing(&orphans.key, orphans.pods) {
                namespace_index.apply_pod(Box::new(pod), &mut self.nodes, &mut effects.changed);
            }
            if namespace_index.daemon_sets.contains_key(&orphans.key.name) {
                effects.changed.insert(orphans.key);
            }
        }
    }

    /// The plan for a DaemonSet. `None` if there is no such DaemonSet, or if its orphans are not
    /// yet listed: a node must not get a second pod beside one that may be adopted (C34).
    pub fn plan(&mut self, key: &DaemonSetKey, now: impl Into<Now>) -> Option<Planned> {
        let namespace_index = self.namespaces.get_mut(&key.namespace)?;
        if namespace_index.awaits_listing(&key.name) {
            return None;
        }
        let entry = namespace_index.daemon_sets.get_mut(&key.name)?;
        let config_maps = &mut namespace_index.config_maps;
        let mut reads_config_maps = false;
        if entry.state.needs_config_maps() {
            reads_config_maps = config_maps.need();
            entry.state.apply_config_maps(config_maps.of(&entry.state));
        }
        let plan = entry.state.plan(now, &self.watermarks, &self.nodes);
        entry.record_rollout(&mut self.changed_policies);
        if plan.waiting.is_some_and(|waiting| waiting.stale_kinds + waiting.creations > 0) {
            self.waiting.insert(key.clone());
        } else {
            self.waiting.remove(key);
        }
        Some(Planned { plan, raw: entry.raw.clone(), reads_config_maps })
    }

    /// Applies the result of a write, unless the DaemonSet has been replaced since.
    pub fn written(&mut self, key: &DaemonSetKey, uid: &Uid, result: WriteResult, now: Timestamp) {
        let namespace_index = self.namespaces.get_mut(&key.namespace);
        if let Some(entry) = namespace_index
            .and_then(|namespace_index| namespace_index.daemon_sets.get_mut(&key.name))
            && entry.state.uid() == uid
        {
            entry.state.apply_result(result, now);
        }
    }

    /// Applies the answer to a check. Returns whether a plan is due.
    pub fn check_answered(&mut self, question: &CheckQuestion, answer: CheckAnswer) -> bool {
        let key = &question.daemon_set;
        let namespace_index = self.namespaces.get_mut(&key.namespace);
        let entry = namespace_index.and_then(|index| index.daemon_sets.get_mut(&key.name));
        entry.is_some_and(|entry| entry.state.apply_check_answer(question, answer))
    }

    /// The state of a DaemonSet.
    pub fn state(&self, key: &DaemonSetKey) -> Option<&DaemonSetState> {
        Some(&self.namespaces.get(&key.namespace)?.daemon_sets.get(&key.name)?.state)
    }

    /// The number of nodes that should run a pod of the DaemonSet, have none that is available, and
    /// are not ready themselves.
    pub fn down_nodes(&self, state: &DaemonSetState) -> usize {
        let counts = state.counts();
        if counts.available == counts.desired {
            return 0;
        }
        self.down_nodes.iter().filter(|id| state.lacks_available_pod(**id)).count()
    }

    /// True if there is no such DaemonSet, or if a list of its orphans or its own writes have
    /// yet to be seen. For checkers.
    pub fn awaits_anything(&self, key: &DaemonSetKey) -> bool {
        let Some(namespace_index) = self.namespaces.get(&key.namespace) else { return true };
        let entry = namespace_index.daemon_sets.get(&key.name);
        namespace_index.awaits_listing(&key.name)
            || entry.is_none_or(|entry| entry.state.awaits_writes(&self.watermarks))
    }

    /// All nodes.
    pub const fn nodes(&self) -> &NodeTable {
        &self.nodes
    }

    fn observe_node(&mut self, change: Change<Node>, effects: &mut Effects) {
        let changed: BTreeSet<NodeId> = match change {
            Change::Reset { items: nodes, .. } => self.nodes.reset(nodes),
            Change::Applied { item: node, .. } => self.nodes.apply(node).into_iter().collect(),
            Change::Deleted { item: node, .. } => {
                self.nodes.delete(&node.name).into_iter().collect()
            }
            Change::Reached(_) => BTreeSet::new(),
        };
        for namespace_index in self.namespaces.values_mut() {
            namespace_index.apply_nodes(&changed, &self.nodes, &mut effects.changed);
        }
        for id in changed {
            match self.nodes.node(id).and_then(Node::not_ready_since) {
                Some(_) => self.down_nodes.insert(id),
                None => self.down_nodes.remove(&id),
            };
            self.nodes.collect(id);
        }
    }

    fn observe_namespace(&mut self, change: Change<NamespaceObject>, effects: &mut Effects) {
        match change {
            Change::Reset { items: namespaces, .. } => {
                let mut gone: BTreeSet<Namespace> = self.namespaces.keys().cloned().collect();
                gone.extend(self.policies.namespaces().cloned());
                for namespace in namespaces {
                    gone.remove(&namespace.name);
                    self.apply_namespace(namespace, effects);
                }
                gone.into_iter().for_each(|name| self.delete_namespace(name, effects));
            }
            Change::Applied { item: namespace, .. } => self.apply_namespace(namespace, effects),
            Change::Deleted { item: namespace, .. } => {
                self.delete_namespace(namespace.name, effects);
            }
            Change::Reached(_) => {}
        }
    }

    /// Forgets the node selector. The namespace's objects are deleted one by one.
    fn delete_namespace(&mut self, name: Namespace, effects: &mut Effects) {
        self.policies.remove_namespace(&name);
        self.apply_node_selector(name, NamespaceNodeSelector::default(), effects);
    }

    fn apply_namespace(&mut self, namespace: NamespaceObject, effects: &mut Effects) {
        let NamespaceObject { name, labels, node_selector } = namespace;
        self.apply_namespace_labels(&name, labels, effects);
        self.apply_node_selector(name, node_selector, effects);
    }

    fn apply_node_selector(
        &mut self,
        name: Namespace,
        node_selector: NamespaceNodeSelector,
        effects: &mut Effects,
    ) {
        if node_selector.is_empty() && !self.namespaces.contains_key(&name) {
            return;
        }
        let namespace_index = self.namespaces.entry(name).or_default();
        namespace_index.apply_node_selector(node_selector, &self.nodes, &mut effects.changed);
    }

    fn observe_daemon_set(&mut self, change: Change<DaemonSetObject>, effects: &mut Effects) {
        match change {
            Change::Reset { items: daemon_sets, .. } => {
                self.reset_daemon_sets(daemon_sets, effects)
            }
            Change::Applied { item: daemon_set, .. } => {
                self.replace_daemon_set(daemon_set, effects);
            }
            Change::Deleted { item: daemon_set, .. } => {
                self.delete_daemon_set(&daemon_set.raw.key, effects);
            }
            Change::Reached(_) => {}
        }
    }

    fn reset_daemon_sets(&mut self, daemon_sets: Vec<DaemonSetObject>, effects: &mut Effects) {
        let mut gone: BTreeSet<DaemonSetKey> = self.keys().collect();
        for daemon_set in daemon_sets {
            gone.remove(&daemon_set.raw.key);
            self.replace_daemon_set(daemon_set, effects);
        }
        for key in gone {
            self.delete_daemon_set(&key, effects);
        }
    }

    /// Replaces a DaemonSet, whatever state of it is known.
    fn replace_daemon_set(&mut self, daemon_set: DaemonSetObject, effects: &mut Effects) {
        let key = daemon_set.raw.key.clone();
        let namespace_index = self.namespaces.entry(key.namespace.clone()).or_default();
        let is_new = namespace_index.replace_daemon_set(
            self.config,
            daemon_set,
            &self.policies,
            &mut self.nodes,
            effects,
        );
        if let Some(entry) = namespace_index.daemon_sets.get_mut(&key.name) {
            entry.record_governing(&self.policies, &mut self.changed_policies);
        }
        if is_new
            && self.has_pods
            && let Some(list) = namespace_index.begin_listing(&key)
        {
            effects.orphan_lists.push(list);
        }
    }

    fn delete_daemon_set(&mut self, key: &DaemonSetKey, effects: &mut Effects) {
        let Some(namespace_index) = self.namespaces.get_mut(&key.namespace) else { return };
        if let Some(entry) = namespace_index.daemon_sets.get(&key.name) {
            let governing = entry.governing.references();
            entry::note(&mut self.changed_policies, governing, Urgency::Transition);
        }
        if namespace_index.delete_daemon_set(key, &mut self.nodes, &mut effects.changed) {
            self.waiting.remove(key);
            effects.changed.remove(key);
            effects.deleted.insert(key.clone());
        }
        self.forget_if_empty(&key.namespace);
    }

    fn observe_pod(&mut self, change: Change<PodObject>, effects: &mut Effects) {
        match change {
            Change::Reset { items: pods, .. } => self.reset_pods(pods, effects),
            Change::Applied { item: PodObject::Pod(pod), .. } => {
                let namespace = pod.namespace.clone();
                let namespace_index = self.namespaces.entry(namespace.clone()).or_default();
                namespace_index.apply_pod(pod, &mut self.nodes, &mut effects.changed);
                self.forget_if_empty(&namespace);
            }
            Change::Applied { item: PodObject::Puller(puller), .. } => {
                let namespace = puller.namespace.clone();
                let namespace_index = self.namespaces.entry(namespace).or_default();
                namespace_index.apply_puller(*puller, &self.nodes, &mut effects.changed);
            }
            Change::Deleted { item: PodObject::Puller(puller), .. } => {
                if let Some(namespace_index) = self.namespaces.get_mut(&puller.namespace) {
                    namespace_index.delete_puller(&puller, &self.nodes, &mut effects.changed);
                }
                self.forget_if_empty(&puller.namespace);
            }
            Change::Applied { item: PodObject::Foreign { namespace, uid }, .. }
            | Change::Deleted { item: PodObject::Foreign { namespace, uid }, .. } => {
                self.delete_pod(&namespace, &uid, None, effects);
            }
            Change::Deleted { item: PodObject::Pod(pod), .. } => {
                let (namespace, uid) = (pod.namespace.clone(), pod.uid.clone());
                self.delete_pod(&namespace, &uid, Some(pod), effects);
            }
            Change::Reached(_) => {}
        }
    }

    fn delete_pod(
        &mut self,
        namespace: &Namespace,
        uid: &Uid,
        last: Option<Box<Pod>>,
        effects: &mut Effects,
    ) {
        if let Some(namespace_index) = self.namespaces.get_mut(namespace) {
            namespace_index.delete_pod(uid, last, &mut self.nodes, &mut effects.changed);
        }
        self.forget_if_empty(namespace);
    }

    fn reset_pods(&mut self, pods: Vec<PodObject>, effects: &mut Effects) {
        self.has_pods = true;
        let mut pullers = Vec::new();
        let pods = pods.into_iter().filter_map(|pod| match pod {
            PodObject::Pod(pod) => Some((pod.namespace.clone(), pod)),
            PodObject::Puller(puller) => {
                pullers.push((puller.namespace.clone(), *puller));
                None
            }
            PodObject::Foreign { .. } => None,
        });
        self.reset_namespaces(pods, |namespace_index, pods, nodes| {
            namespace_index.reset_pods(pods, nodes, &mut effects.changed);
        });
        self.reset_namespaces(pullers.into_iter(), |namespace_index, pullers, nodes| {
            namespace_index.reset_pullers(pullers, nodes, &mut effects.changed);
        });
    }

    fn observe_revision(&mut self, change: Change<RevisionObject>, effects: &mut Effects) {
        match change {
            Change::Reset { items: revisions, .. } => self.reset_revisions(revisions, effects),
            Change::Applied { item: RevisionObject::Revision { namespace, revision }, .. } => {
                let namespace_index = self.namespaces.entry(namespace).or_default();
                namespace_index.apply_revision(revision, &mut effects.changed);
            }
            Change::Deleted { item: RevisionObject::Revision { namespace, revision }, .. } => {
                self.delete_revision(&namespace, &revision.uid, effects);
            }
            Change::Applied { item: RevisionObject::Foreign { namespace, uid }, .. }
            | Change::Deleted { item: RevisionObject::Foreign { namespace, uid }, .. } => {
                self.delete_revision(&namespace, &uid, effects);
            }
            Change::Reached(_) => {}
        }
    }

    fn delete_revision(&mut self, namespace: &Namespace, uid: &Uid, effects: &mut Effects) {
        if let Some(namespace_index) = self.namespaces.get_mut(namespace) {
            namespace_index.delete_revision(uid, &mut effects.changed);
        }
        self.forget_if_empty(namespace);
    }

    fn reset_revisions(&mut self, revisions: Vec<RevisionObject>, effects: &mut Effects) {
        let revisions = revisions.into_iter().filter_map(|revision| match revision {
            RevisionObject::Revision { namespace, revision } => Some((namespace, revision)),
            RevisionObject::Foreign { .. } => None,
        });
        self.reset_namespaces(revisions, |namespace_index, revisions, _| {
            namespace_index.reset_revisions(revisions, &mut effects.changed);
        });
    }

    /// Passes the listed objects of each namespace to `reset`, also if there are none.
    fn reset_namespaces<T>(
        &mut self,
        objects: impl Iterator<Item = (Namespace, T)>,
        mut reset: impl FnMut(&mut NamespaceIndex, Vec<T>, &mut NodeTable),
    ) {
        let known = self.namespaces.keys().cloned();
        let mut by_namespace: BTreeMap<Namespace, Vec<T>> =
            known.map(|namespace| (namespace, Vec::new())).collect();
        for (namespace, object) in objects {
            by_namespace.entry(namespace).or_default().push(object);
        }
        for (namespace, objects) in by_namespace {
            reset(self.namespaces.entry(namespace).or_default(), objects, &mut self.nodes);
        }
        self.namespaces.retain(|_, namespace_index| !namespace_index.is_empty());
    }

    /// Forgets a namespace in which nothing is left.
    fn forget_if_empty(&mut self, namespace: &Namespace) {
        if self.namespaces.get(namespace).is_some_and(NamespaceIndex::is_empty) {
            self.namespaces.remove(namespace);
        }
    }

    /// True if the DaemonSet exists.
    pub fn has(&self, key: &DaemonSetKey) -> bool {
        let namespace = self.namespaces.get(&key.namespace);
        namespace.is_some_and(|index| index.daemon_sets.contains_key(&key.name))
    }

    /// Namespace and name of each DaemonSet.
    pub fn keys(&self) -> impl Iterator<Item = DaemonSetKey> {
        let entries = self
            .namespaces
            .values()
            .flat_map(|namespace_index| namespace_index.daemon_sets.values());
        entries.map(|entry| entry.raw.key.clone())
    }
}

/// Advances the watermark of a watch, and returns whether a list has moved it back.
///
/// Lists are read at the newest state (`watch/machine.rs`), which by the rules of the API is never
/// before what the watch of the same resource has shown. So a list with an older resourceVersion is
/// not stale: etcd was restored from a backup, and the server assigns resourceVersions a second
/// time (C1). Such a list replaces the known state like any list. It also moves the watermark back,
/// since with the old watermark writes would count as seen that are not (C60).
fn advance(watermark: &mut ResourceVersion, change: &Change<()>) -> bool {
    let (known, version) = (*watermark, change.version());
    *watermark = match change {
        Change::Reset { .. } => version,
        // A watch only advances; one that restarts may repeat earlier changes.
        Change::Applied { .. } | Change::Deleted { .. } | Change::Reached(_) => version.max(known),
    };
    *watermark < known
}

/// Records a change as the newest that a watch has shown, and returns whether it is new: a watch
/// that restarts may show changes again, even those of a predecessor of the same name (C1).
///
/// A bookmark counts for nothing here. etcd before 3.4.25 and 3.5.8 could report a version before
/// the changes that lead to it.
fn is_new(newest: &mut ResourceVersion, change: &Change<()>) -> bool {
    let version = change.version();
    match change {
        Change::Applied { .. } | Change::Deleted { .. } if version <= *newest => return false,
        Change::Reset { .. } | Change::Applied { .. } | Change::Deleted { .. } => *newest = version,
        Change::Reached(_) => {}
    }
    true
}

#[cfg(test)]
mod tests;
