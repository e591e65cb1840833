//! The nodes that need a write, by kind of write, in the order of their names (C55).

use std::collections::BTreeMap;

use crate::api::NodeName;
use crate::node::{NodeAssessment, Step, Work};
use crate::node_table::NodeId;

/// Nodes in the order of their names.
pub(in crate::daemon_set) type NodeSet = BTreeMap<NodeName, NodeId>;

/// One set of nodes for each kind of write. A node is in the set of its [`Step`] and may be in any
/// of the first six.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::daemon_set) struct WorkSets {
    pub needs_pod: NodeSet,
    pub has_surplus: NodeSet,
    pub has_ended: NodeSet,
    pub has_orphans: NodeSet,
    pub tells: NodeSet,
    pub changes: NodeSet,
    pub replace_now: NodeSet,
    pub replace: NodeSet,
    pub surge_now: NodeSet,
    pub surge: NodeSet,
    pub delete_old: NodeSet,
    pub delete_agreed: NodeSet,
    pub override_now: NodeSet,
    pub r#override: NodeSet,
}

impl WorkSets {
    /// Moves a node between the sets when its assessment changes from `old` to `new`.
    pub(crate) fn update(
        &mut self,
        name: &NodeName,
        id: NodeId,
        old: &NodeAssessment,
        new: &NodeAssessment,
    ) {
        let changed = old.work ^ new.work;
        let sets = [
            (&mut self.needs_pod, Work::CREATE),
            (&mut self.has_surplus, Work::DELETE_SURPLUS),
            (&mut self.has_ended, Work::DELETE_ENDED),
            (&mut self.has_orphans, Work::ADOPT),
            (&mut self.tells, Work::TELL),
            (&mut self.changes, Work::CHANGE),
        ];
        for (set, work) in sets.into_iter().filter(|(_, work)| changed.contains(*work)) {
            if new.work.contains(work) {
                set.insert(name.clone(), id);
            } else {
                set.remove(name);
            }
        }
        if old.step != new.step {
            self.set_of_step(old.step).map(|set| set.remove(name));
            self.set_of_step(new.step).map(|set| set.insert(name.clone(), id));
        }
    }

    /// True if a pod is to get another override in place (G57).
    pub(crate) fn awaits_overrides(&self) -> bool {
        !self.override_now.is_empty() || !self.r#override.is_empty()
    }

    fn set_of_step(&mut self, step: Step) -> Option<&mut NodeSet> {
        match step {
            Step::None => None,
            Step::ReplaceNow => Some(&mut self.replace_now),
            Step::Replace => Some(&mut self.replace),
            Step::SurgeNow => Some(&mut self.surge_now),
            Step::Surge => Some(&mut self.surge),
            Step::DeleteOld => Some(&mut self.delete_old),
            Step::DeleteAgreed => Some(&mut self.delete_agreed),
            Step::OverrideNow => Some(&mut self.override_now),
            Step::Override => Some(&mut self.r#override),
        }
    }
}
