//! Which writes the rules demand of a plan (C20–C27, C50–C53).

use std::collections::{BTreeMap, BTreeSet};

use super::budget::Left;
use super::judged_plan::{Creation, Deletion};
use super::model::{Budget, Policy};
use super::reason::Uncertainty;
use super::situation::{NodeView, Situation};
use super::{Property, budget, late};

/// The work left undone, and the property that this violates.
pub(super) type Problem = Option<(Property, String)>;

/// The demands of the rules in a situation.
pub(super) struct Demands<'a> {
    /// The pods to delete, by UID, whatever the budget.
    pub deletions: BTreeMap<&'a str, Deletion>,
    /// The nodes that get a pod, whatever the budget.
    pub creations: Vec<&'a str>,
    /// The nodes whose old pods the budget may allow to delete.
    pub within_budget: Vec<&'a str>,
    /// The nodes whose old pods may get a second one.
    pub surges: Vec<&'a str>,
    /// The nodes of a guarded rollout whose old pods are not available: it may begin there before
    /// it begins on others (G14, G41).
    pub begins_at_once: Vec<&'a str>,
    /// Those of them that get a second pod.
    pub surges_at_once: Vec<&'a str>,
    /// On how many of these nodes the rollout surely may begin.
    pub left: Left,
}

impl<'a> Demands<'a> {
    /// `has_no_backoff` is whether a node's pod that has ended may be deleted (C24), `delayed` the
    /// nodes on which a creation may be delayed: none is demanded (C23). At rest nothing has
    /// happened for minutes.
    pub(super) fn of(
        situation: &Situation<'a>,
        has_no_backoff: impl Fn(&NodeView<'a>) -> bool,
        delayed: &BTreeSet<&str>,
        at_rest: bool,
    ) -> Self {
        let is_guarded = situation.is_guarded();
        let depends_on_attempts = |policy: &Policy| {
            policy.limits_groups() || policy.pods_per_minute.is_some() || policy.requires_images()
        };
        let policy = situation.ds.policy.valid();
        let mut left = match () {
            () if situation.goes_forward() => Left::forward(situation),
            () if is_guarded => Left::back(situation),
            () => Left::unguarded(situation),
        };
        if !at_rest && policy.is_some_and(depends_on_attempts) {
            // Which nodes of the groups come first depends on earlier attempts, and so does the
            // pace. Which nodes have the images is not stored (G55).
            left = Left { available: 0, unavailable: 0 };
        }
        if late::may_be_held(situation) || situation.may_keep_unchangeable_pods() {
            left = Left { available: 0, unavailable: 0 };
        }
        let max_surge = match situation.budget() {
            Some(Budget::Surge(max)) => max,
            Some(Budget::Unavailable(_)) | None => 0,
        };
        let mut demands = Self {
            deletions: BTreeMap::new(),
            creations: Vec::new(),
            within_budget: Vec::new(),
            surges: Vec::new(),
            begins_at_once: Vec::new(),
            surges_at_once: Vec::new(),
            left,
        };
        let is_limited = situation.goes_forward() || is_guarded && max_surge == 0;
        let has_pace = policy.is_some_and(|policy| policy.pods_per_minute.is_some());
        for (node, on_node) in &situation.nodes {
            let mut is_touched = false;
            for pod in on_node.deletable() {
                let mut reason = situation.reason_to_delete(on_node, pod, Uncertainty::Demands);
                if reason.is_some_and(Deletion::is_of_ended_pod) && !has_no_backoff(on_node) {
                    reason = situation.old(on_node, pod, Uncertainty::Demands);
                }
                match reason {
                    Some(reason) if reason.is_within_budget() => demands.within_budget.push(node),
                    None => {}
                    Some(Deletion::OldAndUnavailable) if is_limited => {
                        demands.begins_at_once.push(node);
                    }
                    // A node that is to get no second pod: only the pace limits it.
                    Some(Deletion::OldAndUnavailable) if has_pace && !at_rest => {}
                    Some(reason) => {
                        is_touched = true;
                        demands.deletions.insert(&pod.metadata.uid, reason);
                        // The rollout begins on the node with the next pod.
                        let left = &mut demands.left;
                        left.unavailable = left.unavailable.saturating_sub(1);
                    }
                }
            }
            match situation.reason_to_create(on_node, Uncertainty::Demands) {
                _ if delayed.contains(*node) => {}
                Some(Creation::Missing) => demands.creations.push(node),
                Some(Creation::SurgeAtOnce) if is_touched => {}
                Some(Creation::SurgeAtOnce) if is_guarded => demands.surges_at_once.push(node),
                Some(Creation::SurgeAtOnce) => demands.creations.push(node),
                Some(Creation::SurgeWithinBudget) => demands.surges.push(node),
                None => {}
            }
        }
        if let Some(policy) = policy.filter(|policy| policy.limits_groups()) {
            demands.retain_groups_with_room(situation, policy);
        }
        demands
    }

    /// The first pod to delete, or node that gets a pod, whatever the budget.
    pub(super) fn whatever_the_budget(&self, situation: &Situation, may_create: bool) -> Problem {
        if let Some((uid, reason)) = self.deletions.first_key_value() {
            let name = &situation.pods[uid].metadata.name;
            return Some((reason.property(), format!("pod {name} is left: {}", reason.name())));
        }
        let node = self.creations.first().filter(|_| may_create)?;
        Some((Property::Placement, format!("no pod is created on {node}")))
    }

    /// The first node on which the rollout begins. `pending` is the number of nodes on which a
    /// creation of unknown outcome may begin.
    pub(super) fn within_the_budget(&self, may_create: bool, pending: usize) -> Problem {
        let Left { available, unavailable } = self.left;
        let available = available.min(unavailable);
        let at_once = self.begins_at_once.iter().filter(|_| unavailable > 0);
        let within = self.within_budget.iter().filter(|_| available > 0);
        let surges_at_once = self.surges_at_once.iter().filter(|_| unavailable > pending);
        let surges = surges_at_once.chain(self.surges.iter().filter(|_| available > pending));
        let node = at_once.chain(within).chain(surges.filter(|_| may_create)).next()?;
        Some((Property::Budget, format!("the pod on {node} is old")))
    }

    /// Leaves out the nodes of groups that have no room for another beginning.
    fn retain_groups_with_room(&mut self, situation: &Situation, policy: &Policy) {
        let has_room = |node: &str, is_node_available: bool| {
            let on_node = &situation.nodes[node];
            budget::has_room_in_group(situation, policy, on_node, is_node_available)
        };
        self.within_budget.retain(|node| has_room(node, true));
        self.surges.retain(|node| has_room(node, true));
        self.begins_at_once.retain(|node| has_room(node, false));
        self.surges_at_once.retain(|node| has_room(node, false));
    }
}

impl Deletion {
    /// The property that is violated if the deletion is left out.
    pub(super) fn property(self) -> Property {
        match self {
            Self::Misplaced | Self::NodeIsGone | Self::Surplus => Property::Placement,
            Self::Failed | Self::Succeeded => Property::Backoff,
            Self::Superseded
            | Self::OldAndUnavailable
            | Self::WithinBudget
            | Self::GoingBack
            | Self::Removed
            | Self::Unchangeable
            | Self::Permitted => Property::Budget,
        }
    }
}
