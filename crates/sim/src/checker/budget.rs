//! On how many nodes a guarded rollout may work at the same time, in all and in each group of nodes
//! that has a limit of its own (G13, G14, G41).

use super::history::History;
use super::judged_plan::JudgedPlan;
use super::model::{Budget, Eligibility, Group, Phase, Pod, Policy};
use super::situation::{OnNode, Situation};
use super::stage::Wanted;
use super::standing::{Answer, NodeState};
use super::{Property, Violation};

/// Judges on how many nodes a plan begins. `pending` is the number of nodes on which a creation of
/// unknown outcome may begin.
pub(super) fn check(
    situation: &Situation,
    judged: &JudgedPlan,
    pending: usize,
    history: &History,
) -> Option<Violation> {
    let policy = situation.ds.policy.valid()?;
    let max = limit(situation)?;
    let begun = Begun::of(situation, judged);
    let problem = match situation.goes_back() {
        true => begun.exceeds_going_back(situation, max, pending, history),
        false => begun.exceeds(situation, policy, max, pending),
    }?;
    Some(situation.violation(Property::Budget, problem))
}

/// The budget of all nodes.
pub(super) fn limit(situation: &Situation) -> Option<usize> {
    Some(match situation.budget()? {
        Budget::Unavailable(max) | Budget::Surge(max) => max,
    })
}

/// The nodes on which a plan begins.
struct Begun<'a> {
    /// Those with an available pod.
    available: Vec<&'a str>,
    /// The others.
    unavailable: Vec<&'a str>,
}

impl<'a> Begun<'a> {
    fn of(situation: &Situation<'a>, judged: &'a JudgedPlan) -> Self {
        let mut begun = Self { available: Vec::new(), unavailable: Vec::new() };
        for (uid, reason) in judged.replaced().filter(|(_, reason)| reason.begins()) {
            let Some(node) = situation.pods[uid.as_str()].node() else { continue };
            match reason.is_within_budget() {
                true => begun.available.push(node),
                false => begun.unavailable.push(node),
            }
        }
        for (node, reason) in judged.creations.iter().filter(|(_, reason)| reason.begins()) {
            match reason.is_within_budget() {
                true => begun.available.push(node),
                false => begun.unavailable.push(node),
            }
        }
        begun
    }

    /// Why a rollout that goes forward begins on too many nodes (G13, G14).
    fn exceeds(
        &self,
        situation: &Situation,
        policy: &Policy,
        max: usize,
        pending: usize,
    ) -> Option<String> {
        let all = || self.available.iter().chain(&self.unavailable);
        let updating = Use::at_least(situation, |_, _| true).updating + pending;
        if updating == 0 && all().count() <= 1 {
            // So that a fix gets in.
            return None;
        }
        let problem = |of: &dyn Fn(&OnNode) -> bool, max: usize, pending: usize, name: &str| {
            let is_of = |node: &&&str| of(&situation.nodes[**node]);
            let available = self.available.iter().filter(is_of).count();
            let begun = available + self.unavailable.iter().filter(is_of).count();
            let used = Use::at_least(situation, |node, on_node| {
                of(on_node) && !self.unavailable.contains(&node) && !self.available.contains(&node)
            });
            let updating = used.updating + pending;
            let is_exceeded = begun > 0 && updating + begun > max
                || available > 0 && updating + begun + used.outages > max;
            is_exceeded.then(|| {
                format!(
                    "a guarded rollout begins on {begun} nodes{name}, while {updating} are \
                     updating and the pods of {} became unavailable, {max} allowed",
                    used.outages
                )
            })
        };
        let in_group = |value: Group| {
            let is_in = |on_node: &OnNode| group(policy, on_node).as_ref() == Some(&value);
            let max = group_limit(situation, policy, is_in);
            problem(&is_in, max, 0, &format!(" of {value:?}"))
        };
        problem(&|_| true, max, pending, "").or_else(|| {
            let groups = all().filter(|_| policy.limits_groups());
            groups.filter_map(|node| group(policy, &situation.nodes[*node])).find_map(in_group)
        })
    }

    /// Why available pods of the target are replaced on too many nodes that go back (G41).
    fn exceeds_going_back(
        &self,
        situation: &Situation,
        max: usize,
        pending: usize,
        history: &History,
    ) -> Option<String> {
        let begun = self.available.len();
        let uses = |(name, on_node): &(&&str, &OnNode)| {
            !self.available.contains(*name) && uses_budget_going_back(situation, on_node, history)
        };
        let used = situation.nodes.iter().filter(uses).count() + pending;
        (begun > 0 && used + begun > max.max(1)).then(|| {
            format!(
                "{begun} available pods of the target are replaced, while the base is not \
                 available on {used} nodes that went back, {max} allowed"
            )
        })
    }
}

/// Whether a node surely uses the budget of a rollout that goes back: its available pod of the
/// target was replaced, and no pod of the base is available (G41). One that is down or leaves uses
/// none.
fn uses_budget_going_back(situation: &Situation, on_node: &OnNode, history: &History) -> bool {
    let Some(node) = on_node.node.filter(|_| !situation.is_away(on_node)) else { return false };
    let Some(current) = situation.revisions.current.last() else { return false };
    let failed = current
        .record
        .as_ref()
        .and_then(|record| history.phase_version(&current.metadata.uid, record));
    let is_of_target = |pod: &Pod| situation.is_updated(pod);
    let active = || on_node.deletable();
    if on_node.wanted == Wanted::Base && situation.ds.strategy.surges() {
        let is_new = |pod: &Pod| situation.wants(on_node, pod);
        let mut new = active().filter(|pod| is_new(pod));
        let has_old = active().any(|pod| !is_new(pod) && situation.is_surely_available(pod));
        return has_old && new.next().is_some_and(|pod| !situation.may_be_available(pod));
    }
    if on_node.eligibility != Eligibility::ShouldRun || active().any(is_of_target) {
        return false;
    }
    let mut replaced = history.gone_back_after(failed.unwrap_or(u64::MAX));
    replaced.any(|(uid, at)| {
        let pod = history.pods.first(uid);
        let is_here = pod.is_some_and(|pod| {
            situation.ds.owns(&pod.metadata) && pod.node() == Some(&node.metadata.name)
        });
        let was_back = || {
            let mut states = history.pods.states().filter(|(later, _)| *later > at);
            states.any(|(_, pod)| {
                pod.node() == Some(&node.metadata.name)
                    && !is_of_target(pod)
                    && pod.change.is_none()
                    && pod.is_ready
            })
        };
        is_here && !was_back()
    })
}

/// Whether a node may use the budget of a rollout that goes back.
fn may_use_budget_going_back(situation: &Situation, on_node: &OnNode) -> bool {
    let is_up = on_node.node.is_some_and(|node| node.is_ready());
    let is_here =
        on_node.eligibility == Eligibility::ShouldRun || on_node.occupants().next().is_some();
    // A pod of the target goes, or serves. One that a request without an answer may have begun to
    // change to it stays, and does not (G56).
    let is_serving = |pod: &Pod| {
        situation.is_updated(pod) && !pod.is_assumed_to_change()
            || situation.is_surely_available(pod) && !pod.has_ended()
    };
    // With surge until the pod of the target is gone beside that of the base.
    let has_both = on_node.wanted == Wanted::Base
        && situation.ds.strategy.surges()
        && on_node.deletable().any(|pod| situation.wants(on_node, pod));
    is_up && is_here && (has_both || !on_node.deletable().any(is_serving))
}

/// How far the budget is used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    /// The nodes that are updating.
    pub updating: usize,
    /// The waiting nodes whose pod became unavailable after the attempt began.
    pub outages: usize,
}

impl Use {
    /// The use by nodes that surely use it, among some of the nodes.
    fn at_least(situation: &Situation, counts: impl Fn(&str, &OnNode) -> bool) -> Self {
        let has_outage = |on_node: &OnNode| {
            let standing = &on_node.standing;
            standing.states.surely(NodeState::Waiting) && standing.has_outage == Answer::Yes
        };
        // A node with an available pod of the target has nothing but its old pod to lose, and one
        // whose pods of the target all end, while the old one is available, has lost nothing.
        let is_new = |pod: &Pod| situation.is_updated(pod) && situation.may_be_available(pod);
        let serves = |on_node: &OnNode| {
            on_node.deletable().any(is_new)
                || on_node.deletable().all(|pod| !situation.is_updated(pod))
                    && on_node.deletable().any(|pod| situation.may_be_available(pod))
        };
        let is_updating = |on_node: &OnNode| {
            on_node.standing.states.surely(NodeState::Updating) && !serves(on_node)
        };
        let nodes = || situation.nodes.iter().filter(|(name, on)| counts(name, on));
        Self {
            updating: nodes().filter(|(_, on)| is_updating(on)).count(),
            outages: nodes().filter(|(_, on)| has_outage(on)).count(),
        }
    }

    /// The use by nodes that may use it, among some of the nodes.
    fn at_most(situation: &Situation, counts: impl Fn(&OnNode) -> bool) -> Self {
        let has_outage = |on_node: &OnNode| {
            let standing = &on_node.standing;
            standing.states.may_be(NodeState::Waiting)
                && (standing.has_outage != Answer::No || may_be_taken(situation, on_node))
        };
        let is_updating = |on_node: &OnNode| on_node.standing.states.may_be(NodeState::Updating);
        let nodes = || situation.nodes.values().filter(|on| counts(on));
        Self {
            updating: nodes().filter(|on| is_updating(on)).count(),
            outages: nodes().filter(|on| has_outage(on) && !is_updating(on)).count(),
        }
    }
}

/// Whether the available pod of a waiting node may have been taken away before the attempt: it is
/// gone, or an earlier rollout did not end well (G14).
fn may_be_taken(situation: &Situation, on_node: &OnNode) -> bool {
    let mut records = situation.revisions.old.iter().filter_map(|old| old.record.as_ref());
    // The pods of one that was adopted were not all available.
    let has_ended_badly = records.any(|record| {
        record.phase != Phase::Complete || record.reason.as_deref() == Some("Adopted")
    });
    let is_available = |pod: &Pod| situation.is_surely_available(pod) && !pod.has_ended();
    on_node.standing.states.may_be(NodeState::Waiting)
        && !on_node.deletable().any(is_available)
        && (has_ended_badly || on_node.running().next().is_none())
}

/// On how many more nodes a rollout surely may begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    /// With an available pod.
    pub available: usize,
    /// With one that is not.
    pub unavailable: usize,
}

impl Left {
    /// Without a policy (C52, C53): pods that are not available are replaced at once.
    pub(super) fn unguarded(situation: &Situation) -> Self {
        let is_available = |pod: &Pod| situation.is_surely_available(pod);
        let available = match situation.budget() {
            Some(Budget::Unavailable(max)) => {
                max.saturating_sub(situation.unavailable_nodes(is_available).len())
            }
            Some(Budget::Surge(max)) => max.saturating_sub(situation.surging_nodes(is_available)),
            None => 0,
        };
        Self { available, unavailable: usize::MAX }
    }

    /// Forward (G14).
    pub(super) fn forward(situation: &Situation) -> Self {
        let max = limit(situation).unwrap_or_default();
        let used = Use::at_most(situation, |_| true);
        let least = usize::from(used.updating == 0);
        let is_any_taken =
            used.outages > 0 || situation.nodes.values().any(|on| may_be_taken(situation, on));
        let least_available = if is_any_taken { 0 } else { least };
        Self {
            available: max.saturating_sub(used.updating + used.outages).max(least_available),
            unavailable: max.saturating_sub(used.updating).max(least),
        }
    }

    /// Going back (G41).
    pub(super) fn back(situation: &Situation) -> Self {
        let nodes = situation.nodes.values();
        let used = nodes.filter(|on_node| may_use_budget_going_back(situation, on_node)).count();
        let max = limit(situation).unwrap_or_default().max(1);
        Self { available: max.saturating_sub(used), unavailable: usize::MAX }
    }
}

/// Whether the group of a node surely has room for the beginning of the rollout there: on a node
/// with an available pod, or on another one.
pub(super) fn has_room_in_group(
    situation: &Situation,
    policy: &Policy,
    on_node: &OnNode,
    is_node_available: bool,
) -> bool {
    group(policy, on_node).is_some_and(|value| {
        let is_in = |on_node: &OnNode| group(policy, on_node).as_ref() == Some(&value);
        let limit = group_limit(situation, policy, is_in);
        if situation.goes_back() {
            let nodes = situation.nodes.values().filter(|on_node| is_in(on_node));
            let used = nodes.filter(|on_node| may_use_budget_going_back(situation, on_node));
            return !is_node_available || used.count() < limit;
        }
        let used = Use::at_most(situation, is_in);
        let outages = if is_node_available { used.outages } else { 0 };
        used.updating + outages < limit
    })
}

/// The group to whose limit a node counts.
fn group(policy: &Policy, on_node: &OnNode) -> Option<Group> {
    Some(policy.limited_group(&on_node.node?.metadata.labels))
}

/// The limit of some of the nodes.
fn group_limit(situation: &Situation, policy: &Policy, is_in: impl Fn(&OnNode) -> bool) -> usize {
    let should_run = |on_node: &&OnNode| on_node.eligibility == Eligibility::ShouldRun;
    let nodes = situation.nodes.values().filter(|on_node| is_in(on_node));
    policy.group_limit(nodes.filter(should_run).count())
}
