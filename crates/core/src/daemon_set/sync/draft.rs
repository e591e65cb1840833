//! A plan under construction, within the limits of one sync (C28).

use std::collections::BTreeSet;

use std::time::Duration;

use crate::api::{NodeName, PodPhase, Timestamp};
use crate::node::PodView;
use crate::node_table::NodeId;
use crate::plan::{NewChange, NewPod, NewPuller, Notice, Plan, Write};
use crate::rollout::Pace;

/// A plan under construction. Creations, deletions and patches each have the limit
/// `burst_replicas`.
pub(in crate::daemon_set) struct Draft {
    pub plan: Plan,
    /// Nodes on which the plan deletes a pod, or begins to change one.
    pub touched: BTreeSet<NodeId>,
    /// The pods that the plan deletes because they have ended: each deletion lengthens the back-off
    /// of the node (C24).
    pub ended: Vec<(NodeId, PodView)>,
    /// Nodes on which the plan begins the rollout, if its policy limits the pace.
    pub begun: Vec<NodeName>,
    /// When a write that was delayed is due.
    pub delayed_until: Option<Timestamp>,
    /// Number of nodes on which it begins and that do not count yet.
    new_starts: usize,
    /// True if a node must wait because of the pace.
    is_slowed_down: bool,
    creations_left: usize,
    deletions_left: usize,
    patches_left: usize,
}

impl Draft {
    pub(crate) fn new(burst_replicas: usize) -> Self {
        Self {
            plan: Plan::default(),
            touched: BTreeSet::new(),
            ended: Vec::new(),
            begun: Vec::new(),
            new_starts: 0,
            is_slowed_down: false,
            delayed_until: None,
            creations_left: burst_replicas,
            deletions_left: burst_replicas,
            patches_left: burst_replicas,
        }
    }

    /// Lets the plan create no pod.
    pub(crate) const fn suspend_creations(&mut self) {
        self.creations_left = 0;
    }

    /// Number of pods that the plan may still create.
    pub(crate) const fn creations_left(&self) -> usize {
        self.creations_left
    }

    /// True if the plan may delete one more pod.
    pub(crate) const fn may_delete(&self) -> bool {
        self.deletions_left > 0
    }

    /// Creates a pod if the limit allows it.
    pub(crate) fn create(&mut self, pod: NewPod) {
        if let Some(left) = self.creations_left.checked_sub(1) {
            self.creations_left = left;
            self.plan.writes.push(Write::CreatePod(pod));
        }
    }

    /// Creates a puller if the limit of creations allows it.
    pub(crate) fn create_puller(&mut self, puller: NewPuller) {
        if let Some(left) = self.creations_left.checked_sub(1) {
            self.creations_left = left;
            self.plan.writes.push(Write::PullImages(puller));
        }
    }

    /// Deletes a pod if the limit allows it; returns whether it did.
    pub(crate) fn delete(&mut self, name: &NodeName, id: NodeId, pod: &PodView) -> bool {
        let Some(left) = self.deletions_left.checked_sub(1) else { return false };
        self.deletions_left = left;
        self.touched.insert(id);
        self.plan.writes.push(Write::DeletePod(pod.reference(Some(name))));
        true
    }

    /// Changes an old pod in place if the limit of deletions, which it replaces, allows it; returns
    /// whether it did.
    pub(crate) fn change(&mut self, id: NodeId, change: NewChange) -> bool {
        let Some(left) = self.deletions_left.checked_sub(1) else { return false };
        self.deletions_left = left;
        self.touched.insert(id);
        self.plan.writes.push(Write::ChangePod(change));
        true
    }

    /// Changes a pod or a revision if the limit allows it.
    pub(crate) fn patch(&mut self, write: Write) {
        if let Some(left) = self.patches_left.checked_sub(1) {
            self.patches_left = left;
            self.plan.writes.push(write);
        }
    }

    /// True if the rollout may begin on the node by its pace. If the node must wait, asks for
    /// another plan when it may be its turn.
    pub(crate) fn may_begin(&mut self, node: &NodeName, pace: Option<&Pace>) -> bool {
        let Some(pace) = pace else { return true };
        let may_begin = pace.admits(node, self.new_starts);
        if !may_begin && !std::mem::replace(&mut self.is_slowed_down, true) {
            let at = pace.next_at(node, self.new_starts);
            at.into_iter().for_each(|at| self.requeue(at));
        }
        may_begin
    }

    /// Records that the plan begins the rollout on the node, if its policy limits the pace.
    pub(crate) fn begin(&mut self, node: &NodeName, pace: Option<&Pace>) {
        if let Some(pace) = pace {
            self.new_starts += usize::from(!pace.counts(node));
            self.begun.push(node.clone());
        }
    }

    /// Asks for another plan at this time, because a write was delayed until then.
    pub(crate) fn requeue(&mut self, at: Timestamp) {
        self.delayed_until = self.delayed_until.into_iter().chain([at]).min();
    }

    /// Adds a write that has no limit.
    pub(crate) fn write(&mut self, write: Write) {
        self.plan.writes.push(write);
    }
}

/// The event for a pod that is deleted because it has ended (C24).
pub(in crate::daemon_set) fn notice_of_end(
    pod: &PodView,
    node: &NodeName,
    delay: Duration,
) -> Notice {
    let (pod_name, node) = (pod.name.clone(), node.clone());
    match pod.phase {
        PodPhase::Failed => Notice::FailedDaemonPod { pod: pod_name, node, delay },
        PodPhase::Succeeded | PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => {
            Notice::SucceededDaemonPod { pod: pod_name, node, delay }
        }
    }
}
