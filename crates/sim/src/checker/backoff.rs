//! The delays between the deletions of pods that have ended (C24).

use std::collections::BTreeMap;

use everynode_core::api::Timestamp;

use super::answer::Answer;
use super::creation_delay::{BACKOFF_MAX_MS, BACKOFF_MIN_MS};
use super::history::History;
use super::judged_plan::JudgedPlan;
use super::model::Node;
use super::reason::Uncertainty;
use super::situation::{NodeView, Situation};
use crate::view::View;

/// The deletions of pods that have ended, by replica, DaemonSet and node.
#[derive(Debug, Default)]
pub(super) struct Backoffs {
    by_node: BTreeMap<(u64, String, String), Backoff>,
}

#[derive(Clone, Debug)]
struct Backoff {
    observed_generation: i64,
    node: Option<Node>,
    /// The version that the watch of nodes had reached.
    nodes: u64,
    /// If the back-offs do not count before the node was added again, or may have recovered.
    shortest_ms: i64,
    /// If they do.
    longest_ms: i64,
    since: Timestamp,
}

impl Backoffs {
    /// When the back-off of a node's pod that has ended is over; `None` if there is none. A node
    /// that was added again, or has recovered for a while, leaves open whether the back-off still
    /// counts: a list does not show that.
    pub(super) fn end(
        &self,
        view: &View,
        situation: &Situation,
        on_node: &NodeView,
        uncertainty: Uncertainty,
        history: &History,
    ) -> Option<Timestamp> {
        let node = on_node.node?;
        let backoff = self.by_node.get(&key(view, &node.metadata.name))?;
        let is_same = |before: &&Node| node.metadata.uid == before.metadata.uid;
        let before = backoff.node.as_ref().filter(is_same);
        let has_recovered = match uncertainty {
            Uncertainty::Demands => before.is_some_and(|before| node.has_recovered_since(before)),
            Uncertainty::Allows => {
                before.is_none_or(|it| backoff.may_have_recovered(it, view, history))
            }
        };
        let is_current = backoff.observed_generation == observed_generation(situation)
            && !has_recovered
            && view.planned_at.0 - backoff.since.0 <= 2 * BACKOFF_MAX_MS;
        let delay_ms = match uncertainty {
            Uncertainty::Allows => backoff.shortest_ms,
            Uncertainty::Demands => backoff.longest_ms,
        };
        is_current.then_some(Timestamp(backoff.since.0 + delay_ms))
    }

    pub(super) fn record(
        &mut self,
        view: &View,
        situation: &Situation,
        judged: &JudgedPlan,
        history: &History,
    ) {
        if view.is_waiting {
            // A repeated deletion does not lengthen the delay.
            return;
        }
        for (uid, reason) in &judged.deletions {
            let pod = situation.pods[uid.as_str()];
            let Some(name) = pod.node() else { continue };
            let Some(on_node) = situation.nodes.get(name) else { continue };
            let is_sure = reason.is_of_ended_pod();
            // The node may be one that keeps a pod until a step of the rollout (G42).
            let may_be = || pod.has_ended() && situation.is_removal(on_node, pod) == Answer::Maybe;
            if !is_sure && !may_be() {
                continue;
            }
            let next_ms = |uncertainty, last_ms: fn(&Backoff) -> i64| {
                let end = self.end(view, situation, on_node, uncertainty, history);
                let last = end.and_then(|_| self.by_node.get(&key(view, name)));
                last.map_or(BACKOFF_MIN_MS, |last| (last_ms(last) * 2).min(BACKOFF_MAX_MS))
            };
            let backoff = Backoff {
                shortest_ms: match is_sure {
                    true => next_ms(Uncertainty::Allows, |last| last.shortest_ms),
                    false => 0,
                },
                longest_ms: next_ms(Uncertainty::Demands, |last| last.longest_ms),
                observed_generation: observed_generation(situation),
                node: on_node.node.cloned(),
                nodes: view.feeds.nodes,
                since: view.planned_at,
            };
            self.by_node.insert(key(view, name), backoff);
        }
    }
}

impl Backoff {
    /// True if the node has recovered at some time since.
    fn may_have_recovered(&self, before: &Node, view: &View, history: &History) -> bool {
        let states = history.nodes.of(&before.metadata.uid);
        let mut later = states.filter(|(at, _)| (self.nodes + 1..=view.feeds.nodes).contains(at));
        let mut before = before;
        later.any(|(_, state)| state.has_recovered_since(std::mem::replace(&mut before, state)))
    }
}

fn key(view: &View, node: &str) -> (u64, String, String) {
    (view.replica, view.daemon_set.clone(), node.to_owned())
}

fn observed_generation(situation: &Situation) -> i64 {
    situation.ds.status["observedGeneration"].as_i64().unwrap_or_default()
}
