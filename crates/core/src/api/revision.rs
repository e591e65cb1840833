//! ControllerRevisions.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::daemon_set::{DaemonSet, Template};
use super::labels::{HASH_LABEL, Labels};
use super::names::{ResourceVersion, RevisionHash, RevisionName, Uid};
use super::rollout::{Overrides, PolicySource, RecordState};

/// A ControllerRevision, which stores one template of a DaemonSet (C40).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// `metadata.name`.
    pub name: RevisionName,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
    /// `metadata.labels`.
    pub labels: Labels,
    /// UID of the owner that is marked as controller.
    pub controller: Option<Uid>,
    /// True if `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// `revision`: the current revision has the highest number.
    pub number: i64,
    /// The template generation of the DaemonSet when it had this template last, from the
    /// annotation that is copied to its revisions. `None` also if the revision was adopted: that
    /// of a former DaemonSet says nothing.
    pub template_generation: Option<i64>,
    /// The template in `data`. `Err` states why `data` contains none; such a revision matches no
    /// template (C4, C40).
    pub template: Result<Template, Arc<str>>,
    /// The overrides of its nodes and its copies of ConfigMaps, if it has any; they and the
    /// template make its pods (G57, G58).
    pub overrides: Option<Arc<Overrides>>,
    /// The record of its guarded rollout (G8).
    pub record: RecordState,
}

/// The revisions of a DaemonSet by what they store, each list oldest first.
#[derive(Clone, Debug, Default)]
pub struct RevisionsByContent<'a> {
    /// The overrides of the target: those of the policy or, while none is valid, those that the
    /// template had last.
    pub overrides: Option<Arc<Overrides>>,
    /// Those that store the template and these overrides.
    pub current: Vec<&'a Revision>,
    /// All others.
    pub old: Vec<&'a Revision>,
    /// The hashes of those among `old` that store the template with other overrides.
    pub variants: BTreeSet<RevisionHash>,
}

impl Revision {
    /// The value of the hash label.
    pub fn hash(&self) -> Option<RevisionHash> {
        self.labels.get(HASH_LABEL).map(|hash| RevisionHash::new(hash.clone()))
    }

    /// The hash of the revision's pods: its label or, while somebody has removed that, its name,
    /// which the label is then written from (C42).
    pub fn pod_hash(&self) -> RevisionHash {
        self.hash().unwrap_or_else(|| self.name.as_str().into())
    }

    /// True if the revision stores this template (C41).
    pub fn stores(&self, template: &Template) -> bool {
        self.template.as_ref().is_ok_and(|stored| stored.canonical == template.canonical)
    }

    /// Divides the revisions of a DaemonSet, oldest first, into those of its template and overrides
    /// and the others.
    ///
    /// The API server counts the changes of a template. So if none stores it, but the newest one
    /// has its number, nobody has changed it: an API server of another version has added a default,
    /// or leaves one out (C41).
    ///
    /// `deleted` has the overrides of the current revision if another client has deleted it.
    pub fn by_content<'a>(
        daemon_set: &DaemonSet,
        revisions: Vec<&'a Self>,
        deleted: Option<&Option<Arc<Overrides>>>,
    ) -> RevisionsByContent<'a> {
        let newest = revisions.last().copied();
        // The revisions of one template with several overrides have its number, too.
        let has_overrides = revisions.iter().any(|it| it.overrides.is_some());
        let is_current = |it: &&Self| {
            it.stores(&daemon_set.template) || has_overrides && it.has_generation_of(daemon_set)
        };
        let (mut current, mut old): (Vec<_>, Vec<_>) = revisions.into_iter().partition(is_current);
        if current.is_empty() {
            current.extend(old.pop_if(|newest| newest.has_generation_of(daemon_set)));
        }
        let overrides = match &daemon_set.policy {
            PolicySource::Valid(policy) => {
                let stored = || match deleted {
                    Some(deleted) => deleted.as_ref(),
                    None => current.last().and_then(|last| last.overrides.as_ref()),
                };
                let copies = policy.snapshots().and_then(|_| match &daemon_set.copies {
                    Some(copies) => Some(copies),
                    None => stored()?.copies.as_ref(),
                });
                Overrides::with_copies(policy.overrides(), copies)
            }
            PolicySource::None | PolicySource::Invalid(_) if let Some(deleted) = deleted => {
                deleted.clone()
            }
            PolicySource::None => current.last().and_then(|last| last.overrides.clone()),
            // A policy with a mistake takes no override away.
            PolicySource::Invalid(_) => {
                current.last().copied().or(newest).and_then(|last| last.overrides.clone())
            }
        };
        let mut variants = BTreeSet::new();
        let is_variant =
            |it: &Self| !Overrides::are_same(it.overrides.as_ref(), overrides.as_ref());
        if current.iter().any(|it| is_variant(it)) {
            let others = current.extract_if(.., |it| is_variant(it));
            let others: Vec<_> = others.collect();
            variants.extend(others.iter().map(|it| it.pod_hash()));
            old.extend(others);
            old.sort_by(|a, b| (a.number, &a.name).cmp(&(b.number, &b.name)));
        }
        RevisionsByContent { overrides, current, old, variants }
    }

    fn has_generation_of(&self, daemon_set: &DaemonSet) -> bool {
        self.template.is_ok()
            && self.template_generation.is_some()
            && self.template_generation == daemon_set.template_generation
    }
}
