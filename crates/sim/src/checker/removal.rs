//! Pods that only the target's own placement removes (G42).

use super::history::History;
use super::model::{DaemonSet, Eligibility, Node, Phase, Pod, Policy, Record, Revision};
use super::reason::JudgedPlan;
use super::situation::{OnNode, Situation};
use super::stage::{Stage, Wanted};
use super::standing::{Answer, NodeState};
use super::{Property, Violation, violation};
use crate::role::Role;

impl<'a> Situation<'a> {
    /// Whether only the target's own placement removes the pod, while its node keeps what it is.
    pub(super) fn is_removal(&self, on_node: &OnNode<'a>, pod: &Pod) -> Answer {
        let allows =
            |(node, revision): (&Node, &Revision)| revision.placement.eligibility(node).keeps();
        let own = on_node.node.zip(self.old_revision_of(pod));
        let is_step = self.role == Role::Controller
            && self.goes_forward()
            && on_node.wanted == Wanted::Target
            && !self.is_updated(pod)
            && own.is_some_and(allows);
        match is_step {
            true if pod.has_ended() => Answer::Maybe,
            true => on_node.standing.is_excluded,
            false => Answer::No,
        }
    }

    /// Number of nodes of which the target's placement may remove the pod, in an open wave or in a
    /// later one.
    pub(super) fn possible_removals(&self) -> usize {
        let may_lose = |on_node: &&OnNode<'a>| {
            on_node.by_target == Eligibility::MustNotRun
                && on_node.deletable().any(|pod| !self.is_updated(pod))
        };
        self.nodes.values().filter(may_lose).count()
    }

    /// Whether the rollout may have to wait before a wave that removes pods.
    pub(super) fn may_await_removals(&self) -> bool {
        let Some(policy) = self.ds.policy.valid().filter(|_| self.goes_forward()) else {
            return false;
        };
        let (pods, removed) = (self.nodes_with_pods(), self.possible_removals());
        // Percentages may be rounded down.
        removed > 0 && removed >= policy.max_removed(pods)
    }

    fn nodes_with_pods(&self) -> usize {
        self.nodes.values().filter(|on_node| on_node.deletable().next().is_some()).count()
    }
}

/// A rollout removes no pod unless a policy has allowed it since it began, or somebody has promoted
/// it.
pub(super) fn check(
    situation: &Situation,
    judged: &JudgedPlan,
    history: &History,
) -> Option<Violation> {
    let Stage::Moving(record) = &situation.stage else { return None };
    let removed = judged.deletions.keys().find(|uid| {
        let pod = situation.pods[uid.as_str()];
        let on_node = pod.node().and_then(|node| situation.nodes.get(node));
        on_node.is_some_and(|on_node| {
            situation.is_removal(on_node, pod) == Answer::Yes
                && on_node.standing.states.surely(NodeState::Waiting)
        })
    })?;
    if record.phase == Phase::Complete || may_be_allowed(situation, record, history) {
        return None;
    }
    let (ds, pod) = (situation.ds, &situation.pods[removed.as_str()].metadata.name);
    let message = format!("{}: pod {pod} is removed, which no policy allows", ds.metadata.name);
    violation(Property::Gate, message)
}

/// Whether a policy has allowed to remove pods since the attempt began, or somebody has promoted
/// it.
fn may_be_allowed(situation: &Situation, record: &Record, history: &History) -> bool {
    let Some(current) = situation.revisions.current.last() else { return true };
    let is_of_attempt = |other: &&Record| other.began == record.began;
    let records = || {
        let states = history.revisions.of(&current.metadata.uid);
        states.filter_map(|(at, revision)| Some((at, revision.record.as_ref()?)))
    };
    let first = records().find(|(_, other)| is_of_attempt(other)).map_or(0, |(at, _)| at);
    let is_promoted =
        |other: &Record| matches!(other.reason.as_deref(), Some("Promoted" | "PromotedInFull"));
    let pods = situation.nodes_with_pods();
    let allows = |policy: &Policy| policy.max_removed(pods) > 0;
    let states = history.daemon_sets(situation.role).of(&situation.ds.metadata.uid);
    let mut states: Vec<(u64, &DaemonSet)> = states.collect();
    let since = states.partition_point(|(at, _)| *at <= first).saturating_sub(1);
    records().any(|(_, other)| is_of_attempt(&other) && is_promoted(other))
        || states.split_off(since).iter().any(|(_, ds)| ds.policy.valid().is_some_and(allows))
}
