//! The core's state of one DaemonSet, as a controller has it that has just read a snapshot.

use everynode_core::api::DaemonSet;
use everynode_core::daemon_set::{Config, DaemonSetState};
use everynode_core::node_table::NodeTable;

use crate::snapshot::Snapshot;

pub(crate) struct Known {
    pub nodes: NodeTable,
    pub state: DaemonSetState,
}

impl Known {
    /// `daemon_set` need not be the snapshot's: it may be what it is about to become.
    pub fn new(snapshot: &Snapshot, daemon_set: DaemonSet) -> Self {
        let mut nodes = NodeTable::default();
        for detail in snapshot.nodes.values() {
            nodes.apply(detail.node.clone());
        }
        let namespace = daemon_set.key.namespace.clone();
        let mut state = DaemonSetState::new(Config::default(), daemon_set, &nodes);
        if snapshot.heeds_namespace_node_selectors
            && let Some(selector) = snapshot.namespace_node_selectors.get(&namespace)
        {
            state.apply_namespace_node_selector(selector.clone().into(), &nodes);
        }
        for ((_, _), revision) in snapshot.revisions.iter().filter(|((of, _), _)| *of == namespace)
        {
            state.apply_revision(revision.clone());
        }
        for detail in snapshot.in_namespace(&namespace) {
            state.apply_pod(&detail.pod, &mut nodes);
        }
        Self { nodes, state }
    }
}
