//! A plan in the making, within the limits of one sync (C28).

use std::collections::BTreeSet;

use crate::api::{NodeName, Timestamp};
use crate::nodes::NodeId;
use crate::plan::{NewPod, Plan, Write};

use super::slot::PodView;

pub(super) struct Draft {
    pub plan: Plan,
    /// The nodes that lose a pod by this plan already.
    pub touched: BTreeSet<NodeId>,
    /// When the status may be written that was written too recently.
    pub status_due_at: Option<Timestamp>,
    creations_left: usize,
    deletions_left: usize,
    patches_left: usize,
}

impl Draft {
    pub fn new(burst_replicas: usize) -> Self {
        Self {
            plan: Plan::default(),
            touched: BTreeSet::new(),
            status_due_at: None,
            creations_left: burst_replicas,
            deletions_left: burst_replicas,
            patches_left: burst_replicas,
        }
    }

    pub const fn hold_creations(&mut self) {
        self.creations_left = 0;
    }

    pub const fn creations_left(&self) -> usize {
        self.creations_left
    }

    pub const fn may_delete(&self) -> bool {
        self.deletions_left > 0
    }

    /// Creates a pod if the limit allows it.
    pub fn create(&mut self, pod: NewPod) {
        if let Some(left) = self.creations_left.checked_sub(1) {
            self.creations_left = left;
            self.plan.writes.push(Write::CreatePod(pod));
        }
    }

    /// Deletes a pod if the limit allows it, and returns whether it does.
    pub fn delete(&mut self, name: &NodeName, id: NodeId, pod: &PodView) -> bool {
        let Some(left) = self.deletions_left.checked_sub(1) else { return false };
        self.deletions_left = left;
        self.touched.insert(id);
        self.plan.writes.push(Write::DeletePod(pod.reference(Some(name))));
        true
    }

    /// Changes a pod or a revision if the limit allows it.
    pub fn patch(&mut self, write: Write) {
        if let Some(left) = self.patches_left.checked_sub(1) {
            self.patches_left = left;
            self.plan.writes.push(write);
        }
    }

    pub fn write(&mut self, write: Write) {
        self.plan.writes.push(write);
    }
}
