//! Whose a pod is, and where it is kept (C20, C21).

use std::collections::BTreeSet;

use crate::api::{NodeName, Pod, Problem, Uid};
use crate::nodes::{NodeId, Nodes};
use crate::plan::{PodReference, Write};

use super::DaemonSetState;
use super::draft::Draft;
use super::slot::PodView;

/// What a pod is to the DaemonSet.
enum Claim {
    Ours,
    /// To be adopted.
    Orphan,
    /// Ours, but the selector does not match: to be released.
    Released,
    Foreign,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Node(NodeId),
    /// Neither on a node nor aimed at one.
    Nowhere,
}

impl DaemonSetState {
    pub(super) fn claim_pod(&mut self, pod: &Pod, nodes: &mut Nodes) -> bool {
        match self.claim(pod) {
            Claim::Foreign => {
                // Nobody will tell us any more when it goes.
                self.expectations.saw_deletion(&pod.uid);
                self.forget_pod(pod, nodes)
            }
            Claim::Released => {
                if pod.terminating {
                    self.expectations.saw_deletion(&pod.uid);
                }
                let forgotten = self.forget_places(pod, None, nodes);
                let known = self.releases.insert(pod.name.clone(), pod.uid.clone());
                forgotten || known.as_ref() != Some(&pod.uid)
            }
            Claim::Orphan => self.keep_pod(pod, true, nodes),
            Claim::Ours => {
                self.expectations.saw_creation(&pod.uid);
                if pod.terminating {
                    self.expectations.saw_deletion(&pod.uid);
                }
                self.keep_pod(pod, false, nodes)
            }
        }
    }

    pub(super) fn forget_pod(&mut self, pod: &Pod, nodes: &mut Nodes) -> bool {
        let released = self.releases.get(&pod.name) == Some(&pod.uid);
        if released {
            self.releases.remove(&pod.name);
        }
        self.forget_places(pod, None, nodes) || released
    }

    /// Forgets all pods but those with these UIDs.
    pub(super) fn forget_pods_except(&mut self, uids: &BTreeSet<Uid>, nodes: &mut Nodes) -> bool {
        let mut gone = Vec::new();
        for (index, slot) in self.slots.iter().enumerate() {
            let pods = slot.pods.as_slice().iter().filter(|pod| !uids.contains(&pod.uid));
            gone.extend(pods.map(|pod| (pod.uid.clone(), Place::Node(NodeId::from_index(index)))));
        }
        let unplaced = self.unplaced.keys().filter(|uid| !uids.contains(uid));
        gone.extend(unplaced.map(|uid| (uid.clone(), Place::Nowhere)));
        let releases = self.releases.extract_if(.., |_, uid| !uids.contains(uid));
        let releases: Vec<Uid> = releases.map(|(_, uid)| uid).collect();
        for (uid, place) in &gone {
            self.take_out(uid, *place, nodes);
        }
        for uid in gone.iter().map(|(uid, _)| uid).chain(&releases) {
            self.expectations.saw_deletion(uid);
        }
        !gone.is_empty() || !releases.is_empty()
    }

    /// C21
    pub(super) fn plan_ownership(&self, draft: &mut Draft) {
        for (name, id) in &self.candidates.has_orphans {
            for pod in self.slots[id.index()].pods.as_slice().iter().filter(|pod| pod.orphan) {
                draft.patch(Write::AdoptPod(pod.reference(Some(name))));
            }
        }
        for pod in self.unplaced.values().filter(|pod| pod.orphan) {
            draft.patch(Write::AdoptPod(pod.reference(None)));
        }
        for (name, uid) in &self.releases {
            let pod = PodReference { name: name.clone(), uid: uid.clone(), node: None };
            draft.patch(Write::ReleasePod(pod));
        }
    }

    fn claim(&self, pod: &Pod) -> Claim {
        let daemon_set = &self.daemon_set;
        let matches = daemon_set.selector.as_ref().is_none_or(|s| s.matches(&pod.labels));
        match &pod.controller {
            Some(uid) if *uid == daemon_set.uid && matches => Claim::Ours,
            Some(uid) if *uid == daemon_set.uid => Claim::Released,
            Some(_) => Claim::Foreign,
            None if pod.terminating || pod.namespace != daemon_set.key.namespace => Claim::Foreign,
            None if self.selects(&pod.labels) => Claim::Orphan,
            None => Claim::Foreign,
        }
    }

    /// Keeps a pod as it is now in the one place where it belongs.
    fn keep_pod(&mut self, pod: &Pod, orphan: bool, nodes: &mut Nodes) -> bool {
        let released = self.releases.remove(&pod.name).is_some();
        let place = pod.target_node_name().map_or(Place::Nowhere, |n| Place::Node(nodes.intern(n)));
        self.make_room(nodes);
        let moved = self.forget_places(pod, Some(place), nodes);
        let carried = self.carried.hold(pod.revision_hash(), pod.template_generation());
        let mut view = PodView::new(pod, carried, orphan);
        let known = self.find(&pod.uid, place);
        if let Some(known) = known.filter(|known| known.readiness == view.readiness) {
            view.readiness_seen = known.readiness_seen;
        }
        if known == Some(&view) {
            self.carried.release(carried);
            return moved || released;
        }
        if known.is_none_or(|known| known.orphan) && !orphan && place == Place::Nowhere {
            self.problems.push(Problem::PodWithoutNode { pod: pod.name.clone() });
        }
        self.put_in(view, place, nodes);
        true
    }

    /// Forgets a pod wherever it may have been kept, except in one place. A pod is aimed at one node for
    /// good, but a scheduler that minds no affinity may put it on another.
    fn forget_places(&mut self, pod: &Pod, except: Option<Place>, nodes: &mut Nodes) -> bool {
        let node = |name: &Option<NodeName>| Some(Place::Node(nodes.id(name.as_ref()?)?));
        let places = [Some(Place::Nowhere), node(&pod.affinity_node_name), node(&pod.node_name)];
        let mut forgotten = false;
        for place in places.into_iter().flatten().filter(|place| Some(*place) != except) {
            forgotten |= self.take_out(&pod.uid, place, nodes);
        }
        forgotten
    }

    fn find(&self, uid: &Uid, place: Place) -> Option<&PodView> {
        match place {
            Place::Nowhere => self.unplaced.get(uid),
            Place::Node(id) => self.slots.get(id.index())?.pods.find(uid),
        }
    }

    fn put_in(&mut self, pod: PodView, place: Place, nodes: &mut Nodes) {
        match place {
            Place::Nowhere => {
                if let Some(old) = self.unplaced.insert(pod.uid.clone(), pod) {
                    self.carried.release(old.carried);
                }
            }
            Place::Node(id) => {
                let slot = &mut self.slots[id.index()];
                if slot.pods.as_slice().is_empty() {
                    nodes.hold(id);
                }
                if let Some(old) = slot.pods.remove(&pod.uid) {
                    self.carried.release(old.carried);
                }
                slot.pods.insert(pod);
                self.mark(id);
            }
        }
    }

    /// Returns whether the pod was there.
    fn take_out(&mut self, uid: &Uid, place: Place, nodes: &mut Nodes) -> bool {
        let removed = match place {
            Place::Nowhere => self.unplaced.remove(uid),
            Place::Node(id) => {
                self.slots.get_mut(id.index()).and_then(|slot| slot.pods.remove(uid))
            }
        };
        let Some(pod) = removed else { return false };
        self.carried.release(pod.carried);
        if let Place::Node(id) = place {
            self.mark(id);
            if self.slots[id.index()].pods.as_slice().is_empty() {
                self.strike_if_vacant(id, nodes);
                nodes.release(id);
            }
        }
        true
    }
}
