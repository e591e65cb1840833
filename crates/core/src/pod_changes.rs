//! Pods that are changed in place instead of being replaced (G56).
//!
//! The pod states to which revision it is changed, and how far its kubelet is. From the first
//! request on it counts as a pod of that revision that is not available. Only this controller knows
//! which requests it has sent, and which pods cannot be changed. A new one sends the requests
//! again, which changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::api::{ChangeState, Pod, PodChange, PodName, Problem, RevisionHash, Timestamp, Uid};
use crate::node_table::NodeId;

/// The pods that are changed in place, and those that cannot be.
#[derive(Debug, Default)]
pub(crate) struct PodChanges {
    /// The pods that are being changed.
    changing: BTreeMap<Uid, Changing>,
    /// The pods of which all requests were sent, with the revision.
    sent: BTreeMap<Uid, RevisionHash>,
    /// The pods that cannot be changed to a revision, and why.
    refused: BTreeMap<Uid, (RevisionHash, Arc<str>)>,
    /// Why the last request failed, if it did.
    failure: Option<Arc<str>>,
    /// To be reported.
    reports: Vec<Problem>,
}

/// A pod that is being changed in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Changing {
    pub change: PodChange,
    /// The revision that its label names.
    pub from: Option<RevisionHash>,
    pub name: PodName,
    /// Its node.
    pub node: Option<NodeId>,
}

impl PodChanges {
    /// Records what a pod states of its change. Returns the change, and whether it is given up.
    pub(crate) fn read(&mut self, pod: &Pod) -> Option<(PodChange, bool)> {
        let change = pod.change.as_deref()?;
        if change.state == ChangeState::ResizeInfeasible {
            self.refuse(&pod.name, &pod.uid, &change.to, "its node can never have the resources");
        }
        Some((change.clone(), self.refusal(&pod.uid, &change.to).is_some()))
    }

    /// Records whether a pod is being changed. Returns whether that is new.
    pub(crate) fn set(&mut self, uid: &Uid, changing: Option<Changing>) -> bool {
        match changing {
            Some(changing) => {
                let known = self.changing.insert(uid.clone(), changing.clone());
                known.as_ref() != Some(&changing)
            }
            None if self.changing.is_empty() => false,
            None => self.changing.remove(uid).is_some(),
        }
    }

    /// Forgets a pod that is gone.
    pub(crate) fn forget(&mut self, uid: &Uid) {
        self.changing.remove(uid);
        self.sent.remove(uid);
        self.refused.remove(uid);
    }

    /// The change of a pod.
    pub(crate) fn get(&self, uid: &Uid) -> Option<&Changing> {
        self.changing.get(uid)
    }

    /// True if a pod that is being changed has the label of this revision.
    pub(crate) fn is_from(&self, hash: &RevisionHash) -> bool {
        self.changing.values().any(|changing| changing.from.as_ref() == Some(hash))
    }

    /// True if all requests of the change were sent.
    pub(crate) fn is_sent(&self, uid: &Uid, to: &RevisionHash) -> bool {
        self.sent.get(uid) == Some(to)
    }

    /// Records that all requests of a change were sent.
    pub(crate) fn record_sent(&mut self, uid: &Uid, to: &RevisionHash) {
        self.sent.insert(uid.clone(), to.clone());
        self.failure = None;
    }

    /// Records that a pod cannot be changed to a revision.
    pub(crate) fn refuse(
        &mut self,
        pod: &PodName,
        uid: &Uid,
        to: &RevisionHash,
        why: impl Into<Arc<str>>,
    ) {
        if self.refusal(uid, to).is_none() {
            let why = why.into();
            self.reports.push(Problem::UnchangedPod { pod: pod.clone(), why: why.clone() });
            self.refused.insert(uid.clone(), (to.clone(), why));
        }
    }

    /// The pods that cannot be changed, each once.
    pub(crate) fn take_reports(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.reports)
    }

    /// Why the pod cannot be changed to this revision, if it cannot.
    pub(crate) fn refusal(&self, uid: &Uid, to: &RevisionHash) -> Option<&str> {
        let (refused, why) = self.refused.get(uid)?;
        (refused == to).then_some(why)
    }

    /// Records that a request failed, so that it is sent again.
    pub(crate) fn record_failure(&mut self, why: impl Into<Arc<str>>) {
        self.failure = Some(why.into());
    }

    /// Why the last request failed, while any pod is to be changed.
    pub(crate) fn failure(&self) -> Option<&Arc<str>> {
        self.failure.as_ref()
    }

    /// Gives up the changes whose nodes have had no room for longer than `within`, and returns
    /// these pods with their nodes. `wall` is the time of the wall clock.
    pub(crate) fn give_up(&mut self, within: Duration, wall: Timestamp) -> Vec<(Uid, NodeId)> {
        let is_over = |it: &&Changing| it.deferred_until(within).is_some_and(|at| at <= wall);
        let late = self.changing.iter().filter(|(_, it)| is_over(it));
        let late: Vec<_> =
            late.filter_map(|(uid, it)| Some((uid.clone(), it.clone(), it.node?))).collect();
        for (uid, it, _) in &late {
            let why = "its node has had no room for the new resources for too long";
            self.refuse(&it.name, uid, &it.change.to, why);
        }
        late.into_iter().map(|(uid, _, node)| (uid, node)).collect()
    }

    /// When the first change is given up, by the wall clock.
    pub(crate) fn next_given_up_at(&self, within: Duration) -> Option<Timestamp> {
        self.changing.values().filter_map(|it| it.deferred_until(within)).min()
    }
}

impl Changing {
    /// When it is given up, because its node has no room.
    fn deferred_until(&self, within: Duration) -> Option<Timestamp> {
        match self.change.state {
            ChangeState::ResizeDeferred => Some(self.change.since + within),
            ChangeState::UnderWay | ChangeState::ResizeInfeasible | ChangeState::Done => None,
        }
    }
}
