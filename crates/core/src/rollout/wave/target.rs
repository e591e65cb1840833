//! The content of a rollout's target, and whether nodes have it.

use std::sync::Arc;

use super::{Holding, RolloutInput, Waves};

/// The content of the target: rollouts of equal ones are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
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

impl Waves {
    /// True if the target is everywhere already.
    pub(crate) fn is_rolled_out(&self) -> bool {
        match self.all.members {
            0 => self.has_unaffected(),
            members => self.all.updated == members,
        }
    }

    /// True if the overrides of the target leave the pod of any node as it is (G57).
    fn has_unaffected(&self) -> bool {
        self.nodes.iter().any(|node| node.holding == Holding::Unaffected)
    }

    /// The nodes that keep their pod of the target going back.
    pub(crate) const fn kept(&self) -> usize {
        self.all.kept
    }

    /// True if a node has a pod of the target that it does not keep going back.
    pub(crate) const fn has_target(&self) -> bool {
        self.all.on_target > self.all.kept
    }
}
