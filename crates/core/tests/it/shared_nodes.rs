//! Several DaemonSets share nodes that join and leave: numbers are reused and never mixed up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use everynode_core::api::{DaemonSet, NodeName, Pod, Timestamp};
use everynode_core::daemon_set::{Config, DaemonSetState};
use everynode_core::node_table::NodeTable;
use everynode_core::plan::{Outcome, Watermarks, Write, WriteResult};
use proptest::prelude::*;

use crate::support::{daemon_set, node, pod, revision};

const NAMES: u8 = 12;
const START: Timestamp = Timestamp(1_000_000);
/// Time between two plans: longer than creations are delayed after other clients have deleted
/// pods (C23).
const STEP: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug)]
enum Step {
    AddNode(u8),
    DeleteNode(u8),
    AddPod { of: bool, on: u8 },
    DeletePod { of: bool, on: u8 },
    Plan,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..NAMES).prop_map(Step::AddNode),
        3 => (0..NAMES).prop_map(Step::DeleteNode),
        3 => (any::<bool>(), 0..NAMES).prop_map(|(of, on)| Step::AddPod { of, on }),
        3 => (any::<bool>(), 0..NAMES).prop_map(|(of, on)| Step::DeletePod { of, on }),
        1 => Just(Step::Plan),
    ]
}

struct Pair {
    nodes: NodeTable,
    states: [DaemonSetState; 2],
    pods: BTreeMap<(bool, u8), Pod>,
    now: Timestamp,
}

impl Pair {
    fn new() -> Self {
        let nodes = NodeTable::default();
        let states = ["first", "second"].map(|uid| {
            let daemon_set = DaemonSet { uid: uid.into(), ..daemon_set() };
            let mut state = DaemonSetState::new(Config::default(), daemon_set, &nodes);
            let mut revision = revision("current", "A", 1);
            revision.controller = Some(uid.into());
            state.apply_revision(revision);
            state
        });
        Self { nodes, states, pods: BTreeMap::new(), now: START }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::AddNode(number) => {
                if let Some(id) = self.nodes.apply(node(&name(number))) {
                    self.states.iter_mut().for_each(|state| {
                        state.apply_node(id, &self.nodes);
                    });
                }
            }
            Step::DeleteNode(number) => {
                if let Some(id) = self.nodes.delete(&name(number).into()) {
                    self.states.iter_mut().for_each(|state| {
                        state.apply_node(id, &self.nodes);
                    });
                    self.nodes.collect(id);
                }
            }
            Step::AddPod { of, on } => {
                let mut pod = pod(&format!("{of}-{on}"), &name(on));
                pod.controller = Some(if of { "second" } else { "first" }.into());
                self.states[usize::from(of)].apply_pod(&pod, &mut self.nodes);
                self.pods.insert((of, on), pod);
            }
            Step::DeletePod { of, on } => {
                if let Some(pod) = self.pods.remove(&(of, on)) {
                    self.states[usize::from(of)].delete_pod(&pod, &mut self.nodes);
                }
            }
            Step::Plan => self.check(),
        }
    }

    /// Checks that each DaemonSet plans pods exactly on the nodes that exist and have none of its
    /// pods.
    fn check(&mut self) {
        self.now = self.now + STEP;
        let existing: BTreeSet<NodeName> =
            self.nodes.iter().map(|(_, node)| node.name.clone()).collect();
        for (of, state) in [false, true].into_iter().zip(&mut self.states) {
            let plan = state.plan(self.now, &Watermarks::default(), &self.nodes);
            assert!(state.is_consistent(self.now, &self.nodes));
            let has = |name: &NodeName| {
                self.pods
                    .iter()
                    .any(|((owner, _), pod)| *owner == of && pod.target_node_name() == Some(name))
            };
            let wanted: BTreeSet<NodeName> =
                existing.iter().filter(|name| !has(name)).cloned().collect();
            let mut created = BTreeSet::new();
            for write in plan.writes {
                if let Write::CreatePod(pod) = &write {
                    created.insert(pod.node.clone());
                }
                let outcome = Outcome::Failed { message: "not executed".to_owned() };
                state.apply_result(WriteResult { write, outcome }, self.now);
            }
            assert_eq!(created, wanted);
        }
    }
}

fn name(number: u8) -> String {
    format!("node-{number}")
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// C16, C80: a node that reuses the number of another gets none of its state, in any DaemonSet.
    #[test]
    fn numbers_of_nodes_are_never_mixed_up(steps in prop::collection::vec(step(), 1..200)) {
        let mut pair = Pair::new();
        for step in steps {
            pair.apply(step);
        }
        pair.check();
        for number in 0..NAMES {
            pair.apply(Step::DeleteNode(number));
            pair.apply(Step::DeletePod { of: false, on: number });
            pair.apply(Step::DeletePod { of: true, on: number });
        }
        pair.check();
        prop_assert!((0..NAMES).all(|number| pair.nodes.id(&name(number).into()).is_none()));
    }
}
