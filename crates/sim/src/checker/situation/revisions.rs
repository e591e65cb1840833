//! The revisions of a DaemonSet, as far as its replica knows them.

use crate::checker::history::Objects;
use crate::checker::model::{DaemonSet, Metadata, Revision};

/// The revisions of a DaemonSet.
#[derive(Default)]
pub(in crate::checker) struct Revisions<'a> {
    /// Those that store the current template, by number and name.
    pub current: Vec<&'a Revision>,
    /// Those that store other templates, by number and name.
    pub old: Vec<&'a Revision>,
    /// Those that it adopts (C21).
    pub orphans: Vec<&'a Revision>,
}

impl<'a> Revisions<'a> {
    /// The older ones, and all that store the current template.
    pub(in crate::checker) fn all(&self) -> impl Iterator<Item = &'a Revision> + Clone {
        self.old.iter().chain(&self.current).copied()
    }

    /// The older ones and the target: of duplicates the last one.
    pub(in crate::checker) fn old_and_target(&self) -> impl Iterator<Item = &'a Revision> + Clone {
        self.old.iter().chain(self.current.last()).copied()
    }

    pub(super) fn of(ds: &DaemonSet, all: &Objects<'a, Revision>) -> Self {
        let mut revisions = Self::default();
        let in_namespace = |metadata: &Metadata| metadata.namespace == ds.metadata.namespace;
        for revision in all.values().copied().filter(|revision| in_namespace(&revision.metadata)) {
            let metadata = &revision.metadata;
            if ds.adopts(metadata) {
                revisions.orphans.push(revision);
            } else if ds.owns(metadata) && ds.is_stored_by(revision) {
                revisions.current.push(revision);
            } else if ds.owns(metadata) {
                revisions.old.push(revision);
            }
        }
        for list in [&mut revisions.current, &mut revisions.old] {
            list.sort_by_key(|revision| (revision.number, &revision.metadata.name));
        }
        if revisions.current.is_empty() {
            let newest = revisions.old.pop_if(|newest| ds.has_generation_of(newest));
            revisions.current.extend(newest);
        }
        revisions
    }
}
