//! Keeping the history in order, and finding the hash that new pods carry (C40–C46).
//! Upstream: `constructHistory`, `cleanupHistory`.

use crate::api::{RevisionHash, Timestamp};
use crate::plan::Write;
use crate::revision::{Instead, Review};

use super::DaemonSetState;
use super::carried::Current;
use super::draft::Draft;

impl DaemonSetState {
    /// Learns what makes a pod up to date. Returns whether some pod is now judged differently. Until
    /// the revision of a new template is stored, the one before counts.
    pub(super) fn refresh_history(&mut self, now: Timestamp) -> bool {
        let review = self.history.review(&self.daemon_set);
        let mut hashes = review.current_hashes();
        if review.current.is_none() {
            let new = self.history.new_revision(&self.daemon_set, review.current_number());
            if let Some(Instead::Use(hash)) = self.history.instead_of(&new, now) {
                hashes.insert(hash);
            }
        }
        let template_generation = self.daemon_set.template_generation;
        !hashes.is_empty() && self.carried.set_current(Current { hashes, template_generation })
    }

    /// Returns the hash of the current revision; none if something has to be written before.
    pub(super) fn plan_history(
        &mut self,
        now: Timestamp,
        draft: &mut Draft,
    ) -> Option<RevisionHash> {
        let review = self.history.review(&self.daemon_set);
        put_in_order(&review, draft);
        let Some(current) = review.current else {
            // One of the orphans may store the template; adopting comes first.
            let number = review.current_number();
            return if review.orphans.is_empty() {
                self.plan_creation(number, now, draft)
            } else {
                None
            };
        };
        let hash = current.hash()?;
        self.plan_dedup(&review, &hash, now, draft);
        let has_duplicates = !review.duplicates.is_empty();
        self.history.settle(has_duplicates, now);
        Some(hash)
    }

    /// C44. Never deletes what a pod still carries.
    pub(super) fn truncate_history(&self, draft: &mut Draft) {
        let review = self.history.review(&self.daemon_set);
        let limit = self.daemon_set.revision_history_limit as usize;
        let excess = review.old.len().saturating_sub(limit);
        let is_live = |hash: RevisionHash| self.carried.is_live(&hash);
        let dead = review.old.iter().filter(|old| !old.hash().is_some_and(is_live));
        for revision in dead.take(excess).filter(|revision| !revision.terminating) {
            draft.write(Write::DeleteRevision(revision.reference()));
        }
    }

    /// C40, C43
    fn plan_creation(
        &mut self,
        number: i64,
        now: Timestamp,
        draft: &mut Draft,
    ) -> Option<RevisionHash> {
        let new = self.history.new_revision(&self.daemon_set, number);
        match self.history.instead_of(&new, now) {
            Some(Instead::Use(hash)) => return Some(hash),
            Some(Instead::Wait) => {}
            Some(Instead::Raise(collision_count)) => {
                let resource_version = self.daemon_set.resource_version;
                draft.write(Write::RaiseCollisionCount { resource_version, collision_count });
            }
            None if self.is_creation_held(now) => {}
            None => draft.write(Write::CreateRevision(new)),
        }
        None
    }

    /// C42: pods that carry a duplicate's hash get the current one, then the duplicate goes, if it has
    /// been there for a while. Until then such pods count as up to date.
    fn plan_dedup(
        &self,
        review: &Review<'_>,
        current: &RevisionHash,
        now: Timestamp,
        draft: &mut Draft,
    ) {
        let may_delete = self.history.may_delete_duplicates(now);
        for duplicate in &review.duplicates {
            let carried = duplicate.hash().filter(|h| h != current && self.carried.is_live(h));
            match carried {
                Some(hash) => self.plan_relabelling(&hash, current, draft),
                None if duplicate.terminating || !may_delete => {}
                None => draft.write(Write::DeleteRevision(duplicate.reference())),
            }
        }
    }

    fn plan_relabelling(&self, old: &RevisionHash, new: &RevisionHash, draft: &mut Draft) {
        let placed = self.slots.iter().flat_map(|slot| slot.pods.as_slice());
        for pod in placed.chain(self.unplaced.values()) {
            if self.carried.hash(pod.carried) == Some(old) && !pod.orphan {
                draft.patch(Write::RelabelPod { pod: pod.reference(None), hash: new.clone() });
            }
        }
    }
}

/// Adoption, release, labels and the number (C21, C42).
fn put_in_order(review: &Review<'_>, draft: &mut Draft) {
    for revision in &review.orphans {
        draft.write(Write::AdoptRevision(revision.reference()));
    }
    for revision in &review.releases {
        draft.write(Write::ReleaseRevision(revision.reference()));
    }
    for revision in review.unlabelled() {
        let hash = revision.name.as_str().into();
        draft.write(Write::LabelRevision { revision: revision.reference(), hash });
    }
    let number = review.current_number();
    if let Some(current) = review.current.filter(|c| c.hash().is_some() && c.number < number) {
        draft.write(Write::RaiseRevision { revision: current.reference(), number });
    }
}
