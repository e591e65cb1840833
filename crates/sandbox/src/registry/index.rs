//! Values that the registry derives from all objects of a kind, so that a write need not read them.

use crate::kind::Kind;
use crate::object::Object;
use crate::store::{Follower, Store};

/// A summary of objects.
pub(super) trait Summary: Default {
    /// An object is there, in this state.
    fn add(&mut self, object: &Object);

    /// An object that was added is no longer in this state.
    fn remove(&mut self, object: &Object);
}

/// The summary of all objects of a kind. It follows the store's log of changes.
#[derive(Debug)]
pub(super) struct Index<S> {
    follower: Follower,
    pub summary: S,
}

impl<S: Summary> Index<S> {
    pub(super) fn new(kind: &'static Kind) -> Self {
        Self { follower: Follower::new(kind), summary: S::default() }
    }

    /// Brings the summary up to date.
    pub(super) fn follow(&mut self, store: &Store) {
        loop {
            match self.follower.next(store) {
                Ok(None) => return,
                Ok(Some(change)) => {
                    if let Some(before) = &change.previous {
                        self.summary.remove(before);
                    }
                    if let Some(after) = change.after() {
                        self.summary.add(after);
                    }
                }
                Err(_) => {
                    self.summary = S::default();
                    for object in store.iter(self.follower.kind(), None) {
                        self.summary.add(object);
                    }
                }
            }
        }
    }
}
