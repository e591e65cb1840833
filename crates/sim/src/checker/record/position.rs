//! Which nodes are at a position, and which positions may come next (G11).

use std::collections::BTreeSet;

use crate::checker::model::{Group, Policy, Position};
use crate::checker::situation::NodeView;

use super::Judge;

impl Judge<'_> {
    /// The policy whose waves orders name: also one that is held only because of `maxSurge`.
    pub(super) fn policy_of_waves(&self) -> Option<&Policy> {
        let ds = self.situation.ds;
        let held = || ds.promoted.as_ref().and_then(|ds| ds.policy.valid());
        ds.policy.valid().or_else(held)
    }

    /// The members of the group at a position, without those that are held.
    pub(super) fn members<'s>(
        &'s self,
        position: &Position,
    ) -> impl Iterator<Item = (&'s str, &'s NodeView<'s>)> {
        let policy = self.policy_of_waves();
        self.all_members(position).filter(move |(_, on_node)| !on_node.is_held(policy))
    }

    /// The same with those that are held.
    pub(super) fn all_members<'s>(
        &'s self,
        position: &Position,
    ) -> impl Iterator<Item = (&'s str, &'s NodeView<'s>)> {
        let (policy, position) = (self.policy_of_waves(), position.clone());
        let nodes = self.situation.nodes.iter();
        nodes.filter_map(move |(name, on_node)| {
            let counts = policy?.is_in(&position, on_node.labels()?);
            (on_node.is_member && counts).then_some((*name, on_node))
        })
    }

    /// The position after this one, or the first one: `to`, if that is later and nothing is to be
    /// done or awaited at any wave between, or else the first wave at which something is.
    pub(super) fn next(&self, policy: &Policy, from: Option<&Position>, to: &Position) -> Position {
        let to = if from.is_some_and(|from| to <= from) { &Position::AllNodes } else { to };
        let members = self.members(&Position::AllNodes);
        let labels = members.filter_map(|(_, on_node)| on_node.labels());
        let groups: BTreeSet<(usize, Group)> = labels.flat_map(|it| policy.groups(it)).collect();
        let waves = groups.into_iter().flat_map(|(step, group)| {
            let sizes = 0..policy.steps[step].size_count();
            sizes.map(move |size| Position::Wave { step, group: group.clone(), size })
        });
        let is_between = |wave: &Position| from.is_none_or(|from| wave > from) && wave < to;
        let must_stop = |wave: &Position| {
            let awaits = policy.step(wave).is_some_and(|step| !step.wait.is_nothing());
            awaits || self.incomplete(wave).is_some()
        };
        let mut between = waves.filter(is_between);
        between.find(must_stop).unwrap_or_else(|| to.clone())
    }

    /// True if nothing may be left to do on any node but such as are down or leave with the target
    /// (G11).
    pub(super) fn may_be_at_end(&self) -> bool {
        let is_left = |on_node: &NodeView| {
            let mut pods = on_node.occupants();
            let has_target = pods.any(|our| self.situation.is_updated(our.pod));
            on_node.has_passed()
                || self.needs_nothing(on_node)
                || has_target && self.situation.is_away(on_node)
        };
        self.all_members(&Position::AllNodes).all(|(_, on_node)| is_left(on_node))
    }
}
