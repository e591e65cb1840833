//! Every wave and every node of a rollout, for reports (G32). No decision reads this.

use std::iter;

use crate::api::{NodeName, Position, WaveName};
use crate::node::{NodeState, SetAside};
use crate::node_table::{NodeId, NodeTable};

use super::group::Member;
use super::{NodeWaves, StateCounts, Waves};

/// A wave of a guarded rollout, and its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaveStanding {
    /// Where the rollout is at this wave.
    pub position: Position,
    /// Its name. `None` after the last step: all other nodes.
    pub name: Option<WaveName>,
    /// The number of nodes that have the new template at its end: of the step's nodes with the
    /// wave's label, or after the last step of all nodes.
    pub nodes: usize,
    /// These nodes by their state. `None` if later waves have opened more nodes of the same group:
    /// which of them were the wave's is not known.
    pub states: Option<StateCounts>,
}

/// A node of a guarded rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStanding {
    /// Its name.
    pub node: NodeName,
    /// Its state.
    pub state: NodeState,
    /// The wave at whose end it has the new template at the latest. `None` if only the wave of all
    /// other nodes is sure to have it.
    pub wave: Option<WaveName>,
}

impl Waves {
    /// All waves, in their order. The last one is that of all other nodes, if there are any.
    pub(crate) fn waves(&self) -> Vec<WaveStanding> {
        let behind = |position: &Position| Some(self.steps.after(position));
        let of_steps = iter::successors(Some(self.steps.first()), behind)
            .take_while(|position| *position != Position::AllNodes);
        let mut waves: Vec<_> = of_steps.map(|position| self.wave_at(position)).collect();
        if waves.is_empty() || self.steps.has_other_nodes() {
            waves.push(self.wave_at(Position::AllNodes));
        }
        waves
    }

    fn wave_at(&self, position: Position) -> WaveStanding {
        let size = self.size(&position, self.group(&position));
        let states = self.states_at(&position);
        let is_shared = states.total() > size && self.position() != Some(&position);
        let nodes = if is_shared { size } else { states.total() };
        let states = (!is_shared).then_some(states);
        WaveStanding { name: self.steps.name(&position), position, nodes, states }
    }

    /// The nodes that the rollout concerns, by their number.
    pub(crate) fn standings(&self, nodes: &NodeTable) -> Vec<NodeStanding> {
        let whole_at = self.steps.whole_at();
        let all = (0..).map(NodeId::from_index).zip(&self.nodes);
        let standing = |(id, node): (NodeId, &NodeWaves)| {
            // As they are counted: while its wave is closed, a node waits.
            let state = match node.counted()?.member {
                Member::Open => node.state,
                Member::Held => NodeState::SetAside(SetAside::Held),
                Member::Closed => NodeState::default(),
            };
            let groups = &self.steps.classes[node.class].groups;
            let wave = groups.iter().filter_map(|number| whole_at[*number].as_ref()).min();
            let wave = wave.and_then(|position| self.steps.name(position));
            Some(NodeStanding { node: nodes.name(id).clone(), state, wave })
        };
        all.filter_map(standing).collect()
    }
}
