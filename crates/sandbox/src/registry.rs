//! The registry of the sandbox: the API server's, with admission, with addresses for Services, and
//! with the subresources that are no part of an object (S8–S11).

mod admission;
mod disruption;
mod priority;
mod resize;
mod service;
mod subresource;

/// The name for messages. Names are generated after admission, so until then messages have
/// `generateName`. The refusals of all pods of a controller have the same text, and its events are
/// aggregated.
fn name_so_far(object: &Value) -> &str {
    match text(object, &["metadata", "name"]) {
        "" => text(object, &["metadata", "generateName"]),
        name => name,
    }
}

/// 403 for a pod that an admission plugin refuses.
fn refuse_pod(object: &Value, cause: &str) -> Status {
    Status::forbidden(&POD, name_so_far(object), cause)
}

#[cfg(test)]
mod tests;

use std::any::Any;
use std::ops::{Deref, DerefMut};

use everynode_apiserver::registry as apiserver;
use everynode_core::api::Timestamp;

use crate::json::Value;
use crate::kinds::{self, NAMESPACE, POD};
use crate::status::Status;
use crate::store::{Options, Store, WriteOptions};
use crate::value::text;

use admission::Admission;

pub(crate) use apiserver::{Apply, Replacement, Writer};
pub use apiserver::{CLEANUP, Endpoint, FOREGROUND, ORPHAN, Patch};
pub(crate) use disruption::DueBudget;

/// The namespaces that every cluster has from the start.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// A store that is written by Kubernetes' rules. Clients and the simulated components use the same
/// methods.
#[derive(Debug)]
pub struct Registry(apiserver::Registry);

impl Registry {
    /// Makes a store with the namespaces that every cluster has.
    pub fn new(options: &Options, now: Timestamp) -> Self {
        let store = Store::new(kinds::built_in(), options);
        let mut registry = Self(apiserver::Registry::new(store, Box::new(Admission::new())));
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

    fn admission(&self) -> &Admission {
        let plugins: &dyn Any = self.plugins();
        plugins.downcast_ref().expect("it was made with these plugins")
    }

    fn admission_mut(&mut self) -> (&mut Admission, &Store) {
        let (plugins, store) = self.plugins_mut();
        let plugins: &mut dyn Any = plugins;
        (plugins.downcast_mut().expect("it was made with these plugins"), store)
    }
}

impl Deref for Registry {
    type Target = apiserver::Registry;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Registry {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
