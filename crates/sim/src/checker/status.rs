//! The status: the counts of what a replica had seen, by the text of the rules (C56, C70).

use std::ops::RangeInclusive;

use everynode_sandbox::json::Value;

use super::history::History;
use super::in_doubt::ChangeInDoubt;
use super::model::{Eligibility, Pod};
use super::situation::{Clocks, Seen, Situation};
use super::{PendingWrite, Property, Violation, record, violation};
use crate::role::Role;
use crate::view::View;

/// Judges a write of the status by the view of its plan.
pub(super) fn check(write: &PendingWrite, view: &View, history: &History) -> Option<Violation> {
    let (clocks, stated) = (Clocks::of(view), view.stated.clone());
    let (role, feeds, known) = (view.role, view.feeds, Some(&*view.stated.orphans));
    let seen = Seen { role, feeds, known, in_doubt: ChangeInDoubt::all(view) };
    let seen = Situation::seen(&view.daemon_set, &seen, clocks, stated, history);
    let Some(situation) = seen else {
        let message = "a status for a DaemonSet that the replica has not seen".to_owned();
        return violation(Property::Foreign, message);
    };
    let status = &write.body["status"];
    // Nothing is decided by a record that may have been replaced, until a watch shows it (G9).
    let may_wait = record::comes_first(view);
    let problem = if situation.ds.metadata.is_terminating {
        Some("is written although the DaemonSet is terminating".to_owned())
    } else if view.role == Role::Beside || !status["collisionCount"].is_null() {
        // Conditions only, which are judged at rest, or only that a name was taken (C43).
        None
    } else {
        counts_problem(&situation, status).or_else(|| {
            generation_problem(&situation, view.is_waiting, write).filter(|_| !may_wait)
        })
    }?;
    Some(situation.violation(Property::Status, format!("the status {problem}")))
}

/// Which count of a status is wrong (C70).
pub(super) fn counts_problem(situation: &Situation, status: &Value) -> Option<String> {
    if situation.is_base_unknown() {
        return None;
    }
    let desired = situation.desired();
    let on_desired = |counts: &dyn Fn(&Pod) -> bool| number(desired_nodes(situation, counts));
    let surely_available = on_desired(&|pod| situation.is_surely_available(&pod.as_stated()));
    let maybe_available = on_desired(&|pod| situation.may_be_available(&pod.as_stated()));
    let unavailable = number(desired) - written(status, "numberAvailable");
    let exactly = |count: i64| count..=count;
    let expected = [
        ("desiredNumberScheduled", exactly(number(desired))),
        ("currentNumberScheduled", exactly(on_desired(&|_| true))),
        ("numberMisscheduled", exactly(number(misscheduled(situation)))),
        ("numberReady", exactly(on_desired(&|pod| pod.is_ready))),
        // Clocks leave open whether a pod is available (C54).
        ("numberAvailable", surely_available..=maybe_available),
        ("numberUnavailable", exactly(unavailable)),
        ("updatedNumberScheduled", updated(situation)),
    ];
    let is_wrong =
        |(key, allowed): &(&str, RangeInclusive<i64>)| !allowed.contains(&written(status, key));
    let (key, allowed) = expected.into_iter().find(is_wrong)?;
    let value = written(status, key);
    Some(match allowed.into_inner() {
        (least, most) if least == most => format!("has {key} {value}, correct is {least}"),
        (least, most) => format!("has {key} {value}, correct is {least} to {most}"),
    })
}

/// Number of nodes that should run a pod and whose oldest pod `counts`.
fn desired_nodes(situation: &Situation, counts: impl Fn(&Pod) -> bool) -> usize {
    let nodes = situation.nodes.values();
    let desired = nodes.filter(|on| on.eligibility == Eligibility::ShouldRun);
    let oldest = desired.filter_map(|on_node| on_node.occupants().next());
    oldest.filter(|our| counts(our.pod)).count()
}

/// `updatedNumberScheduled`. Until a revision stores the template, an earlier one counts as the
/// current one, whichever that was (C40).
fn updated(situation: &Situation) -> RangeInclusive<i64> {
    if situation.has_current_hash() {
        // One that is being changed is not updated yet (G56).
        let is_updated = |pod: &Pod| pod.change.is_none() && situation.is_updated(pod);
        let updated = number(desired_nodes(situation, is_updated));
        return updated..=updated;
    }
    0..=number(desired_nodes(situation, |_| true))
}

/// Number of nodes that should not run a pod and have one.
fn misscheduled(situation: &Situation) -> usize {
    let nodes = situation.nodes.values();
    let others = nodes.filter(|on| on.node.is_some() && on.eligibility != Eligibility::ShouldRun);
    others.filter(|on| on.occupants().next().is_some()).count()
}

/// Why the written `observedGeneration` is wrong. A plan that waits does not raise it (C56). A
/// request that is repeated after a conflict keeps that of the stored object if it is later.
fn generation_problem(
    situation: &Situation,
    is_waiting: bool,
    write: &PendingWrite,
) -> Option<String> {
    let known = written(&situation.ds.status, "observedGeneration");
    let planned = if is_waiting { known } else { known.max(situation.ds.generation) };
    let stored = write.object().filter(|stored| {
        let version = write.body["metadata"]["resourceVersion"].as_str();
        version == Some(stored.resource_version().to_string().as_str())
    });
    let stored = stored.map(|stored| written(&stored.read()["status"], "observedGeneration"));
    let observed = written(&write.body["status"], "observedGeneration");
    // The server refuses a write of another version.
    let correct = stored.unwrap_or(observed).max(planned);
    (observed != correct).then(|| format!("has observedGeneration {observed}, not {correct}"))
}

/// A number of a status; an absent one is zero.
fn written(status: &Value, key: &str) -> i64 {
    status[key].as_i64().unwrap_or_default()
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
