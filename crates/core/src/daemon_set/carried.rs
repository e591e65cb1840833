//! The revision labels that pods carry, each pair of them held once, with how many pods carry it.

use std::collections::BTreeSet;

use crate::api::RevisionHash;

/// The number of a pair of labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CarriedId(u32);

#[derive(Debug, Default)]
pub(super) struct Carried {
    pairs: Vec<Pair>,
    current: Current,
}

#[derive(Debug)]
struct Pair {
    hash: Option<RevisionHash>,
    template_generation: Option<i64>,
    pods: u32,
    updated: bool,
}

/// What makes a pod up to date (C45).
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Current {
    /// The hash of the current revision, and of its duplicates until they are gone (C42).
    pub hashes: BTreeSet<RevisionHash>,
    pub template_generation: Option<i64>,
}

impl Current {
    fn covers(&self, hash: Option<&RevisionHash>, template_generation: Option<i64>) -> bool {
        hash.is_some_and(|hash| self.hashes.contains(hash))
            || (template_generation.is_some() && template_generation == self.template_generation)
    }
}

impl Carried {
    /// Counts one more pod with these labels.
    pub fn hold(
        &mut self,
        hash: Option<RevisionHash>,
        template_generation: Option<i64>,
    ) -> CarriedId {
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
        let updated = self.current.covers(hash.as_ref(), template_generation);
        let pods = self.pairs[at].pods + 1;
        self.pairs[at] = Pair { hash, template_generation, pods, updated };
        CarriedId(u32::try_from(at).expect("fewer than 2^32 pods"))
    }

    pub fn release(&mut self, id: CarriedId) {
        self.pairs[id.0 as usize].pods -= 1;
    }

    /// C45
    pub fn is_updated(&self, id: CarriedId) -> bool {
        self.pairs[id.0 as usize].updated
    }

    pub fn hash(&self, id: CarriedId) -> Option<&RevisionHash> {
        self.pairs[id.0 as usize].hash.as_ref()
    }

    /// Whether any pod carries this hash, be it terminating or ended (C44).
    pub fn is_live(&self, hash: &RevisionHash) -> bool {
        self.pairs.iter().any(|pair| pair.pods > 0 && pair.hash.as_ref() == Some(hash))
    }

    /// Sets what is current. Returns whether some pod is now judged differently.
    pub fn set_current(&mut self, current: Current) -> bool {
        if self.current == current {
            return false;
        }
        self.current = current;
        let mut changed = false;
        for pair in &mut self.pairs {
            let updated = self.current.covers(pair.hash.as_ref(), pair.template_generation);
            changed |= pair.pods > 0 && pair.updated != updated;
            pair.updated = updated;
        }
        changed
    }
}
