//! The pace of a guarded rollout: on how many nodes it has begun within the last minute (G5). A
//! rollout begins on a node when its old pod is deleted, or a new one is created beside it.
//!
//! Nothing of it is stored. What another replica did shortly before is seen by the pods that it
//! leaves behind: an old pod that ends, a node without a pod, or a new pod.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::api::{NodeName, Timestamp};

/// The time to which the limit refers.
pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// The nodes on which the rollout has begun within the last minute.
#[derive(Debug)]
pub(super) struct Pace {
    limit: NonZeroU32,
    begun: BTreeMap<NodeName, Beginning>,
    /// Until when pods tell of what another replica, or this one under another policy, has begun.
    recovers_until: Timestamp,
}

#[derive(Debug)]
struct Beginning {
    /// When it took effect at the latest, as far as that is known.
    at: Timestamp,
    /// Whether the result of the write is awaited.
    is_in_flight: bool,
}

impl Pace {
    /// The pace of a rollout of which nothing is known yet.
    pub(super) fn new(limit: NonZeroU32, now: Timestamp) -> Self {
        Self { limit, begun: BTreeMap::new(), recovers_until: now + MINUTE }
    }

    pub(super) const fn set_limit(&mut self, limit: NonZeroU32) {
        self.limit = limit;
    }

    /// Whether what the pods of a node tell counts.
    pub(super) fn is_recovering(&self, now: Timestamp) -> bool {
        now < self.recovers_until
    }

    /// Records that the rollout began on a node at this time, as its pods tell.
    pub(super) fn recover(&mut self, node: &NodeName, at: Timestamp) {
        if !self.counts(node) {
            self.begun.insert(node.clone(), Beginning { at, is_in_flight: false });
        }
    }

    /// Records that the rollout begins on a node.
    pub(super) fn begin(&mut self, node: &NodeName, now: Timestamp) {
        self.begun.insert(node.clone(), Beginning { at: now, is_in_flight: true });
    }

    /// Records that the write by which it begins on the node has taken effect, or may still.
    pub(super) fn finish(&mut self, node: &NodeName, now: Timestamp) {
        if let Some(begun) = self.begun.get_mut(node).filter(|begun| begun.is_in_flight) {
            *begun = Beginning { at: now, is_in_flight: false };
        }
    }

    /// Records that this write has not taken effect.
    pub(super) fn cancel(&mut self, node: &NodeName) {
        if self.begun.get(node).is_some_and(|begun| begun.is_in_flight) {
            self.begun.remove(node);
        }
    }

    /// Records that a request without an answer may take effect now, if the rollout began by it.
    pub(super) fn prolong(&mut self, node: &NodeName, now: Timestamp) {
        if let Some(begun) = self.begun.get_mut(node) {
            *begun = Beginning { at: now, is_in_flight: false };
        }
    }

    /// Forgets what was more than a minute ago.
    pub(super) fn expire(&mut self, now: Timestamp) {
        self.begun.retain(|_, begun| begun.is_in_flight || begun.at + MINUTE > now);
    }

    /// Whether the rollout may begin on the node, beside `planned` others of which nothing is
    /// recorded yet. A node that counts already counts once.
    pub(super) fn admits(&self, node: &NodeName, planned: usize) -> bool {
        let others = self.begun.len() - usize::from(self.counts(node));
        others + planned < self.limit()
    }

    /// Whether the node counts already.
    pub(super) fn counts(&self, node: &NodeName) -> bool {
        self.begun.contains_key(node)
    }

    /// When the rollout may begin on the node, beside `planned` others; `None` if these decide
    /// that.
    pub(super) fn next_at(&self, node: &NodeName, planned: usize) -> Option<Timestamp> {
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
