//! Nodes that get the target after the rollout is complete (G40): while more of them have failed
//! than `maxNodes`, or are lost than `maxLost`, the rollout begins on no further one.

use super::history::History;
use super::judged_plan::JudgedPlan;
use super::model::{Failure, Phase};
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
    let max = rule(situation)?.max_nodes(situation.nodes.len() + situation.gone);
    let problem = format!(
        "a complete rollout begins on {first}, although {failed:?} have failed since, {max} may"
    );
    (failed.len() > max).then(|| situation.violation(Property::Gate, problem))
}

/// True if a complete rollout may begin on no further node.
pub(super) fn may_be_held(situation: &Situation) -> bool {
    let nodes = || situation.nodes.values();
    let failed = nodes().filter(|on_node| on_node.has_failed()).count() + situation.gone;
    let lost = nodes().filter(|on_node| on_node.is_lost()).count() + situation.gone;
    rule(situation).is_some_and(|rule| failed > rule.max_nodes(0) || lost > rule.max_lost(0))
}

/// How many nodes may fail or be lost; `None` unless the rollout is complete, which the adoption of
/// a revision in use is not, and its policy limits them.
fn rule<'a>(situation: &Situation<'a>) -> Option<&'a Failure> {
    let Stage::Moving(record) = &situation.stage else { return None };
    let rule = situation.ds.policy.valid()?.failure.as_ref()?;
    (record.phase == Phase::Complete && !record.is_adoption()).then_some(rule)
}

/// The nodes that have failed since the rollout was complete, and on which it had begun: one whose
/// old pod stays because it cannot be changed in place (G56) has failed, too.
fn surely_failed<'a>(
    situation: &'a Situation,
    history: &History,
    begun: &[&str],
) -> Option<Vec<&'a str>> {
    let Stage::Moving(record) = &situation.stage else { return None };
    // Nodes that go back do not count as tried.
    if situation.has_bad_pod(record) {
        return None;
    }
    let current = situation.revisions.current.last()?;
    let completed = history.phase_stored_at(&current.metadata.uid, record)?;
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
