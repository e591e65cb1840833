//! The revision labels of pods: each distinct pair is stored once, with the number of its pods.

use std::collections::BTreeSet;

use crate::api::RevisionHash;

/// Identifies a pair of revision labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RevisionLabelsId(u32);

/// The pairs of `controller-revision-hash` and `pod-template-generation` on a DaemonSet's pods.
#[derive(Debug, Default)]
pub(crate) struct RevisionLabels {
    pairs: Vec<Pair>,
    current: CurrentRevision,
    /// Number of changes of what is live or current.
    changes: u64,
}

#[derive(Debug)]
struct Pair {
    hash: Option<RevisionHash>,
    template_generation: Option<i64>,
    pods: u32,
    updated: bool,
}

/// The marks of pods that are up to date (C45).
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CurrentRevision {
    /// The hashes of the current revision and of its duplicates (C42).
    pub hashes: BTreeSet<RevisionHash>,
    /// The hashes of the stored revisions of other templates: their pods are of these, also if they
    /// have the template generation of a former DaemonSet.
    pub others: BTreeSet<RevisionHash>,
    pub template_generation: Option<i64>,
}

impl CurrentRevision {
    fn matches(&self, hash: Option<&RevisionHash>, template_generation: Option<i64>) -> bool {
        let is_of = |hashes: &BTreeSet<_>| hash.is_some_and(|hash| hashes.contains(hash));
        let has_generation =
            template_generation.is_some() && template_generation == self.template_generation;
        is_of(&self.hashes) || has_generation && !is_of(&self.others)
    }
}

impl RevisionLabels {
    /// Counts one more pod with these labels.
    pub(crate) fn acquire(
        &mut self,
        hash: Option<RevisionHash>,
        template_generation: Option<i64>,
    ) -> RevisionLabelsId {
        let is_same =
            |pair: &Pair| pair.hash == hash && pair.template_generation == template_generation;
        let at = self
            .pairs
            .iter()
            .position(is_same)
            .or_else(|| self.pairs.iter().position(|p| p.pods == 0));
        let at = at.unwrap_or_else(|| {
            self.pairs.push(Pair {
                hash: None,
                template_generation: None,
                pods: 0,
                updated: false,
            });
            self.pairs.len() - 1
        });
        let updated = self.current.matches(hash.as_ref(), template_generation);
        self.changes += u64::from(self.pairs[at].pods == 0);
        let pods = self.pairs[at].pods + 1;
        self.pairs[at] = Pair { hash, template_generation, pods, updated };
        RevisionLabelsId(u32::try_from(at).expect("fewer than 2^32 pods"))
    }

    /// Counts one pod less.
    pub(crate) fn release(&mut self, id: RevisionLabelsId) {
        let pods = &mut self.pairs[id.0 as usize].pods;
        *pods -= 1;
        self.changes += u64::from(*pods == 0);
    }

    /// True if pods with these labels are of the current revision (C45).
    pub(crate) fn is_updated(&self, id: RevisionLabelsId) -> bool {
        self.pairs[id.0 as usize].updated
    }

    /// The hashes of the current revision and of its duplicates.
    pub(crate) fn current_hashes(&self) -> impl Iterator<Item = &RevisionHash> {
        self.current.hashes.iter()
    }

    /// The hash of the pair.
    pub(crate) fn hash(&self, id: RevisionLabelsId) -> Option<&RevisionHash> {
        self.pairs[id.0 as usize].hash.as_ref()
    }

    /// True if any pod has this hash, even a terminating or ended one (C44).
    pub(crate) fn is_live(&self, hash: &RevisionHash) -> bool {
        self.pairs.iter().any(|pair| pair.pods > 0 && pair.hash.as_ref() == Some(hash))
    }

    /// The number of pods with this hash, terminating and ended ones included.
    pub(crate) fn pods_with(&self, hash: &RevisionHash) -> u32 {
        let same = self.pairs.iter().filter(|pair| pair.hash.as_ref() == Some(hash));
        same.map(|pair| pair.pods).sum()
    }

    /// The number of pods of the current revision, terminating and ended ones included.
    pub(crate) fn updated_pods(&self) -> u32 {
        self.pairs.iter().filter(|pair| pair.updated).map(|pair| pair.pods).sum()
    }

    /// True if any pod is not of the current revision, even a terminating or ended one.
    pub(crate) fn has_outdated_pods(&self) -> bool {
        self.pairs.iter().any(|pair| pair.pods > 0 && !pair.updated)
    }

    /// Number of changes so far: with the same number, the same hashes are live and current.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }

    /// Sets the current revision. Returns whether that changes the answer for any pod.
    pub(crate) fn set_current(&mut self, current: CurrentRevision) -> bool {
        if self.current == current {
            return false;
        }
        self.current = current;
        self.changes += 1;
        let mut changed = false;
        for pair in &mut self.pairs {
            let updated = self.current.matches(pair.hash.as_ref(), pair.template_generation);
            changed |= pair.pods > 0 && pair.updated != updated;
            pair.updated = updated;
        }
        changed
    }
}
