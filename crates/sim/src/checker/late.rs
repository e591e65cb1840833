//! Nodes that get the target after the rollout is complete (G40): while more of them have failed
//! than `maxNodes`, the rollout begins on no further one.

use super::history::History;
use super::judged_plan::JudgedPlan;
use super::model::Phase;
use super::node_state::TOLERANCE_MS;
use super::situation::{NodeView, Situation};
use super::stage::Stage;
use super::{Property, Violation};

/// Judges whether a plan may begin on further nodes.
pub(super) fn check(
    situation: &Situation,
    judged: &JudgedPlan,
    history: &History,
) -> Option<Violation> {
    let deleted = judged.replaced().filter(|(_, reason)| reason.begins());
    let deleted = deleted.filter_map(|(uid, _)| situation.pods[uid.as_str()].node());
    let created = judged.creations.iter().filter(|(_, reason)| reason.begins());
    let begun: Vec<&str> = deleted.chain(created.map(|(node, _)| node.as_str())).collect();
    let first = begun.first()?;
    let failed = surely_failed(situation, history, &begun)?;
    let max = max_failed(situation, situation.nodes.len())?;
    let problem = format!(
        "a complete rollout begins on {first}, although {failed:?} have failed since, {max} may"
    );
    (failed.len() > max).then(|| situation.violation(Property::Gate, problem))
}

/// True if a complete rollout may begin on no further node.
pub(super) fn may_be_held(situation: &Situation) -> bool {
    let failed = situation.nodes.values().filter(|on_node| on_node.has_failed());
    max_failed(situation, 0).is_some_and(|max| failed.count() > max)
}

/// How many nodes may fail, if this many have a pod of the target; `None` unless the rollout is
/// complete, which the adoption of a revision in use is not, and its policy limits them.
fn max_failed(situation: &Situation, touched: usize) -> Option<usize> {
    let Stage::Moving(record) = &situation.stage else { return None };
    let rule = situation.ds.policy.valid()?.failure.as_ref()?;
    let is_complete = record.phase == Phase::Complete && !record.is_adoption();
    is_complete.then(|| rule.max_nodes(touched))
}

/// The nodes that have failed since the rollout was complete, and on which it had begun: one whose
/// old pod stays because it cannot be changed in place (G56) has failed, too.
fn surely_failed<'a>(
    situation: &'a Situation,
    history: &History,
    begun: &[&str],
) -> Option<Vec<&'a str>> {
    let (Stage::Moving(record), current) = (&situation.stage, situation.revisions.current.last()?)
    else {
        return None;
    };
    // Nodes that go back do not count as tried.
    if situation.has_bad_pod(record) {
        return None;
    }
    let completed = history.time_of(history.phase_version(&current.metadata.uid, record)?);
    let limit_ms = situation.ds.policy.valid()?.ready_within_ms();
    let has_target = |on_node: &NodeView| {
        let mut pods = on_node.occupants().map(|our| our.pod);
        pods.any(|pod| situation.is_updated(pod) && pod.change.is_none())
    };
    let is_late = |on_node: &NodeView| {
        let failed_at = on_node.stated.map(|stated| stated.since);
        failed_at.is_some_and(|at| at.0 + TOLERANCE_MS > completed.0 + limit_ms)
    };
    let is_it = |(name, on_node): &(&&str, &NodeView)| {
        on_node.has_failed() && is_late(on_node) && has_target(on_node) && !begun.contains(*name)
    };
    Some(situation.nodes.iter().filter(is_it).map(|(name, _)| *name).collect())
}
