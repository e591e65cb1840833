//! The bounded change log of one kind, shared by all watchers (S7).
//!
//! The state of a watcher is the resourceVersion up to which it has read. So watchers never delay
//! writes, and they cost what they read. A watcher that falls behind the window gets [`Expired`]
//! and lists again.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::object::Object;

/// A write.
#[derive(Debug)]
pub struct Change {
    /// The resourceVersion of the write.
    pub resource_version: u64,
    /// The type of the write.
    pub action: Action,
    /// The state after the write; for a deletion the last state with the deletion's
    /// resourceVersion.
    pub object: Arc<Object>,
    /// The state before the write; `None` for a creation.
    pub previous: Option<Arc<Object>>,
}

/// The type of a write or of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The object was created, or starts to match.
    Added,
    /// The object was changed.
    Modified,
    /// The object was deleted, or no longer matches.
    Deleted,
}

/// The log does not go back to the requested resourceVersion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {requested} ({oldest})")]
pub struct Expired {
    /// The requested resourceVersion.
    pub requested: u64,
    /// The oldest resourceVersion from which the log can be read.
    pub oldest: u64,
}

#[derive(Debug)]
pub(super) struct ChangeLog {
    changes: VecDeque<Arc<Change>>,
    capacity: usize,
    /// The oldest resourceVersion from which the log can be read.
    oldest: u64,
}

impl ChangeLog {
    /// # Panics
    /// If `capacity` is 0.
    pub(super) fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a log keeps at least one change");
        Self { changes: VecDeque::new(), capacity, oldest: 0 }
    }

    pub(super) fn push(&mut self, change: Arc<Change>) {
        debug_assert!(
            self.changes.back().is_none_or(|last| last.resource_version < change.resource_version),
            "resourceVersions grow"
        );
        if self.changes.len() == self.capacity {
            self.drop_first();
        }
        self.changes.push_back(change);
    }

    /// The oldest resourceVersion from which the log can be read.
    pub(super) fn oldest(&self) -> u64 {
        self.oldest
    }

    /// The resourceVersion of the last change, even if it was dropped.
    pub(super) fn newest(&self) -> u64 {
        self.changes.back().map_or(self.oldest, |change| change.resource_version)
    }

    /// At most `limit` changes after `resource_version`, oldest first.
    pub(super) fn since(
        &self,
        resource_version: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Change>>, Expired> {
        Ok(self.after(resource_version)?.take(limit).cloned().collect())
    }

    /// All changes after `resource_version`, oldest first.
    pub(super) fn after(
        &self,
        resource_version: u64,
    ) -> Result<impl Iterator<Item = &Arc<Change>>, Expired> {
        if resource_version < self.oldest {
            return Err(Expired { requested: resource_version, oldest: self.oldest });
        }
        let start =
            self.changes.partition_point(|change| change.resource_version <= resource_version);
        Ok(self.changes.range(start..))
    }

    /// Removes all changes up to and including `resource_version`.
    pub(super) fn compact(&mut self, resource_version: u64) {
        while self.changes.front().is_some_and(|change| change.resource_version <= resource_version)
        {
            self.drop_first();
        }
    }

    /// Drops the trees of the change that is `age` changes old. Returns its object, so that the
    /// table can share it.
    pub(super) fn drop_tree(&mut self, age: usize) -> Option<Arc<Object>> {
        let index = self.changes.len().checked_sub(age + 1)?;
        let change = self.changes.get_mut(index)?;
        let bare =
            |object: &Arc<Object>| object.without_tree().map_or_else(|| object.clone(), Arc::new);
        let object = bare(&change.object);
        let previous = change.previous.as_ref();
        *change = Arc::new(Change {
            resource_version: change.resource_version,
            action: change.action,
            previous: previous
                .map(|object| if object.has_tree() { bare(object) } else { object.clone() }),
            object: object.clone(),
        });
        Some(object)
    }

    /// The resourceVersion of the change that is `age` changes old; 0 if the log is shorter.
    pub(super) fn tree_since(&self, age: usize) -> u64 {
        let index = self.changes.len().checked_sub(age + 1);
        index.and_then(|index| self.changes.get(index)).map_or(0, |change| change.resource_version)
    }

    fn drop_first(&mut self) {
        if let Some(dropped) = self.changes.pop_front() {
            self.oldest = dropped.resource_version;
        }
    }
}
