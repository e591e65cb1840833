//! How many nodes of each group are open at a position.

use crate::api::{GroupValue, Position, WavePosition};

use super::{Group, Waves};

impl Waves {
    /// How many nodes of its group are open at this position.
    pub(super) fn size(&self, position: &Position) -> usize {
        match position {
            Position::AllNodes => self.all.members,
            Position::Wave(_) => self.sizes(position).map(|(_, size)| size).sum(),
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
            let is_each = self.policy.steps.get(*step).is_some_and(|step| step.each.is_some());
            let (groups, first) = match is_each {
                true => (&self.parts, GroupValue::first()),
                false => (&self.numbers, group.clone()),
            };
            let groups = groups.range((*step, first)..=(*step, group.clone()));
            groups.map(move |(_, number)| {
                let group_at = &self.groups[*number];
                (group_at, self.size_at(position, *step, group, group_at.members))
            })
        });
        all.into_iter().chain(of_wave)
    }

    /// The groups that have a size of their own: their step, the value of the waves, the number.
    pub(super) fn sized(&self) -> impl Iterator<Item = (usize, &GroupValue, usize)> {
        let is_whole = |step: usize| self.policy.steps[step].each.is_none();
        let whole = self.numbers.iter().filter(move |((step, _), _)| is_whole(*step));
        let whole = whole.map(|((step, value), number)| (*step, value, *number));
        let parts = self.parts.iter();
        whole.chain(parts.map(|((step, _), number)| (*step, &GroupValue::Unlabelled, *number)))
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
        let sizes = &self.policy.steps[step].up_to;
        let size = match (step, value).cmp(&(at.step, &at.group)) {
            std::cmp::Ordering::Less => sizes.last(),
            std::cmp::Ordering::Equal => sizes.get(at.size).or(sizes.last()),
            std::cmp::Ordering::Greater => return 0,
        };
        size.map_or(0, |size| size.resolve(members).min(members))
    }
}
