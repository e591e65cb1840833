//! A reader of the log of changes, for what is derived from the objects of a kind.

use std::sync::Arc;

use super::{Change, Expired, Store};
use crate::kind::Kind;

/// How far a reader has read the changes of a kind.
#[derive(Debug)]
pub(crate) struct Follower {
    kind: &'static Kind,
    seen: u64,
}

impl Follower {
    /// A reader that has read nothing yet.
    pub(crate) fn new(kind: &'static Kind) -> Self {
        Self { kind, seen: 0 }
    }

    /// The kind whose changes are read.
    pub(crate) fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// The next change; `None` if all were read.
    ///
    /// # Errors
    /// [`Expired`] if the log no longer contains the next change. The caller reads all objects; the
    /// change after this state is the next one.
    pub(crate) fn next(&mut self, store: &Store) -> Result<Option<Arc<Change>>, Expired> {
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
    pub(crate) fn skip(&mut self, store: &Store) {
        self.seen = store.resource_version();
    }
}
