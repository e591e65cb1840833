//! Update strategies as text.

use everynode_core::api::UpdateStrategy;
use serde::Serializer;

/// An update strategy with the option that limits it: `OnDelete`, `RollingUpdate, maxSurge 10%`.
pub fn strategy_text(strategy: UpdateStrategy) -> String {
    match strategy {
        UpdateStrategy::OnDelete => "OnDelete".to_owned(),
        UpdateStrategy::Malformed => "malformed".to_owned(),
        UpdateStrategy::RollingUpdate { max_surge, .. } if strategy.surges() => {
            format!("RollingUpdate, maxSurge {max_surge}")
        }
        UpdateStrategy::RollingUpdate { max_unavailable, .. } => {
            format!("RollingUpdate, maxUnavailable {max_unavailable}")
        }
    }
}

pub(super) fn serialize<S: Serializer>(
    strategy: &UpdateStrategy,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&strategy_text(*strategy))
}
