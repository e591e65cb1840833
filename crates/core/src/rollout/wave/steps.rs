//! The groups of nodes that the steps of a policy make, their sizes, and the order of their waves
//! (G5, G12).

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::api::{
    GroupValue, Labels, Position, RolloutPolicy, RolloutStep, WaveName, WavePosition,
};

use super::group::{Class, Group};

/// The steps of a policy, the groups that they make, and the nodes by their groups.
#[derive(Debug)]
pub(crate) struct Steps {
    pub(super) policy: Arc<RolloutPolicy>,
    /// The numbers of each step's groups.
    numbers: Vec<GroupNumbers>,
    pub(super) groups: Vec<Group>,
    /// The nodes by their groups. The first class has those of no group.
    pub(super) classes: Vec<Class>,
    /// The numbers of the classes.
    class_numbers: BTreeMap<Vec<usize>, usize>,
}

/// The numbers of a step's groups.
#[derive(Clone, Debug, Default)]
struct GroupNumbers {
    /// Those of its waves.
    waves: BTreeMap<GroupValue, usize>,
    /// The nodes with each value of its `each`: they have a size of their own in each wave.
    parts: BTreeMap<GroupValue, usize>,
}

impl Steps {
    /// Steps without nodes.
    pub(super) fn new(policy: Arc<RolloutPolicy>) -> Self {
        Self {
            numbers: vec![GroupNumbers::default(); policy.steps.len()],
            policy,
            groups: Vec::new(),
            classes: vec![Class::new(Vec::new())],
            class_numbers: BTreeMap::from([(Vec::new(), 0)]),
        }
    }

    /// The first wave.
    pub(crate) fn first(&self) -> Position {
        self.first_of_step(0)
    }

    /// The wave after this one.
    pub(crate) fn after(&self, position: &Position) -> Position {
        let Position::Wave(wave) = position else { return Position::AllNodes };
        let Some(step) = self.policy.steps.get(wave.step) else { return Position::AllNodes };
        if wave.size + 1 < step.up_to.len() {
            return Position::Wave(WavePosition { size: wave.size + 1, ..wave.clone() });
        }
        let behind = (Bound::Excluded(&wave.group), Bound::Unbounded);
        let behind = self.numbers[wave.step].waves.range::<GroupValue, _>(behind);
        match self.with_nodes(behind).next() {
            Some(group) => {
                Position::Wave(WavePosition { step: wave.step, group: group.clone(), size: 0 })
            }
            None => self.first_of_step(wave.step + 1),
        }
    }

    fn first_of_step(&self, step: usize) -> Position {
        if step >= self.policy.steps.len() {
            return Position::AllNodes;
        }
        let group = self.groups_of_step(step).next().cloned().unwrap_or(GroupValue::Unlabelled);
        Position::Wave(WavePosition { step, group, size: 0 })
    }

    /// The name of the wave at a position.
    pub(crate) fn name(&self, position: &Position) -> Option<WaveName> {
        self.policy.wave_name(position)
    }

    /// The values of the step's groups that have nodes, in their order.
    pub(super) fn groups_of_step(&self, step: usize) -> impl Iterator<Item = &GroupValue> {
        self.with_nodes(self.numbers.get(step).into_iter().flat_map(|step| &step.waves))
    }

    /// The values of a step's `each` that have nodes, in their order.
    pub(super) fn parts_of_step(&self, step: usize) -> impl Iterator<Item = &GroupValue> {
        self.with_nodes(self.numbers.get(step).into_iter().flat_map(|step| &step.parts))
    }

    /// The values of those groups that have nodes.
    fn with_nodes<'a>(
        &'a self,
        groups: impl Iterator<Item = (&'a GroupValue, &'a usize)>,
    ) -> impl Iterator<Item = &'a GroupValue> {
        let with_nodes = groups.filter(|(_, number)| self.groups[**number].members > 0);
        with_nodes.map(|(value, _)| value)
    }

    /// The number of the group of a wave.
    pub(super) fn number(&self, wave: &WavePosition) -> Option<usize> {
        self.numbers.get(wave.step)?.waves.get(&wave.group).copied()
    }

    /// The number of the class of nodes with these labels.
    pub(super) fn class(&mut self, labels: &Labels) -> usize {
        let groups = self.group_numbers(labels);
        if let Some(number) = self.class_numbers.get(&groups) {
            return *number;
        }
        self.classes.push(Class::new(groups.clone()));
        let number = self.classes.len() - 1;
        self.class_numbers.insert(groups, number);
        number
    }

    /// The numbers of the groups of nodes with these labels: one for each step that has them, and
    /// one for each `each`.
    fn group_numbers(&mut self, labels: &Labels) -> Vec<usize> {
        let Self { policy, numbers: steps, groups, .. } = self;
        let mut number = |of: &mut BTreeMap<GroupValue, usize>, value| {
            *of.entry(value).or_insert_with(|| {
                groups.push(Group::default());
                groups.len() - 1
            })
        };
        let mut numbers = Vec::new();
        let steps = policy.steps.iter().zip(steps);
        for (step, of_step) in steps.filter(|(step, _)| step.nodes.matches(labels)) {
            numbers.push(number(&mut of_step.waves, value(step.by.as_ref(), labels)));
            if let Some(each) = &step.each {
                numbers.push(number(&mut of_step.parts, value(Some(each), labels)));
            }
        }
        numbers
    }

    /// The groups that have a size of their own in a wave.
    pub(super) fn sized_in(&self, wave: &WavePosition) -> impl Iterator<Item = &Group> {
        let whole = self.number(wave).filter(|_| !self.is_each(wave.step));
        let parts = self.numbers.get(wave.step).into_iter().flat_map(|of_step| &of_step.parts);
        let numbers = whole.into_iter().chain(parts.map(|(_, number)| *number));
        numbers.map(|number| &self.groups[number])
    }

    /// True if the waves of a step have a size for each value of a label.
    pub(super) fn is_each(&self, step: usize) -> bool {
        self.policy.steps.get(step).is_some_and(|step| step.each.is_some())
    }

    /// The groups that have a size of their own: their step, the value of the waves, the number.
    pub(super) fn sized(&self) -> impl Iterator<Item = (usize, &GroupValue, usize)> {
        let whole = self.numbers.iter().enumerate().filter(|(step, _)| !self.is_each(*step));
        let whole = whole.flat_map(|(step, of_step)| {
            of_step.waves.iter().map(move |(value, number)| (step, value, *number))
        });
        let parts = self.numbers.iter().enumerate().flat_map(|(step, of_step)| {
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

    /// By the number of each group, the first wave that has all its nodes.
    pub(super) fn whole_at(&self) -> Vec<Option<Position>> {
        let mut positions = vec![None; self.groups.len()];
        for (step, value, number) in self.sized() {
            let members = self.groups[number].members;
            let mut sizes = self.policy.steps[step].up_to.iter();
            positions[number] = sizes
                .position(|size| size.resolve(members) >= members)
                .map(|size| Position::Wave(WavePosition { step, group: value.clone(), size }));
        }
        positions
    }

    /// True if nodes are left after the last step.
    pub(super) fn has_other_nodes(&self) -> bool {
        let mut is_whole = vec![false; self.groups.len()];
        for (step, _, number) in self.sized() {
            let members = self.groups[number].members;
            let last = self.policy.steps[step].up_to.last();
            is_whole[number] = last.is_some_and(|size| size.resolve(members) >= members);
        }
        let are_other = |class: &Class| class.groups.iter().all(|number| !is_whole[*number]);
        self.classes.iter().any(|class| !class.is_empty() && are_other(class))
    }
}

/// The value of the label with this key.
fn value(key: Option<&Arc<str>>, labels: &Labels) -> GroupValue {
    let value = key.and_then(|key| labels.get(key));
    value.map_or(GroupValue::Unlabelled, |value| GroupValue::Value(value.clone()))
}
