//! The revision labels of pods: each distinct pair is stored once, with the number of its pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::{Overrides, RevisionHash, override_of_tag, parts_of_tag};

/// Identifies a pair of revision labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RevisionLabelsId(u32);

/// The pairs of `controller-revision-hash` and `pod-template-generation` on a DaemonSet's pods.
#[derive(Debug, Default)]
pub(crate) struct RevisionLabels {
    pairs: Vec<Pair>,
    current: CurrentRevision,
    /// True if any pod had an override.
    has_tags: bool,
    /// True if overrides are no part of a revision, but those of running pods, and neither are
    /// copies of ConfigMaps.
    are_overrides_of_running: bool,
    /// Number of changes of what is live or current.
    changes: u64,
}

#[derive(Debug)]
struct Pair {
    hash: Option<RevisionHash>,
    template_generation: Option<i64>,
    pods: u32,
    updated: bool,
    /// The tag of the override that made the pods (G57).
    tag: Option<Arc<str>>,
}

/// The marks of pods that are up to date (C45).
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CurrentRevision {
    /// The hashes of the current revision and of its duplicates (C42).
    pub hashes: BTreeSet<RevisionHash>,
    /// The hashes of the revisions of the same template with other overrides: their pods are up to
    /// date where the override of their node is the same (G57).
    pub variants: BTreeSet<RevisionHash>,
    /// The overrides of the current revision.
    pub overrides: Option<Arc<Overrides>>,
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
        is_of(&self.hashes) || is_of(&self.variants) || has_generation && !is_of(&self.others)
    }
}

impl RevisionLabels {
    /// No labels yet. Overrides of running pods are no part of a revision (G57).
    pub(crate) fn new(are_overrides_of_running: bool) -> Self {
        Self { are_overrides_of_running, ..Self::default() }
    }

    /// Counts one more pod with these labels.
    pub(crate) fn acquire(
        &mut self,
        hash: Option<RevisionHash>,
        template_generation: Option<i64>,
        tag: Option<Arc<str>>,
    ) -> RevisionLabelsId {
        let tag = match self.are_overrides_of_running {
            true => tag.as_ref().and_then(override_of_tag),
            false => tag,
        };
        let is_same = |pair: &Pair| {
            pair.hash == hash && pair.template_generation == template_generation && pair.tag == tag
        };
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
                tag: None,
            });
            self.pairs.len() - 1
        });
        self.has_tags |= tag.is_some();
        let updated = self.current.matches(hash.as_ref(), template_generation);
        self.changes += u64::from(self.pairs[at].pods == 0);
        let pods = self.pairs[at].pods + 1;
        self.pairs[at] = Pair { hash, template_generation, pods, updated, tag };
        RevisionLabelsId(u32::try_from(at).expect("fewer than 2^32 pods"))
    }

    /// Counts one pod less.
    pub(crate) fn release(&mut self, id: RevisionLabelsId) {
        let pods = &mut self.pairs[id.0 as usize].pods;
        *pods -= 1;
        self.changes += u64::from(*pods == 0);
    }

    /// True if pods with these labels are of the current template (C45). They are of the current
    /// revision if that has no other override for their nodes (G57).
    pub(crate) fn are_of_template(&self, id: RevisionLabelsId) -> bool {
        self.pairs[id.0 as usize].updated
    }

    /// True if pods with these labels were made of the current revision: they have one of its
    /// overrides and its copies of ConfigMaps (G57, G58).
    pub(crate) fn are_of_target_revision(&self, id: RevisionLabelsId) -> bool {
        self.is_of_target_revision(&self.pairs[id.0 as usize])
    }

    /// The hashes of the current revision and of its duplicates.
    pub(crate) fn current_hashes(&self) -> impl Iterator<Item = &RevisionHash> {
        self.current.hashes.iter()
    }

    /// True if overrides are those of running pods, which another controller makes (G57).
    pub(crate) const fn are_overrides_of_running(&self) -> bool {
        self.are_overrides_of_running
    }

    /// The tag of the override that made pods with these labels (G57).
    pub(crate) fn tag(&self, id: RevisionLabelsId) -> Option<&Arc<str>> {
        self.pairs[id.0 as usize].tag.as_ref()
    }

    /// The tags of the copies of ConfigMaps that pods have (G58).
    pub(crate) fn copies_in_use(&self) -> impl Iterator<Item = &str> {
        let tags = self.pairs.iter().filter(|pair| pair.pods > 0);
        tags.filter_map(|pair| parts_of_tag(pair.tag.as_ref()?).1)
    }

    /// The tags of overrides, each with the number of its pods.
    pub(crate) fn pods_by_tag(&self) -> BTreeMap<Arc<str>, u32> {
        let mut pods = BTreeMap::new();
        for pair in self.pairs.iter().filter(|pair| self.has_tags && pair.pods > 0) {
            // Pods that only have copies of ConfigMaps have no override.
            if let Some(tag) = pair.tag.as_ref().and_then(|tag| parts_of_tag(tag).0) {
                *pods.entry(Arc::from(tag)).or_default() += pair.pods;
            }
        }
        pods
    }

    /// The overrides of the current revision.
    pub(crate) const fn overrides(&self) -> Option<&Arc<Overrides>> {
        self.current.overrides.as_ref()
    }

    /// True if pods with this hash have the template of the current revision, and were made by
    /// other overrides (G57).
    pub(crate) fn is_variant(&self, hash: &RevisionHash) -> bool {
        self.current.variants.contains(hash)
    }

    /// True if a revision is stored that has the template of the current one, and other overrides.
    pub(crate) fn has_variants(&self) -> bool {
        !self.current.variants.is_empty()
    }

    /// True if any pod has an override, or had, or should have.
    pub(crate) fn has_overrides(&self) -> bool {
        self.current.overrides.is_some() || self.has_tags || self.has_variants()
    }

    /// The template generation of pods with these labels.
    pub(crate) fn template_generation(&self, id: RevisionLabelsId) -> Option<i64> {
        self.pairs[id.0 as usize].template_generation
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

    /// The number of pods of the current revision, terminating and ended ones included, without
    /// those that were made by other overrides.
    pub(crate) fn updated_pods(&self) -> u32 {
        let updated = self.pairs.iter().filter(|pair| self.is_of_target_revision(pair));
        updated.map(|pair| pair.pods).sum()
    }

    fn is_of_target_revision(&self, pair: &Pair) -> bool {
        let is_variant = pair.hash.as_ref().is_some_and(|hash| self.is_variant(hash));
        self.may_be_updated(pair) && !is_variant
    }

    /// True if any pod is not of the current revision, even a terminating or ended one.
    pub(crate) fn has_outdated_pods(&self) -> bool {
        self.pairs.iter().any(|pair| pair.pods > 0 && !self.may_be_updated(pair))
    }

    /// True if the pods are of the current revision on some node.
    fn may_be_updated(&self, pair: &Pair) -> bool {
        let overrides = self.current.overrides.as_ref();
        let may_have = |tag: &Option<Arc<str>>| match tag {
            Some(tag) => overrides.is_some_and(|it| it.with_tag(tag).is_some()),
            // Of pods without copies only the hash may say that they are of a revision with copies.
            None => {
                let is_current = |hash| self.current.hashes.contains(hash);
                overrides.is_none_or(|it| it.copies.is_none())
                    || pair.hash.as_ref().is_some_and(is_current)
            }
        };
        pair.updated && (self.are_overrides_of_running || may_have(&pair.tag))
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
        let mut changed = !Overrides::are_same(self.overrides(), current.overrides.as_ref());
        self.current = current;
        self.changes += 1;
        for pair in &mut self.pairs {
            let updated = self.current.matches(pair.hash.as_ref(), pair.template_generation);
            changed |= pair.pods > 0 && pair.updated != updated;
            pair.updated = updated;
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ConfigCopies;

    /// G37, G58: pods with the template generation of the target whose revision is gone are none of
    /// the target if they have other copies of ConfigMaps, or none.
    #[test]
    fn pods_with_other_copies_are_not_of_the_target() {
        let copies = |hash: &str| {
            let hashes = BTreeMap::from([(Arc::from("settings"), Arc::from(hash))]);
            Overrides::with_copies(None, Some(&Arc::new(ConfigCopies::new(hashes, hash))))
        };
        let tag = |hash: &str| copies(hash).map(|overrides| overrides.list[0].tag.clone());
        let mut labels = RevisionLabels::new(false);
        labels.set_current(CurrentRevision {
            hashes: BTreeSet::from(["new".into()]),
            overrides: copies("good"),
            template_generation: Some(3),
            ..CurrentRevision::default()
        });
        labels.acquire(Some("gone".into()), Some(3), tag("bad"));
        labels.acquire(Some("gone".into()), Some(3), None);
        assert_eq!(labels.updated_pods(), 0);
        assert!(labels.has_outdated_pods());
        labels.acquire(Some("gone".into()), Some(3), tag("good"));
        assert_eq!(labels.updated_pods(), 1);
        labels.acquire(Some("new".into()), Some(3), None);
        assert_eq!(labels.updated_pods(), 2, "as after a handover");
    }
}
