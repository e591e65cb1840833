//! The pods of the DaemonSet, and where they are stored (C20, C21).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::api::{
    CHANGING_ANNOTATION, ChangeGoal, ImagePuller, NodeName, Now, Pod, Problem, RevisionHash,
    Timestamp, Uid,
};
use crate::config::Mode;
use crate::daemon_set::sync;
use crate::node::{PodFlags, PodView, SlotFlags};
use crate::node_table::{NodeId, NodeTable};
use crate::ownership::{self, Ownership};
use crate::pod_changes::Changing;
use crate::rollout::{Of, Shown};

use super::DaemonSetState;

/// Where a pod is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PodLocation {
    Node(NodeId),
    /// Neither on a node nor pinned to one.
    Unplaced,
}

/// The change in place of a pod that this installation follows.
struct FollowedChange {
    /// The revision to which the pod is changed; `None` if it is not.
    to: Option<RevisionHash>,
    flags: PodFlags,
    /// True if something of it was not known before.
    is_new: bool,
}

impl Default for FollowedChange {
    fn default() -> Self {
        Self { to: None, flags: PodFlags::empty(), is_new: false }
    }
}

impl DaemonSetState {
    /// True if this pod pulls images for a guarded rollout of the DaemonSet (G55).
    pub fn concerns_puller(&self, puller: &ImagePuller) -> bool {
        self.daemon_set.uid == puller.daemon_set && self.config.mode != Mode::Unguarded
    }

    /// Applies the newest version of a puller that concerns the DaemonSet (G55).
    pub fn apply_puller(&mut self, puller: &ImagePuller, nodes: &NodeTable) -> bool {
        let was_awaited = puller.terminating && self.expectations.saw_deletion(&puller.uid);
        let is_new = self.rollout.images.apply(puller.clone());
        if is_new {
            self.mark_node(&puller.node, nodes);
        }
        is_new || was_awaited
    }

    /// Removes a puller that was deleted (G55).
    pub fn delete_puller(&mut self, puller: &ImagePuller, nodes: &NodeTable) -> bool {
        let was_awaited = self.expectations.saw_deletion(&puller.uid);
        let was_known = self.rollout.images.remove(puller);
        self.mark_node(&puller.node, nodes);
        was_known || was_awaited
    }

    /// Applies the complete list of the pullers that concern this DaemonSet; all others were
    /// deleted (G55).
    pub fn reset_pullers<'a>(
        &mut self,
        pullers: impl IntoIterator<Item = &'a ImagePuller>,
        nodes: &NodeTable,
    ) -> bool {
        let listed: BTreeMap<_, _> = pullers.into_iter().map(|it| (&it.uid, it)).collect();
        let is_gone = |known: &&ImagePuller| !listed.contains_key(&known.uid);
        let gone: Vec<_> = self.rollout.images.pullers().filter(is_gone).cloned().collect();
        let mut changed = false;
        gone.iter().for_each(|puller| changed |= self.delete_puller(puller, nodes));
        listed.values().for_each(|puller| changed |= self.apply_puller(puller, nodes));
        changed
    }

    /// Makes the next plan assess the node with this name, if there is one.
    pub(super) fn mark_node(&mut self, name: &NodeName, nodes: &NodeTable) {
        if let Some(id) = nodes.id(name).filter(|id| id.index() < self.slots.len()) {
            self.mark(id);
        }
    }

    /// Applies the newest version of a pod.
    pub(super) fn claim_pod(&mut self, pod: &Pod, nodes: &mut NodeTable) -> bool {
        let is_former = ownership::is_former(&self.daemon_set, pod) && !pod.phase.is_terminal();
        let changed = match pod.node_name.as_ref().filter(|_| is_former) {
            Some(node) => self.await_former(pod, node, nodes),
            None => self.forget_former_pod(pod, nodes),
        };
        changed | self.claim_by_owner(pod, nodes)
    }

    /// Records that a pod of a former DaemonSet occupies its node (C36).
    fn await_former(&mut self, pod: &Pod, node: &NodeName, nodes: &mut NodeTable) -> bool {
        let id = nodes.intern(node);
        self.make_room(nodes);
        let of_node = self.other_pods.former.entry(id).or_default();
        if of_node.insert(pod.uid.clone(), pod.name.clone()).is_some() {
            return false;
        }
        nodes.acquire(id);
        self.slots[id.index()].flags |= SlotFlags::FORMER_POD;
        self.mark(id);
        true
    }

    /// Records that this pod does not exist any more, or has ended. Returns whether that is new.
    pub(super) fn forget_former_pod(&mut self, pod: &Pod, nodes: &mut NodeTable) -> bool {
        if self.other_pods.former.is_empty() {
            return false;
        }
        let id = pod.node_name.as_ref().and_then(|node| nodes.id(node));
        id.is_some_and(|id| self.forget_former(id, &pod.uid, nodes))
    }

    fn forget_former(&mut self, id: NodeId, uid: &Uid, nodes: &mut NodeTable) -> bool {
        let Some(of_node) = self.other_pods.former.get_mut(&id) else { return false };
        if of_node.remove(uid).is_none() {
            return false;
        }
        if of_node.is_empty() {
            self.other_pods.former.remove(&id);
            self.slots[id.index()].flags.remove(SlotFlags::FORMER_POD);
            self.mark(id);
            self.clear_if_vacant(id, nodes);
        }
        nodes.release(id);
        true
    }

    fn claim_by_owner(&mut self, pod: &Pod, nodes: &mut NodeTable) -> bool {
        match self.ownership(pod) {
            Ownership::Foreign => {
                // Its deletion will no longer be applied to this state.
                self.remove_pod(pod, nodes)
            }
            Ownership::Released => {
                self.record_end_of(pod, nodes);
                let was_awaited = pod.terminating && self.expectations.saw_deletion(&pod.uid);
                let forgotten = self.remove_from_locations(pod, None, nodes);
                let known = self.other_pods.releases.insert(pod.name.clone(), pod.uid.clone());
                forgotten || was_awaited || known.as_ref() != Some(&pod.uid)
            }
            Ownership::Orphan => self.store_pod(pod, true, nodes),
            Ownership::Owned => {
                self.expectations.saw_creation(&pod.uid);
                if pod.terminating {
                    self.record_end_of(pod, nodes);
                }
                let was_awaited = pod.terminating && self.expectations.saw_deletion(&pod.uid);
                self.store_pod(pod, false, nodes) || was_awaited
            }
        }
    }

    /// Removes a pod that does not exist any more, or has another owner.
    pub(super) fn remove_pod(&mut self, pod: &Pod, nodes: &mut NodeTable) -> bool {
        self.record_end_of(pod, nodes);
        let was_awaited = self.expectations.saw_deletion(&pod.uid);
        self.forget_pod(pod, nodes) || was_awaited
    }

    fn forget_pod(&mut self, pod: &Pod, nodes: &mut NodeTable) -> bool {
        let released = self.other_pods.releases.get(&pod.name) == Some(&pod.uid);
        if released {
            self.other_pods.releases.remove(&pod.name);
        }
        self.remove_from_locations(pod, None, nodes) || released
    }

    /// Removes all pods but those with these UIDs.
    pub(super) fn forget_pods_except(
        &mut self,
        uids: &BTreeSet<Uid>,
        nodes: &mut NodeTable,
    ) -> bool {
        let mut gone = Vec::new();
        for (index, slot) in self.slots.iter().enumerate() {
            let pods = slot.pods.as_slice().iter().filter(|pod| !uids.contains(&pod.uid));
            gone.extend(
                pods.map(|pod| (pod.uid.clone(), PodLocation::Node(NodeId::from_index(index)))),
            );
        }
        let unplaced = self.other_pods.unplaced.keys().filter(|uid| !uids.contains(uid));
        gone.extend(unplaced.map(|uid| (uid.clone(), PodLocation::Unplaced)));
        let releases = self.other_pods.releases.extract_if(.., |_, uid| !uids.contains(uid));
        let releases: Vec<Uid> = releases.map(|(_, uid)| uid).collect();
        for (uid, location) in &gone {
            self.record_end(uid, *location);
            self.remove_at(uid, *location, nodes);
        }
        for uid in gone.iter().map(|(uid, _)| uid).chain(&releases) {
            self.expectations.saw_deletion(uid);
        }
        let all = self.other_pods.former.iter();
        let former = all.flat_map(|(id, pods)| pods.keys().map(|uid| (*id, uid.clone())));
        let former: Vec<_> = former.filter(|(_, uid)| !uids.contains(uid)).collect();
        for (id, uid) in &former {
            self.forget_former(*id, uid, nodes);
        }
        !gone.is_empty() || !releases.is_empty() || !former.is_empty()
    }

    fn ownership(&self, pod: &Pod) -> Ownership {
        if pod.controller.is_none() && pod.namespace != self.daemon_set.key.namespace {
            return Ownership::Foreign;
        }
        let controller = pod.controller.as_ref();
        Ownership::determine(&self.daemon_set, controller, &pod.labels, pod.terminating)
    }

    /// Stores the newest version of a pod in the one location where it belongs.
    fn store_pod(&mut self, pod: &Pod, orphan: bool, nodes: &mut NodeTable) -> bool {
        let released = self.other_pods.releases.remove(&pod.name).is_some();
        let location = pod
            .target_node_name()
            .map_or(PodLocation::Unplaced, |n| PodLocation::Node(nodes.intern(n)));
        self.make_room(nodes);
        let moved = self.remove_from_locations(pod, Some(location), nodes);
        let followed = match pod.change.is_none() && self.changes.is_idle() {
            true => FollowedChange::default(),
            false => self.follow_change(pod, location),
        };
        let (hash, generation) = match followed.to {
            // It counts as a pod of that revision which is not available (G56).
            Some(to) if pod.revision_hash().as_ref() != Some(&to) => (Some(to), None),
            Some(to) => (Some(to), pod.template_generation()),
            None => (pod.revision_hash(), pod.template_generation()),
        };
        let tag = pod.tag();
        let labels = self.labels.acquire(hash, generation, tag);
        let mut view = PodView::new(pod, labels, orphan);
        view.flags |= followed.flags;
        let is_changed = followed.is_new;
        let known = self.find(&pod.uid, location);
        let shows_revision =
            known.is_none_or(|known| known.labels != labels || known.is_orphan() && !orphan);
        let was_unseen = known.is_some_and(PodView::is_unseen_ready);
        if let Some(known) = known.filter(|known| known.readiness == view.readiness) {
            view.readiness_seen = known.readiness_seen;
        }
        if let Some(known) = known {
            // What a plan has found out of the pod and its node.
            let found = PodFlags::SINCE_UNREACHABLE | PodFlags::BY_OVERRIDES;
            view.flags |= known.flags & found;
        }
        let replacement =
            pod.replacement.as_deref().filter(|_| view.flags.contains(PodFlags::ASKED));
        let is_same = known == Some(&view) && self.asking.replacements.get(&pod.uid) == replacement;
        if is_same {
            self.labels.release(labels);
            self.mark_changed(location, is_changed);
            return moved || released || is_changed;
        }
        if known.is_none_or(PodView::is_orphan) && !orphan && location == PodLocation::Unplaced {
            self.reports.problems.push(Problem::PodWithoutNode { pod: pod.name.clone() });
        }
        if let Some(at) = pod.deleted_at {
            self.deleted_at.insert(pod.uid.clone(), at);
        }
        match replacement.cloned() {
            Some(replacement) => {
                drop(self.asking.replacements.insert(pod.uid.clone(), replacement))
            }
            None => drop(self.asking.replacements.remove(&pod.uid)),
        }
        if was_unseen && !view.readiness.is_ready() {
            self.record_shown(location, Shown::Outage);
        }
        if shows_revision {
            self.record_revision(&view, location);
        }
        self.insert_at(view, location, nodes);
        true
    }

    /// Records the change in place of a pod that is under way, if this installation follows it
    /// (G56).
    #[cold]
    fn follow_change(&mut self, pod: &Pod, location: PodLocation) -> FollowedChange {
        let mut followed = FollowedChange::default();
        let changing = self.changing(pod, location);
        if let Some((changing, is_given_up)) = &changing
            && !(*is_given_up && changing.keeps_revision())
        {
            followed.to = Some(changing.change.to.hash.clone());
            followed.flags |= PodFlags::CHANGING;
            followed.flags.set(PodFlags::GIVEN_UP, *is_given_up);
            followed.flags.set(PodFlags::ASSUMED, changing.is_assumed);
            let is_seen = |flags: PodFlags| {
                flags.contains(PodFlags::CHANGING) && !flags.contains(PodFlags::ASSUMED)
            };
            let known = self.find(&pod.uid, location).map(|known| known.flags);
            let is_begun = is_seen(followed.flags) && !changing.keeps_revision();
            if is_begun && known.is_some_and(|known| !is_seen(known)) {
                self.record_shown(location, Shown::Loss);
            }
        }
        followed.is_new = self.changes.set(&pod.uid, changing.map(|(changing, _)| changing));
        followed
    }

    /// The change of a pod, and whether it is given up.
    fn changing(&mut self, pod: &Pod, location: PodLocation) -> Option<(Changing, bool)> {
        // Pods that have the annotation from their template are not being changed.
        let is_of_template = || self.daemon_set.template.canonical.contains(CHANGING_ANNOTATION);
        if self.config.mode == Mode::Unguarded || pod.change.is_some() && is_of_template() {
            return None;
        }
        let is_assumed = pod.change.is_none();
        let (change, is_given_up) = self.changes.read(pod)?;
        let node = match location {
            PodLocation::Node(id) => Some(id),
            PodLocation::Unplaced => None,
        };
        let (from, name) = (pod.revision_hash(), pod.name.clone());
        Some((Changing { change, from, name, node, is_assumed }, is_given_up))
    }

    fn mark_changed(&mut self, location: PodLocation, is_changed: bool) {
        if let PodLocation::Node(id) = location
            && is_changed
        {
            self.mark(id);
        }
    }

    /// Gives up changes in place that have no end.
    pub(super) fn give_up_changes(&mut self, now: Now, nodes: &NodeTable) {
        if self.changes.is_idle() {
            return;
        }
        self.changes.settle_doubts(now.steady);
        let within = self.resize_within();
        let is_current = |hash: &RevisionHash| self.labels.current_hashes().any(|it| it == hash);
        let is_stored =
            |hash: &RevisionHash| is_current(hash) || self.history.template(hash).is_some();
        // Any hash may be the one that the template's revision is about to get.
        let is_target_missing = self.history.classify(&self.daemon_set).current.is_none();
        let is_known = |it: &Changing| {
            let ChangeGoal { hash, tag } = &it.change.to;
            let revisions = (&self.labels, &self.history);
            let of_node = |tag| sync::override_with_tag(tag, hash, &self.daemon_set, revisions);
            let has_override = tag.as_ref().is_none_or(|tag| of_node(tag).is_some());
            is_stored(hash) && it.from.as_ref().is_some_and(is_stored) && has_override
                || is_target_missing
        };
        for (uid, id) in self.changes.give_up(within, now.to_wall(now.steady), is_known) {
            let keeps_revision = self.changes.get(&uid).is_some_and(Changing::keeps_revision);
            self.slots[id.index()].pods.give_up_change(&uid, keeps_revision);
            self.mark(id);
        }
        for node in self.changes.take_marked() {
            let id = nodes.id(&node).filter(|id| id.index() < self.slots.len());
            let slot = id.map(|id| &self.slots[id.index()]);
            let pods = slot.into_iter().flat_map(|slot| slot.pods.as_slice());
            let pods: Vec<Uid> = pods.map(|pod| pod.uid.clone()).collect();
            self.changes.keep_doubts(&node, &pods);
            id.into_iter().for_each(|id| self.read_changes(id, &pods));
        }
    }

    /// Asks the API server anew about pods that could not get their override (G57).
    pub(super) fn ask_about_overrides(&mut self) {
        for id in self.changes.ask_about_overrides() {
            let pods = self.slots[id.index()].pods.as_slice().iter();
            let pods: Vec<Uid> = pods.map(|pod| pod.uid.clone()).collect();
            self.read_changes(id, &pods);
        }
    }

    /// When the first change in place is given up, by the steady clock.
    pub(super) fn next_given_up_at(&self) -> Option<Timestamp> {
        let at = self.changes.next_given_up_at(self.resize_within())?;
        Some(Timestamp(at.0 - self.assessing.wall_ahead_ms))
    }

    fn resize_within(&self) -> Option<Duration> {
        self.daemon_set.policy.valid().map(|policy| policy.resize_within)
    }

    /// Applies what results of writes tell of the changes of a node's pods.
    fn read_changes(&mut self, id: NodeId, pods: &[Uid]) {
        self.mark(id);
        for uid in pods {
            let known = self.changes.get(uid).cloned();
            let Some(mut pod) = self.slots[id.index()].pods.remove(uid) else { continue };
            match (known, self.changes.in_doubt(uid).cloned()) {
                (None, Some(change)) => {
                    let from = self.labels.hash(pod.labels).cloned();
                    self.relabel(&mut pod, Some(change.to.hash.clone()), true);
                    let (name, node, is_assumed) = (pod.name.clone(), Some(id), true);
                    let changing = Changing { change, from, name, node, is_assumed };
                    self.changes.set(uid, Some(changing));
                }
                (Some(known), None) if known.is_assumed => {
                    self.relabel(&mut pod, known.from, false);
                    self.changes.set(uid, None);
                }
                (Some(known), _) => {
                    let is_given_up = self.changes.refusal(uid, &known.change.to).is_some();
                    pod.record_given_up(is_given_up, known.keeps_revision());
                }
                (None, None) => {}
            }
            self.slots[id.index()].pods.insert(pod);
        }
    }

    /// Counts a pod as one of the revision with this hash.
    fn relabel(&mut self, pod: &mut PodView, hash: Option<RevisionHash>, is_changing: bool) {
        let tag = self.labels.tag(pod.labels).cloned();
        let labels = self.labels.acquire(hash, None, tag);
        self.labels.release(pod.labels);
        pod.labels = labels;
        pod.flags.set(PodFlags::CHANGING | PodFlags::ASSUMED, is_changing);
        pod.flags.remove(PodFlags::GIVEN_UP);
    }

    /// Removes a pod from every location but one. A pod is pinned to one node for its lifetime, but
    /// a scheduler that ignores affinity may bind it to another.
    fn remove_from_locations(
        &mut self,
        pod: &Pod,
        except: Option<PodLocation>,
        nodes: &mut NodeTable,
    ) -> bool {
        // The excepted location is that of the target node: comparing names is cheaper than two
        // look-ups for each event of a pod.
        let excepted = pod.target_node_name().filter(|_| except.is_some());
        let node = |name: &Option<NodeName>| {
            let name = name.as_ref().filter(|name| Some(*name) != excepted)?;
            Some(PodLocation::Node(nodes.id(name)?))
        };
        let locations =
            [Some(PodLocation::Unplaced), node(&pod.affinity_node_name), node(&pod.node_name)];
        let mut forgotten = false;
        for location in locations.into_iter().flatten().filter(|location| Some(*location) != except)
        {
            forgotten |= self.remove_at(&pod.uid, location, nodes);
        }
        forgotten
    }

    fn record_end_of(&mut self, pod: &Pod, nodes: &NodeTable) {
        let is_of_rollout = self.rollout.known_waves().is_some();
        if !is_of_rollout && self.expectations.awaits_deletion(&pod.uid) {
            return;
        }
        if let Some(id) = pod.target_node_name().and_then(|name| nodes.id(name)) {
            self.record_end(&pod.uid, PodLocation::Node(id));
        }
    }

    /// Records that a pod leaves its node: because this controller has deleted it, or before it is
    /// ready because another client has, or has given it other labels or another owner.
    fn record_end(&mut self, uid: &Uid, location: PodLocation) {
        let PodLocation::Node(id) = location else { return };
        if self.expectations.awaits_deletion(uid) {
            // One that has ended, may not run there, or is one too many goes whatever the rollout
            // does (C23–C26).
            let slot = &self.slots[id.index()];
            let has_ended = slot.pods.find(uid).is_some_and(|pod| pod.phase.is_terminal());
            let may_run = slot.eligibility.should_continue_running();
            let mut others = slot.pods.as_slice().iter().filter(|pod| pod.uid != *uid);
            let is_surplus = others.any(|pod| !pod.is_orphan() && !pod.is_terminating());
            if !has_ended && may_run && !is_surplus {
                self.record_shown(location, Shown::Loss);
            }
            return;
        }
        let is_new = self.find(uid, location).is_some_and(|pod| {
            !pod.is_terminating() && !pod.is_orphan() && !pod.readiness.is_ready()
        });
        if is_new && self.creates_pods() {
            self.slots[id.index()].flags |= SlotFlags::LOST_POD;
        }
    }

    /// Records of which revision a pod is that has come, or has got other labels.
    fn record_revision(&mut self, pod: &PodView, location: PodLocation) {
        let shown = match self.labels.are_of_template(pod.labels) {
            _ if !pod.counts() => None,
            true => Some(Of::target(self.rollout.gate.is_target_known())),
            false => (!pod.is_terminating()).then_some(Of::Other),
        };
        shown.into_iter().for_each(|of| self.record_shown(location, Shown::Pod(of)));
    }

    /// Records news of a pod for the waves of a guarded rollout.
    fn record_shown(&mut self, location: PodLocation, shown: Shown) {
        if let PodLocation::Node(id) = location {
            self.rollout.record_shown(id, shown);
        }
    }

    fn find(&self, uid: &Uid, location: PodLocation) -> Option<&PodView> {
        match location {
            PodLocation::Unplaced => self.other_pods.unplaced.get(uid),
            PodLocation::Node(id) => self.slots.get(id.index())?.pods.find(uid),
        }
    }

    fn insert_at(&mut self, pod: PodView, location: PodLocation, nodes: &mut NodeTable) {
        match location {
            PodLocation::Unplaced => {
                if let Some(old) = self.other_pods.unplaced.insert(pod.uid.clone(), pod) {
                    self.labels.release(old.labels);
                }
            }
            PodLocation::Node(id) => {
                let slot = &mut self.slots[id.index()];
                if slot.pods.as_slice().is_empty() {
                    nodes.acquire(id);
                }
                if let Some(old) = slot.pods.insert(pod) {
                    self.labels.release(old.labels);
                }
                self.mark(id);
                self.apply_reachability(id, nodes);
            }
        }
    }

    /// Removes a pod from a location; returns whether it was there.
    fn remove_at(&mut self, uid: &Uid, location: PodLocation, nodes: &mut NodeTable) -> bool {
        let removed = match location {
            PodLocation::Unplaced => self.other_pods.unplaced.remove(uid),
            PodLocation::Node(id) => {
                self.slots.get_mut(id.index()).and_then(|slot| slot.pods.remove(uid))
            }
        };
        let Some(pod) = removed else { return false };
        if pod.is_unseen_ready() {
            self.record_shown(location, Shown::Outage);
        }
        self.deleted_at.remove(uid);
        self.changes.forget(uid);
        if pod.flags.contains(PodFlags::ASKED) {
            self.asking.replacements.remove(uid);
        }
        self.labels.release(pod.labels);
        if let PodLocation::Node(id) = location {
            self.mark(id);
            if self.slots[id.index()].pods.as_slice().is_empty() {
                self.clear_if_vacant(id, nodes);
                nodes.release(id);
            }
        }
        true
    }
}
