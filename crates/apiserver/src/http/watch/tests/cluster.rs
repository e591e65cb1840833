//! A cluster without components and without rules of its own.

use crate::registry::{Endpoint, Plugins, Registry};
use everynode_core::api::Timestamp;

use crate::authorization::{Attributes, Decision, PolicyRule, User};
use crate::http::cluster::Cluster;
use crate::json::Value;
use crate::kind::Kind;
use crate::object::Object;
use crate::status::Status;
use crate::store::{Store, WriteOptions};

pub(super) struct Plain(pub Registry);

#[derive(Debug)]
pub(super) struct NoPlugins;

impl Cluster for Plain {
    fn registry(&self) -> &Registry {
        &self.0
    }

    fn registry_mut(&mut self) -> &mut Registry {
        &mut self.0
    }

    fn step(&mut self, _: Timestamp, _: usize) -> Option<Timestamp> {
        None
    }

    fn authorize(&self, _: &User, _: &Attributes<'_>) -> Decision {
        Decision::Refused { reason: String::new() }
    }

    fn rules(&self, _: &User, _: &str) -> Vec<PolicyRule> {
        Vec::new()
    }

    fn check_grant(
        &self,
        _: &User,
        _: &Kind,
        _: &str,
        _: &Value,
        _: Option<&Object>,
    ) -> Result<(), Status> {
        Ok(())
    }

    fn bind(&mut self, _: &str, _: &str, _: &Value, _: &WriteOptions) -> Result<(), Status> {
        Ok(())
    }

    fn evict(&mut self, _: &str, _: &str, _: &Value, _: &WriteOptions) -> Result<(), Status> {
        Ok(())
    }
}

impl Plugins for NoPlugins {
    fn check_namespace(&self, _: &Store, _: &Kind, _: &Value) -> Result<(), Status> {
        Ok(())
    }

    fn admit(&self, _: &Store, _: &Kind, _: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    fn allocate(
        &mut self,
        _: &Store,
        _: &Kind,
        _: Endpoint,
        _: &mut Value,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        Ok(())
    }

    fn committed(&mut self, _: &Store, _: &Kind) {}
}
