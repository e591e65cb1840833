//! The inputs of a core as data: recorded in a cluster, replayed without one.

use std::time::Duration;

use everynode_core::api::{DaemonSet, Node, Pod, Revision, Timestamp};
use everynode_core::daemon_set::{Config, DaemonSetState, NodeCounts};
use everynode_core::node_table::NodeTable;
use everynode_core::plan::{Plan, Watermarks, WriteResult};

pub(crate) enum Input {
    Node(Node),
    DaemonSet(Box<DaemonSet>),
    Pod(Pod),
    PodGone(Pod),
    Revision(Revision),
    Written(WriteResult),
}

/// An input, with the time and the watermarks at which it arrives.
pub(crate) struct Step {
    pub input: Input,
    pub now: Timestamp,
    pub watermarks: Watermarks,
}

#[derive(Default)]
pub(crate) struct Recording {
    pub inputs: Vec<Step>,
    /// Number of writes in the plans.
    pub writes: usize,
    /// Maximum time of one input with its plan.
    pub longest: Duration,
}

/// The core of one DaemonSet.
pub(crate) struct Core {
    pub nodes: NodeTable,
    pub state: DaemonSetState,
}

impl Core {
    pub(crate) fn new(daemon_set: &DaemonSet) -> Core {
        let nodes = NodeTable::default();
        let state = DaemonSetState::new(Config::default(), daemon_set.clone(), &nodes);
        Core { nodes, state }
    }

    pub(crate) fn counts(&self) -> NodeCounts {
        *self.state.counts()
    }

    /// Applies one input, and plans if anything changed.
    pub(crate) fn step(&mut self, step: Step) -> Option<Plan> {
        let Step { input, now, watermarks } = step;
        let Core { nodes, state } = self;
        let changed = match input {
            Input::Node(node) => {
                let id = nodes.apply(node);
                id.is_some_and(|id| state.apply_node(id, nodes))
            }
            Input::DaemonSet(daemon_set) => state.apply_daemon_set(*daemon_set, nodes),
            Input::Pod(pod) => state.apply_pod(&pod, nodes),
            Input::PodGone(pod) => state.delete_pod(&pod, nodes),
            Input::Revision(revision) => state.apply_revision(revision),
            Input::Written(result) => {
                state.apply_result(result, now);
                true
            }
        };
        changed.then(|| state.plan(now, &watermarks, nodes))
    }
}

/// Applies recorded inputs.
pub(crate) fn replay(core: &mut Core, steps: Vec<Step>) {
    for step in steps {
        std::hint::black_box(core.step(step));
    }
}

/// The same in a separate function: callgrind selects functions by name.
#[inline(never)]
pub(crate) fn counted_replay(core: &mut Core, steps: Vec<Step>) {
    replay(core, steps);
}
