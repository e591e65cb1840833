//! Which stored revision is current, and what is to be put right in the history (C40–C44).
//!
//! Revisions are matched by the meaning of their template, never by hash or name (C41).

mod hash;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use hash::revision_hash;

use crate::api::{DaemonSet, Problem, Revision, RevisionHash, RevisionName, Timestamp, Uid};
use crate::plan::{NewRevision, RevisionReference};

/// How soon a revision whose name another object had is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// How long duplicates are left where they are. Who makes one by hand may be about to do away with the
/// other, as conformance tests are; upstream, which is not woken by revisions, would not be in the way.
const DUPLICATE_GRACE: Duration = Duration::from_secs(5);

/// The revisions that are a DaemonSet's, and orphans that it would adopt.
#[derive(Debug, Default)]
pub struct History {
    revisions: BTreeMap<RevisionName, Revision>,
    refusal: Option<Refusal>,
    /// Since when there are duplicates of the current revision (C42).
    duplicates_since: Option<Timestamp>,
    /// A revision that stored the current template and was deleted: it comes back under its own name
    /// and hash, which pods carry (C41c, C46).
    lost: Option<(RevisionName, RevisionHash)>,
}

/// The name of the current template's revision was taken (C43).
#[derive(Debug)]
struct Refusal {
    name: RevisionName,
    kind: RefusalKind,
    retry_at: Timestamp,
}

#[derive(Debug)]
enum RefusalKind {
    /// By a revision of the same template, which is not ours, or not seen yet: its hash will do.
    SameTemplate(RevisionHash),
    /// By another template: the hash collides, and the count has to become this.
    Collision { collision_count: i32 },
    /// By another template, but what was hashed with ours is out of date: the DaemonSet will change.
    StaleCollisionCount,
}

/// What the history looks like beside the DaemonSet's template.
#[derive(Debug, Default)]
pub(crate) struct Review<'a> {
    pub orphans: Vec<&'a Revision>,
    /// Ours, but the selector does not match (C21).
    pub releases: Vec<&'a Revision>,
    /// Of those that store the current template, the one with the highest number.
    pub current: Option<&'a Revision>,
    /// The others that store the current template (C42).
    pub duplicates: Vec<&'a Revision>,
    /// Those that store other templates, oldest first.
    pub old: Vec<&'a Revision>,
}

impl Review<'_> {
    /// What the current revision's number has to be at least (C42).
    pub fn current_number(&self) -> i64 {
        self.old.last().map_or(0, |old| old.number).max(0) + 1
    }

    /// Ours without a hash label (C42).
    pub fn unlabelled(&self) -> impl Iterator<Item = &Revision> {
        let ours = self.current.iter().chain(&self.duplicates).chain(&self.old);
        ours.copied().filter(|revision| revision.hash().is_none())
    }

    /// The hashes of all revisions that store the current template.
    pub fn current_hashes(&self) -> BTreeSet<RevisionHash> {
        self.current.iter().chain(&self.duplicates).filter_map(|revision| revision.hash()).collect()
    }
}

impl History {
    /// Takes a revision as it is now, and returns whether anything changed.
    pub(crate) fn apply(&mut self, revision: Revision, daemon_set: &DaemonSet) -> bool {
        if is_foreign(&revision, daemon_set) {
            return self.revisions.remove(&revision.name).is_some();
        }
        if self.revisions.get(&revision.name) == Some(&revision) {
            return false;
        }
        self.revisions.insert(revision.name.clone(), revision);
        true
    }

    /// Whether this is an older state of a known revision: a watch that breaks off may repeat it.
    pub(crate) fn is_repeated(&self, revision: &Revision) -> bool {
        self.revisions.get(&revision.name).is_some_and(|known| {
            known.uid == revision.uid && known.resource_version > revision.resource_version
        })
    }

    pub(crate) fn delete(
        &mut self,
        name: &RevisionName,
        uid: &Uid,
        daemon_set: &DaemonSet,
    ) -> bool {
        let known = self.revisions.get(name).filter(|known| known.uid == *uid);
        let is_known = known.is_some();
        if let Some(known) = known.filter(|known| known.stores(&daemon_set.template)) {
            self.lost = known.hash().map(|hash| (name.clone(), hash));
        }
        // The name may be free now.
        let was_refused = self.refusal.take_if(|refusal| refusal.name == *name).is_some();
        if is_known {
            self.revisions.remove(name);
        }
        is_known || was_refused
    }

    /// The revisions with none of these UIDs.
    pub(crate) fn except(&self, uids: &BTreeSet<Uid>) -> Vec<(RevisionName, Uid)> {
        let others = self.revisions.values().filter(|revision| !uids.contains(&revision.uid));
        others.map(|revision| (revision.name.clone(), revision.uid.clone())).collect()
    }

    pub(crate) fn review(&self, daemon_set: &DaemonSet) -> Review<'_> {
        let mut review = Review::default();
        let mut current = Vec::new();
        for revision in self.revisions.values() {
            if !is_ours(revision, daemon_set) {
                review.orphans.push(revision);
            } else if daemon_set.selector.as_ref().is_some_and(|s| !s.matches(&revision.labels)) {
                review.releases.push(revision);
            } else if revision.stores(&daemon_set.template) {
                current.push(revision);
            } else {
                review.old.push(revision);
            }
        }
        let by_number =
            |a: &&Revision, b: &&Revision| (a.number, &a.name).cmp(&(b.number, &b.name));
        review.old.sort_by(by_number);
        current.sort_by(by_number);
        review.current = current.pop();
        review.duplicates = current;
        review
    }

    /// The revision to be created for the current template.
    pub(crate) fn new_revision(&self, daemon_set: &DaemonSet, number: i64) -> NewRevision {
        let collision_count = daemon_set.status.collision_count;
        let (name, hash) = self.lost.clone().unwrap_or_else(|| {
            let hash = revision_hash(&daemon_set.template.canonical, collision_count);
            (RevisionName::from(format!("{}-{hash}", daemon_set.key.name)), hash)
        });
        NewRevision { name, hash, number, collision_count }
    }

    /// The template has changed: what was lost was another one's.
    pub(crate) fn forget_lost(&mut self) {
        self.lost = None;
    }

    /// The name of a new revision was taken. `existing` and `collision_count` were read live (C43).
    pub(crate) fn refused(
        &mut self,
        new: &NewRevision,
        existing: Option<&Revision>,
        collision_count: Option<i32>,
        daemon_set: &DaemonSet,
        now: Timestamp,
    ) {
        let same = existing.filter(|existing| existing.stores(&daemon_set.template));
        if same.is_none() && self.lost.take().is_some() {
            // Another one has taken the name of what was lost: the template gets a new name.
            return;
        }
        let kind = if let Some(existing) = same {
            let hash = existing.hash().unwrap_or_else(|| existing.name.as_str().into());
            RefusalKind::SameTemplate(hash)
        } else if collision_count == new.collision_count {
            let collision_count = collision_count.unwrap_or(0).saturating_add(1);
            RefusalKind::Collision { collision_count }
        } else {
            RefusalKind::StaleCollisionCount
        };
        self.refusal = Some(Refusal { name: new.name.clone(), kind, retry_at: now + RETRY_AFTER });
    }

    /// What to do instead of creating this revision, if its name was taken not long ago.
    pub(crate) fn instead_of(&mut self, new: &NewRevision, now: Timestamp) -> Option<Instead> {
        self.refusal.take_if(|refusal| refusal.name != new.name || refusal.retry_at <= now);
        self.refusal.as_ref().map(|refusal| match &refusal.kind {
            RefusalKind::SameTemplate(hash) => Instead::Use(hash.clone()),
            RefusalKind::Collision { collision_count } => Instead::Raise(*collision_count),
            RefusalKind::StaleCollisionCount => Instead::Wait,
        })
    }

    /// When a refused creation is to be tried again, and when duplicates are to be deleted.
    pub(crate) fn due_at(&self) -> [Option<Timestamp>; 2] {
        let retry_at = self.refusal.as_ref().map(|refusal| refusal.retry_at);
        [retry_at, self.duplicates_since.map(|since| since + DUPLICATE_GRACE)]
    }

    /// Whether duplicates have been there for long enough to be deleted (C42).
    pub(crate) fn may_delete_duplicates(&self, now: Timestamp) -> bool {
        self.duplicates_since.is_some_and(|since| since + DUPLICATE_GRACE <= now)
    }

    /// The current revision is known, with or without duplicates: no creation is pending.
    pub(crate) fn settle(&mut self, has_duplicates: bool, now: Timestamp) {
        self.refusal = None;
        self.lost = None;
        let since = self.duplicates_since.unwrap_or(now);
        self.duplicates_since = has_duplicates.then_some(since);
    }
}

/// What to do instead of creating a revision whose name is taken.
pub(crate) enum Instead {
    Use(RevisionHash),
    Raise(i32),
    Wait,
}

impl Revision {
    pub(crate) fn reference(&self) -> RevisionReference {
        RevisionReference {
            name: self.name.clone(),
            uid: self.uid.clone(),
            resource_version: self.resource_version,
        }
    }

    /// C4
    pub(crate) fn problem(&self) -> Option<Problem> {
        let message = self.template.as_ref().err()?.clone();
        Some(Problem::Revision { name: self.name.clone(), message })
    }
}

/// Neither ours nor to be adopted.
pub(crate) fn is_foreign(revision: &Revision, daemon_set: &DaemonSet) -> bool {
    !is_ours(revision, daemon_set) && !is_adoptable(revision, daemon_set)
}

fn is_ours(revision: &Revision, daemon_set: &DaemonSet) -> bool {
    revision.controller.as_ref() == Some(&daemon_set.uid)
}

/// C21
fn is_adoptable(revision: &Revision, daemon_set: &DaemonSet) -> bool {
    let selector = daemon_set.selector.as_ref().filter(|selector| !selector.is_empty());
    revision.controller.is_none()
        && !revision.terminating
        && selector.is_some_and(|selector| selector.matches(&revision.labels))
}
