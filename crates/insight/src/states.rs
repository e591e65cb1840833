//! Numbers of nodes of a guarded rollout by their state, as text and as JSON.

use std::borrow::Cow;
use std::fmt;

use everynode_core::daemon_set::StateCounts;
use everynode_k8s::policy_status::NodesByState;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

/// Numbers of nodes by their state. Their JSON form is [`NodesByState`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct States(pub StateCounts);

impl fmt::Display for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Serialize for States {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        NodesByState::from(&self.0).serialize(to)
    }
}

impl JsonSchema for States {
    fn schema_name() -> Cow<'static, str> {
        NodesByState::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        NodesByState::json_schema(generator)
    }
}
