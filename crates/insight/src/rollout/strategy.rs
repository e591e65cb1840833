//! Update strategies as text and as JSON.

use std::borrow::Cow;
use std::fmt;

use everynode_core::api::{IntOrPercent, UpdateStrategy};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

/// An update strategy. Its text form names the option that limits it: `OnDelete`, `RollingUpdate,
/// maxSurge 10%`. Its JSON form is that of a DaemonSet's spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strategy(pub UpdateStrategy);

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            UpdateStrategy::OnDelete => f.write_str("OnDelete"),
            UpdateStrategy::Malformed => f.write_str("malformed"),
            UpdateStrategy::RollingUpdate { max_surge, .. } if self.0.surges() => {
                write!(f, "RollingUpdate, maxSurge {max_surge}")
            }
            UpdateStrategy::RollingUpdate { max_unavailable, .. } => {
                write!(f, "RollingUpdate, maxUnavailable {max_unavailable}")
            }
        }
    }
}

impl Serialize for Strategy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        StrategyDocument::from(self.0).serialize(serializer)
    }
}

impl JsonSchema for Strategy {
    fn schema_name() -> Cow<'static, str> {
        "UpdateStrategy".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        StrategyDocument::json_schema(generator)
    }
}

/// The update strategy, as in the spec of a DaemonSet.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct StrategyDocument {
    /// The type.
    #[serde(rename = "type")]
    strategy: StrategyType,
    /// The limits of a rolling update; absent with other types.
    #[serde(skip_serializing_if = "Option::is_none")]
    rolling_update: Option<RollingUpdateDocument>,
}

/// The type of an update strategy.
#[derive(Serialize, JsonSchema)]
enum StrategyType {
    /// Pods of older revisions are replaced within limits.
    RollingUpdate,
    /// Pods of older revisions stay until somebody deletes them.
    OnDelete,
    /// The field can't be read, and no pod is replaced. Kubernetes has no such type.
    Malformed,
}

/// The limits of a rolling update; one of them is 0.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RollingUpdate")]
struct RollingUpdateDocument {
    /// Maximum number of nodes with a second pod.
    max_surge: IntOrPercentDocument,
    /// Maximum number of desired nodes without an available pod.
    max_unavailable: IntOrPercentDocument,
}

/// A number, or a percentage such as `10%`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "IntOrPercent")]
enum IntOrPercentDocument {
    Int(u32),
    Percent(String),
}

impl From<UpdateStrategy> for StrategyDocument {
    fn from(strategy: UpdateStrategy) -> Self {
        match strategy {
            UpdateStrategy::OnDelete => {
                Self { strategy: StrategyType::OnDelete, rolling_update: None }
            }
            UpdateStrategy::Malformed => {
                Self { strategy: StrategyType::Malformed, rolling_update: None }
            }
            UpdateStrategy::RollingUpdate { max_unavailable, max_surge } => Self {
                strategy: StrategyType::RollingUpdate,
                rolling_update: Some(RollingUpdateDocument {
                    max_surge: max_surge.into(),
                    max_unavailable: max_unavailable.into(),
                }),
            },
        }
    }
}

impl From<IntOrPercent> for IntOrPercentDocument {
    fn from(value: IntOrPercent) -> Self {
        match value {
            IntOrPercent::Int(number) => Self::Int(number),
            IntOrPercent::Percent(_) => Self::Percent(value.to_string()),
        }
    }
}
