//! The core's state of one DaemonSet, as a controller has it after it has read a snapshot.

use everynode_core::api::{DaemonSet, Revision};
use everynode_core::daemon_set::{Clocks, Config, DaemonSetState, Mode};
use everynode_core::node_table::NodeTable;

use crate::snapshot::Snapshot;

/// The core's state of one DaemonSet, and the nodes that it refers to.
pub(crate) struct ControllerState {
    pub(crate) nodes: NodeTable,
    pub(crate) state: DaemonSetState,
}

impl ControllerState {
    /// Reads the snapshot's nodes, revisions and pods. `daemon_set` may differ from the snapshot's:
    /// a forecast passes the object as it will be.
    pub(crate) fn new(snapshot: &Snapshot, daemon_set: DaemonSet) -> Self {
        Self::with(snapshot, daemon_set, Revision::clone)
    }

    /// The same with revisions that differ from the snapshot's.
    pub(crate) fn with(
        snapshot: &Snapshot,
        daemon_set: DaemonSet,
        revision_of: impl Fn(&Revision) -> Revision,
    ) -> Self {
        let mut nodes = NodeTable::default();
        for detail in snapshot.nodes.values() {
            nodes.apply(detail.node.clone());
        }
        let namespace = daemon_set.key.namespace.clone();
        let mode = match snapshot.is_not_guarded(&daemon_set) {
            true => Mode::Unguarded,
            false => Mode::Controller,
        };
        let may_override = snapshot.may_override();
        let config = Config { mode, clocks: Clocks::Stated, may_override, ..Config::default() };
        let mut state = DaemonSetState::new(config, daemon_set, &nodes);
        if snapshot.honors_namespace_node_selectors
            && let Some(selector) = snapshot.namespace_node_selectors.get(&namespace)
        {
            state.apply_namespace_node_selector(selector.clone().into(), &nodes);
        }
        for ((_, _), revision) in snapshot.revisions.iter().filter(|((of, _), _)| *of == namespace)
        {
            state.apply_revision(revision_of(revision));
        }
        for detail in snapshot.in_namespace(&namespace) {
            state.apply_pod(&detail.pod, &mut nodes);
            if !detail.pod.readiness.is_ready() {
                state.record_not_ready_since(&detail.pod, detail.not_ready_since, &nodes);
            }
        }
        Self { nodes, state }
    }
}
