//! The content of a rollout's target, and whether nodes have it.

use std::sync::Arc;

use super::RolloutInput;

/// The content of the target: rollouts of equal ones are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The canonical text of its template.
    template: Arc<str>,
    /// The text of its overrides (G57).
    overrides: Option<Arc<str>>,
    /// The text of its copies of ConfigMaps (G58).
    copies: Option<Arc<str>>,
}

impl Target {
    pub(crate) fn new(input: &RolloutInput<'_>) -> Self {
        let template = input.daemon_set.template.canonical.clone();
        let overrides = input.revisions().overrides;
        let copies = overrides.as_ref().and_then(|it| Some(it.copies.as_ref()?.text.clone()));
        let overrides = overrides.map(|it| it.text.clone()).filter(|text| !text.is_empty());
        Self { template, overrides, copies }
    }
}
