//! The bounded change log of one kind, shared by all watchers (S7).
//!
//! The state of a watcher is the resourceVersion up to which it has read. So watchers never delay
//! writes, and they cost what they read. A watcher that falls behind the window gets [`Expired`]
//! and lists again.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Store;
use crate::kind::Kind;
use crate::object::Object;
use crate::selector::Selector;

/// Number of latest changes whose objects keep their trees, for the readers of the log.
pub const TREE_CHANGES: usize = 1_000;
/// Maximum size of these trees: fewer changes keep them if they are larger. A tree can need a
/// hundred times the memory of its text.
const TREE_BYTES_MAX: usize = 64 * 1024 * 1024;

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
    /// The size of all objects in the changes, as JSON text.
    bytes: usize,
    /// The number of changes, from the first one, whose trees were dropped.
    bare: usize,
    /// The size of the trees in the other changes.
    tree_bytes: usize,
    /// The oldest resourceVersion from which the log can be read.
    oldest: u64,
}

impl ChangeLog {
    /// # Panics
    /// If `capacity` is 0.
    pub(super) fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a log keeps at least one change");
        Self { changes: VecDeque::new(), capacity, bytes: 0, bare: 0, tree_bytes: 0, oldest: 0 }
    }

    pub(super) fn push(&mut self, change: Arc<Change>) {
        debug_assert!(
            self.changes.back().is_none_or(|last| last.resource_version < change.resource_version),
            "resourceVersions grow"
        );
        if self.changes.len() == self.capacity {
            self.drop_first();
        }
        self.bytes += change.bytes();
        self.tree_bytes += change.object.tree_bytes();
        self.changes.push_back(change);
    }

    /// The size of all objects in the changes, as JSON text. An object that is in two changes
    /// counts twice.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
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

    /// True if there is a change up to and including `resource_version`.
    pub(super) fn reaches_back_to(&self, resource_version: u64) -> bool {
        self.changes.front().is_some_and(|change| change.resource_version <= resource_version)
    }

    /// Drops the trees of the oldest change that has them, unless the log may keep them. Returns
    /// its object, so that the table can share it.
    pub(super) fn drop_tree(&mut self) -> Option<Arc<Object>> {
        let with_trees = self.changes.len() - self.bare;
        if with_trees <= 1 || (with_trees <= TREE_CHANGES && self.tree_bytes <= TREE_BYTES_MAX) {
            return None;
        }
        let change = self.changes.get_mut(self.bare)?;
        self.bare += 1;
        self.tree_bytes = self.tree_bytes.saturating_sub(change.object.tree_bytes());
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

    /// The resourceVersion of the newest change whose trees were dropped, with the change or
    /// without; 0 if there is none.
    pub(super) fn bare_until(&self) -> u64 {
        let index = self.bare.checked_sub(1);
        let bare = index.and_then(|index| self.changes.get(index));
        bare.map_or(self.oldest, |change| change.resource_version)
    }

    /// Drops and returns the oldest change.
    pub(super) fn drop_first(&mut self) -> Option<Arc<Change>> {
        let dropped = self.changes.pop_front()?;
        self.oldest = dropped.resource_version;
        self.bytes = self.bytes.saturating_sub(dropped.bytes());
        match self.bare.checked_sub(1) {
            Some(bare) => self.bare = bare,
            None => {
                self.tree_bytes = self.tree_bytes.saturating_sub(dropped.object.tree_bytes());
            }
        }
        Some(dropped)
    }
}

impl Change {
    /// The state after the write; `None` if the object is gone.
    pub fn after(&self) -> Option<&Object> {
        (self.action != Action::Deleted).then_some(&*self.object)
    }

    fn bytes(&self) -> usize {
        self.object.bytes() + self.previous.as_ref().map_or(0, |previous| previous.bytes())
    }
}

/// An event of a watch.
#[derive(Clone, Debug)]
pub struct WatchEvent {
    /// The type of the event, which depends on the selection.
    pub action: Action,
    /// The object of the event.
    pub object: Arc<Object>,
}

/// The event of a change to an object of a kind; `None` if the watcher does not select the object.
/// An object that stops matching is Deleted, in its last matching state with the resourceVersion of
/// the change; one that starts to match is Added.
pub fn watch_event(kind: &Kind, change: &Change, selector: &Selector) -> Option<WatchEvent> {
    let matches = |object: &Object| selector.matches(kind, object);
    let before = change.previous.as_deref().is_some_and(matches);
    let after = match change.action {
        Action::Added | Action::Modified => matches(&change.object),
        Action::Deleted => false,
    };
    let (action, object) = match (before, after) {
        (false, false) => return None,
        (false, true) => (Action::Added, change.object.clone()),
        (true, true) => (Action::Modified, change.object.clone()),
        (true, false) => (Action::Deleted, deleted_state(change)),
    };
    Some(WatchEvent { action, object })
}

fn deleted_state(change: &Change) -> Arc<Object> {
    match (change.action, &change.previous) {
        (Action::Modified, Some(previous)) => {
            let mut value = previous.read().into_owned();
            value["metadata"]["resourceVersion"] = change.resource_version.to_string().into();
            Arc::new(Object::new(value, previous.managed_fields().clone()))
        }
        (Action::Added | Action::Modified | Action::Deleted, _) => change.object.clone(),
    }
}

/// How far a reader has read the changes of a kind.
#[derive(Debug)]
pub struct Follower {
    kind: &'static Kind,
    seen: u64,
}

impl Follower {
    /// A reader that has read nothing yet.
    pub fn new(kind: &'static Kind) -> Self {
        Self { kind, seen: 0 }
    }

    /// The next change; `None` if all were read.
    ///
    /// # Errors
    /// [`Expired`] if the log no longer contains the next change. The caller reads all objects; the
    /// change after this state is the next one.
    pub fn next(&mut self, store: &Store) -> Result<Option<Arc<Change>>, Expired> {
        let change = match store.changes_since(self.kind, self.seen, 1) {
            Ok(mut changes) => changes.pop(),
            Err(expired) => {
                self.skip(store);
                return Err(expired);
            }
        };
        self.seen = change.as_ref().map_or(store.resource_version(), |read| read.resource_version);
        Ok(change)
    }

    /// Continues after the store's current state.
    pub fn skip(&mut self, store: &Store) {
        self.seen = store.resource_version();
    }
}
