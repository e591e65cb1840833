//! How many nodes of each group are open at a position.

use crate::api::{GroupValue, Position, RolloutStep, WavePosition};

use super::{Group, Waves};

impl Waves {
    /// How many nodes of its group are open at this position.
    pub(super) fn size(&self, position: &Position) -> usize {
        match position {
            Position::Wave(wave) if self.is_each(wave.step) => {
                self.sizes(position).map(|(_, size)| size).sum()
            }
            Position::Wave(WavePosition { step, group, .. }) => {
                self.size_at(position, *step, group, self.group(position).members)
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
