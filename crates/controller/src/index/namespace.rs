//! One namespace: its DaemonSets, the pods and revisions that they own, and the orphans that they
//! could adopt.

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::{
    DaemonSetKey, DaemonSetName, ImagePuller, LabelSelector, Labels, NamespaceNodeSelector, Pod,
    Revision, Uid,
};
use everynode_core::daemon_set::{Config, DaemonSetState};
use everynode_core::node_table::{NodeId, NodeTable};
use everynode_k8s::convert::DaemonSetObject;
use everynode_k8s::policies::Policies;

use super::config_maps::NamespaceConfigMaps;
use super::entry::{ChangedPolicies, Entry};
use super::{Effects, OrphanListRequest};

#[derive(Debug, Default)]
pub(super) struct NamespaceIndex {
    pub daemon_sets: BTreeMap<DaemonSetName, Entry>,
    names: BTreeMap<Uid, DaemonSetName>,
    node_selector: NamespaceNodeSelector,
    pods: BTreeMap<Uid, Box<Pod>>,
    /// Pods that pull images (G55).
    pullers: BTreeMap<Uid, ImagePuller>,
    revisions: BTreeMap<Uid, Revision>,
    pub config_maps: NamespaceConfigMaps,
    /// Set while orphans are listed live.
    listing: Option<Listing>,
}

/// The pods that their watch has shown while a live list was in flight.
#[derive(Debug, Default)]
struct Listing {
    /// The number of pending lists of each DaemonSet.
    lists: BTreeMap<DaemonSetName, usize>,
    /// Pods that vanished or changed owner.
    gone: BTreeSet<Uid>,
    /// True if the watch has listed all pods. Then no orphan is missing.
    has_all: bool,
}

type Changed = BTreeSet<DaemonSetKey>;

impl NamespaceIndex {
    #[cfg(test)]
    pub(super) fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().map(|pod| &**pod)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.daemon_sets.is_empty()
            && self.pods.is_empty()
            && self.pullers.is_empty()
            && self.revisions.is_empty()
            && self.node_selector.is_empty()
            && matches!(self.config_maps, NamespaceConfigMaps::Unread)
            && self.listing.is_none()
    }

    /// Adds or replaces a DaemonSet. Returns whether it, or its selector, is new.
    pub(super) fn replace_daemon_set(
        &mut self,
        config: Config,
        daemon_set: DaemonSetObject,
        policies: &Policies,
        nodes: &mut NodeTable,
        effects: &mut Effects,
    ) -> bool {
        let DaemonSetObject { mut daemon_set, raw } = daemon_set;
        if !policies.is_empty() {
            daemon_set.policy = policies.source(&raw);
        }
        let key = raw.key.clone();
        if let Some(entry) = self.daemon_sets.get_mut(&key.name)
            && entry.state.accepts(&daemon_set)
        {
            let was_terminating = entry.state.daemon_set().terminating;
            let is_terminating = daemon_set.terminating;
            entry.raw = raw;
            if entry.state.replace_daemon_set(daemon_set, nodes) {
                effects.changed.insert(key.clone());
            }
            if is_terminating != was_terminating {
                let selector = entry.state.daemon_set().selector.clone();
                self.assign_orphans(&key.name, selector.as_ref(), nodes, &mut effects.changed);
            }
            return false;
        }
        if self.delete_daemon_set(&key, nodes, &mut effects.changed) {
            effects.deleted.insert(key.clone());
        }
        let mut state = DaemonSetState::new(config, daemon_set, nodes);
        state.apply_namespace_node_selector(self.node_selector.clone(), nodes);
        let owned = self.pods.values().map(|pod| &**pod).filter(|pod| pod.controller.is_some());
        let owned: Vec<&Pod> = owned.filter(|pod| state.concerns_pod(pod)).collect();
        state.reset_pods(owned, nodes);
        let pullers = self.pullers.values().filter(|puller| state.concerns_puller(puller));
        let pullers: Vec<&ImagePuller> = pullers.collect();
        state.reset_pullers(pullers, nodes);
        for revision in self.revisions.values() {
            if state.concerns(revision.controller.as_ref(), &revision.labels) {
                state.apply_revision(revision.clone());
            }
        }
        effects.changed.insert(key.clone());
        let selector = state.daemon_set().selector.clone();
        self.names.insert(raw.uid.clone(), key.name.clone());
        self.daemon_sets.insert(key.name.clone(), Entry::new(state, raw));
        self.assign_orphans(&key.name, selector.as_ref(), nodes, &mut effects.changed);
        true
    }

    pub(super) fn delete_daemon_set(
        &mut self,
        key: &DaemonSetKey,
        nodes: &mut NodeTable,
        changed: &mut Changed,
    ) -> bool {
        let Some(entry) = self.daemon_sets.remove(&key.name) else { return false };
        self.names.remove(&entry.raw.uid);
        let selector = entry.state.daemon_set().selector.clone();
        entry.state.detach(nodes);
        self.assign_orphans(&key.name, selector.as_ref(), nodes, changed);
        self.drop_unwanted_orphans(|pod| {
            selector.as_ref().is_some_and(|it| it.matches(&pod.labels))
        });
        true
    }

    pub(super) fn apply_node_selector(
        &mut self,
        selector: NamespaceNodeSelector,
        nodes: &NodeTable,
        changed: &mut Changed,
    ) {
        self.node_selector = selector;
        for entry in self.daemon_sets.values_mut() {
            if entry.state.apply_namespace_node_selector(self.node_selector.clone(), nodes) {
                changed.insert(entry.raw.key.clone());
            }
        }
    }

    /// Applies the policy of each DaemonSet, after the policies or the namespace's labels have
    /// changed.
    pub(super) fn apply_policies(
        &mut self,
        policies: &Policies,
        nodes: &NodeTable,
        changed: &mut Changed,
        changed_policies: &mut ChangedPolicies,
    ) {
        for entry in self.daemon_sets.values_mut() {
            entry.record_governing(policies, changed_policies);
            if entry.state.apply_policy(policies.source(&entry.raw), nodes) {
                entry.rollout = None;
                changed.insert(entry.raw.key.clone());
            }
        }
    }

    pub(super) fn apply_nodes(
        &mut self,
        ids: &BTreeSet<NodeId>,
        nodes: &NodeTable,
        changed: &mut Changed,
    ) {
        for entry in self.daemon_sets.values_mut() {
            let mut is_changed = false;
            for id in ids {
                is_changed |= entry.state.apply_node(*id, nodes);
            }
            if is_changed {
                changed.insert(entry.raw.key.clone());
            }
        }
    }

    pub(super) fn apply_pod(
        &mut self,
        pod: Box<Pod>,
        nodes: &mut NodeTable,
        changed: &mut Changed,
    ) {
        self.forget_puller(&pod.uid, nodes, changed);
        let old = self.pods.get(&pod.uid);
        if old == Some(&pod) {
            return;
        }
        let concerned = self.affected_by_pod(&pod);
        let mut affected = concerned.clone();
        let is_wanted = pod.controller.is_some()
            || self.listing.is_some()
            || is_selected(&self.daemon_sets, &pod.labels);
        affected.extend(old.into_iter().flat_map(|old| self.affected_by_pod(old)));
        for name in &affected {
            let Some(entry) = self.daemon_sets.get_mut(name) else { continue };
            let is_changed = match concerned.contains(name) {
                true => entry.state.apply_pod(&pod, nodes),
                false => entry.state.delete_pod(&pod, nodes),
            };
            if is_changed {
                changed.insert(entry.raw.key.clone());
            }
        }
        if is_wanted {
            self.pods.insert(pod.uid.clone(), pod);
        } else {
            self.pods.remove(&pod.uid);
        }
    }

    pub(super) fn delete_pod(
        &mut self,
        uid: &Uid,
        last: Option<Box<Pod>>,
        nodes: &mut NodeTable,
        changed: &mut Changed,
    ) {
        self.forget_puller(uid, nodes, changed);
        if let Some(listing) = &mut self.listing {
            listing.gone.insert(uid.clone());
        }
        let Some(pod) = self.pods.remove(uid).or(last) else { return };
        let affected = self.affected_by_pod(&pod);
        for name in &affected {
            let Some(entry) = self.daemon_sets.get_mut(name) else { continue };
            if entry.state.delete_pod(&pod, nodes) {
                changed.insert(entry.raw.key.clone());
            }
        }
    }

    /// Replaces all pods. Takes one pass over pods and DaemonSets instead of one over their pairs.
    pub(super) fn reset_pods(
        &mut self,
        pods: impl IntoIterator<Item = Box<Pod>>,
        nodes: &mut NodeTable,
        changed: &mut Changed,
    ) {
        let pods: BTreeMap<Uid, Box<Pod>> =
            pods.into_iter().map(|pod| (pod.uid.clone(), pod)).collect();
        let mut owned: BTreeMap<&Uid, Vec<&Pod>> = BTreeMap::new();
        let mut former: BTreeMap<&DaemonSetName, Vec<&Pod>> = BTreeMap::new();
        let mut orphans: BTreeMap<DaemonSetName, Vec<&Pod>> = BTreeMap::new();
        for pod in pods.values().map(|pod| &**pod) {
            match &pod.controller {
                Some(controller) if self.names.contains_key(controller) => {
                    owned.entry(controller).or_default().push(pod);
                }
                Some(_) => {
                    let name = pod.controller_name.iter();
                    name.for_each(|name| former.entry(name).or_default().push(pod));
                }
                None => {
                    let adopter = adopter(&self.daemon_sets, &pod.labels).into_iter().cloned();
                    adopter.for_each(|name| orphans.entry(name).or_default().push(pod));
                }
            }
        }
        for entry in self.daemon_sets.values_mut() {
            let owned = owned.remove(entry.state.uid()).unwrap_or_default();
            let orphans = orphans.remove(&entry.raw.key.name).unwrap_or_default();
            let former = former.remove(&entry.raw.key.name).unwrap_or_default();
            let all = owned.into_iter().chain(former).chain(orphans);
            if entry.state.reset_pods(all, nodes) {
                changed.insert(entry.raw.key.clone());
            }
        }
        self.pods = pods;
        if let Some(listing) = &mut self.listing {
            listing.has_all = true;
        }
        self.drop_unwanted_orphans(|_| true);
    }

    pub(super) fn apply_puller(
        &mut self,
        puller: ImagePuller,
        nodes: &NodeTable,
        changed: &mut Changed,
    ) {
        let known = self.pullers.get(&puller.uid);
        if known.is_some_and(|known| known.daemon_set != puller.daemon_set) {
            self.forget_puller(&puller.uid, nodes, changed);
        }
        if let Some(entry) = self.entry_of_puller(&puller)
            && entry.state.apply_puller(&puller, nodes)
        {
            changed.insert(entry.raw.key.clone());
        }
        self.pullers.insert(puller.uid.clone(), puller);
    }

    /// Removes a puller that is gone, or has another owner or other labels.
    pub(super) fn forget_puller(&mut self, uid: &Uid, nodes: &NodeTable, changed: &mut Changed) {
        if let Some(puller) = self.pullers.get(uid).cloned() {
            self.delete_puller(&puller, nodes, changed);
        }
    }

    pub(super) fn delete_puller(
        &mut self,
        puller: &ImagePuller,
        nodes: &NodeTable,
        changed: &mut Changed,
    ) {
        self.pullers.remove(&puller.uid);
        if let Some(entry) = self.entry_of_puller(puller)
            && entry.state.delete_puller(puller, nodes)
        {
            changed.insert(entry.raw.key.clone());
        }
    }

    pub(super) fn reset_pullers(
        &mut self,
        pullers: Vec<ImagePuller>,
        nodes: &NodeTable,
        changed: &mut Changed,
    ) {
        for entry in self.daemon_sets.values_mut() {
            let all = pullers.iter().filter(|puller| entry.state.concerns_puller(puller));
            let concerned: Vec<&ImagePuller> = all.collect();
            if entry.state.reset_pullers(concerned, nodes) {
                changed.insert(entry.raw.key.clone());
            }
        }
        self.pullers = pullers.into_iter().map(|puller| (puller.uid.clone(), puller)).collect();
    }

    /// The DaemonSet for which a puller pulls.
    fn entry_of_puller(&mut self, puller: &ImagePuller) -> Option<&mut Entry> {
        let name = self.names.get(&puller.daemon_set)?;
        self.daemon_sets.get_mut(name).filter(|entry| entry.state.concerns_puller(puller))
    }

    pub(super) fn apply_revision(&mut self, revision: Revision, changed: &mut Changed) {
        let old = self.revisions.insert(revision.uid.clone(), revision.clone());
        let mut affected = self.affected(&revision.controller, &revision.labels);
        affected.extend(old.iter().flat_map(|old| self.affected(&old.controller, &old.labels)));
        for name in &affected {
            let Some(entry) = self.daemon_sets.get_mut(name) else { continue };
            if entry.state.apply_revision(revision.clone()) {
                changed.insert(entry.raw.key.clone());
            }
        }
    }

    pub(super) fn delete_revision(&mut self, uid: &Uid, changed: &mut Changed) {
        let Some(revision) = self.revisions.remove(uid) else { return };
        for name in self.affected(&revision.controller, &revision.labels) {
            let Some(entry) = self.daemon_sets.get_mut(&name) else { continue };
            if entry.state.delete_revision(&revision) {
                changed.insert(entry.raw.key.clone());
            }
        }
    }

    pub(super) fn reset_revisions(&mut self, revisions: Vec<Revision>, changed: &mut Changed) {
        for entry in self.daemon_sets.values_mut() {
            let affected = revisions
                .iter()
                .filter(|r| entry.state.concerns(r.controller.as_ref(), &r.labels))
                .cloned();
            let affected: Vec<Revision> = affected.collect();
            if entry.state.reset_revisions(affected) {
                changed.insert(entry.raw.key.clone());
            }
        }
        self.revisions = revisions.into_iter().map(|r| (r.uid.clone(), r)).collect();
    }

    /// The DaemonSets that a revision with this controller and these labels affects: its owner, or
    /// those that could adopt it.
    fn affected(&self, controller: &Option<Uid>, labels: &Labels) -> BTreeSet<DaemonSetName> {
        match controller {
            Some(controller) => self.names.get(controller).into_iter().cloned().collect(),
            None => {
                let entries = self.daemon_sets.iter();
                let selecting = entries.filter(|(_, entry)| entry.state.selects(labels));
                selecting.map(|(name, _)| name.clone()).collect()
            }
        }
    }

    /// The DaemonSet that a pod affects: its owner, or the one that adopts it; of one whose
    /// DaemonSet is not known, the one of its name (C36).
    fn affected_by_pod(&self, pod: &Pod) -> BTreeSet<DaemonSetName> {
        let affected = match &pod.controller {
            Some(controller) => self.names.get(controller).or_else(|| {
                let former = pod.controller_name.as_ref();
                former.filter(|name| self.daemon_sets.contains_key(*name))
            }),
            None => adopter(&self.daemon_sets, &pod.labels),
        };
        affected.into_iter().cloned().collect()
    }

    /// Passes each orphan that this selector matches to its adopter, after the DaemonSet with the
    /// selector has come or gone. The one that had it forgets it: this DaemonSet, or the adopter
    /// without it. No others are asked, as a namespace may have many orphans and DaemonSets.
    fn assign_orphans(
        &mut self,
        name: &DaemonSetName,
        selector: Option<&LabelSelector>,
        nodes: &mut NodeTable,
        changed: &mut Changed,
    ) {
        let Some(selector) = selector else { return };
        let Self { daemon_sets, pods, .. } = self;
        let orphans = pods.values().filter(|pod| pod.controller.is_none());
        for pod in orphans.filter(|pod| selector.matches(&pod.labels)) {
            let adopter = adopter(daemon_sets, &pod.labels).cloned();
            let without = first_adopter(daemon_sets, &pod.labels, |other| other != name).cloned();
            let concerned = BTreeSet::from([Some(name), adopter.as_ref(), without.as_ref()]);
            for name in concerned.into_iter().flatten() {
                let Some(entry) = daemon_sets.get_mut(name) else { continue };
                let is_changed = if Some(name) == adopter.as_ref() {
                    entry.state.apply_pod(pod, nodes)
                } else {
                    entry.state.delete_pod(pod, nodes)
                };
                if is_changed {
                    changed.insert(entry.raw.key.clone());
                }
            }
        }
    }

    /// Starts a live list of orphans. Until [`end_listing`](Self::end_listing) no orphan is
    /// dropped, and deleted pods are remembered.
    pub(super) fn begin_listing(&mut self, key: &DaemonSetKey) -> Option<OrphanListRequest> {
        let state = &self.daemon_sets.get(&key.name)?.state;
        let selector =
            state.daemon_set().selector.clone().filter(|selector| !selector.is_empty())?;
        let lists = &mut self.listing.get_or_insert_default().lists;
        *lists.entry(key.name.clone()).or_default() += 1;
        Some(OrphanListRequest { key: key.clone(), selector })
    }

    /// Cancels all live lists of orphans.
    pub(super) fn cancel_listings(&mut self) {
        self.listing = None;
    }

    /// The server was restored from a backup.
    pub(super) fn server_restored(&mut self, changed: &mut Changed) {
        for entry in self.daemon_sets.values_mut() {
            entry.state.restored();
            changed.insert(entry.raw.key.clone());
        }
    }

    pub(super) fn awaits_listing(&self, name: &DaemonSetName) -> bool {
        self.listing.as_ref().is_some_and(|listing| listing.lists.contains_key(name))
    }

    /// Ends a live list. Returns its pods that are neither known nor deleted meanwhile.
    pub(super) fn end_listing(&mut self, key: &DaemonSetKey, pods: Vec<Pod>) -> Vec<Pod> {
        let Some(listing) = &mut self.listing else { return Vec::new() };
        let is_unknown = |pod: &Pod| {
            !(listing.has_all
                || listing.gone.contains(&pod.uid)
                || self.pods.contains_key(&pod.uid))
        };
        let pods = pods.into_iter().filter(is_unknown).collect();
        if let Some(count) = listing.lists.get_mut(&key.name) {
            *count -= 1;
        }
        listing.lists.retain(|_, count| *count > 0);
        if listing.lists.is_empty() {
            self.listing = None;
            self.drop_unwanted_orphans(|_| true);
        }
        pods
    }

    /// Drops orphans that no DaemonSet selects (C3), unless a pending list may hold them. Only
    /// those that `may_be` so are examined.
    fn drop_unwanted_orphans(&mut self, may_be: impl Fn(&Pod) -> bool) {
        let Self { daemon_sets, pods, listing, .. } = self;
        if listing.is_none() {
            let is_wanted = |pod: &Pod| {
                pod.controller.is_some() || !may_be(pod) || is_selected(daemon_sets, &pod.labels)
            };
            pods.retain(|_, pod| is_wanted(pod));
        }
    }
}

/// The DaemonSet that adopts an orphan with these labels: the first by name that selects it, as an
/// object has one controller (C21).
fn adopter<'a>(
    daemon_sets: &'a BTreeMap<DaemonSetName, Entry>,
    labels: &Labels,
) -> Option<&'a DaemonSetName> {
    first_adopter(daemon_sets, labels, |_| true)
}

/// The [`adopter`] of those that may be it.
fn first_adopter<'a>(
    daemon_sets: &'a BTreeMap<DaemonSetName, Entry>,
    labels: &Labels,
    may_be: impl Fn(&DaemonSetName) -> bool,
) -> Option<&'a DaemonSetName> {
    let is_adopter = |(name, entry): &(&DaemonSetName, &Entry)| {
        may_be(name) && !entry.state.daemon_set().terminating && entry.state.selects(labels)
    };
    daemon_sets.iter().find(is_adopter).map(|(name, _)| name)
}

fn is_selected(daemon_sets: &BTreeMap<DaemonSetName, Entry>, labels: &Labels) -> bool {
    daemon_sets.values().any(|entry| entry.state.selects(labels))
}
