//! The registry: the rules that every write follows on its way to the store (S8–S11).
//!
//! Each write takes the same steps: the server sets its part of the metadata, defaults and
//! admission complete the object, the kind's strategy restores the fields that the endpoint may
//! not change, validation accepts or refuses the result, and the store commits it under the next
//! resourceVersion. The registry owns the [`Store`], and derives all its other state from the
//! store's log of changes.

mod admission;
mod check;
mod create;
mod definition;
mod delete;
mod disruption;
mod index;
mod metadata;
mod namespace;
mod ownership;
mod pod;
mod priority;
mod refusal;
mod resize;
mod service;
mod strategy;
#[cfg(test)]
mod tests;
mod update;
mod write;

use everynode_core::api::Timestamp;

use crate::kinds::{NAMESPACE, PRIORITY_CLASS, SERVICE};
use crate::status::Status;
use crate::store::{Options, Store, WriteOptions};

use disruption::Budgets;
use index::Index;

pub(crate) use create::Draft;
pub use definition::CLEANUP;
pub use delete::{FOREGROUND, ORPHAN};
pub(crate) use disruption::DueBudget;
pub(crate) use ownership::{Apply, Writer};
pub use strategy::Endpoint;
pub use update::Patch;
pub(crate) use update::{Replacement, check_target, created_by_update};

/// The namespaces that every cluster has from the start.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// A store that is written by Kubernetes' rules. Clients and the simulated components use the same
/// methods.
#[derive(Debug)]
pub struct Registry {
    store: Store,
    services: Index<service::Taken>,
    default_classes: Index<priority::Defaults>,
    budgets: Budgets,
}

impl Registry {
    /// Makes a store with the namespaces that every cluster has.
    pub fn new(options: &Options, now: Timestamp) -> Self {
        let mut registry = Self {
            store: Store::new(options),
            services: Index::new(&SERVICE),
            default_classes: Index::new(&PRIORITY_CLASS),
            budgets: Budgets::default(),
        };
        for name in NAMESPACES {
            let namespace = crate::json::json!({"metadata": {"name": name}});
            registry
                .create(&NAMESPACE, "", namespace, &WriteOptions::at(now))
                .expect("a new store has no namespace yet");
        }
        registry
    }

    /// Adds the objects that a real cluster has from the start, besides its namespaces.
    ///
    /// # Errors
    /// An object that is refused, because another one has its name.
    pub(crate) fn seed(&mut self, now: Timestamp) -> Result<(), Status> {
        priority::seed(self, now)?;
        service::seed(self, now)
    }

    /// The store, for reads.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Direct access to the store, past all rules: to add a kind, and to compact the change log.
    pub fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }
}
