//! Judges the pods that a plan deletes and creates, by what its replica knew (C20–C27, C50–C53).
//!
//! A plan is wrong if a rule gives no reason for one of its writes, or if they exceed a budget
//! together. What it leaves out is judged once its replica has nothing to do
//! ([`idle`](super::idle)).

mod change;

use everynode_core::api::Timestamp;
use everynode_core::plan::{NewPod, PodReference, Write};

use super::backoff::Backoffs;
use super::coverage::{Coverage, Section};
use super::creation_delay;
use super::history::History;
use super::judged_plan::{Creation, Deletion, JudgedPlan};
use super::lost_pods::LossDelays;
use super::model::{Budget, Eligibility, Pod};
use super::reason::Uncertainty;
use super::situation::{NodeView, Situation};
use super::stage::Wanted;
use super::{Property, Violation, budget, late, removal};
use crate::view::{View, is_pod_write};

/// Judges a plan.
pub(super) fn judge(
    view: &View,
    situation: &Situation,
    history: &History,
    backoffs: &mut Backoffs,
    coverage: &mut Coverage,
) -> Result<JudgedPlan, Violation> {
    let writes = &view.writes;
    let has_pods = writes.iter().any(is_pod_write);
    if has_pods && situation.ds.metadata.is_terminating {
        let message = "pods are written although the DaemonSet is terminating".to_owned();
        return Err(situation.violation(Property::Deletion, message));
    }
    if has_pods && situation.ds.selector.is_empty() {
        let message = "pods are written although the selector is empty".to_owned();
        return Err(situation.violation(Property::Deletion, message));
    }
    let delayed_until = creation_delay::end(view, situation.ds, history);
    let losses = LossDelays::of(view, situation.ds, history);
    let judge = Judge { view, situation, history };
    let mut judged = JudgedPlan::default();
    for write in writes {
        match write {
            Write::DeletePod(pod) => {
                let reason = judge.deletion(pod, backoffs)?;
                judged.deletions.insert(pod.uid.to_string(), reason);
            }
            Write::CreatePod(new) => {
                let reason = judge.creation(new, delayed_until, &losses)?;
                if judged.creations.insert(new.node.to_string(), reason).is_some() {
                    let message = format!("two pods are created on {}", new.node);
                    return Err(situation.violation(Property::Duplicate, message));
                }
            }
            Write::ChangePod(new) => {
                if let Some(reason) = change::judge(&judge, new)? {
                    judged.changes.insert(new.pod.uid.to_string(), reason);
                }
            }
            _ => {}
        }
    }
    judge.budgets(&judged, coverage)?;
    backoffs.record(view, situation, &judged, history);
    Ok(judged)
}

/// Judges the writes of a plan.
pub(super) struct Judge<'a> {
    pub view: &'a View,
    pub situation: &'a Situation<'a>,
    pub history: &'a History,
}

impl<'a> Judge<'a> {
    /// The pod that a deletion refers to, and its node.
    pub(super) fn pod(
        &self,
        reference: &PodReference,
    ) -> Result<(&'a Pod, &'a NodeView<'a>), Violation> {
        let situation = self.situation;
        let uid = reference.uid.to_string();
        let fail = |property, problem: &str| self.fail(reference, property, problem);
        let Some(pod) = situation.pods.get(uid.as_str()) else {
            return fail(Property::Foreign, "which the replica has not seen");
        };
        if !pod.metadata.is_controlled_by(&situation.ds.metadata.uid) {
            return fail(Property::Foreign, "which the DaemonSet does not control");
        }
        if !situation.ds.owns(&pod.metadata) {
            return fail(Property::Foreign, "which the DaemonSet must release");
        }
        let Some(on_node) = pod.node().and_then(|node| situation.nodes.get(node)) else {
            return fail(Property::Deletion, "which has no node");
        };
        if !on_node.deletable().any(|other| other.metadata.uid == uid) {
            return fail(Property::Deletion, "which is being deleted already");
        }
        Ok((pod, on_node))
    }

    fn fail<T>(
        &self,
        reference: &PodReference,
        property: Property,
        problem: &str,
    ) -> Result<T, Violation> {
        let message = format!("pod {} is deleted, {problem}", reference.name);
        Err(self.situation.violation(property, message))
    }

    /// No rule gives a reason for a deletion.
    pub(super) fn without_reason<T>(
        &self,
        reference: &PodReference,
        pod: &Pod,
        on_node: &NodeView<'a>,
    ) -> Result<T, Violation> {
        let situation = self.situation;
        let is_updated = situation.is_updated(pod);
        let property = match () {
            () if situation.keeps_pods(on_node)
                || situation.is_left_alone(on_node, Uncertainty::Allows) =>
            {
                Property::Gate
            }
            () if is_updated => Property::Deletion,
            () => Property::Budget,
        };
        let state = format!(
            "without a reason (updated: {is_updated}, available: {}, node: {:?}, {:?}, {:?}, {:?})",
            situation.is_surely_available(pod),
            on_node.eligibility,
            on_node.wanted,
            on_node.state(),
            situation.stage,
        );
        self.fail(reference, property, &state)
    }

    fn deletion(
        &self,
        reference: &PodReference,
        backoffs: &Backoffs,
    ) -> Result<Deletion, Violation> {
        let Self { view, situation, history, .. } = self;
        let (pod, on_node) = self.pod(reference)?;
        let reason = situation.reason_to_delete(on_node, pod, Uncertainty::Allows);
        if let Some(problem) = change::unnecessary(view, situation, history, pod, reason) {
            return self.fail(reference, Property::Gate, problem);
        }
        let unchangeable = || change::unfinished(view, situation, history, on_node, pod);
        let Some(reason) = reason.or_else(unchangeable) else {
            let is_base_unknown = situation.is_base_unknown() && on_node.wanted == Wanted::Base;
            let is_in_doubt = is_base_unknown || situation.is_generation_doubtful(on_node);
            if is_in_doubt && situation.budget().is_some() {
                return Ok(Deletion::Permitted);
            }
            return self.without_reason(reference, pod, on_node);
        };
        let end = backoffs.end(view, situation, on_node, Uncertainty::Allows, history);
        if !reason.is_of_ended_pod()
            || view.is_waiting
            || end.is_none_or(|end| end <= view.planned_at)
        {
            return Ok(reason);
        }
        match situation.old(on_node, pod, Uncertainty::Allows) {
            Some(reason) => Ok(reason),
            None => {
                let problem = "although a pod of its node has ended too recently";
                self.fail(reference, Property::Backoff, problem)
            }
        }
    }

    fn creation(
        &self,
        new: &NewPod,
        delayed_until: Option<Timestamp>,
        losses: &LossDelays<'_>,
    ) -> Result<Creation, Violation> {
        let Self { situation, .. } = self;
        let on_node = situation.nodes.get(new.node.as_str());
        let eligibility = on_node.map_or(Eligibility::NoNode, |on_node| on_node.eligibility);
        let (Some(on_node), Eligibility::ShouldRun) = (on_node, eligibility) else {
            let message = format!("a pod is created on {} ({eligibility:?})", new.node);
            return Err(situation.violation(Property::Placement, message));
        };
        if let Some(end) = delayed_until {
            let message = format!(
                "a pod is created on {} at {}, although admission has changed one and creations \
                 are delayed until {}",
                new.node, self.view.planned_at.0, end.0
            );
            return Err(situation.violation(Property::Backoff, message));
        }
        if let Some(end) = losses.certain_end(new.node.as_str()) {
            let message = format!(
                "a pod is created on {} at {}, although the last two were lost soon after their \
                 creation, and the next is delayed until {} or later",
                new.node, self.view.planned_at.0, end.0
            );
            return Err(situation.violation(Property::Backoff, message));
        }
        if let Some(pending) = on_node.pending
            && new.name.as_ref().is_none_or(|name| name.as_str() != pending.name)
            && !self.was_replaced(on_node, pending.since)
        {
            let message = format!(
                "a pod is created on {} with name {:?}, although pod {} may be created",
                new.node, new.name, pending.name
            );
            return Err(situation.violation(Property::Duplicate, message));
        }
        situation.reason_to_create(on_node, Uncertainty::Allows).ok_or_else(|| {
            let beside: Vec<String> = on_node.pods.iter().map(|our| describe(our.pod)).collect();
            let message = format!("a pod is created on {} beside {beside:?}", new.node);
            let property = match situation.is_left_alone(on_node, Uncertainty::Allows) {
                true => Property::Gate,
                false => Property::Duplicate,
            };
            situation.violation(property, message)
        })
    }

    /// True if the node was deleted and added again since.
    fn was_replaced(&self, on_node: &NodeView, since: Timestamp) -> bool {
        const TOLERANCE_MS: i64 = 2_000;
        let created = on_node.node.and_then(|node| node.created());
        created.is_some_and(|created| created.0 + TOLERANCE_MS > since.0)
    }

    /// Counts what is taken from the budgets (C51–C53).
    pub(super) fn budgets(
        &self,
        judged: &JudgedPlan,
        coverage: &mut Coverage,
    ) -> Result<(), Violation> {
        let Self { situation, .. } = self;
        let surges = matches!(situation.budget(), Some(Budget::Surge(_)));
        let pending = |is_counted: &dyn Fn(&str) -> bool| match surges {
            true => pending_surges(self.view, situation, is_counted),
            false => 0,
        };
        // The rollout begins once on a node on which a surge is repeated.
        let others = pending(&|node| judged.creations.contains_key(node));
        let pending = pending(&|node| surges_within_budget(judged, node));
        let is_given_up = |on_node: &NodeView| {
            let Self { view, history, .. } = self;
            let unfinished = |pod| change::unfinished(view, situation, history, on_node, pod);
            on_node.deletable().any(|pod| unfinished(pod).is_some())
        };
        let violation = budget::check(situation, judged, others, is_given_up)
            .or_else(|| removal::check(situation, judged, self.history))
            .or_else(|| late::check(situation, judged, self.history));
        if let Some(violation) = violation {
            return Err(violation);
        }
        let surging = |reason| judged.creations.values().filter(|r| **r == reason).count();
        let may_be_available = |pod: &Pod| situation.may_be_available(pod);
        let within = judged.replaced().filter(|(_, reason)| reason.is_within_budget()).count();
        if let (Some(Budget::Unavailable(max)), 1..) = (situation.budget(), within) {
            let unavailable = situation.unavailable_nodes(may_be_available);
            let used = unavailable.len();
            if !situation.is_guarded() && used + within > max {
                let message = format!(
                    "{within} available pods are deleted while {used} nodes are unavailable, \
                     {max} allowed: {unavailable:?}"
                );
                return Err(situation.violation(Property::Budget, message));
            }
            coverage.count_budget(Section::Budgets, used + within >= max);
        }
        let within = surging(Creation::SurgeWithinBudget);
        if let (Some(Budget::Surge(max)), 1..) = (situation.budget(), within) {
            let used = situation.surging_nodes(may_be_available) + pending;
            if !situation.is_guarded() && used + within > max {
                let message = format!(
                    "{within} pods surge while {used} nodes do, {max} allowed; {pending} creations \
                     are of unknown outcome"
                );
                return Err(situation.violation(Property::Budget, message));
            }
            coverage.count_budget(Section::Surges, used + within >= max);
        }
        Ok(())
    }
}

/// Number of nodes on which a surge of unknown outcome may appear, except those that are counted
/// otherwise (C53).
pub(super) fn pending_surges(
    view: &View,
    situation: &Situation,
    is_counted: impl Fn(&str) -> bool,
) -> usize {
    const RESERVED_MS: i64 = 60_000;
    let is_pending = |(name, on_node): &(&&str, &NodeView)| {
        let has_old = !situation.active(on_node).old.is_empty();
        let is_recent = on_node
            .pending
            .is_some_and(|pending| view.planned_at.0 < pending.since.0 + RESERVED_MS);
        // A node that surges already counts once.
        let surges = situation.uses_surge(on_node, |pod| situation.may_be_available(pod));
        is_recent && has_old && !is_counted(name) && !surges
    };
    situation.nodes.iter().filter(is_pending).count()
}

fn describe(pod: &Pod) -> String {
    format!("{} (terminating: {})", pod.metadata.name, pod.metadata.is_terminating)
}

/// True if the plan surges on the node within the budget.
fn surges_within_budget(judged: &JudgedPlan, node: &str) -> bool {
    judged.creations.get(node) == Some(&Creation::SurgeWithinBudget)
}
