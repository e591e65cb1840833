//! Judges the pods that a plan deletes and creates, by what its replica knew (C20–C27, C50–C53).
//!
//! A plan is wrong if a rule gives no reason for one of its writes, if they exceed a budget
//! together, and if it leaves out a write that a rule demands.

mod change;

use std::collections::BTreeSet;

use everynode_core::api::Timestamp;
use everynode_core::plan::{NewPod, Outcome, PodReference, Write};

use super::backoff::Backoffs;
use super::coverage::{Coverage, Section};
use super::creation_delay;
use super::demands::Demands;
use super::history::History;
use super::lost_pods::LossDelays;
use super::model::{Budget, Eligibility, Pod};
use super::reason::{Creation, Deletion, Doubt, JudgedPlan};
use super::situation::{OnNode, Situation};
use super::stage::{Stage, Wanted};
use super::{Property, Violation, budget, late, record, removal, waves};
use crate::view::{View, WriteOutcome, is_pod_write};

/// The time without creations after a namespace has refused one, because it is being deleted.
const PAUSE_MS: i64 = 60_000;

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
    if let Some(violation) = waves::check(situation, history) {
        return Err(violation);
    }
    let creations_delayed_until = creation_delay::end(view, situation.ds, history);
    let losses = LossDelays::of(view, situation.ds, history);
    let judge = Judge { view, situation, history, creations_delayed_until, losses };
    let mut judged = JudgedPlan::default();
    for write in writes {
        match write {
            Write::DeletePod(pod) => {
                let reason = judge.deletion(pod, backoffs)?;
                judged.deletions.insert(pod.uid.to_string(), reason);
            }
            Write::CreatePod(new) => {
                let reason = judge.creation(new)?;
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
    if !view.is_waiting {
        judge.demands(&judged, backoffs)?;
    }
    backoffs.record(view, situation, &judged, history);
    Ok(judged)
}

/// Judges the writes of a plan.
pub(super) struct Judge<'a> {
    pub view: &'a View,
    pub situation: &'a Situation<'a>,
    pub history: &'a History,
    pub creations_delayed_until: Option<Timestamp>,
    pub losses: LossDelays<'a>,
}

impl<'a> Judge<'a> {
    /// The pod that a deletion refers to, and its node.
    pub(super) fn pod(
        &self,
        reference: &PodReference,
    ) -> Result<(&'a Pod, &'a OnNode<'a>), Violation> {
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
        on_node: &OnNode<'a>,
    ) -> Result<T, Violation> {
        let situation = self.situation;
        let is_updated = situation.is_updated(pod);
        let property = match () {
            () if situation.keeps_pods(on_node)
                || situation.is_left_alone(on_node, Doubt::Allows) =>
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
            on_node.standing.states,
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
        let reason = situation.reason_to_delete(on_node, pod, Doubt::Allows);
        if let Some(problem) = change::unnecessary(view, situation, history, pod, reason) {
            return self.fail(reference, Property::Gate, problem);
        }
        let unchangeable = || change::unfinished(view, situation, history, on_node, pod);
        let Some(reason) = reason.or_else(unchangeable) else {
            let is_base_unknown = situation.is_base_unknown() && on_node.wanted == Wanted::Base;
            let is_revision_doubtful =
                situation.is_hash_doubtful() || situation.is_generation_doubtful(on_node);
            if (is_revision_doubtful || is_base_unknown) && situation.budget().is_some() {
                return Ok(Deletion::Excused);
            }
            return self.without_reason(reference, pod, on_node);
        };
        let end = backoffs.end(view, situation, on_node, Doubt::Allows, history);
        if !reason.is_of_ended_pod()
            || view.is_waiting
            || end.is_none_or(|end| end <= view.planned_at)
        {
            return Ok(reason);
        }
        match situation.old(on_node, pod, Doubt::Allows) {
            Some(reason) => Ok(reason),
            None => {
                let problem = "although a pod of its node has ended too recently";
                self.fail(reference, Property::Backoff, problem)
            }
        }
    }

    fn creation(&self, new: &NewPod) -> Result<Creation, Violation> {
        let Self { situation, .. } = self;
        let on_node = situation.nodes.get(new.node.as_str());
        let eligibility = on_node.map_or(Eligibility::NoNode, |on_node| on_node.eligibility);
        let (Some(on_node), Eligibility::ShouldRun) = (on_node, eligibility) else {
            let message = format!("a pod is created on {} ({eligibility:?})", new.node);
            return Err(situation.violation(Property::Placement, message));
        };
        if let Some(end) = self.creations_delayed_until {
            let message = format!(
                "a pod is created on {} at {}, although admission has changed one and creations \
                 are delayed until {}",
                new.node, self.view.planned_at.0, end.0
            );
            return Err(situation.violation(Property::Backoff, message));
        }
        if let Some(end) = self.losses.certain_end(new.node.as_str()) {
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
        situation.reason_to_create(on_node, Doubt::Allows).ok_or_else(|| {
            let beside: Vec<String> = on_node.pods.iter().map(|our| describe(our.pod)).collect();
            let message = format!("a pod is created on {} beside {beside:?}", new.node);
            let property = match situation.is_left_alone(on_node, Doubt::Allows) {
                true => Property::Gate,
                false => Property::Duplicate,
            };
            situation.violation(property, message)
        })
    }

    /// Whether the node was deleted and added again since.
    fn was_replaced(&self, on_node: &OnNode, since: Timestamp) -> bool {
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
            true => self.pending_surges(is_counted),
            false => 0,
        };
        // The rollout begins once on a node on which a surge is repeated.
        let others = pending(&|node| judged.creations.contains_key(node));
        let pending = pending(&|node| surges_within_budget(judged, node));
        let violation = budget::check(situation, judged, others, self.history)
            .or_else(|| removal::check(situation, judged, self.history))
            .or_else(|| late::check(situation, judged));
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

    /// Number of nodes on which a surge of unknown outcome may appear, except those that are
    /// counted otherwise (C53).
    fn pending_surges(&self, is_counted: impl Fn(&str) -> bool) -> usize {
        const RESERVED_MS: i64 = 60_000;
        let Self { view, situation, .. } = self;
        let is_pending = |(name, on_node): &(&&str, &OnNode)| {
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

    /// Whether the plan adopts revisions of a rollout that is guarded or paused: which pods are
    /// wanted is decided once the revisions are its own (C21, G9).
    fn adopts_first(&self) -> bool {
        let adopts = self.view.writes.iter().any(|write| matches!(write, Write::AdoptRevision(_)));
        adopts && !matches!(self.situation.stage, Stage::Unguarded)
    }

    /// Whether the plan leaves out a write that the rules demand.
    fn demands(&self, judged: &JudgedPlan, backoffs: &Backoffs) -> Result<(), Violation> {
        let Self { view, situation, .. } = self;
        let has_hash = |revision: &&&super::model::Revision| revision.metadata.hash().is_some();
        if situation.revisions.current.last().filter(has_hash).is_none()
            || situation.ds.metadata.is_terminating
            || situation.ds.selector.is_empty()
            || situation.is_base_unknown()
            || record::comes_first(view)
            || self.adopts_first()
        {
            // The revision comes first (C40), and so does a record (G9).
            return Ok(());
        }
        if let Some(violation) = record::left_out(view, situation, self.history) {
            return Err(violation);
        }
        let may_delete = judged.replaced().count() < view.burst;
        // Creations pause for a minute after the namespace has refused one (C28).
        let is_refused = |outcome: &WriteOutcome| {
            outcome.daemon_set == view.daemon_set
                && outcome.result.outcome == Outcome::NamespaceTerminating
                && outcome.arrived_at.0 + PAUSE_MS > view.planned_at.0
        };
        let may_create = judged.creations.len() < view.burst
            && !view.outcomes.iter().any(is_refused)
            && self.creations_delayed_until.is_none();
        let has_no_backoff = |on_node: &OnNode| {
            let end = backoffs.end(view, situation, on_node, Doubt::Demands, self.history);
            end.is_none_or(|end| end <= view.planned_at)
        };
        let demanded = Demands::of(situation, has_no_backoff, self.losses.delayed_nodes());
        let is_left =
            |uid: &str| !judged.deletions.contains_key(uid) && !judged.changes.contains_key(uid);
        let left_out = demanded.deletions.iter().find(|(uid, _)| is_left(uid));
        if let Some((uid, reason)) = left_out.filter(|_| may_delete) {
            let pod = describe(situation.pods[uid]);
            let property = reason.property();
            let message = format!("pod {pod} is not deleted ({})", reason.name());
            return Err(situation.violation(property, message));
        }
        let deleted = judged.replaced().map(|(uid, _)| uid);
        let deleted: BTreeSet<&str> =
            deleted.filter_map(|uid| situation.pods[uid.as_str()].node()).collect();
        // A node from which a pod that has ended is deleted gets another one after that.
        let left_out = demanded
            .creations
            .iter()
            .find(|node| !judged.creations.contains_key(**node) && !deleted.contains(**node));
        if let Some(node) = left_out.filter(|_| may_create) {
            let message = format!("no pod is created on {node}");
            return Err(situation.violation(Property::Placement, message));
        }
        if may_delete {
            self.demands_deletions(&demanded, judged, &deleted)?;
        }
        if may_create {
            self.demands_surges(&demanded, judged, &deleted)?;
        }
        Ok(())
    }

    /// Whether the plan deletes fewer old pods than the budget allows. `deleted` are the nodes from
    /// which it deletes pods.
    pub(super) fn demands_deletions(
        &self,
        demanded: &Demands<'_>,
        judged: &JudgedPlan,
        deleted: &BTreeSet<&str>,
    ) -> Result<(), Violation> {
        let Self { situation, .. } = self;
        let is_deleted = |node: &&&str| deleted.contains(**node);
        let begun = demanded.begins_at_once.iter().filter(is_deleted).count();
        // A pod of which the clocks leave open whether it is available may be among them (C54).
        let is_at_once = |reason: &&Deletion| **reason == Deletion::OldAndUnavailable;
        let doubtful = judged.replaced().map(|(_, reason)| reason).filter(is_at_once);
        let doubtful = doubtful.count().saturating_sub(begun);
        let all = demanded.begins_at_once.len();
        let left = demanded.left.unavailable.saturating_sub(doubtful);
        if begun < all.min(left) {
            let message = format!(
                "{begun} old pods that are not available are deleted, although there are {all} \
                 and {left} may be"
            );
            return Err(situation.violation(Property::Budget, message));
        }
        let candidates = &demanded.within_budget;
        let done = candidates.iter().filter(is_deleted).count();
        // A pod that has ended may still be called available: its node is the next unavailable one.
        let surely_available = |pod: &Pod| situation.is_surely_available(pod);
        let becomes_unavailable = |node: &&&str| {
            let is_available =
                !situation.is_unavailable(&situation.nodes[**node], surely_available);
            is_available && !candidates.contains(node)
        };
        // Going back, each node that loses its pod uses the budget from then on (G41).
        let is_begun =
            |node: &&&str| !candidates.contains(*node) && !demanded.begins_at_once.contains(*node);
        let others = match situation.goes_back() {
            true => deleted.iter().filter(is_begun).count(),
            false => deleted.iter().filter(becomes_unavailable).count(),
        };
        // So does one that loses its pod, which may not have been demanded.
        let is_other = |uid: &&String, reason: &Deletion| {
            let node = situation.pods.get(uid.as_str()).and_then(|pod| pod.node());
            reason.is_within_budget() && node.is_some_and(|node| !candidates.contains(&node))
        };
        let removed = judged.replaced().filter(|(uid, reason)| is_other(uid, reason));
        let others = others.max(removed.count());
        let left = demanded.left.available.saturating_sub(others);
        let left = left.min(demanded.left.unavailable.saturating_sub(begun + doubtful));
        let surges = judged.creations.values().filter(|reason| reason.begins()).count();
        // Nodes with an unavailable pod use the budget of a rollout that goes forward, too, and may
        // use that of one that goes back from now on.
        let left = match situation.goes_forward() {
            true => left.saturating_sub(begun + doubtful + surges),
            false if situation.goes_back() => left.saturating_sub(begun + doubtful),
            false => left,
        };
        let all = candidates.len();
        if done < all.min(left) {
            let message =
                format!("{done} old pods are deleted, although there are {all} and {left} may be");
            return Err(situation.violation(Property::Budget, message));
        }
        Ok(())
    }

    /// Whether the plan creates fewer pods beside others than the budget allows.
    fn demands_surges(
        &self,
        demanded: &Demands<'_>,
        judged: &JudgedPlan,
        deleted: &BTreeSet<&str>,
    ) -> Result<(), Violation> {
        let Self { situation, .. } = self;
        let is_created = |node: &&&str| judged.creations.contains_key(**node);
        // A node whose pod has ended gets a new one next, and uses up the budget as well.
        let is_done = |node: &&&str| is_created(node) || deleted.contains(**node);
        let candidates = demanded.surges.iter();
        let (all, done) = (candidates.len(), candidates.filter(is_done).count());
        let seen = situation.nodes.values().filter(|on_node| on_node.has_seen_pending).count();
        let pending = self.pending_surges(|node| surges_within_budget(judged, node)) + seen;
        let removed = judged.deletions.values().filter(|reason| reason.begins()).count();
        let left = demanded.left.available.saturating_sub(pending + removed);
        let at_once = demanded.surges_at_once.len();
        let begun = demanded.surges_at_once.iter().filter(is_done).count();
        // One beside a pod of which the clocks leave open whether it is available may be among
        // them (C54).
        let is_at_once = |(name, reason): &(&String, &Creation)| {
            **reason == Creation::SurgeAtOnce && !demanded.surges_at_once.contains(&name.as_str())
        };
        let doubtful = judged.creations.iter().filter(is_at_once).count();
        let is_delayed = |(name, reason): &(&String, &Creation)| {
            **reason == Creation::SurgeWithinBudget && demanded.delayed.contains(name.as_str())
        };
        let delayed = judged.creations.iter().filter(is_delayed).count();
        let left = left.saturating_sub(delayed);
        let beginnings_left =
            demanded.left.unavailable.saturating_sub(doubtful + pending + delayed + removed);
        if begun < at_once.min(beginnings_left) {
            let message = format!(
                "{begun} pods surge beside unavailable ones, although {at_once} and \
                 {beginnings_left} may"
            );
            return Err(situation.violation(Property::Budget, message));
        }
        let left = left.min(beginnings_left.saturating_sub(begun));
        // Guarded, nodes with an unavailable pod use the budget from now on, too (G14, G41).
        let left = match situation.goes_forward() || situation.goes_back() {
            true => left.saturating_sub(begun + doubtful),
            false => left,
        };
        if done < all.min(left) {
            let message =
                format!("{done} pods surge, although {all} and {left} may: {:?}", demanded.surges);
            return Err(situation.violation(Property::Budget, message));
        }
        Ok(())
    }
}

fn describe(pod: &Pod) -> String {
    format!("{} (terminating: {})", pod.metadata.name, pod.metadata.is_terminating)
}

/// Whether the plan surges on the node within the budget.
fn surges_within_budget(judged: &JudgedPlan, node: &str) -> bool {
    judged.creations.get(node) == Some(&Creation::SurgeWithinBudget)
}
