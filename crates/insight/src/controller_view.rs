//! A DaemonSet as the controller sees it at one moment, with the plan that it would execute.

use std::collections::BTreeMap;
use std::sync::Arc;

use everynode_core::api::{
    DaemonSet, NodeName, RecordState, ResourceVersion, Revision, RolloutPhase, Timestamp, Uid,
};
use everynode_core::daemon_set::{
    Inspection, NodeCounts, NodeStanding, RolloutStatus, WaveStanding,
};
use everynode_core::placement::Reason;
use everynode_core::plan::{Plan, Watermarks};

use crate::controller_state::ControllerState;
use crate::snapshot::{ObjectKind, PodDetail, Snapshot};

/// One DaemonSet of a snapshot with the controller's state and plan at `now`.
pub(crate) struct ControllerView<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) now: Timestamp,
    /// The plan of the controller at `now`.
    pub(crate) plan: Plan,
    controller: ControllerState,
    pods: BTreeMap<Uid, &'a PodDetail>,
}

impl<'a> ControllerView<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, daemon_set: DaemonSet, now: Timestamp) -> Self {
        Self::of(snapshot, ControllerState::new(snapshot, daemon_set), now)
    }

    /// The view of a failed rollout as if it were under way. The controller counts no nodes of a
    /// rollout that is over, but people look for those that failed.
    pub(crate) fn under_way(snapshot: &'a Snapshot, daemon_set: DaemonSet, now: Timestamp) -> Self {
        let resumed = |revision: &Revision| {
            let mut revision = revision.clone();
            if let RecordState::Stored(record) = &mut revision.record
                && record.phase == RolloutPhase::Failed
            {
                Arc::make_mut(record).phase = RolloutPhase::Updating;
            }
            revision
        };
        Self::of(snapshot, ControllerState::with(snapshot, daemon_set, resumed), now)
    }

    fn of(snapshot: &'a Snapshot, mut controller: ControllerState, now: Timestamp) -> Self {
        let namespace = controller.state.daemon_set().key.namespace.clone();
        let pullers = snapshot.pullers.values();
        let of_daemon_set = pullers.filter(|puller| controller.state.concerns_puller(puller));
        let of_daemon_set: Vec<_> = of_daemon_set.collect();
        controller.state.reset_pullers(of_daemon_set, &controller.nodes);
        let plan = controller.state.plan(now, &Watermarks::default(), &controller.nodes);
        let pods = snapshot.in_namespace(&namespace);
        let pods = pods.map(|detail| (detail.pod.uid.clone(), detail)).collect();
        Self { snapshot, now, plan, controller, pods }
    }

    pub(crate) fn daemon_set(&self) -> &DaemonSet {
        self.controller.state.daemon_set()
    }

    pub(crate) fn tally(&self) -> &NodeCounts {
        self.controller.state.counts()
    }

    /// Where a guarded or paused rollout is.
    pub(crate) fn rollout_status(&self) -> Option<RolloutStatus> {
        self.controller.state.rollout_status()
    }

    /// The waves of a guarded rollout, and its nodes; empty without a valid policy.
    pub(crate) fn standings(&self) -> (Vec<WaveStanding>, Vec<NodeStanding>) {
        self.controller.state.standings(&self.controller.nodes)
    }

    /// The number of nodes that use the rolling update's budget.
    pub(crate) fn budget_used(&self) -> usize {
        self.controller.state.budget_used()
    }

    /// The core's assessment of a node of the snapshot.
    pub(crate) fn inspect(&self, node: &NodeName) -> Inspection {
        let id = self.controller.nodes.id(node).expect("it is one of the snapshot's nodes");
        self.controller.state.inspect(id, self.now, &self.controller.nodes)
    }

    /// Every reason against a pod on a node of the snapshot.
    pub(crate) fn reasons_against(&self, node: &NodeName) -> Vec<Reason<'_>> {
        let id = self.controller.nodes.id(node).expect("it is one of the snapshot's nodes");
        self.controller.state.reasons_against(id, &self.controller.nodes)
    }

    pub(crate) fn pod(&self, uid: &Uid) -> Option<&'a PodDetail> {
        self.pods.get(uid).copied()
    }

    /// True if the objects of this kind were read.
    pub(crate) fn has_read(&self, kind: ObjectKind) -> bool {
        !self.snapshot.unread.contains(&kind)
    }

    /// True if pods can be assigned to revisions.
    pub(crate) fn knows_revisions_of_pods(&self) -> bool {
        self.has_read(ObjectKind::Pod) && self.has_read(ObjectKind::ControllerRevision)
    }

    /// True if the object comes from an API server, and not from a manifest only.
    pub(crate) fn is_applied(&self) -> bool {
        self.daemon_set().resource_version > ResourceVersion(0)
    }

    /// True if some nodes have a pod of an older revision where the current one belongs.
    pub(crate) fn is_rolling(&self) -> bool {
        self.knows_revisions_of_pods() && self.tally().updated < self.tally().current
    }
}
