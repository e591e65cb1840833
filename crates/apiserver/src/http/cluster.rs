//! The cluster that a server serves.

use std::any::Any;

use everynode_core::api::Timestamp;

use crate::authorization::{Attributes, Decision, PolicyRule, User};
use crate::json::Value;
use crate::kind::Kind;
use crate::object::Object;
use crate::registry::Registry;
use crate::status::Status;
use crate::store::WriteOptions;

/// The registry of a server, the components that act on its objects, and the rules of requests that
/// depend on certain kinds.
pub trait Cluster: Any + Send {
    /// The registry, for reads.
    fn registry(&self) -> &Registry;

    /// The registry.
    fn registry_mut(&mut self) -> &mut Registry;

    /// Lets the components process up to this number of items of each sort; returns the time of the
    /// next step.
    fn step(&mut self, now: Timestamp, items_max: usize) -> Option<Timestamp>;

    /// Decides about a request.
    fn authorize(&self, user: &User, request: &Attributes<'_>) -> Decision;

    /// All rules that apply to the user in a namespace, in the order in which they are evaluated.
    fn rules(&self, user: &User, namespace: &str) -> Vec<PolicyRule>;

    /// Refuses a write after which an object grants rights that the user lacks. `current` is the
    /// object that it replaces.
    ///
    /// # Errors
    /// The refusal.
    fn check_grant(
        &self,
        user: &User,
        kind: &Kind,
        namespace: &str,
        object: &Value,
        current: Option<&Object>,
    ) -> Result<(), Status>;

    /// `pods/binding`: binds a pod to a node.
    ///
    /// # Errors
    /// The refusal.
    fn bind(
        &mut self,
        namespace: &str,
        name: &str,
        binding: &Value,
        options: &WriteOptions,
    ) -> Result<(), Status>;

    /// `pods/eviction`: deletes a pod unless a budget refuses it.
    ///
    /// # Errors
    /// The refusal.
    fn evict(
        &mut self,
        namespace: &str,
        name: &str,
        eviction: &Value,
        options: &WriteOptions,
    ) -> Result<(), Status>;
}
