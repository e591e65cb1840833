//! Which nodes a wave opens, and in which order (G12).

use crate::api::{NodeName, Position};
use crate::node::Wave;
use crate::node_table::NodeId;

use super::{Class, Holding, Waves};

/// A node that is not open, as a candidate of a wave. Smaller ones come first (G12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// It has no pod, because an earlier controller may have begun the rollout there.
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
        let mut opened = Vec::new();
        if position == Position::AllNodes {
            opened.extend(self.candidates(None));
            opened.iter().for_each(|id| self.open(*id));
            return opened;
        }
        let sizes = self.sized().map(|(step, value, number)| {
            let members = self.groups[number].members;
            (number, self.size_at(&position, step, value, members))
        });
        let short = sizes.filter(|(number, size)| self.groups[*number].open.total() < *size);
        for (number, size) in short.collect::<Vec<_>>() {
            // A node that was just opened may be one of this group, too.
            let missing = size.saturating_sub(self.groups[number].open.total());
            if missing == 0 {
                continue;
            }
            let mut candidates: Vec<NodeId> = self.candidates(Some(number)).collect();
            if missing < candidates.len() {
                let has_target = |id: NodeId| self.nodes[id.index()].holding == Holding::Target;
                candidates.sort_by_cached_key(|id| (!has_target(*id), rank(self, *id), names(*id)));
            }
            candidates.truncate(missing);
            candidates.iter().for_each(|id| self.open(*id));
            opened.extend(candidates);
        }
        opened
    }

    /// The nodes of a group, or all, that are neither open nor held.
    fn candidates(&self, group: Option<usize>) -> impl Iterator<Item = NodeId> {
        let is_in = move |class: &&Class| group.is_none_or(|group| class.is_of(group));
        self.classes.iter().filter(is_in).flat_map(|class| class.closed.iter().copied())
    }

    fn open(&mut self, id: NodeId) {
        self.change(id, |node| node.wave = Wave::Open);
    }
}
