//! The registry: the rules that every write follows on its way to the store (S8–S11).
//!
//! Each write takes the same steps: the server sets its part of the metadata, defaults and
//! admission complete the object, the kind's strategy restores the fields that the endpoint may
//! not change, validation accepts or refuses the result, and the store commits it under the next
//! resourceVersion. The registry owns the [`Store`] and the [`Plugins`] of its server.

mod check;
mod create;
mod definition;
mod delete;
mod metadata;
mod ownership;
mod strategy;
mod update;
mod write;

use std::any::Any;
use std::fmt::Debug;

use crate::json::Value;
use crate::kind::Kind;
use crate::status::Status;
use crate::store::Store;

pub use check::refuse_too_large;
pub use create::Draft;
pub use definition::CLEANUP;
pub use delete::{FOREGROUND, ORPHAN, check_preconditions};
pub use ownership::{Apply, Writer};
pub use strategy::Endpoint;
pub use update::{Patch, Replacement, check_target, created_by_update};

/// A store that is written by Kubernetes' rules. Clients and the components of a cluster use the
/// same methods.
#[derive(Debug)]
pub struct Registry {
    store: Store,
    plugins: Box<dyn Plugins>,
}

/// The rules that depend on other objects, which a server adds: admission and allocation.
pub trait Plugins: Any + Debug + Send {
    /// Refuses a new object for the state of its namespace, at its admission and once more right
    /// before it is stored.
    ///
    /// # Errors
    /// The refusal.
    fn check_namespace(&self, store: &Store, kind: &Kind, object: &Value) -> Result<(), Status>;

    /// Completes or refuses a new object.
    ///
    /// # Errors
    /// The refusal.
    fn admit(&self, store: &Store, kind: &Kind, object: &mut Value) -> Result<(), Status>;

    /// Completes or refuses an object right before it is stored, when no other write can come
    /// between. `current` is the object that it replaces.
    ///
    /// # Errors
    /// The refusal.
    fn allocate(
        &mut self,
        store: &Store,
        kind: &Kind,
        endpoint: Endpoint,
        object: &mut Value,
        current: Option<&Value>,
    ) -> Result<(), Status>;

    /// Takes note of a write to an object of this kind.
    fn committed(&mut self, store: &Store, kind: &Kind);
}

impl Registry {
    /// Writes to a store, by the rules that all servers share and those of `plugins`.
    pub fn new(store: Store, plugins: Box<dyn Plugins>) -> Self {
        Self { store, plugins }
    }

    /// The store, for reads.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Direct access to the store, past all rules: to add a kind, and to compact the change log.
    pub fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }

    /// The plugins.
    pub fn plugins(&self) -> &dyn Plugins {
        &*self.plugins
    }

    /// The plugins, for changes, with the store.
    pub fn plugins_mut(&mut self) -> (&mut dyn Plugins, &Store) {
        (&mut *self.plugins, &self.store)
    }
}
