//! Nodes that get the target after the rollout is complete (G40): while more of them have failed
//! than `maxNodes`, the rollout begins on no further one.

use super::judged_plan::JudgedPlan;
use super::model::Phase;
use super::situation::Situation;
use super::stage::Stage;
use super::{Property, Violation};

/// Judges whether a plan may begin on further nodes.
pub(super) fn check(situation: &Situation, judged: &JudgedPlan) -> Option<Violation> {
    let deleted = judged.replaced().filter(|(_, reason)| reason.begins());
    let deleted = deleted.filter_map(|(uid, _)| situation.pods[uid.as_str()].node());
    let created = judged.creations.iter().filter(|(_, reason)| reason.begins());
    let begun: Vec<&str> = deleted.chain(created.map(|(node, _)| node.as_str())).collect();
    let first = begun.first()?;
    let failed = surely_failed(situation, &begun);
    let max = max_failed(situation, situation.nodes.len())?;
    let problem = format!(
        "a complete rollout begins on {first}, although {failed:?} have failed since, {max} may"
    );
    (failed.len() > max).then(|| situation.violation(Property::Gate, problem))
}

/// Whether a complete rollout may begin on no further node.
pub(super) fn may_be_held(situation: &Situation) -> bool {
    let failed = situation.nodes.values().filter(|on_node| on_node.has_failed());
    max_failed(situation, 0).is_some_and(|max| failed.count() > max)
}

/// How many nodes may fail, if this many have a pod of the target; `None` unless the rollout is
/// complete, and its policy limits them.
fn max_failed(situation: &Situation, touched: usize) -> Option<usize> {
    let Stage::Moving(record) = &situation.stage else { return None };
    let rule = situation.ds.policy.valid()?.failure.as_ref()?;
    (record.phase == Phase::Complete).then(|| rule.max_nodes(touched))
}

fn surely_failed<'a>(situation: &'a Situation, begun: &[&str]) -> Vec<&'a str> {
    let nodes = situation
        .nodes
        .iter()
        .filter(|(name, on_node)| on_node.has_failed() && !begun.contains(*name));
    nodes.map(|(name, _)| *name).collect()
}
