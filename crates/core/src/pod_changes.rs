//! Pods that are changed in place instead of being replaced (G56).
//!
//! The pod states to which revision it is changed, and how far its kubelet is. From the first
//! request on it counts as a pod of that revision that is not available. Only this controller knows
//! which requests it has sent, and which pods cannot be changed. A new one sends the requests
//! again, which changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::api::{
    ChangeGoal, ChangeState, NodeName, Pod, PodChange, PodName, Problem, ResourceVersion,
    RevisionHash, RolloutPhase, RolloutPolicy, RolloutRecord, Timestamp, Uid,
};
use crate::node_table::NodeId;
use crate::plan::{NewChange, UNKNOWN_FOR};

/// Number of refusals that are known of a pod.
const REFUSALS_MAX: usize = 2;

/// The pods that are changed in place, and those that cannot be.
#[derive(Debug, Default)]
pub(crate) struct PodChanges {
    /// The pods that are being changed.
    changing: BTreeMap<Uid, Changing>,
    /// The pods of which all requests were sent.
    sent: BTreeMap<Uid, ChangeGoal>,
    /// The pods to which a request was sent that may take effect, while the watch does not show it.
    in_doubt: BTreeMap<Uid, Doubt>,
    /// The pods that cannot be changed, each with the last refusals: of the change that it states,
    /// and of the override that it is to get instead.
    refused: BTreeMap<Uid, Vec<Refusal>>,
    /// The attempt that they are refused for: when it began, and if it has failed.
    attempt: Option<(Timestamp, bool)>,
    /// Why the last request failed, if it did.
    failure: Option<Arc<str>>,
    /// To be reported.
    reports: Vec<Problem>,
    /// The nodes whose pods have changed by something else than a watch.
    marked: Vec<NodeName>,
}

/// A change that may begin by a request without an answer.
#[derive(Debug)]
struct Doubt {
    change: PodChange,
    node: Option<NodeName>,
    /// Until when the request may have an effect, by the steady clock.
    until: Timestamp,
}

/// A pod that cannot be changed.
#[derive(Debug)]
struct Refusal {
    to: ChangeGoal,
    why: Arc<str>,
    by: By,
    /// True if only its override is to change.
    stays: bool,
}

/// Who says that a pod cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// The API server, by an answer or what it has stored; it is asked again for another attempt.
    ApiServer,
    /// Its kubelet, as long as it says so.
    Kubelet,
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
    /// True if only a request without an answer says so.
    pub is_assumed: bool,
}

impl PodChanges {
    /// True if nothing is known of any pod.
    pub(crate) fn is_idle(&self) -> bool {
        self.changing.is_empty()
            && self.sent.is_empty()
            && self.in_doubt.is_empty()
            && self.refused.is_empty()
            && self.marked.is_empty()
    }

    /// Records what a pod states of its change. Returns the change, and whether it is given up.
    pub(crate) fn read(&mut self, pod: &Pod) -> Option<(PodChange, bool)> {
        let Some(change) = pod.change.as_deref() else {
            return Some((self.in_doubt(&pod.uid)?.clone(), false));
        };
        self.in_doubt.remove(&pod.uid);
        match change.state {
            ChangeState::ResizeInfeasible => {
                let why = "its node can never have the resources";
                let stays = pod.revision_hash().as_ref() == Some(&change.to.hash);
                self.refuse((&pod.name, &pod.uid, stays), &change.to, By::Kubelet, why);
            }
            ChangeState::UnderWay | ChangeState::Done => {
                if let Some(refusals) = self.refused.get_mut(&pod.uid) {
                    refusals.retain(|it| it.by != By::Kubelet);
                }
            }
            ChangeState::ResizeDeferred { .. } | ChangeState::ResizeFails { .. } => {}
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
        if self.is_idle() {
            return;
        }
        self.changing.remove(uid);
        self.sent.remove(uid);
        self.in_doubt.remove(uid);
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
    pub(crate) fn is_sent(&self, uid: &Uid, to: &ChangeGoal) -> bool {
        self.sent.get(uid) == Some(to)
    }

    /// Records that all requests of a change were sent.
    pub(crate) fn record_sent(&mut self, change: &NewChange) {
        self.sent.insert(change.pod.uid.clone(), change.goal());
        self.failure = None;
    }

    /// Records that a request may have taken effect, or may still. Until the watch shows it, the
    /// pod counts as one that is being changed.
    pub(crate) fn record_doubt(&mut self, new: &NewChange, now: Timestamp) {
        let is_seen = |known: &Changing| known.change.to == new.goal() && !known.is_assumed;
        if self.changing.get(&new.pod.uid).is_some_and(is_seen) {
            return;
        }
        let (to, since, state) = (new.goal(), new.since, ChangeState::UnderWay);
        let change = PodChange { to, since, state, version: ResourceVersion(0) };
        let (node, until) = (new.pod.node.clone(), now + UNKNOWN_FOR);
        self.in_doubt.insert(new.pod.uid.clone(), Doubt { change, node, until });
        self.marked.extend(new.pod.node.clone());
    }

    /// Ends the doubts about requests that can have no effect any more.
    pub(crate) fn settle_doubts(&mut self, now: Timestamp) {
        let settled = self.in_doubt.extract_if(.., |_, doubt| doubt.until <= now);
        self.marked.extend(settled.filter_map(|(_, doubt)| doubt.node));
    }

    /// When the first doubt ends, by the steady clock.
    pub(crate) fn next_settled_at(&self) -> Option<Timestamp> {
        self.in_doubt.values().map(|doubt| doubt.until).min()
    }

    /// Forgets doubts about pods of a node that are gone; `pods` are there.
    pub(crate) fn keep_doubts(&mut self, node: &NodeName, pods: &[Uid]) {
        self.in_doubt.retain(|uid, it| it.node.as_ref() != Some(node) || pods.contains(uid));
    }

    /// The change of which a request may have taken effect.
    pub(crate) fn in_doubt(&self, uid: &Uid) -> Option<&PodChange> {
        self.in_doubt.get(uid).map(|doubt| &doubt.change)
    }

    /// Records that the API server does not let this pod be changed.
    pub(crate) fn record_refusal(&mut self, new: &NewChange, why: String) {
        self.in_doubt.remove(&new.pod.uid);
        let stays = new.keeps_revision();
        self.refuse((&new.pod.name, &new.pod.uid, stays), &new.goal(), By::ApiServer, why);
        self.marked.extend(new.pod.node.clone());
    }

    /// Records that a pod cannot be changed, and if it stays then.
    fn refuse(
        &mut self,
        (pod, uid, stays): (&PodName, &Uid, bool),
        to: &ChangeGoal,
        by: By,
        why: impl Into<Arc<str>>,
    ) {
        if self.refusal(uid, to).is_none() {
            let why = why.into();
            self.reports.push(Problem::UnchangedPod { pod: pod.clone(), why: why.clone(), stays });
            let refusals = self.refused.entry(uid.clone()).or_default();
            if refusals.len() == REFUSALS_MAX {
                refusals.remove(0);
            }
            refusals.push(Refusal { to: to.clone(), why, by, stays });
        }
    }

    /// Why the pod cannot be changed to this, if it cannot.
    pub(crate) fn refusal(&self, uid: &Uid, to: &ChangeGoal) -> Option<&Arc<str>> {
        let mut refusals = self.refused.get(uid)?.iter();
        refusals.find(|refusal| refusal.to == *to).map(|refusal| &refusal.why)
    }

    /// Why the pod cannot be changed to a revision, if it cannot.
    pub(crate) fn refusal_of_revision(&self, uid: &Uid, hash: &RevisionHash) -> Option<&str> {
        let mut refusals = self.refused.get(uid)?.iter();
        refusals.find(|refusal| refusal.to.hash == *hash).map(|refusal| &*refusal.why)
    }

    /// Asks the API server anew about pods that are not half changed if this record, of which no
    /// other attempt has the same, is another one. Returns whether any pod was refused.
    pub(crate) fn set_attempt(&mut self, record: Option<&RolloutRecord>) -> bool {
        let attempt = record.map(|record| (record.began, record.phase == RolloutPhase::Failed));
        if self.attempt == attempt {
            return false;
        }
        self.attempt = attempt;
        let (changing, refused) = (&self.changing, self.refused.len());
        self.refused.retain(|uid, _| changing.contains_key(uid));
        self.sent.retain(|uid, _| changing.contains_key(uid));
        self.failure = None;
        self.refused.len() < refused
    }

    /// Asks anew about pods whose override is to change, because the overrides are others. Returns
    /// the nodes of those that are half changed.
    pub(crate) fn ask_about_overrides(&mut self) -> Vec<NodeId> {
        let is_asked = |it: &Refusal| it.stays && it.by != By::Kubelet;
        let asked = self.refused.iter_mut().filter_map(|(uid, refusals)| {
            let known = refusals.len();
            refusals.retain(|it| !is_asked(it));
            (refusals.len() < known).then_some(uid)
        });
        let changing = asked.filter_map(|uid| self.changing.get(uid)?.node).collect();
        self.refused.retain(|_, refusals| !refusals.is_empty());
        changing
    }

    /// The pods that cannot be changed: whoever reports them takes them away.
    pub(crate) const fn reports_mut(&mut self) -> &mut Vec<Problem> {
        &mut self.reports
    }

    /// The nodes whose pods have changed since, other than by what a watch shows.
    pub(crate) fn take_marked(&mut self) -> Vec<NodeName> {
        std::mem::take(&mut self.marked)
    }

    /// Records that a request failed, so that it is sent again.
    pub(crate) fn record_failure(&mut self, why: impl Into<Arc<str>>) {
        self.failure = Some(why.into());
    }

    /// Why the last request failed, while any pod is to be changed.
    pub(crate) fn failure(&self) -> Option<&Arc<str>> {
        self.failure.as_ref()
    }

    /// Gives up the changes whose resources could not be had for longer than `within`, and those of
    /// which it is not known what they change, and whose requests may be missing. `wall` is the
    /// time of the wall clock.
    pub(crate) fn give_up(
        &mut self,
        within: Option<Duration>,
        wall: Timestamp,
        is_known: impl Fn(&Changing) -> bool,
    ) -> Vec<(Uid, NodeId)> {
        // One that only a request without an answer states may not have begun.
        let begun = self.changing.iter().filter(|(_, it)| !it.is_assumed);
        let due = begun.filter_map(|(uid, it)| {
            let to = &it.change.to;
            let late = it.awaited_until(within).filter(|(at, _)| *at <= wall);
            let (by, why) = match late {
                _ if self.refusal(uid, to).is_some() => return None,
                Some((_, why)) => (By::Kubelet, why),
                None if self.is_sent(uid, to) || is_known(it) => return None,
                None => {
                    (By::ApiServer, "the template of its revision or its override is not known")
                }
            };
            Some((uid.clone(), it.clone(), by, why))
        });
        let due: Vec<_> = due.collect();
        for (uid, it, by, why) in &due {
            self.refuse((&it.name, uid, it.keeps_revision()), &it.change.to, *by, *why);
        }
        due.into_iter().filter_map(|(uid, it, ..)| Some((uid, it.node?))).collect()
    }

    /// When the first change is given up, by the wall clock.
    pub(crate) fn next_given_up_at(&self, within: Option<Duration>) -> Option<Timestamp> {
        let followed =
            self.changing.iter().filter(|(uid, it)| self.refusal(uid, &it.change.to).is_none());
        followed.filter_map(|(_, it)| Some(it.awaited_until(within)?.0)).min()
    }
}

impl Changing {
    /// True if only its override changes (G57). If that is not possible, the pod is one like any
    /// other: its containers run as before.
    pub(crate) fn keeps_revision(&self) -> bool {
        self.from.as_ref() == Some(&self.change.to.hash)
    }

    /// When it is given up because the pod does not get its resources, and why it does not.
    fn awaited_until(&self, within: Option<Duration>) -> Option<(Timestamp, &'static str)> {
        let (since, why) = match self.change.state {
            ChangeState::ResizeDeferred { since } => {
                (since, "its node has had no room for the new resources for too long")
            }
            ChangeState::ResizeFails { since } => (
                since,
                "its kubelet could not change the resources for too long, as where a container \
                 uses more memory than its new limit",
            ),
            ChangeState::UnderWay | ChangeState::ResizeInfeasible | ChangeState::Done => {
                return None;
            }
        };
        let within = within.unwrap_or(RolloutPolicy::RESIZE_WITHIN);
        Some((since.max(self.change.since) + within, why))
    }
}
