//! The pace of a guarded rollout: on how many nodes it has begun within the last minute (G5). A
//! rollout begins on a node when its old pod is deleted, or a new one is created beside it.
//!
//! Nothing of it is stored. What another replica did shortly before is seen by the pods that it
//! leaves behind: an old pod that ends, a node without a pod, or a new pod.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::api::{NodeName, Now, Timestamp};
use crate::node::{PodView, Slot};
use crate::plan::Outcome;

/// The time to which the limit refers.
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// By how much a pod may be younger than its creation time says: the API server rounds it down to a
/// second, and its clock and the controller's may differ by another one.
const CREATION_TIME_ERROR: Duration = Duration::from_secs(2);

/// The nodes on which the rollout has begun within the last minute.
#[derive(Debug)]
pub(crate) struct Pace {
    limit: NonZeroU32,
    begun: BTreeMap<NodeName, Beginning>,
    /// Until when pods tell of what another replica, or this one under another policy, has begun.
    recovers_until: Timestamp,
}

#[derive(Debug)]
struct Beginning {
    /// When it took effect at the latest, as far as that is known.
    at: Timestamp,
    /// True if the result of a write is awaited.
    is_in_flight: bool,
    evidence: Evidence,
}

/// How it is known that the rollout has begun on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    /// It is not: the first write is in flight.
    None,
    /// A write has taken effect, or may still.
    Write,
    /// The node's pods show it. Then the time depends on the wall clock.
    Pods,
}

impl Pace {
    /// The pace of a rollout of which nothing is known yet.
    pub(crate) fn new(limit: NonZeroU32, now: Timestamp) -> Self {
        Self { limit, begun: BTreeMap::new(), recovers_until: now + MINUTE }
    }

    pub(crate) const fn set_limit(&mut self, limit: NonZeroU32) {
        self.limit = limit;
    }

    /// Records what the pods of a node tell of a beginning within the last minute: an old pod ends,
    /// the node is without a pod, or a pod is new there or being changed.
    pub(crate) fn apply_slot(&mut self, node: &NodeName, slot: &Slot, now: Now) {
        if !self.is_recovering(now.steady) {
            return;
        }
        let pods = slot.pods.as_slice();
        let is_empty = slot.eligibility.should_run() && !pods.iter().any(PodView::counts);
        let is_ending = is_empty || pods.iter().any(PodView::is_terminating);
        let created = pods.iter().map(|pod| pod.creation_timestamp + CREATION_TIME_ERROR).max();
        let at = match created.map(|at| now.to_steady(at).min(now.steady)) {
            _ if is_ending => Some(now.steady),
            Some(at) if at + MINUTE > now.steady => Some(at),
            // A change to another override makes no pod younger (G57).
            _ => pods.iter().any(PodView::is_changing).then_some(now.steady),
        };
        if let Some(at) = at {
            self.recover(node, at);
        }
    }

    /// Records when a write by which the rollout may have begun on a node took effect at the
    /// latest. `is_repeated` is whether an earlier request of it may still take effect.
    pub(crate) fn apply_outcome(
        &mut self,
        node: &NodeName,
        outcome: &Outcome,
        is_repeated: bool,
        now: Timestamp,
    ) {
        match outcome {
            _ if is_repeated => self.finish(node, now),
            Outcome::Failed { .. }
            | Outcome::Skipped
            | Outcome::CannotChange { .. }
            | Outcome::NamespaceTerminating => {
                self.cancel(node);
            }
            Outcome::Written { .. }
            | Outcome::Changed { .. }
            | Outcome::Gone
            | Outcome::RevisionExists { .. }
            | Outcome::ImagesPresent
            | Outcome::Begun { .. }
            | Outcome::Unknown { .. } => self.finish(node, now),
        }
    }

    /// True if what the pods of a node tell counts.
    fn is_recovering(&self, now: Timestamp) -> bool {
        now < self.recovers_until
    }

    /// Records that the rollout began on a node at this time, as its pods tell.
    fn recover(&mut self, node: &NodeName, at: Timestamp) {
        if !self.counts(node) {
            let begun = Beginning { at, is_in_flight: false, evidence: Evidence::Pods };
            self.begun.insert(node.clone(), begun);
        }
    }

    /// Forgets what pods tell, while they can be read again: the wall clock was set, so they are
    /// older or younger than they seemed.
    pub(crate) fn forget_recovered(&mut self, now: Timestamp) {
        if self.is_recovering(now) {
            self.begun.retain(|_, begun| begun.is_in_flight || begun.evidence != Evidence::Pods);
        }
    }

    /// Records that a write is sent by which the rollout begins on a node, perhaps not the first.
    pub(crate) fn begin(&mut self, node: &NodeName, now: Timestamp) {
        let new = Beginning { at: now, is_in_flight: true, evidence: Evidence::None };
        self.begun.entry(node.clone()).or_insert(new).is_in_flight = true;
    }

    /// Records that the write by which it begins on the node has taken effect, or may still.
    fn finish(&mut self, node: &NodeName, now: Timestamp) {
        if let Some(begun) = self.begun.get_mut(node).filter(|begun| begun.is_in_flight) {
            *begun = Beginning { at: now, is_in_flight: false, evidence: Evidence::Write };
        }
    }

    /// Records that this write has not taken effect.
    fn cancel(&mut self, node: &NodeName) {
        let Some(begun) = self.begun.get_mut(node) else { return };
        begun.is_in_flight = false;
        if begun.evidence == Evidence::None {
            self.begun.remove(node);
        }
    }

    /// Records that a request without an answer may take effect now, if the rollout began by it.
    pub(crate) fn prolong(&mut self, node: &NodeName, now: Timestamp) {
        if let Some(begun) = self.begun.get_mut(node) {
            begun.at = now;
            if begun.evidence == Evidence::None {
                begun.evidence = Evidence::Write;
            }
        }
    }

    /// Forgets what was more than a minute ago.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        self.begun.retain(|_, begun| begun.is_in_flight || begun.at + MINUTE > now);
    }

    /// True if the rollout may begin on the node, beside `planned` others of which nothing is
    /// recorded yet. A node that counts already counts once.
    pub(crate) fn admits(&self, node: &NodeName, planned: usize) -> bool {
        let others = self.begun.len() - usize::from(self.counts(node));
        others + planned < self.limit()
    }

    /// True if the node counts already.
    pub(crate) fn counts(&self, node: &NodeName) -> bool {
        self.begun.contains_key(node)
    }

    /// When the rollout may begin on the node, beside `planned` others; `None` if these decide
    /// that.
    pub(crate) fn next_at(&self, node: &NodeName, planned: usize) -> Option<Timestamp> {
        let others = self.begun.iter().filter(|(other, _)| *other != node);
        let mut times: Vec<Timestamp> = others.map(|(_, begun)| begun.at).collect();
        times.sort_unstable();
        let last = (times.len() + planned).checked_sub(self.limit())?;
        times.get(last).map(|at| *at + MINUTE)
    }

    fn limit(&self) -> usize {
        usize::try_from(self.limit.get()).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * 1_000)
    }

    /// G5: a write that is repeated counts from its own result, whatever was seen before that; if
    /// the repetition is refused, the first attempt still counts.
    #[test]
    fn the_last_attempt_on_a_node_counts() {
        let (node, other) = (NodeName::from("a"), NodeName::from("b"));
        let mut pace = Pace::new(NonZeroU32::MIN, at(0));
        pace.begin(&node, at(0));
        pace.finish(&node, at(1));
        pace.begin(&node, at(2));
        assert!(!pace.admits(&other, 0));
        pace.finish(&node, at(5));
        assert_eq!(pace.next_at(&other, 0), Some(at(65)));
        pace.begin(&node, at(6));
        pace.cancel(&node);
        assert_eq!(pace.next_at(&other, 0), Some(at(65)));
        pace.expire(at(65));
        assert!(pace.admits(&other, 0));
    }

    /// G5: when the wall clock is set, the pods tell when another replica began, again; what this
    /// replica began counts as before.
    #[test]
    fn pods_tell_again_after_the_clock_was_set() {
        let (told, own, other) = (NodeName::from("a"), NodeName::from("b"), NodeName::from("c"));
        let mut pace = Pace::new(NonZeroU32::new(2).expect("not 0"), at(0));
        pace.recover(&told, at(-50));
        pace.begin(&own, at(1));
        pace.finish(&own, at(1));
        pace.forget_recovered(at(4));
        pace.recover(&told, at(-8));
        assert_eq!(pace.next_at(&other, 0), Some(at(52)));
        pace.forget_recovered(at(60));
        assert!(pace.counts(&told), "pods are read for a minute only");
    }

    /// G5: a write that has not taken effect doesn't count.
    #[test]
    fn a_refused_write_does_not_count() {
        let (node, other) = (NodeName::from("a"), NodeName::from("b"));
        let mut pace = Pace::new(NonZeroU32::MIN, at(0));
        pace.begin(&node, at(0));
        pace.cancel(&node);
        assert!(pace.admits(&other, 0));
    }
}
