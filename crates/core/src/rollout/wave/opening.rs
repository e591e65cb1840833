//! Which nodes a wave opens, in which order, and how many (G12).

use std::collections::BTreeSet;

use crate::api::{NodeName, Position, WavePosition};
use crate::node::Wave;
use crate::node_table::NodeId;

use super::{Class, Group, Holding, Waves};

/// A node that is not open, as a candidate of a wave. Smaller ones come first (G12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// It has no pod, because an earlier controller may have begun the rollout there, or somebody
    /// is asked already whether its pod may go.
    Begun,
    /// It has a failed or superseded revision, which a fix replaces first.
    BadRevision,
    /// It has an available pod, and is neither set aside nor cordoned. A pod may stay ready on a
    /// node that is down, where a canary would try nothing.
    Healthy,
    Other,
    SetAside,
    /// The target's placement removes its pod.
    Removed,
}

impl Waves {
    /// True if [`fill`](Self::fill) may open nodes.
    pub(crate) const fn must_fill(&self) -> bool {
        self.must_fill && self.position.is_some()
    }

    /// Opens nodes until each group up to the position has its size, and returns them. `rank`
    /// orders the candidates, which come in the order of their names within a rank.
    pub(crate) fn fill(
        &mut self,
        names: impl Fn(NodeId) -> NodeName,
        rank: impl Fn(&Self, NodeId) -> Rank,
    ) -> Vec<NodeId> {
        if !std::mem::take(&mut self.must_fill) {
            return Vec::new();
        }
        let Some(position) = self.position.clone() else { return Vec::new() };
        let opened = self.chosen_at(&position, names, rank);
        opened.iter().for_each(|id| self.open(*id));
        opened
    }

    /// The nodes that [`fill`](Self::fill) opens at a position.
    pub(crate) fn chosen_at(
        &self,
        position: &Position,
        names: impl Fn(NodeId) -> NodeName,
        rank: impl Fn(&Self, NodeId) -> Rank,
    ) -> Vec<NodeId> {
        if *position == Position::AllNodes {
            return self.candidates(None).collect();
        }
        let sizes = self.steps.sized().map(|(step, value, number)| {
            let members = self.steps.groups[number].members;
            (number, self.steps.size_at(position, step, value, members))
        });
        let short = sizes.filter(|(number, size)| self.steps.groups[*number].open.total() < *size);
        let mut chosen = BTreeSet::new();
        // A node that was just chosen may be one of another group, too.
        let mut added = vec![0; self.steps.groups.len()];
        for (number, size) in short {
            let open = self.steps.groups[number].open.total() + added[number];
            let missing = size.saturating_sub(open);
            if missing == 0 {
                continue;
            }
            let candidates = self.candidates(Some(number)).filter(|id| !chosen.contains(id));
            let mut candidates: Vec<NodeId> = candidates.collect();
            if missing < candidates.len() {
                let has_target = |id: NodeId| self.nodes[id.index()].holding == Holding::Target;
                candidates.sort_by_cached_key(|id| (!has_target(*id), rank(self, *id), names(*id)));
            }
            candidates.truncate(missing);
            for id in &candidates {
                let groups = &self.steps.classes[self.nodes[id.index()].class].groups;
                groups.iter().for_each(|group| added[*group] += 1);
            }
            chosen.extend(candidates);
        }
        chosen.into_iter().collect()
    }

    /// True if this position is that of all nodes, and all are open already: nothing begins then,
    /// and only the end of the rollout is awaited (G5).
    pub(crate) fn opens_none(&self, position: &Position) -> bool {
        *position == Position::AllNodes && self.all.open.total() == self.all.members
    }

    /// The nodes of a group, or all, that are neither open nor held.
    fn candidates(&self, group: Option<usize>) -> impl Iterator<Item = NodeId> {
        let is_in = move |class: &&Class| group.is_none_or(|group| class.is_of(group));
        self.steps.classes.iter().filter(is_in).flat_map(|class| class.closed.iter().copied())
    }

    fn open(&mut self, id: NodeId) {
        self.change(id, |node| node.wave = Wave::Open);
    }

    /// How many nodes of its group, `of`, are open at this position.
    pub(super) fn size(&self, position: &Position, of: &Group) -> usize {
        match position {
            Position::Wave(wave) if self.steps.is_each(wave.step) => {
                self.sizes(position).map(|(_, size)| size).sum()
            }
            Position::Wave(WavePosition { step, group, .. }) => {
                self.steps.size_at(position, *step, group, of.members)
            }
            Position::AllNodes => self.all.members,
        }
    }

    /// The groups that have a size of their own at this position, and their sizes.
    pub(super) fn sizes<'a>(
        &'a self,
        position: &'a Position,
    ) -> impl Iterator<Item = (&'a Group, usize)> + 'a {
        let all = (*position == Position::AllNodes).then_some((&self.all, self.all.members));
        let wave = match position {
            Position::AllNodes => None,
            Position::Wave(wave) => Some(wave),
        };
        let of_wave = wave.into_iter().flat_map(move |wave| {
            let size =
                |group: &Group| self.steps.size_at(position, wave.step, &wave.group, group.members);
            self.steps.sized_in(wave).map(move |group| (group, size(group)))
        });
        all.into_iter().chain(of_wave)
    }
}
