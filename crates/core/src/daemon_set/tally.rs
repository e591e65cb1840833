//! Counts over all nodes, kept by adding and removing one node's standing.

use super::assess::Standing;

/// The counts that the status reports and the rollout goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub desired: usize,
    pub current: usize,
    pub misscheduled: usize,
    pub ready: usize,
    pub available: usize,
    pub updated: usize,
    /// Nodes that use up `maxUnavailable`; counted in a rolling update (C52).
    pub uses_unavailable: usize,
    /// Nodes that use up `maxSurge`; counted with surge only (C53).
    pub uses_surge: usize,
    /// Nodes with an available pod, eligible or not; counted with surge only (C53).
    pub serves: usize,
}

impl Tally {
    pub(super) fn add(&mut self, standing: &Standing) {
        for (count, counts) in self.counts(standing) {
            *count += usize::from(counts);
        }
    }

    pub(super) fn remove(&mut self, standing: &Standing) {
        for (count, counts) in self.counts(standing) {
            *count -= usize::from(counts);
        }
    }

    fn counts(&mut self, standing: &Standing) -> [(&mut usize, bool); 9] {
        [
            (&mut self.desired, standing.desired),
            (&mut self.current, standing.current),
            (&mut self.misscheduled, standing.misscheduled),
            (&mut self.ready, standing.ready),
            (&mut self.available, standing.available),
            (&mut self.updated, standing.updated),
            (&mut self.uses_unavailable, standing.uses_unavailable),
            (&mut self.uses_surge, standing.uses_surge),
            (&mut self.serves, standing.serves),
        ]
    }
}
