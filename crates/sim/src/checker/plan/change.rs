//! Which pods a plan changes in place instead of replacing them (G56).

use everynode_core::plan::{NewChange, Outcome, Write};

use super::Judge;
use crate::checker::guard::Governing;
use crate::checker::history::History;
use crate::checker::judged_plan::Deletion;
use crate::checker::model::{
    Change, Eligibility, Phase, Pod, Policy, Revision, Update, can_change,
};
use crate::checker::reason::Uncertainty;
use crate::checker::situation::{NodeView, Situation};
use crate::checker::stage::{Stage, Wanted};
use crate::checker::{Property, Violation};
use crate::role::Role;
use crate::view::View;

/// Whole seconds, and clocks that drift.
const TOLERANCE_MS: i64 = 3_000;

impl<'a> Situation<'a> {
    /// How pods get another template.
    pub(in crate::checker) fn update(&self) -> Update {
        let is_it = self.role == Role::Controller && !self.ds.strategy.surges();
        let policy = self.ds.policy.valid().filter(|_| is_it);
        policy.map_or(Update::Replace, |policy| policy.update)
    }

    /// True if a rollout whose target differs in more than can be changed in place may have to
    /// wait: with `InPlaceOnly` until it is promoted in full, the policy allows it, or there is
    /// another template (G56).
    pub(in crate::checker) fn may_not_be_in_place(&self) -> bool {
        let target = self.revisions.current.last();
        self.update() == Update::InPlaceOnly
            && match self.base() {
                Governing::Old(base) => {
                    target.is_some_and(|it| !can_change(&base.own_template, &it.own_template))
                }
                Governing::Target => false,
                Governing::Unknown => true,
            }
    }

    /// True if pods that cannot be changed may stay: with `InPlaceOnly`. Which ones cannot is not
    /// stored (G56).
    pub(in crate::checker) fn may_keep_unchangeable_pods(&self) -> bool {
        self.goes_forward() && self.update() == Update::InPlaceOnly
    }

    /// True if it surely has to.
    pub(in crate::checker) fn must_not_begin(&self) -> bool {
        matches!(self.base(), Governing::Old(_)) && self.may_not_be_in_place()
    }

    /// True if a pod can be changed to the revision that its node is to have; `None` if nothing
    /// shows of which revision it is. One with other copies of ConfigMaps is replaced, also with
    /// `InPlaceOnly` (G57, G58).
    fn can_be_changed(&self, pod: &Pod, on_node: &NodeView<'a>) -> Option<bool> {
        let (from, to) = self.change_of(pod, on_node)?;
        Some(from.copies == to.copies && can_change(&from.template, &to.template))
    }

    /// The revision of a pod, and the one that its node is to have.
    fn change_of(&self, pod: &Pod, on_node: &NodeView<'a>) -> Option<(&'a Revision, &'a Revision)> {
        let current = self.revisions.current.last().copied();
        let to = match on_node.wanted {
            Wanted::Base => match self.base() {
                Governing::Old(base) => Some(base),
                Governing::Target | Governing::Unknown => None,
            },
            Wanted::Target | Wanted::Kept => current,
        }?;
        let from = match self.old_revision_of(pod) {
            Some(old) => old,
            None => current.filter(|_| self.is_updated(pod))?,
        };
        Some((from, to))
    }
}

impl Situation<'_> {
    /// True if the DaemonSet has the revisions from which and to which a pod is changed. It may
    /// have adopted the pod, and others may have taken a revision.
    pub(in crate::checker) fn knows(&self, change: &Change) -> bool {
        let has = |hash: &str| self.revisions.all().any(|it| it.metadata.pod_hash() == hash);
        has(&change.to) && change.label.as_deref().is_some_and(has)
    }

    /// True if the target was complete before this attempt, or in use: nodes may go back to it
    /// (G56).
    pub(in crate::checker) fn was_complete_before(&self, history: &History) -> bool {
        let Some(current) = self.revisions.current.last() else { return false };
        let record = current.record.as_ref();
        history.records(&current.metadata.uid).any(|(_, it)| {
            let is_own = record.is_some_and(|record| record.began == it.began);
            it.phase == Phase::Complete && (!is_own || it.is_adoption())
        })
    }
}

/// Judges a change of a pod. `None` is one that has begun before and is repeated.
pub(super) fn judge(judge: &Judge<'_>, new: &NewChange) -> Result<Option<Deletion>, Violation> {
    let situation = judge.situation;
    let fail = |property, problem: &str| {
        let problem = format!("pod {} is changed in place, {problem}", new.pod.name);
        Err(situation.violation(property, problem))
    };
    let (pod, on_node) = judge.pod(&new.pod)?;
    if pod.change.as_ref().is_some_and(|change| change.to == new.hash.as_str()) {
        return Ok(None);
    }
    if situation.update() == Update::Replace {
        return fail(Property::Gate, "which no policy allows");
    }
    if pod.change.is_some() {
        return fail(Property::Template, "although another change of it is not done");
    }
    if pod.has_ended() {
        return fail(Property::Template, "although it has ended");
    }
    let wanted = match on_node.wanted {
        Wanted::Target => situation.current_hashes.contains(new.hash.as_str()),
        Wanted::Base => match situation.base() {
            Governing::Old(base) => base.metadata.pod_hash() == new.hash.as_str(),
            Governing::Target | Governing::Unknown => true,
        },
        Wanted::Kept => false,
    };
    if !wanted {
        return fail(Property::Gate, "to a revision that does not govern its node");
    }
    if situation.can_be_changed(pod, on_node) == Some(false) {
        return fail(Property::Template, "although its template differs in more");
    }
    match situation.old(on_node, pod, Uncertainty::Allows) {
        Some(reason) => Ok(Some(reason)),
        None => judge.without_reason(&new.pod, pod, on_node),
    }
}

/// Why an available pod must not be deleted for its revision: it can be changed, or with
/// `InPlaceOnly` stays. "A running pod is changed instead of being replaced"; "a pod is replaced
/// within the budget if the API server or its kubelet refuses the change"; "with `InPlaceOnly` such
/// a node fails instead, with a pod that stays" (G56).
pub(super) fn unnecessary(
    view: &View,
    situation: &Situation,
    history: &History,
    pod: &Pod,
    reason: Option<Deletion>,
) -> Option<&'static str> {
    let update = situation.update();
    let goes_back = match reason {
        Some(Deletion::WithinBudget) if update != Update::Replace => false,
        Some(Deletion::GoingBack) if update != Update::Replace => true,
        _ => return None,
    };
    let on_node = situation.nodes.get(pod.node()?)?;
    let can_be_changed = situation.can_be_changed(pod, on_node)?;
    let (from, to) = situation.change_of(pod, on_node)?;
    match () {
        () if from.copies != to.copies => None,
        () if update == Update::InPlaceOnly
            && !goes_back
            && !replaces_nevertheless(situation, history) =>
        {
            Some("although pods are changed or stay")
        }
        () if can_be_changed && pod.is_running && !is_refused(view, pod) => {
            Some("although it can be changed in place")
        }
        () => None,
    }
}

/// The deletion of a pod that is being changed, because that does not succeed: its kubelet refuses
/// the resources, or its node has no room for them for `resizeWithin`, or the API server refuses
/// the change (G56).
pub(super) fn unfinished(
    view: &View,
    situation: &Situation,
    history: &History,
    on_node: &NodeView,
    pod: &Pod,
) -> Option<Deletion> {
    let update = situation.update();
    let stays = update == Update::InPlaceOnly
        && !situation.goes_back()
        && !replaces_nevertheless(situation, history);
    // A node that gets no other pod keeps this one.
    let is_replaced = !stays && on_node.eligibility == Eligibility::ShouldRun;
    let change = pod.change.as_ref().filter(|_| is_replaced)?;
    // The policy may change pods in place no longer.
    let policy = situation.ds.policy.valid().filter(|_| update != Update::Replace);
    let within_ms = policy.map_or(0, Policy::resize_within_ms);
    let is_due = pod.pending_resize.as_ref().is_some_and(|(reason, since)| {
        let waited_ms = since.map_or(0, |since| situation.now.0 - since.0);
        reason == "Infeasible" || waited_ms + TOLERANCE_MS >= within_ms
    });
    // Requests cannot be sent again if it is not known what they change.
    let is_unknown = !pod.is_assumed_to_change() && !situation.knows(change);
    (is_due || is_unknown || is_refused(view, pod)).then_some(Deletion::Unchangeable)
}

/// True if `InPlaceOnly` keeps no pod: the rollout was promoted in full, or goes back by the
/// template (G56).
fn replaces_nevertheless(situation: &Situation, history: &History) -> bool {
    matches!(situation.stage, Stage::Moving(record) if record.is_promoted_in_full())
        || situation.was_complete_before(history)
}

/// True if the API server has refused to change the pod.
fn is_refused(view: &View, pod: &Pod) -> bool {
    view.outcomes.iter().any(|outcome| {
        let is_it = match &outcome.result.write {
            Write::ChangePod(new) => new.pod.uid.to_string() == pod.metadata.uid,
            _ => false,
        };
        is_it && matches!(outcome.result.outcome, Outcome::CannotChange { .. })
    })
}
