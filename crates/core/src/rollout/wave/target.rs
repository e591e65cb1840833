//! The content of a rollout's target.

use std::sync::Arc;

use crate::api::Overrides;

use super::RolloutInput;

/// The content of the target: rollouts of equal ones are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// The canonical text of its template.
    template: Arc<str>,
    /// Its overrides (G57).
    overrides: Option<Arc<Overrides>>,
}

impl Target {
    pub(crate) fn new(input: &RolloutInput<'_>) -> Self {
        let template = input.daemon_set.template.canonical.clone();
        Self { template, overrides: input.revisions().overrides }
    }
}
