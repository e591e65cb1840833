//! The revision history: which revision is current, and what must be repaired (C40–C44).
//!
//! Revisions are matched by the meaning of their template, never by hash or name (C41).

mod pod_labels;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub use crate::api::revision_hash;
pub(crate) use pod_labels::{CurrentRevision, RevisionLabels, RevisionLabelsId};

use crate::api::{
    ConfigCopies, DaemonSet, Overrides, Problem, RecordState, Revision, RevisionHash, RevisionName,
    RevisionsByContent, Template, Timestamp, Uid,
};
use crate::backoff::{Cause, Delay};
use crate::ownership::Ownership;
use crate::plan::{NewRevision, RevisionReference};

/// Time until the creation of a revision is retried after its name was taken.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// Minimum time for which a duplicate is kept. A user who creates one may be about to delete the
/// other, as conformance tests do. Upstream would not interfere: it does not react to revisions.
const DUPLICATE_GRACE: Duration = Duration::from_secs(5);

/// The revisions that a DaemonSet owns, and the orphans that it would adopt.
#[derive(Debug, Default)]
pub(crate) struct RevisionHistory {
    revisions: BTreeMap<RevisionName, Revision>,
    /// Number of changes of `revisions`.
    changes: u64,
    collision: Option<Collision>,
    /// When duplicates of the current revision were first seen, while there are any (C42).
    duplicates_since: Option<Timestamp>,
    /// The deleted revision that stored the current template. It is created again under the same
    /// name, because pods have its hash (C41, C46).
    deleted_current: Option<DeletedRevision>,
    last_creation: Option<LastCreation>,
}

/// A deleted revision of the current template.
#[derive(Clone, Debug)]
struct DeletedRevision {
    name: RevisionName,
    hash: RevisionHash,
    overrides: Option<Arc<Overrides>>,
}

/// The revision that was created last, and when it may be created again (C40).
#[derive(Debug)]
struct LastCreation {
    name: RevisionName,
    delay: Delay,
}

/// The name of the current template's revision was taken (C43).
#[derive(Debug)]
struct Collision {
    name: RevisionName,
    kind: CollisionKind,
    retry_at: Timestamp,
}

#[derive(Debug)]
enum CollisionKind {
    /// By a revision of the same template that is not owned or not seen yet: its hash is used.
    SameTemplate(RevisionHash),
    /// By another template: the hash collides, and the collision count must become this.
    OtherTemplate { collision_count: i32 },
    /// By another template, but the collision count that was hashed is stale: the DaemonSet's next
    /// version has another one.
    StaleCollisionCount,
}

/// The revisions, classified by the DaemonSet's selector and template.
#[derive(Debug, Default)]
pub(crate) struct RevisionSet<'a> {
    /// Revisions to adopt (C21).
    pub orphans: Vec<&'a Revision>,
    /// Owned revisions that the selector does not match (C21).
    pub releases: Vec<&'a Revision>,
    /// The overrides of the target (G57).
    pub overrides: Option<Arc<Overrides>>,
    /// The one with the highest number of those of the current template and its overrides (C41).
    pub current: Option<&'a Revision>,
    /// The others that store these (C42).
    pub duplicates: Vec<&'a Revision>,
    /// Those that store other templates or overrides, oldest first.
    pub old: Vec<&'a Revision>,
    /// The hashes of those among `old` that store the current template (G57).
    pub variants: BTreeSet<RevisionHash>,
}

impl Collision {
    fn concerns(&self, new: &NewRevision, now: Timestamp) -> bool {
        self.name == new.name && now < self.retry_at
    }
}

impl RevisionSet<'_> {
    /// The newest duplicate is the current one.
    fn with_current(mut self) -> Self {
        self.current = self.duplicates.pop();
        self
    }

    /// The least number that the current revision may have (C42). After the highest number there
    /// is no other, so the current revision shares it: an API server refuses negative ones.
    pub(crate) fn current_number(&self) -> i64 {
        self.old.last().map_or(0, |old| old.number).max(0).saturating_add(1)
    }

    /// Owned revisions without a hash label (C42).
    pub(crate) fn unlabelled(&self) -> impl Iterator<Item = &Revision> {
        let ours = self.current.iter().chain(&self.duplicates).chain(&self.old);
        ours.copied().filter(|revision| revision.hash().is_none())
    }

    /// The hashes of all revisions that store the current template. A duplicate without its label
    /// is about to get it back, and its pods stay up to date meanwhile.
    pub(crate) fn current_hashes(&self) -> BTreeSet<RevisionHash> {
        let current = self.current.and_then(Revision::hash);
        current.into_iter().chain(self.duplicates.iter().map(|it| it.pod_hash())).collect()
    }

    /// True if the revision stores what the current one does.
    fn is_current(&self, revision: &Revision, daemon_set: &DaemonSet) -> bool {
        revision.stores(&daemon_set.template)
            && Overrides::are_same(revision.overrides.as_ref(), self.overrides.as_ref())
    }

    /// The hashes of all revisions that store another template, also of those that are yet to be
    /// adopted. Of a revision with malformed data it is not known what it stored.
    pub(crate) fn other_hashes(&self, daemon_set: &DaemonSet) -> BTreeSet<RevisionHash> {
        let orphans = self.orphans.iter().filter(|it| !it.stores(&daemon_set.template));
        let others = self.old.iter().chain(orphans).filter(|it| it.template.is_ok());
        let hashes = others.map(|it| it.pod_hash());
        hashes.filter(|hash| !self.variants.contains(hash)).collect()
    }
}

impl RevisionHistory {
    /// Applies a revision's newest version; returns whether anything changed.
    pub(crate) fn apply(&mut self, mut revision: Revision, daemon_set: &DaemonSet) -> bool {
        if revision.ownership(daemon_set) == Ownership::Foreign {
            return self.remove(&revision.name);
        }
        if self.revisions.get(&revision.name) == Some(&revision) {
            return false;
        }
        if let Ok(template) = &mut revision.template {
            self.share_placement(template, daemon_set);
        }
        self.changes += 1;
        self.revisions.insert(revision.name.clone(), revision);
        true
    }

    /// True if this is an older version of a known revision, which a restarted watch may repeat.
    pub(crate) fn is_repeated(&self, revision: &Revision) -> bool {
        self.revisions.get(&revision.name).is_some_and(|known| {
            known.uid == revision.uid && known.resource_version > revision.resource_version
        })
    }

    /// Removes a deleted revision; returns whether a plan is due.
    pub(crate) fn delete(
        &mut self,
        name: &RevisionName,
        uid: &Uid,
        daemon_set: &DaemonSet,
    ) -> bool {
        let known = self.revisions.get(name).filter(|known| known.uid == *uid);
        let is_known = known.is_some();
        if let Some(known) = known
            && self.classify(daemon_set).is_current(known, daemon_set)
        {
            let overrides = known.overrides.clone();
            let deleted = |hash| DeletedRevision { name: name.clone(), hash, overrides };
            self.deleted_current = known.hash().map(deleted);
        }
        // The name may be free now.
        let had_collision = self.collision.take_if(|collision| collision.name == *name).is_some();
        if is_known {
            self.remove(name);
        }
        is_known || had_collision
    }

    /// Removes a revision; returns whether it was known.
    fn remove(&mut self, name: &RevisionName) -> bool {
        self.changes += 1;
        self.revisions.remove(name).is_some()
    }

    /// Most revisions of a DaemonSet have the same placement: it is stored once.
    fn share_placement(&self, template: &mut Template, daemon_set: &DaemonSet) {
        let stored = self.revisions.values().filter_map(|revision| revision.template.as_ref().ok());
        let mut known = std::iter::once(&daemon_set.template).chain(stored);
        if let Some(same) = known.find(|known| known.placement == template.placement) {
            template.placement = same.placement.clone();
        }
    }

    /// The revisions whose UID is not among these.
    pub(crate) fn except(&self, uids: &BTreeSet<Uid>) -> Vec<(RevisionName, Uid)> {
        let others = self.revisions.values().filter(|revision| !uids.contains(&revision.uid));
        others.map(|revision| (revision.name.clone(), revision.uid.clone())).collect()
    }

    /// The template of the revision whose pods have this hash.
    pub(crate) fn template(&self, hash: &RevisionHash) -> Option<&Template> {
        let mut revisions = self.revisions.values();
        revisions.find(|revision| revision.pod_hash() == *hash)?.template.as_ref().ok()
    }

    /// The overrides of the revision whose pods have this hash (G57).
    pub(crate) fn overrides(&self, hash: &RevisionHash) -> Option<&Arc<Overrides>> {
        let mut revisions = self.revisions.values();
        revisions.find(|revision| revision.pod_hash() == *hash)?.overrides.as_ref()
    }

    /// The copies of ConfigMaps of each revision that stores this template, oldest first; `None`
    /// for one without.
    pub(crate) fn copies_with(&self, template: &Template) -> Vec<Option<&Arc<ConfigCopies>>> {
        let same = self.revisions.values().filter(|revision| revision.stores(template));
        let mut same: Vec<&Revision> = same.collect();
        same.sort_by_key(|revision| revision.number);
        let copies = same.into_iter();
        copies.map(|revision| revision.overrides.as_ref()?.copies.as_ref()).collect()
    }

    /// The copies of ConfigMaps that the current revision of a DaemonSet has, or gets.
    pub(crate) fn copies_of_target(&self, daemon_set: &DaemonSet) -> Option<Arc<ConfigCopies>> {
        self.classify(daemon_set).overrides?.copies.clone()
    }

    /// The copies of ConfigMaps of all revisions (G58).
    pub(crate) fn copies(&self) -> impl Iterator<Item = &Arc<ConfigCopies>> + Clone {
        let overrides = self.revisions.values().filter_map(|revision| revision.overrides.as_ref());
        overrides.filter_map(|overrides| overrides.copies.as_ref())
    }

    /// True if any revision has the record of a guarded rollout (G8).
    pub(crate) fn has_records(&self) -> bool {
        self.revisions.values().any(|revision| revision.record.is_known())
    }

    /// True if this version of the revision is the newest known one.
    pub(crate) fn has_version(&self, revision: &RevisionReference) -> bool {
        self.revisions.get(&revision.name).is_some_and(|known| {
            known.uid == revision.uid && known.resource_version == revision.resource_version
        })
    }

    /// Number of changes of the revisions so far: with the same number they are the same.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }

    /// Number of revisions, owned ones and orphans.
    pub(crate) fn len(&self) -> usize {
        self.revisions.len()
    }

    /// True if any revision is to be adopted (C21).
    pub(crate) fn has_orphans(&self, daemon_set: &DaemonSet) -> bool {
        // Most have a controller. The selector is matched only against the labels of the others.
        let mut ownerless =
            self.revisions.values().filter(|revision| revision.controller.is_none());
        ownerless.any(|revision| revision.ownership(daemon_set) == Ownership::Orphan)
    }

    /// Classifies the revisions.
    pub(crate) fn classify(&self, daemon_set: &DaemonSet) -> RevisionSet<'_> {
        let mut set = RevisionSet::default();
        let mut owned = Vec::new();
        for revision in self.revisions.values() {
            match revision.ownership(daemon_set) {
                Ownership::Orphan => set.orphans.push(revision),
                Ownership::Released => set.releases.push(revision),
                Ownership::Owned => owned.push(revision),
                // `apply` stores no such revision.
                Ownership::Foreign => {}
            }
        }
        let deleted = self.deleted_current.as_ref();
        owned.sort_by(|a, b| (a.number, &a.name).cmp(&(b.number, &b.name)));
        let RevisionsByContent { overrides, current, old, variants } =
            Revision::by_content(daemon_set, owned, deleted.map(|it| &it.overrides));
        RevisionSet { overrides, duplicates: current, old, variants, ..set }.with_current()
    }

    /// The revision to create for the current template.
    pub(crate) fn new_revision(&self, daemon_set: &DaemonSet, number: i64) -> NewRevision {
        let collision_count = daemon_set.status.collision_count;
        let overrides = self.classify(daemon_set).overrides;
        let deleted = self.deleted_current.as_ref();
        let deleted =
            deleted.filter(|it| Overrides::are_same(it.overrides.as_ref(), overrides.as_ref()));
        let deleted = deleted.map(|it| (it.name.clone(), it.hash.clone()));
        let (name, hash) = deleted.unwrap_or_else(|| {
            let template = &daemon_set.template.canonical;
            let hash = match &overrides {
                None => revision_hash(template, collision_count),
                Some(it) => {
                    let copies = it.copies.iter().map(|copies| format!("\n{}", copies.text));
                    let copies: String = copies.collect();
                    revision_hash(&format!("{template}\n{}{copies}", it.text), collision_count)
                }
            };
            (RevisionName::from(format!("{}-{hash}", daemon_set.key.name)), hash)
        });
        let stated = overrides.as_ref().map(|it| it.text.clone());
        let copies = overrides.and_then(|it| Some(it.copies.as_ref()?.text.clone()));
        let overrides = stated.filter(|text| !text.is_empty());
        NewRevision { name, hash, number, collision_count, overrides, copies }
    }

    /// Records that a revision was created. If a user deletes it, it is created again after a
    /// delay: the garbage collector deletes each one while the watch of DaemonSets has yet to show
    /// that the DaemonSet is deleted (C40).
    pub(crate) fn record_creation(&mut self, new: &NewRevision, now: Timestamp) {
        let last = self.last_creation.take().filter(|last| last.name == new.name);
        let delay = Delay::after(Cause::Failure, last.map(|last| last.delay), now);
        self.last_creation = Some(LastCreation { name: new.name.clone(), delay });
    }

    /// Until when the revision must not be created again, if it was created recently.
    pub(crate) fn delayed_until(&self, new: &NewRevision, now: Timestamp) -> Option<Timestamp> {
        let last = self.last_creation.as_ref().filter(|last| last.name == new.name)?;
        Some(last.delay.end()).filter(|end| now < *end)
    }

    /// The hashes of revisions that stored the current template and were deleted, until they are
    /// created again, or that store it and have yet to be adopted.
    pub(crate) fn lost_current(&self, daemon_set: &DaemonSet) -> BTreeSet<RevisionHash> {
        let set = self.classify(daemon_set);
        let orphans = set.orphans.iter();
        let same = orphans.filter(|orphan| set.is_current(orphan, daemon_set));
        let deleted = self.deleted_current.iter().map(|it| it.hash.clone());
        same.filter_map(|orphan| orphan.hash()).chain(deleted).collect()
    }

    /// Forgets what concerned the template before: its deleted revision, and since when there were
    /// duplicates of it.
    pub(crate) fn forget_current(&mut self) {
        self.deleted_current = None;
        self.duplicates_since = None;
    }

    /// Records that the name of a new revision was taken (C43). `existing` and `collision_count`
    /// were read from the API server after the refusal.
    pub(crate) fn record_collision(
        &mut self,
        new: &NewRevision,
        existing: Option<&Revision>,
        collision_count: Option<i32>,
        daemon_set: &DaemonSet,
        now: Timestamp,
    ) {
        let set = self.classify(daemon_set);
        let same = existing.filter(|existing| set.is_current(existing, daemon_set));
        if same.is_none() && self.deleted_current.take().is_some() {
            // Another object has the name of the deleted revision: the template gets a new name.
            return;
        }
        let kind = if let Some(existing) = same {
            let hash = existing.pod_hash();
            CollisionKind::SameTemplate(hash)
        } else if collision_count == new.collision_count {
            let collision_count = collision_count.unwrap_or(0).saturating_add(1);
            CollisionKind::OtherTemplate { collision_count }
        } else {
            CollisionKind::StaleCollisionCount
        };
        self.collision =
            Some(Collision { name: new.name.clone(), kind, retry_at: now + RETRY_AFTER });
    }

    /// Drops the collision if it concerns another revision or is over.
    pub(crate) fn drop_outdated_collision(&mut self, new: &NewRevision, now: Timestamp) {
        self.collision.take_if(|collision| !collision.concerns(new, now));
    }

    /// The action instead of creating this revision, if its name was taken recently.
    pub(crate) fn collision_action(
        &self,
        new: &NewRevision,
        now: Timestamp,
    ) -> Option<CollisionAction> {
        let collision = self.collision.as_ref().filter(|collision| collision.concerns(new, now))?;
        Some(match &collision.kind {
            CollisionKind::SameTemplate(hash) => CollisionAction::UseHash(hash.clone()),
            CollisionKind::OtherTemplate { collision_count } => {
                CollisionAction::RaiseCount(*collision_count)
            }
            CollisionKind::StaleCollisionCount => CollisionAction::Wait,
        })
    }

    /// When a creation is retried after a collision, and when duplicates are deleted.
    pub(crate) fn due_at(&self) -> [Option<Timestamp>; 2] {
        let retry_at = self.collision.as_ref().map(|collision| collision.retry_at);
        [retry_at, self.duplicates_since.map(|since| since + DUPLICATE_GRACE)]
    }

    /// True if duplicates have existed for long enough to be deleted (C42).
    pub(crate) fn may_delete_duplicates(&self, now: Timestamp) -> bool {
        self.duplicates_since.is_some_and(|since| since + DUPLICATE_GRACE <= now)
    }

    /// Records that the current revision is stored: no creation is pending.
    pub(crate) fn record_current(&mut self, has_duplicates: bool, now: Timestamp) {
        self.collision = None;
        self.deleted_current = None;
        let since = self.duplicates_since.unwrap_or(now);
        self.duplicates_since = has_duplicates.then_some(since);
    }
}

/// The action instead of creating a revision whose name is taken.
pub(crate) enum CollisionAction {
    /// Use the hash of the revision that has the name.
    UseHash(RevisionHash),
    /// Set `status.collisionCount` to this.
    RaiseCount(i32),
    /// Wait for the DaemonSet's next version.
    Wait,
}

impl Revision {
    /// The revision as the target of a write.
    pub(crate) fn reference(&self) -> RevisionReference {
        RevisionReference {
            name: self.name.clone(),
            uid: self.uid.clone(),
            resource_version: self.resource_version,
        }
    }

    /// The relation of the revision to a DaemonSet (C21).
    pub(crate) fn ownership(&self, daemon_set: &DaemonSet) -> Ownership {
        Ownership::determine(daemon_set, self.controller.as_ref(), &self.labels, self.terminating)
    }

    /// Reports data that contains no template, or else a record without effect (C4, G44).
    pub(crate) fn problem(&self) -> Option<Problem> {
        let name = self.name.clone();
        match (&self.template, &self.record) {
            (Err(message), _) => Some(Problem::Revision { name, message: message.clone() }),
            (Ok(_), RecordState::Malformed(message)) => {
                Some(Problem::Record { name, message: message.clone() })
            }
            (Ok(_), RecordState::Foreign) => Some(Problem::ForeignRecord { name }),
            (Ok(_), RecordState::None | RecordState::Unproven(_) | RecordState::Stored(_)) => None,
        }
    }
}
