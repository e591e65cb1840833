//! The watch cache of an API server: the store as far as that server has seen it (S6, S7).
//!
//! A cache needs no memory of its own: its state is an older state of the store, and its changes
//! are those of the store's log, up to a resourceVersion.

use std::sync::Arc;

use super::list::{self, States};
use super::{Change, Expired, List, ListOptions, Store, served_form};
use crate::kind::Kind;
use crate::object::Object;
use crate::status::Status;

/// The resourceVersion up to which an API server has seen the store. Several servers, or the
/// caches of several kinds, are several values. All methods get the same store.
///
/// A cache is never further behind than the store's log reaches: then it has listed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchCache {
    position: u64,
}

impl WatchCache {
    /// A cache that has seen everything up to a resourceVersion.
    pub fn at(resource_version: u64) -> Self {
        Self { position: resource_version }
    }

    /// Sees everything up to a resourceVersion. A cache never goes back.
    pub fn advance(&mut self, resource_version: u64) {
        self.position = self.position.max(resource_version);
    }

    /// The resourceVersion of the state that the cache has of a kind; that of its bookmarks.
    pub fn reached(self, store: &Store, kind: &'static Kind) -> u64 {
        self.position.max(store.table(kind).log.oldest()).min(store.resource_version())
    }

    /// An object in the form of `kind`: its newest state without a resourceVersion, else the state
    /// that the cache has, which must not be older.
    ///
    /// # Errors
    ///
    /// 404 if there is no such object, 504 if the cache has not reached the resourceVersion.
    pub fn get(
        self,
        store: &Store,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
        resource_version: Option<u64>,
    ) -> Result<Arc<Object>, Status> {
        let Some(requested) = resource_version else { return store.get(kind, namespace, name) };
        let reached = self.reached(store, kind);
        if requested > reached {
            return Err(Status::too_large_resource_version(requested, reached));
        }
        let unseen = store.table(kind).log.after(reached);
        let mut unseen = unseen.map_err(|expired| Status::expired(expired.to_string()))?;
        let is_same = |object: &Object| (object.namespace(), object.name()) == (namespace, name);
        let object = match unseen.find(|change| is_same(&change.object)) {
            Some(change) => change.previous.as_ref(),
            None => store.find(kind, namespace, name),
        };
        let object = object.map(|object| served_form(kind, object));
        object.ok_or_else(|| Status::not_found(kind, name))
    }

    /// A list, or a page of it. The options determine whether it shows the store's newest state, an
    /// exact one, or that of the cache. The initial events of a watch are the list from any state
    /// (resourceVersion 0).
    ///
    /// # Errors
    ///
    /// Those of [`Store::list`], and 504 if the cache has not reached the resourceVersion.
    pub fn list(
        self,
        store: &Store,
        kind: &'static Kind,
        options: &ListOptions,
    ) -> Result<List, Status> {
        options.selector.fields.check(kind)?;
        let cached = self.reached(store, kind);
        let states = States { newest: store.resource_version(), cached };
        list::list(kind, store.table(kind), options, states)
    }

    /// At most `limit` changes of a kind after a resourceVersion that the cache has seen, oldest
    /// first; none if it has not reached that version.
    ///
    /// # Errors
    ///
    /// [`Expired`] if the log no longer contains all of these changes; the client lists again.
    pub fn changes_since(
        self,
        store: &Store,
        kind: &'static Kind,
        resource_version: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Change>>, Expired> {
        let reached = self.reached(store, kind);
        if resource_version >= reached {
            return Ok(Vec::new());
        }
        let mut changes = store.changes_since(kind, resource_version, limit)?;
        changes.truncate(changes.partition_point(|change| change.resource_version <= reached));
        Ok(changes)
    }
}
