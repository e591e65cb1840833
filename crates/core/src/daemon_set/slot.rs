//! One node's share of a DaemonSet: whether it is eligible, and the pods that it has.

use crate::api::{NodeName, Pod, PodName, PodPhase, Readiness, Timestamp, Uid};
use crate::nodes::NodeId;
use crate::placement::Eligibility;
use crate::plan::PodReference;

use super::assess::Standing;
use super::carried::CarriedId;

#[derive(Debug, Default)]
pub(super) struct Slot {
    pub pods: Pods,
    pub eligibility: Eligibility,
    /// As of the last assessment; what is counted.
    pub standing: Standing,
    /// Whether it is to be assessed.
    pub marked: bool,
}

impl Slot {
    /// Whether there is neither node nor pod: the slot's number may be given to another node.
    pub fn is_vacant(&self) -> bool {
        self.eligibility == Eligibility::NoNode && self.pods.as_slice().is_empty()
    }

    /// Has it assessed by the next plan.
    pub fn mark(&mut self, id: NodeId, marked: &mut Vec<NodeId>) {
        if !self.marked {
            self.marked = true;
            marked.push(id);
        }
    }
}

/// A node's pods, oldest first. Nearly always one.
#[derive(Debug, Default)]
pub(super) enum Pods {
    #[default]
    None,
    One(Box<PodView>),
    Few(Vec<PodView>),
}

/// What decisions read of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodView {
    pub name: PodName,
    pub uid: Uid,
    pub creation_timestamp: Timestamp,
    pub readiness: Readiness,
    /// When we learnt of `readiness`.
    pub readiness_seen: Option<Timestamp>,
    /// The revision labels that it carries.
    pub carried: CarriedId,
    pub phase: PodPhase,
    pub terminating: bool,
    /// Whether it has a `spec.nodeName`.
    pub scheduled: bool,
    /// It has no controller yet and is to be adopted (C21).
    pub orphan: bool,
}

impl PodView {
    pub fn new(pod: &Pod, carried: CarriedId, orphan: bool) -> Self {
        Self {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            creation_timestamp: pod.creation_timestamp,
            readiness: pod.readiness,
            readiness_seen: None,
            carried,
            phase: pod.phase,
            terminating: pod.terminating,
            scheduled: pod.node_name.is_some(),
            orphan,
        }
    }

    /// C22: one that is terminating and has ended is ignored for placement.
    pub const fn counts(&self) -> bool {
        !(self.orphan || self.terminating && self.phase.is_terminal())
    }

    /// Whether the pod has been ready for `min_ready_seconds` (C54).
    pub fn is_available(&self, min_ready_seconds: u32, now: Timestamp) -> bool {
        self.readiness.is_available(self.readiness_seen, min_ready_seconds, now)
    }

    /// When the pod becomes available if it stays ready; `None` if that is unknown.
    pub fn available_at(&self, min_ready_seconds: u32) -> Option<Timestamp> {
        self.readiness.available_at(self.readiness_seen, min_ready_seconds)
    }

    pub fn reference(&self, node: Option<&NodeName>) -> PodReference {
        PodReference { name: self.name.clone(), uid: self.uid.clone(), node: node.cloned() }
    }

    /// C25: scheduled before unscheduled, then the older, then by name.
    fn age(&self) -> (bool, Timestamp, &PodName) {
        (!self.scheduled, self.creation_timestamp, &self.name)
    }
}

impl Pods {
    pub fn as_slice(&self) -> &[PodView] {
        match self {
            Self::None => &[],
            Self::One(pod) => std::slice::from_ref(pod),
            Self::Few(pods) => pods,
        }
    }

    pub fn find(&self, uid: &Uid) -> Option<&PodView> {
        self.as_slice().iter().find(|pod| pod.uid == *uid)
    }

    /// Puts a pod in its place; one with its UID must not be there.
    pub fn insert(&mut self, pod: PodView) {
        *self = match std::mem::take(self) {
            Self::None => Self::One(Box::new(pod)),
            Self::One(first) => Self::few(vec![*first, pod]),
            Self::Few(mut pods) => {
                pods.push(pod);
                Self::few(pods)
            }
        };
    }

    pub fn remove(&mut self, uid: &Uid) -> Option<PodView> {
        let at = self.as_slice().iter().position(|pod| pod.uid == *uid)?;
        let mut pods = match std::mem::take(self) {
            Self::None => Vec::new(),
            Self::One(pod) => vec![*pod],
            Self::Few(pods) => pods,
        };
        let removed = pods.remove(at);
        *self = match pods.len() {
            0 => Self::None,
            1 => pods.pop().map_or(Self::None, |pod| Self::One(Box::new(pod))),
            _ => Self::Few(pods),
        };
        Some(removed)
    }

    /// Notes when we learnt of each pod's readiness.
    pub fn see(&mut self, now: Timestamp) {
        let pods = match self {
            Self::None => &mut [],
            Self::One(pod) => std::slice::from_mut(&mut **pod),
            Self::Few(pods) => &mut pods[..],
        };
        for pod in pods {
            pod.readiness_seen.get_or_insert(now);
        }
    }

    fn few(mut pods: Vec<PodView>) -> Self {
        pods.sort_by(|a, b| a.age().cmp(&b.age()));
        Self::Few(pods)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C80: a node without pods costs a slot, one with a pod a view and its name besides.
    #[test]
    fn a_slot_and_a_pod_take_tens_of_bytes_each() {
        assert!(size_of::<Slot>() <= 40, "{}", size_of::<Slot>());
        assert!(size_of::<PodView>() <= 88, "{}", size_of::<PodView>());
    }
}
