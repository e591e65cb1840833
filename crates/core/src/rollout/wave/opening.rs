//! How many nodes of each group are open at a position, and which ones a wave opens, in which
//! order (G12).

use std::collections::BTreeSet;

use crate::api::{GroupValue, NodeName, Position, RolloutStep, WavePosition};
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
        let sizes = self.sized().map(|(step, value, number)| {
            let members = self.groups[number].members;
            (number, self.size_at(position, step, value, members))
        });
        let short = sizes.filter(|(number, size)| self.groups[*number].open.total() < *size);
        let mut chosen = BTreeSet::new();
        // A node that was just chosen may be one of another group, too.
        let mut added = vec![0; self.groups.len()];
        for (number, size) in short {
            let open = self.groups[number].open.total() + added[number];
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
                let groups = &self.classes[self.nodes[id.index()].class].groups;
                groups.iter().for_each(|group| added[*group] += 1);
            }
            chosen.extend(candidates);
        }
        chosen.into_iter().collect()
    }

    /// The nodes of a group, or all, that are neither open nor held.
    fn candidates(&self, group: Option<usize>) -> impl Iterator<Item = NodeId> {
        let is_in = move |class: &&Class| group.is_none_or(|group| class.is_of(group));
        self.classes.iter().filter(is_in).flat_map(|class| class.closed.iter().copied())
    }

    fn open(&mut self, id: NodeId) {
        self.change(id, |node| node.wave = Wave::Open);
    }

    /// How many nodes of its group, `of`, are open at this position.
    pub(super) fn size(&self, position: &Position, of: &Group) -> usize {
        match position {
            Position::Wave(wave) if self.is_each(wave.step) => {
                self.sizes(position).map(|(_, size)| size).sum()
            }
            Position::Wave(WavePosition { step, group, .. }) => {
                self.size_at(position, *step, group, of.members)
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
        let of_wave = wave.into_iter().flat_map(move |WavePosition { step, group, .. }| {
            let of_step = self.steps.get(*step);
            let whole = of_step.filter(|_| !self.is_each(*step));
            let whole = whole.and_then(|of_step| of_step.groups.get(group));
            let parts = of_step.into_iter().flat_map(|of_step| of_step.parts.values());
            whole.into_iter().chain(parts).map(move |number| {
                let group_at = &self.groups[*number];
                (group_at, self.size_at(position, *step, group, group_at.members))
            })
        });
        all.into_iter().chain(of_wave)
    }

    /// True if the waves of a step have a size for each value of a label.
    fn is_each(&self, step: usize) -> bool {
        self.policy.steps.get(step).is_some_and(|step| step.each.is_some())
    }

    /// The groups that have a size of their own: their step, the value of the waves, the number.
    pub(super) fn sized(&self) -> impl Iterator<Item = (usize, &GroupValue, usize)> {
        let whole = self.steps.iter().enumerate().filter(|(step, _)| !self.is_each(*step));
        let whole = whole.flat_map(|(step, of_step)| {
            of_step.groups.iter().map(move |(value, number)| (step, value, *number))
        });
        let parts = self.steps.iter().enumerate().flat_map(|(step, of_step)| {
            of_step.parts.values().map(move |number| (step, &GroupValue::Unlabelled, *number))
        });
        whole.chain(parts)
    }

    /// How many nodes of a group are open at a position.
    pub(super) fn size_at(
        &self,
        position: &Position,
        step: usize,
        value: &GroupValue,
        members: usize,
    ) -> usize {
        let Position::Wave(at) = position else { return members };
        let Some(RolloutStep { up_to: sizes, .. }) = self.policy.steps.get(step) else { return 0 };
        let size = match (step, value).cmp(&(at.step, &at.group)) {
            std::cmp::Ordering::Less => sizes.last(),
            std::cmp::Ordering::Equal => sizes.get(at.size).or(sizes.last()),
            std::cmp::Ordering::Greater => return 0,
        };
        size.map_or(0, |size| size.resolve(members).min(members))
    }
}
