//! What is known of the cluster, and whom each observation concerns: a plain struct, sans-IO.
//!
//! Everything but nodes lives in a namespace, and so does every decision about it. An observation is
//! handed to the DaemonSets that it concerns, and the keys of those that it changed come back. Nothing
//! is decided here: that is [`DaemonSetState`]'s.

mod namespace;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everynode_core::api::{
    DaemonSetKey, Namespace, Node, Pod, ResourceVersion, Revision, Timestamp, Uid,
};
use everynode_core::daemon_set::{Config, DaemonSetState, NodeCounts};
use everynode_core::node_table::{NodeId, NodeTable};
use everynode_core::plan::{Plan, Watermarks, WriteResult};
use everynode_k8s::convert::{
    DaemonSetObject, NamespaceObject, PodObject, RawDaemonSet, RevisionObject,
};

use crate::observation::{Observation, OrphanList, Orphans};
use crate::watch::Change;
use namespace::NamespaceIndex;

/// What follows from an observation.
#[derive(Debug, Default, PartialEq)]
pub struct Effects {
    /// DaemonSets for which a plan is due.
    pub changed: BTreeSet<DaemonSetKey>,
    /// DaemonSets that are no more.
    pub gone: BTreeSet<DaemonSetKey>,
    /// Orphan pods that have to be read live: they may have been dropped when nobody selected them (C3).
    pub orphan_lists: Vec<OrphanList>,
    /// The resource of which the API server has listed an older state than it had shown.
    pub restored: Option<&'static str>,
}

/// A plan, and what its writes are made from.
#[derive(Debug)]
pub struct Planned {
    pub plan: Plan,
    pub raw: Arc<RawDaemonSet>,
}

/// The index.
#[derive(Debug, Default)]
pub struct Index {
    config: Config,
    nodes: NodeTable,
    spaces: BTreeMap<Namespace, NamespaceIndex>,
    watermarks: Watermarks,
    /// DaemonSets whose last plan waited for a watch to catch up (C60).
    waiting: BTreeSet<DaemonSetKey>,
    /// How far the watches had come when these were last woken.
    woken_at: Watermarks,
    /// Orphans that were listed before the watch of pods has come as far.
    listed: Vec<Orphans>,
    /// Whether pods have been listed: before that there are none to have been dropped.
    has_pods: bool,
}

impl Index {
    pub fn new(config: Config) -> Self {
        Self { config, ..Self::default() }
    }

    /// Takes what a watch saw.
    pub fn observe(&mut self, observation: Observation) -> Effects {
        let mut effects = Effects::default();
        match observation {
            Observation::Node(change) => self.observe_node(change, &mut effects),
            Observation::Namespace(change) => self.observe_namespace(change, &mut effects),
            Observation::DaemonSet(change) => {
                if reach(&mut self.watermarks.daemon_sets, &change) {
                    self.restored("daemonsets", &mut effects);
                }
                self.observe_daemon_set(change, &mut effects);
            }
            Observation::Pod(change) => {
                if reach(&mut self.watermarks.pods, &change) {
                    self.restored("pods", &mut effects);
                    // The list has all orphans; those that were read live are of a version that may never come.
                    self.listed.clear();
                    self.spaces.values_mut().for_each(NamespaceIndex::forget_listing);
                }
                self.observe_pod(change, &mut effects);
                self.take_listed(&mut effects);
            }
            Observation::Revision(change) => {
                if reach(&mut self.watermarks.revisions, &change) {
                    self.restored("controllerrevisions", &mut effects);
                }
                self.observe_revision(change, &mut effects);
            }
        }
        effects
    }

    /// Everything of this resource begins anew with the list that is about to be taken, and which has all of it.
    fn restored(&mut self, resource: &'static str, effects: &mut Effects) {
        effects.restored = Some(resource);
        for space in self.spaces.values_mut() {
            space.restored(&mut effects.changed);
        }
    }

    /// The DaemonSets that waited for a watch to catch up, if one has moved since this was last asked.
    /// To be asked after a batch of observations, not after each: then it costs little however many wait.
    pub fn wake(&mut self) -> BTreeSet<DaemonSetKey> {
        if self.woken_at == self.watermarks {
            return BTreeSet::new();
        }
        self.woken_at = self.watermarks;
        std::mem::take(&mut self.waiting)
    }

    /// Takes the answer to an [`OrphanList`]. It counts once the watch of pods has come as far: what is
    /// known of a pod by then is at least as recent, and the DaemonSet may be planned for.
    pub fn observe_orphans(&mut self, orphans: Orphans) -> Effects {
        let mut effects = Effects::default();
        self.listed.push(orphans);
        self.take_listed(&mut effects);
        effects
    }

    fn take_listed(&mut self, effects: &mut Effects) {
        let reached = self.watermarks.pods;
        for orphans in self.listed.extract_if(.., |orphans| orphans.version <= reached) {
            let Some(space) = self.spaces.get_mut(&orphans.key.namespace) else { continue };
            for pod in space.end_listing(&orphans.key, orphans.pods) {
                space.apply_pod(Box::new(pod), &mut self.nodes, &mut effects.changed);
            }
            if space.daemon_sets.contains_key(&orphans.key.name) {
                effects.changed.insert(orphans.key);
            }
        }
    }

    /// What is to be done for a DaemonSet now; `None` if there is no such one, or if it is not known yet
    /// which orphans it may adopt: a node must not get a pod beside the one that is there (C34).
    pub fn plan(&mut self, key: &DaemonSetKey, now: Timestamp) -> Option<Planned> {
        let space = self.spaces.get_mut(&key.namespace)?;
        if space.awaits_listing(&key.name) {
            return None;
        }
        let entry = space.daemon_sets.get_mut(&key.name)?;
        let plan = entry.state.plan(now, &self.watermarks, &self.nodes);
        if plan.waiting.is_some_and(|waiting| waiting.stale_kinds + waiting.creations > 0) {
            self.waiting.insert(key.clone());
        } else {
            self.waiting.remove(key);
        }
        Some(Planned { plan, raw: entry.raw.clone() })
    }

    /// Takes what became of a write. One of a DaemonSet that has been replaced since is of no account.
    pub fn written(&mut self, key: &DaemonSetKey, uid: &Uid, result: WriteResult, now: Timestamp) {
        let space = self.spaces.get_mut(&key.namespace);
        if let Some(entry) = space.and_then(|space| space.daemon_sets.get_mut(&key.name))
            && entry.state.uid() == uid
        {
            entry.state.apply_result(result, now);
        }
    }

    pub fn tally(&self, key: &DaemonSetKey) -> Option<&NodeCounts> {
        let entry = self.spaces.get(&key.namespace)?.daemon_sets.get(&key.name)?;
        Some(entry.state.counts())
    }

    pub fn state(&self, key: &DaemonSetKey) -> Option<&DaemonSetState> {
        Some(&self.spaces.get(&key.namespace)?.daemon_sets.get(&key.name)?.state)
    }

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
        for space in self.spaces.values_mut() {
            space.apply_nodes(&changed, &self.nodes, &mut effects.changed);
        }
        for id in changed {
            self.nodes.collect(id);
        }
    }

    fn observe_namespace(&mut self, change: Change<NamespaceObject>, effects: &mut Effects) {
        match change {
            Change::Reset { items: namespaces, .. } => {
                for namespace in namespaces {
                    self.apply_namespace(namespace, effects);
                }
            }
            Change::Applied { item: namespace, .. } => self.apply_namespace(namespace, effects),
            Change::Deleted { .. } | Change::Reached(_) => {}
        }
    }

    fn apply_namespace(&mut self, namespace: NamespaceObject, effects: &mut Effects) {
        let NamespaceObject { name, node_selector } = namespace;
        if node_selector.is_empty() && !self.spaces.contains_key(&name) {
            return;
        }
        let space = self.spaces.entry(name).or_default();
        space.apply_node_selector(node_selector, &self.nodes, &mut effects.changed);
    }

    fn observe_daemon_set(&mut self, change: Change<DaemonSetObject>, effects: &mut Effects) {
        match change {
            Change::Reset { items: daemon_sets, .. } => {
                self.reset_daemon_sets(daemon_sets, effects)
            }
            Change::Applied { item: daemon_set, .. } => self.apply_daemon_set(daemon_set, effects),
            Change::Deleted { item: daemon_set, .. } => {
                let (key, uid) = (&daemon_set.raw.key, &daemon_set.raw.uid);
                // One that a watch repeats may have a successor by now.
                if self.state(key).is_some_and(|state| state.uid() == uid) {
                    self.delete_daemon_set(key, effects);
                }
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

    /// A watch that breaks off may repeat what it has told, even of a predecessor of the same name.
    fn apply_daemon_set(&mut self, daemon_set: DaemonSetObject, effects: &mut Effects) {
        let known = self.state(&daemon_set.raw.key).map(|state| state.daemon_set());
        let version = daemon_set.daemon_set.resource_version;
        if known.is_none_or(|known| known.resource_version <= version) {
            self.replace_daemon_set(daemon_set, effects);
        }
    }

    /// Takes a DaemonSet as it is, whatever was known of it.
    fn replace_daemon_set(&mut self, daemon_set: DaemonSetObject, effects: &mut Effects) {
        let key = daemon_set.raw.key.clone();
        let space = self.spaces.entry(key.namespace.clone()).or_default();
        let is_new = space.replace_daemon_set(self.config, daemon_set, &mut self.nodes, effects);
        if is_new
            && self.has_pods
            && let Some(list) = space.begin_listing(&key)
        {
            effects.orphan_lists.push(list);
        }
    }

    fn delete_daemon_set(&mut self, key: &DaemonSetKey, effects: &mut Effects) {
        let Some(space) = self.spaces.get_mut(&key.namespace) else { return };
        if space.delete_daemon_set(key, &mut self.nodes) {
            self.waiting.remove(key);
            effects.changed.remove(key);
            effects.gone.insert(key.clone());
        }
    }

    fn observe_pod(&mut self, change: Change<PodObject>, effects: &mut Effects) {
        match change {
            Change::Reset { items: pods, .. } => self.reset_pods(pods, effects),
            Change::Applied { item: PodObject::Pod(pod), .. } => {
                let space = self.spaces.entry(pod.namespace.clone()).or_default();
                space.apply_pod(pod, &mut self.nodes, &mut effects.changed);
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
        if let Some(space) = self.spaces.get_mut(namespace) {
            space.delete_pod(uid, last, &mut self.nodes, &mut effects.changed);
        }
    }

    fn reset_pods(&mut self, pods: Vec<PodObject>, effects: &mut Effects) {
        self.has_pods = true;
        let mut by_namespace: BTreeMap<Namespace, BTreeMap<Uid, Box<Pod>>> = BTreeMap::new();
        for pod in pods {
            match pod {
                PodObject::Pod(pod) => {
                    let pods = by_namespace.entry(pod.namespace.clone()).or_default();
                    pods.insert(pod.uid.clone(), pod);
                }
                PodObject::Foreign { .. } => {}
            }
        }
        for namespace in by_namespace.keys() {
            self.spaces.entry(namespace.clone()).or_default();
        }
        for (namespace, space) in &mut self.spaces {
            let pods = by_namespace.remove(namespace).unwrap_or_default();
            space.reset_pods(pods, &mut self.nodes, &mut effects.changed);
        }
        self.spaces.retain(|_, space| !space.is_empty());
    }

    fn observe_revision(&mut self, change: Change<RevisionObject>, effects: &mut Effects) {
        match change {
            Change::Reset { items: revisions, .. } => self.reset_revisions(revisions, effects),
            Change::Applied { item: RevisionObject::Revision { namespace, revision }, .. } => {
                let space = self.spaces.entry(namespace).or_default();
                space.apply_revision(revision, &mut effects.changed);
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
        if let Some(space) = self.spaces.get_mut(namespace) {
            space.delete_revision(uid, &mut effects.changed);
        }
    }

    fn reset_revisions(&mut self, revisions: Vec<RevisionObject>, effects: &mut Effects) {
        let mut by_namespace: BTreeMap<Namespace, Vec<Revision>> = BTreeMap::new();
        for revision in revisions {
            match revision {
                RevisionObject::Revision { namespace, revision } => {
                    by_namespace.entry(namespace).or_default().push(revision);
                }
                RevisionObject::Foreign { .. } => {}
            }
        }
        for namespace in by_namespace.keys() {
            self.spaces.entry(namespace.clone()).or_default();
        }
        for (namespace, space) in &mut self.spaces {
            let revisions = by_namespace.remove(namespace).unwrap_or_default();
            space.reset_revisions(revisions, &mut effects.changed);
        }
    }

    fn keys(&self) -> impl Iterator<Item = DaemonSetKey> {
        let entries = self.spaces.values().flat_map(|space| space.daemon_sets.values());
        entries.map(|entry| entry.raw.key.clone())
    }
}

/// Notes how far a watch has come, and returns whether a list has taken it back.
///
/// Lists are read at the newest state (`watch/machine.rs`), by all rules of the API never before what the watch of the same
/// resource has shown. So a list of an older resourceVersion is not stale: the server's own state was taken back, etcd
/// restored from a backup, and resourceVersions are given out a second time (C1). Such a list replaces what was known
/// as any list does, and the watermark with it: one that stayed would have writes taken for seen that are not (C60).
fn reach<T>(watermark: &mut ResourceVersion, change: &Change<T>) -> bool {
    let (known, version) = (*watermark, change.version());
    *watermark = match change {
        Change::Reset { .. } => version,
        // A watch only ever moves on; one that breaks off may repeat what it has told.
        Change::Applied { .. } | Change::Deleted { .. } | Change::Reached(_) => version.max(known),
    };
    *watermark < known
}

#[cfg(test)]
mod tests;
