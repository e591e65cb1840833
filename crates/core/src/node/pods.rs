//! The pods of one node, reduced to what decisions read.

use std::time::Duration;

use bitflags::bitflags;

use crate::api::{NodeName, Now, Pod, PodName, PodPhase, PodTrouble, Readiness, Timestamp, Uid};
use crate::plan::PodReference;
use crate::revisions::{RevisionLabels, RevisionLabelsId};

/// The pods of a node, oldest first. Nearly every node has exactly one.
#[derive(Debug, Default)]
pub(crate) enum NodePods {
    #[default]
    None,
    One(Box<PodView>),
    #[expect(clippy::box_collection, reason = "a slot is smaller by a third with one pointer")]
    Few(Box<Vec<PodView>>),
}

/// A pod, reduced to what decisions read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodView {
    pub name: PodName,
    pub uid: Uid,
    pub creation_timestamp: Timestamp,
    /// By how many seconds that is later than its creation, because of a change in place (G56).
    changed_after: u32,
    pub readiness: Readiness,
    /// When this controller first saw `readiness`.
    pub readiness_seen: Option<Timestamp>,
    /// The revision labels of the pod.
    pub labels: RevisionLabelsId,
    pub phase: PodPhase,
    /// The highest number of restarts of a container (G34).
    pub restarts: u8,
    /// Why a container does not run, if that is known.
    pub trouble: Option<PodTrouble>,
    pub flags: PodFlags,
}

bitflags! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct PodFlags: u16 {
        /// It has a deletion timestamp.
        const TERMINATING = 1;
        /// The scheduler has found no place for it (G13).
        const UNSCHEDULABLE = 1 << 1;
        /// It has a `spec.nodeName`.
        const SCHEDULED = 1 << 2;
        /// It has no controller and is to be adopted (C21).
        const ORPHAN = 1 << 3;
        /// It was created, or its deletion was requested, since the kubelet of its node no longer
        /// answers (C58).
        const SINCE_UNREACHABLE = 1 << 4;
        /// Somebody is asked whether it may go, or agrees to that (G54).
        const ASKED = 1 << 5;
        /// It states that its node is updated (G54).
        const REPLACED = 1 << 6;
        /// It is being changed in place to the revision whose labels it has here (G56).
        const CHANGING = 1 << 7;
        /// It cannot be changed to that revision after all, and is replaced (G56).
        const GIVEN_UP = 1 << 8;
        /// Only a request without an answer says that it is being changed (G56).
        const ASSUMED = 1 << 9;
        /// Its override is not that of its node under the target (G57).
        const NOT_OF_TARGET = 1 << 10;
        /// Its override is not that of its node under the base (G57).
        const NOT_OF_BASE = 1 << 11;
        /// The base would make the same pod on its node. Known where overrides are used (G57).
        const OF_BASE = 1 << 12;
        /// It runs, and is to get the override of its node in place, or to lose its own (G57).
        const GETS_OVERRIDE = 1 << 13;
        /// It has started since that override counts on its node: at first it needs no budget.
        const OVERRIDE_NOW = 1 << 14;
        /// It was changed in place before (G56).
        const CHANGED = 1 << 15;
    }
}

impl PodFlags {
    /// The flags that follow from the overrides of a pod and its node.
    pub(crate) const BY_OVERRIDES: Self = Self::NOT_OF_TARGET
        .union(Self::NOT_OF_BASE)
        .union(Self::OF_BASE)
        .union(Self::GETS_OVERRIDE)
        .union(Self::OVERRIDE_NOW);
}

impl PodView {
    pub(crate) fn new(pod: &Pod, labels: RevisionLabelsId, orphan: bool) -> Self {
        let mut flags = PodFlags::empty();
        flags.set(PodFlags::TERMINATING, pod.terminating);
        flags.set(PodFlags::UNSCHEDULABLE, pod.unschedulable);
        flags.set(PodFlags::SCHEDULED, pod.node_name.is_some());
        flags.set(PodFlags::ORPHAN, orphan);
        flags.set(PodFlags::CHANGED, pod.changed_after.is_some());
        let changed_after = pod.changed_after.unwrap_or_default();
        if let Some(replacement) = &pod.replacement {
            let is_asked = replacement.replacing.is_some() || replacement.is_agreed;
            flags.set(PodFlags::ASKED, is_asked);
            let hash = pod.revision_hash();
            let is_replaced = replacement.replaced.is_some() && replacement.replaced == hash;
            flags.set(PodFlags::REPLACED, is_replaced);
        }
        Self {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            creation_timestamp: pod.creation_timestamp,
            changed_after: u32::try_from(changed_after.as_secs()).unwrap_or(u32::MAX),
            readiness: pod.readiness,
            readiness_seen: None,
            labels,
            phase: pod.phase,
            restarts: pod.restarts,
            trouble: pod.trouble,
            flags,
        }
    }

    pub(crate) const fn is_terminating(&self) -> bool {
        self.flags.contains(PodFlags::TERMINATING)
    }

    /// True if the pod has no controller and is to be adopted (C21).
    pub(crate) const fn is_orphan(&self) -> bool {
        self.flags.contains(PodFlags::ORPHAN)
    }

    /// True if placement counts the pod. A terminating pod that has ended does not count (C22).
    pub(crate) const fn counts(&self) -> bool {
        !(self.is_orphan() || self.has_left())
    }

    /// True if it is being deleted and has ended already (C22).
    pub(crate) const fn has_left(&self) -> bool {
        self.is_terminating() && self.phase.is_terminal()
    }

    /// True if the pod is of the current revision (C45, G57).
    pub(crate) fn is_updated(&self, labels: &RevisionLabels) -> bool {
        labels.are_of_template(self.labels) && !self.flags.contains(PodFlags::NOT_OF_TARGET)
    }

    /// True if the pod was made of the current revision, whatever override counts on its node now.
    pub(crate) fn is_of_target_revision(&self, labels: &RevisionLabels) -> bool {
        labels.are_of_target_revision(self.labels)
    }

    /// True if a rollout of these nodes goes back and the pod is one to leave: it is of the target
    /// and, with overrides, not what the base would make there, too.
    pub(crate) fn is_to_go_back(&self, labels: &RevisionLabels) -> bool {
        self.is_of_target_revision(labels) && !self.flags.contains(PodFlags::OF_BASE)
    }

    /// True if the pod is being changed in place (G56).
    pub(crate) const fn is_changing(&self) -> bool {
        self.flags.contains(PodFlags::CHANGING)
    }

    /// True if the pod was being changed in place, and cannot be (G56).
    pub(crate) const fn is_given_up(&self) -> bool {
        self.flags.contains(PodFlags::GIVEN_UP)
    }

    /// Records whether a change in place is given up. A pod whose override was to change, and not
    /// its revision, is one like any other then (G57).
    pub(crate) fn record_given_up(&mut self, is_given_up: bool, keeps_revision: bool) {
        match keeps_revision {
            true => self.flags.set(PodFlags::CHANGING, !is_given_up),
            false => self.flags.set(PodFlags::GIVEN_UP, is_given_up),
        }
    }

    /// True if the pod is being changed in place, or was (G56).
    pub(crate) const fn was_changed(&self) -> bool {
        self.is_changing() || self.flags.contains(PodFlags::CHANGED)
    }

    /// True if the pod has been ready for `min_ready_seconds` (C54), and is not being changed: its
    /// containers may stop at any time then (G56).
    pub(crate) fn is_available(&self, min_ready_seconds: u32, now: Now) -> bool {
        !self.is_changing() && self.is_seen_available(min_ready_seconds, now)
    }

    /// True if the pod is available as the watch shows it: of some changes only a request without
    /// an answer says that they have begun (G56).
    pub(crate) fn is_seen_available(&self, min_ready_seconds: u32, now: Now) -> bool {
        let readiness = self.readiness.by_steady_clock(now);
        !self.is_seen_changing()
            && readiness.is_available(self.readiness_seen, min_ready_seconds, now.steady)
    }

    /// True if the watch shows that the pod is being changed in place.
    const fn is_seen_changing(&self) -> bool {
        self.is_changing() && !self.flags.contains(PodFlags::ASSUMED)
    }

    /// True if the pod is ready, and nothing has looked at its node since it became so.
    pub(crate) const fn is_unseen_ready(&self) -> bool {
        self.counts() && self.readiness.is_ready() && self.readiness_seen.is_none()
    }

    /// When the pod becomes available, by the steady clock, if it stays ready and the wall clock is
    /// not set; `None` if that is unknown.
    pub(crate) fn available_at(&self, min_ready_seconds: u32, now: Now) -> Option<Timestamp> {
        // The status counts one as the watch shows it.
        if self.is_seen_changing() {
            return None;
        }
        let readiness = self.readiness.by_steady_clock(now);
        readiness.available_at(self.readiness_seen, min_ready_seconds)
    }

    pub(crate) fn reference(&self, node: Option<&NodeName>) -> PodReference {
        PodReference { name: self.name.clone(), uid: self.uid.clone(), node: node.cloned() }
    }

    /// Sort key: scheduled pods first, then the older, then by name (C25). A change in place makes
    /// no pod younger (G56).
    fn age(&self) -> (bool, Timestamp, &PodName) {
        let created = self.creation_timestamp - Duration::from_secs(self.changed_after.into());
        (!self.flags.contains(PodFlags::SCHEDULED), created, &self.name)
    }
}

impl NodePods {
    pub(crate) fn as_slice(&self) -> &[PodView] {
        match self {
            Self::None => &[],
            Self::One(pod) => std::slice::from_ref(pod),
            Self::Few(pods) => pods,
        }
    }

    /// True if there are pods, and all of them are so.
    pub(crate) fn are_all(&self, is_so: impl Fn(&PodView) -> bool) -> bool {
        let pods = self.as_slice();
        !pods.is_empty() && pods.iter().all(is_so)
    }

    pub(crate) fn find(&self, uid: &Uid) -> Option<&PodView> {
        self.as_slice().iter().find(|pod| pod.uid == *uid)
    }

    /// Inserts a pod by its age. Returns the one with its UID that was there.
    pub(crate) fn insert(&mut self, pod: PodView) -> Option<PodView> {
        if let Self::One(known) = self
            && known.uid == pod.uid
        {
            return Some(std::mem::replace(&mut **known, pod));
        }
        let known = self.remove(&pod.uid);
        *self = match std::mem::take(self) {
            Self::None => Self::One(Box::new(pod)),
            Self::One(first) => Self::few(vec![*first, pod]),
            Self::Few(mut pods) => {
                pods.push(pod);
                Self::few(*pods)
            }
        };
        known
    }

    pub(crate) fn remove(&mut self, uid: &Uid) -> Option<PodView> {
        let at = self.as_slice().iter().position(|pod| pod.uid == *uid)?;
        match std::mem::take(self) {
            Self::None => None,
            Self::One(pod) => Some(*pod),
            Self::Few(mut pods) => {
                let removed = pods.remove(at);
                *self = match pods.len() {
                    1 => pods.pop().map_or(Self::None, |pod| Self::One(Box::new(pod))),
                    _ => Self::Few(pods),
                };
                Some(removed)
            }
        }
    }

    /// Records since when the kubelet of the node does not answer. `deleted_at` returns when the
    /// deletion of a terminating pod was requested.
    pub(crate) fn record_unreachable_since(
        &mut self,
        since: Option<Timestamp>,
        deleted_at: impl Fn(&Uid) -> Option<Timestamp>,
    ) {
        for pod in self.as_mut_slice() {
            let at = match pod.is_terminating() {
                true => deleted_at(&pod.uid),
                false => None,
            };
            let at = at.unwrap_or(pod.creation_timestamp);
            let is_later = since.is_some_and(|since| at >= since);
            pod.flags.set(PodFlags::SINCE_UNREACHABLE, is_later);
        }
    }

    /// Records what follows from the overrides of pods and their node: `flags` returns the flags of
    /// a pod (G57).
    pub(crate) fn record_overrides(&mut self, flags: impl Fn(&PodView) -> PodFlags) {
        for pod in self.as_mut_slice() {
            let flags = flags(pod);
            pod.flags.remove(PodFlags::BY_OVERRIDES);
            pod.flags |= flags;
        }
    }

    /// Records `now` as the time at which the readiness of new or changed pods was first seen.
    pub(crate) fn record_readiness_seen(&mut self, now: Timestamp) {
        for pod in self.as_mut_slice() {
            pod.readiness_seen.get_or_insert(now);
        }
    }

    /// Records since when a pod has been as ready as it is.
    pub(crate) fn record_readiness_since(&mut self, uid: &Uid, since: Timestamp) {
        if let Some(pod) = self.as_mut_slice().iter_mut().find(|pod| pod.uid == *uid) {
            pod.readiness_seen = Some(since);
        }
    }

    /// Records that a pod which was being changed in place cannot be (G56).
    pub(crate) fn give_up_change(&mut self, uid: &Uid, keeps_revision: bool) {
        if let Some(pod) = self.as_mut_slice().iter_mut().find(|pod| pod.uid == *uid) {
            pod.record_given_up(true, keeps_revision);
        }
    }

    fn as_mut_slice(&mut self) -> &mut [PodView] {
        match self {
            Self::None => &mut [],
            Self::One(pod) => std::slice::from_mut(&mut **pod),
            Self::Few(pods) => &mut pods[..],
        }
    }

    fn few(mut pods: Vec<PodView>) -> Self {
        pods.sort_by(|a, b| a.age().cmp(&b.age()));
        Self::Few(Box::new(pods))
    }
}
