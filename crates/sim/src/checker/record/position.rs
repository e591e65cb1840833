//! Which nodes are at a position, and which positions may come next (G11).

use std::collections::BTreeSet;

use everynode_core::daemon_set::{NodeState, SetAside};

use crate::checker::answer::Answer;
use crate::checker::model::{Group, Policy, Position, Record};
use crate::checker::situation::{NodeView, OurPod};

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

    /// The positions in the first of these groups of a step, all in their order: up to the first
    /// one that surely has nodes. Beside the built-in controller it is not known whether a node
    /// counts whose pod the target's placement may have removed. A held node counts that has the
    /// target, unless it went down or began to leave before (G33).
    fn first_groups(
        &self,
        policy: &Policy,
        step: usize,
        is_later: impl Fn(&Group) -> bool,
    ) -> (Vec<Position>, Answer) {
        let group = |on_node: &NodeView| policy.groups(on_node.labels()?).remove(&step);
        let members = self.members(&Position::AllNodes);
        let sure: BTreeSet<Group> = members.filter_map(|(_, on_node)| group(on_node)).collect();
        let may_count = |on_node: &&NodeView| {
            let has_target = on_node.occupants().any(|our| self.situation.is_updated(our.pod));
            self.situation.may_have_lost(on_node) || has_target && on_node.is_held(Some(policy))
        };
        let others = self.situation.nodes.values().filter(may_count);
        let all: BTreeSet<Group> = others.filter_map(group).chain(sure.clone()).collect();
        let later: Vec<Group> = all.into_iter().filter(is_later).collect();
        let first_sure = later.iter().position(|group| sure.contains(group));
        let count = first_sure.map_or(later.len(), |first| first + 1);
        let at = |group| Position::Wave { step, group, size: 0 };
        let has_any = match first_sure {
            Some(_) => Answer::Yes,
            None if later.is_empty() => Answer::No,
            None => Answer::Maybe,
        };
        (later.into_iter().take(count).map(at).collect(), has_any)
    }

    /// The wave with which a step may begin.
    pub(super) fn first_of_step(&self, policy: &Policy, step: usize) -> Vec<Position> {
        if step >= policy.steps.len() {
            return vec![Position::AllNodes];
        }
        let (mut first, has_any) = self.first_groups(policy, step, |_| true);
        if has_any != Answer::Yes {
            first.push(Position::Wave { step, group: Group::Unlabelled, size: 0 });
        }
        first
    }

    /// Yes if nothing is left to do on any node but such as are down or leave with the target
    /// (G11). Something may be on one whose pod the built-in controller has removed (G42).
    pub(super) fn is_at_end(&self) -> Answer {
        let is_updated = |our: &OurPod| self.situation.is_updated(our.pod);
        let is_left = |on_node: &NodeView| {
            on_node.has_passed()
                || self.needs_nothing(on_node)
                || on_node.occupants().any(is_updated) && self.situation.is_away(on_node)
        };
        let is_surely_left = |on_node: &NodeView| {
            let is_absent = matches!(
                on_node.state(),
                Some(
                    NodeState::Updating { is_absent: true, .. }
                        | NodeState::SetAside(SetAside::Down | SetAside::Leaving | SetAside::Lost)
                )
            );
            on_node.occupants().next().is_some()
                && on_node.occupants().all(is_updated)
                && (on_node.is_done() || is_absent)
        };
        let members = || self.all_members(&Position::AllNodes).map(|(_, on_node)| on_node);
        match () {
            () if !members().all(is_left) => Answer::No,
            () if members().next().is_some()
                && members().all(is_surely_left)
                && !self.situation.nodes.values().any(|it| self.situation.may_have_lost(it)) =>
            {
                Answer::Yes
            }
            () => Answer::Maybe,
        }
    }

    /// The wave that may come after this one.
    pub(super) fn after(&self, policy: &Policy, position: &Position) -> Vec<Position> {
        let Position::Wave { step, group, size } = position else {
            return vec![Position::AllNodes];
        };
        if policy.steps.get(*step).is_some_and(|step| size + 1 < step.size_count()) {
            return vec![Position::Wave { step: *step, group: group.clone(), size: size + 1 }];
        }
        let (mut after, has_any) = self.first_groups(policy, *step, |other| other > group);
        if has_any != Answer::Yes {
            after.extend(self.first_of_step(policy, step + 1));
        }
        after
    }

    /// The waves that may come after this one: those in which nothing is to be done or awaited are
    /// passed over. Clocks leave open whether a pod is available, and so whether one is.
    pub(super) fn next(&self, policy: &Policy, position: &Position) -> Vec<Position> {
        let mut next = self.after(policy, position);
        let mut looked_at = 0;
        while let Some(one) = next.get(looked_at).cloned() {
            looked_at += 1;
            let may_be_passed_over = policy.step(&one).is_some_and(|step| step.wait.is_nothing())
                && self.incomplete(&one).is_none();
            let later = if may_be_passed_over { self.after(policy, &one) } else { Vec::new() };
            let is_new = |position: &Position| !next.contains(position);
            let later: Vec<Position> = later.into_iter().filter(is_new).collect();
            next.extend(later);
        }
        next
    }
}

/// The position of the new record if it is one of these, or else the first of them.
pub(super) fn one_of(mut positions: Vec<Position>, new: &Record) -> Position {
    let is_it = |position: &Position| *position == new.position;
    let index = positions.iter().position(is_it).unwrap_or_default();
    positions.swap_remove(index)
}
