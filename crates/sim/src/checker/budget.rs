//! On how many nodes a guarded rollout may work at the same time, in all and in each group of nodes
//! that has a limit of its own (G13, G14, G41).

use super::judged_plan::JudgedPlan;
use super::model::{Budget, Eligibility, Group, Node, Pod, Policy};
use super::reason::Uncertainty;
use super::situation::{NodeView, Situation};
use super::{Property, Violation};
use everynode_core::daemon_set::{NodeState, Outage};

/// Judges on how many nodes a plan begins. `pending` is the number of nodes on which a creation of
/// unknown outcome may begin. The pod of a node that `is_given_up` cannot be changed in place after
/// all, and is one to be replaced (G56).
pub(super) fn check(
    situation: &Situation,
    judged: &JudgedPlan,
    pending: usize,
    is_given_up: impl Fn(&NodeView) -> bool,
) -> Option<Violation> {
    let policy = situation.ds.policy.valid()?;
    let max = limit(situation)?;
    let begun = Begun::of(situation, judged);
    let problem = match situation.goes_back() {
        true => begun.exceeds_going_back(situation, max, pending),
        false => begun.exceeds(situation, policy, max, pending, is_given_up),
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
        is_given_up: impl Fn(&NodeView) -> bool,
    ) -> Option<String> {
        let all = || self.available.iter().chain(&self.unavailable);
        let counts = |node: &str, on_node: &NodeView| {
            !all().any(|begun| *begun == node) && !is_given_up(on_node)
        };
        let used = Use::by(situation, Uncertainty::Allows, counts);
        let is_first = used.updating + pending == 0 && all().count() <= 1;
        if is_first && (used.taken == 0 || self.available.is_empty()) {
            // So that a fix gets in.
            return None;
        }
        let problem = |of: &dyn Fn(&NodeView) -> bool, max: usize, pending: usize, name: &str| {
            let is_of = |node: &&&str| of(&situation.nodes[**node]);
            let available = self.available.iter().filter(is_of).count();
            let begun = available + self.unavailable.iter().filter(is_of).count();
            let used =
                Use::by(situation, Uncertainty::Allows, |node, on| of(on) && counts(node, on));
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
            let is_in = |on_node: &NodeView| group(policy, on_node).as_ref() == Some(&value);
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
    ) -> Option<String> {
        // Of a node that is down it is replaced at once.
        let is_up = |node: &&&str| situation.nodes[**node].node.is_some_and(Node::is_ready);
        let begun = self.available.iter().filter(is_up).count();
        let uses = |(name, on_node): &(&&str, &NodeView)| {
            !self.available.contains(*name)
                && uses_going_back(situation, on_node, Uncertainty::Allows)
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

/// True if a node uses the budget of a rollout that goes back (G41). A replica sees a little later
/// than it is that the pod of the base is available.
fn uses_going_back(situation: &Situation, on_node: &NodeView, uncertainty: Uncertainty) -> bool {
    let serves = |pod: &Pod| match situation.ds.strategy.surges() {
        true => situation.wants(on_node, pod) && situation.may_be_available(pod),
        false => situation.may_be_available(pod),
    };
    let starts = || {
        !situation.ds.strategy.surges()
            || on_node.deletable().any(|pod| situation.wants(on_node, pod))
    };
    (on_node.is_updating() || on_node.is_taken())
        && (uncertainty == Uncertainty::Demands || starts() && !on_node.deletable().any(serves))
}

/// How far the budget is used.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// The nodes that are updating.
    updating: usize,
    /// The waiting nodes whose pod became unavailable after the attempt began, or was taken away
    /// before.
    outages: usize,
    /// Those whose pod was taken away.
    taken: usize,
}

impl Use {
    /// The use by some of the nodes. A replica sees a little later than it is that a node is done.
    fn by(
        situation: &Situation,
        uncertainty: Uncertainty,
        counts: impl Fn(&str, &NodeView) -> bool,
    ) -> Self {
        let mut used = Self::default();
        for (_, on_node) in situation.nodes.iter().filter(|(name, on)| counts(name, on)) {
            match on_node.state() {
                Some(NodeState::Updating { .. })
                    if uncertainty == Uncertainty::Demands || !serves(situation, on_node) =>
                {
                    used.updating += 1;
                }
                // One that has no pod, and gets none, has lost none.
                Some(NodeState::Waiting { outage } | NodeState::Pulling { outage, .. })
                    if on_node.eligibility == Eligibility::ShouldRun
                        || on_node.occupants().next().is_some() =>
                {
                    used.outages += usize::from(outage != Outage::None);
                    used.taken += usize::from(outage == Outage::Taken);
                }
                _ => {}
            }
        }
        used
    }
}

/// True if a node that is updated uses no budget: with an available pod of the target it has
/// nothing but its old pod to lose, and if its pods of the target all end, while the old one is
/// available, it has lost nothing (G14).
fn serves(situation: &Situation, on_node: &NodeView) -> bool {
    let is_new = |pod: &Pod| situation.is_updated(pod) && situation.may_be_available(pod);
    on_node.deletable().any(is_new)
        || on_node.deletable().all(|pod| !situation.is_updated(pod))
            && on_node.deletable().any(|pod| situation.may_be_available(pod))
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
        let used = Use::by(situation, Uncertainty::Demands, |_, _| true);
        let least = usize::from(used.updating == 0);
        let least_available = if used.taken > 0 { 0 } else { least };
        Self {
            available: max.saturating_sub(used.updating + used.outages).max(least_available),
            unavailable: max.saturating_sub(used.updating).max(least),
        }
    }

    /// Going back (G41).
    pub(super) fn back(situation: &Situation) -> Self {
        let nodes = situation.nodes.values();
        let used = nodes.filter(|on| uses_going_back(situation, on, Uncertainty::Demands)).count();
        let max = limit(situation).unwrap_or_default().max(1);
        Self { available: max.saturating_sub(used), unavailable: usize::MAX }
    }
}

/// True if the group of a node surely has room for the beginning of the rollout there: on a node
/// with an available pod, or on another one.
pub(super) fn has_room_in_group(
    situation: &Situation,
    policy: &Policy,
    on_node: &NodeView,
    is_node_available: bool,
) -> bool {
    group(policy, on_node).is_some_and(|value| {
        let is_in = |on_node: &NodeView| group(policy, on_node).as_ref() == Some(&value);
        let limit = group_limit(situation, policy, is_in);
        if situation.goes_back() {
            let nodes = situation.nodes.values().filter(|on_node| is_in(on_node));
            let used = nodes.filter(|on| uses_going_back(situation, on, Uncertainty::Demands));
            return !is_node_available || used.count() < limit;
        }
        let used = Use::by(situation, Uncertainty::Demands, |_, on_node| is_in(on_node));
        let outages = if is_node_available { used.outages } else { 0 };
        used.updating + outages < limit
    })
}

/// The group to whose limit a node counts.
fn group(policy: &Policy, on_node: &NodeView) -> Option<Group> {
    Some(policy.limited_group(&on_node.node?.metadata.labels))
}

/// The limit of some of the nodes.
fn group_limit(situation: &Situation, policy: &Policy, is_in: impl Fn(&NodeView) -> bool) -> usize {
    let should_run = |on_node: &&NodeView| on_node.eligibility == Eligibility::ShouldRun;
    let nodes = situation.nodes.values().filter(|on_node| is_in(on_node));
    policy.group_limit(nodes.filter(should_run).count())
}
