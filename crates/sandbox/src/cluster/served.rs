//! The cluster as its API server sees it.

use everynode_apiserver::http;
use everynode_apiserver::registry::Registry;
use everynode_core::api::Timestamp;

use super::Cluster;
use crate::authorization::{self, Attributes, Decision, PolicyRule, User, escalation};
use crate::json::Value;
use crate::kind::Kind;
use crate::object::Object;
use crate::status::Status;
use crate::store::WriteOptions;

impl http::Cluster for Cluster {
    fn registry(&self) -> &Registry {
        &self.registry
    }

    fn registry_mut(&mut self) -> &mut Registry {
        &mut self.registry
    }

    fn step(&mut self, now: Timestamp, items_max: usize) -> Option<Timestamp> {
        self.step(now, items_max)
    }

    fn authorize(&self, user: &User, request: &Attributes<'_>) -> Decision {
        authorization::authorize(self.store(), user, request)
    }

    fn rules(&self, user: &User, namespace: &str) -> Vec<PolicyRule> {
        authorization::rules(self.store(), user, namespace)
    }

    fn check_grant(
        &self,
        user: &User,
        kind: &Kind,
        namespace: &str,
        object: &Value,
        current: Option<&Object>,
    ) -> Result<(), Status> {
        escalation::check(self.store(), user, kind, namespace, object, current)
    }

    fn bind(
        &mut self,
        namespace: &str,
        name: &str,
        binding: &Value,
        options: &WriteOptions,
    ) -> Result<(), Status> {
        self.registry.bind(namespace, name, binding, options)
    }

    fn evict(
        &mut self,
        namespace: &str,
        name: &str,
        eviction: &Value,
        options: &WriteOptions,
    ) -> Result<(), Status> {
        self.registry.evict(namespace, name, eviction, options)
    }
}
