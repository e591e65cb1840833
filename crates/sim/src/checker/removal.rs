//! Pods that only the target's own placement removes (G42).

use super::answer::Answer;
use super::guard::Governing;
use super::history::History;
use super::judged_plan::{Deletion, JudgedPlan};
use super::model::{DaemonSet, Eligibility, Node, Phase, Pod, Policy, Position, Record, Revision};
use super::situation::{NodeView, Situation};
use super::stage::{Stage, Wanted};
use super::{Property, Violation};
use crate::role::Role;

impl<'a> Situation<'a> {
    /// Determines on which nodes the target must not run, as they were when the attempt began, or
    /// when they were added.
    pub(super) fn determine_exclusions(&mut self, history: &History) {
        if !self.goes_forward() {
            return;
        }
        let (ds, attempt) = (self.ds, self.attempt(history));
        let must_not =
            |node: &Node| ds.placement.eligibility(node, None) == Eligibility::MustNotRun;
        for on_node in self.nodes.values_mut() {
            let Some(node) = on_node.node else { continue };
            let created = history.nodes.of(&node.metadata.uid).next().map_or(0, |(at, _)| at);
            let first = history.nodes.at(&node.metadata.uid, attempt.max(created));
            on_node.is_excluded = match on_node.by_target {
                Eligibility::MustNotRun if first.is_some_and(must_not) => Answer::Yes,
                Eligibility::MustNotRun => Answer::Maybe,
                _ => Answer::No,
            };
        }
    }

    /// Yes if the pod is removed with one that only the target's own placement removes, while the
    /// node keeps what it is.
    pub(super) fn is_removal(&self, on_node: &NodeView<'a>, pod: &Pod) -> Answer {
        let is_step = self.role == Role::Controller
            && self.movement().is_some_and(|movement| !movement.goes_back)
            && on_node.wanted == Wanted::Target;
        let mut others = on_node.occupants();
        let mut is_kept =
            || others.any(|our| self.is_removed_by_target(on_node, our.pod) != Answer::No);
        match self.is_removed_by_target(on_node, pod) {
            _ if !is_step => Answer::No,
            // The node keeps its pods while it has one of them.
            Answer::No if is_kept() => Answer::Maybe,
            answer => answer,
        }
    }

    /// The same once the wave of its node is open.
    fn is_removed_by_target(&self, on_node: &NodeView<'a>, pod: &Pod) -> Answer {
        let own = self.old_revision_of(pod);
        let allows = |own: &Revision| {
            on_node.node.is_some_and(|node: &Node| own.placement.eligibility(node, None).keeps())
        };
        match own {
            _ if self.is_updated(pod) => Answer::No,
            Some(own) if !allows(own) => Answer::No,
            // Without a valid policy nothing is known of how the node was.
            _ if pod.has_ended() => Answer::Maybe,
            Some(_) => on_node.is_excluded,
            // Nothing states where a pod may run whose revision is not stored.
            None if on_node.is_excluded == Answer::No => Answer::No,
            None => Answer::Maybe,
        }
    }

    /// Number of nodes that have not been touched, and of which the target's placement surely
    /// removes the pod, in an open wave or in a later one.
    fn sure_removals(&self) -> usize {
        let loses = |on_node: &&NodeView<'a>| {
            let mut pods = on_node.deletable();
            on_node.is_waiting()
                && !on_node.is_aside()
                && pods.any(|pod| self.is_removed_by_target(on_node, pod) == Answer::Yes)
        };
        self.nodes.values().filter(loses).count()
    }

    /// Number of nodes of which the target's placement may remove the pod, in an open wave or in a
    /// later one; beside the built-in controller, also of those of which it may have been removed.
    pub(super) fn possible_removals(&self) -> usize {
        let may_lose = |on_node: &&NodeView<'a>| {
            on_node.by_target == Eligibility::MustNotRun
                && on_node.deletable().any(|pod| !self.is_updated(pod))
                || self.may_have_lost(on_node)
        };
        self.nodes.values().filter(may_lose).count()
    }

    /// True if the built-in controller may have removed the pod of the node, as the target's
    /// placement demands.
    pub(super) fn may_have_lost(&self, on_node: &NodeView<'a>) -> bool {
        let mut old = self.revisions.old.iter();
        let allows = |node: &Node| old.any(|old| old.placement.eligibility(node, None).keeps());
        self.role == Role::Beside
            && on_node.by_target == Eligibility::MustNotRun
            && on_node.node.is_some_and(allows)
    }

    /// True if the rollout may have to wait before a wave that removes pods: not once somebody has
    /// promoted it.
    pub(super) fn may_await_removals(&self) -> bool {
        let Some(policy) = self.ds.policy.valid().filter(|_| self.goes_forward()) else {
            return false;
        };
        // A promotion past a wave that removes none is no permission (G42).
        if matches!(&self.stage, Stage::Moving(record) if record.is_promoted_in_full()) {
            return false;
        }
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
    // Of a node that may keep a pod, one too many goes at once, and one that has ended.
    let may_be_step = |reason: &Deletion| reason.begins() || *reason == Deletion::Misplaced;
    let mut steps = judged.deletions.iter().filter(|(_, reason)| may_be_step(reason));
    let (removed, _) = steps.find(|(uid, _)| {
        let pod = situation.pods[uid.as_str()];
        let on_node = pod.node().and_then(|node| situation.nodes.get(node));
        on_node.is_some_and(|on_node| {
            situation.is_removal(on_node, pod) == Answer::Yes && !on_node.is_updating()
        })
    })?;
    if record.phase == Phase::Complete || may_be_allowed(situation, record, history) {
        return None;
    }
    let pod = &situation.pods[removed.as_str()].metadata.name;
    let problem = format!("pod {pod} is removed, which no policy allows");
    Some(situation.violation(Property::Gate, problem))
}

/// True if a policy may have allowed to remove as many pods since the attempt began, or somebody
/// has promoted it.
fn may_be_allowed(situation: &Situation, record: &Record, history: &History) -> bool {
    let Some(current) = situation.revisions.current.last() else { return true };
    let is_of_attempt = |other: &&Record| other.began == record.began;
    let records = || history.records(&current.metadata.uid);
    let first = records().find(|(_, other)| is_of_attempt(other)).map_or(0, |(at, _)| at);
    let (nodes, removed) = (situation.nodes.len(), situation.sure_removals());
    let allows = |policy: &Policy| policy.max_removed(nodes) >= removed.max(1);
    let states = history.daemon_sets(situation.role).of(&situation.ds.metadata.uid);
    let mut states: Vec<(u64, &DaemonSet)> = states.collect();
    let since = states.partition_point(|(at, _)| *at <= first).saturating_sub(1);
    records().any(|(_, other)| is_of_attempt(&other) && other.is_promoted())
        || states.split_off(since).iter().any(|(_, ds)| ds.policy.valid().is_some_and(allows))
}

/// Why a rollout beside the built-in controller must not reach all nodes: that one has removed more
/// of their pods than the policy allows.
pub(super) fn unawaited(
    situation: &Situation,
    history: &History,
    old: Option<&Record>,
    new: &Record,
) -> Option<String> {
    let policy = situation.ds.policy.valid().filter(|_| situation.role == Role::Beside)?;
    let moves = match old {
        None => true,
        Some(old) if old.phase == Phase::Pending => true,
        Some(old) => old.is_under_way() && old.position != new.position,
    };
    let is_last = new.position == Position::AllNodes;
    let advances = is_last && matches!(new.phase, Phase::Updating | Phase::Complete);
    if !moves || !advances || new.is_promoted() {
        return None;
    }
    let uid = &situation.ds.metadata.uid;
    let states: Vec<(u64, &DaemonSet)> = history.daemon_sets(situation.role).of(uid).collect();
    let is_other = |(_, ds): &(u64, &DaemonSet)| ds.template != situation.ds.template;
    let first = states.iter().rposition(is_other).map_or(0, |last| last + 1);
    let (since, _) = *states.get(first)?;
    let max = |policy: &Policy| policy.max_removed(situation.nodes.len());
    let may_have_allowed = |ds: &DaemonSet| ds.policy.valid().is_some_and(|it| max(it) > 0);
    let current = situation.revisions.current.last()?;
    let was_promoted = history.records(&current.metadata.uid).any(|(_, it)| it.is_promoted());
    if was_promoted || states[first..].iter().any(|(_, ds)| may_have_allowed(ds)) {
        return None;
    }
    let is_lost =
        |on_node: &NodeView| was_surely_removed(situation, on_node, policy, history, since);
    let (name, _) = situation.nodes.iter().find(|(_, on_node)| is_lost(on_node))?;
    Some(format!("goes on to all nodes, while the pod of {name} is removed"))
}

/// True if the pod of a node that is what it was is surely removed by the target's placement alone:
/// it was there when the template was replaced.
fn was_surely_removed(
    situation: &Situation,
    on_node: &NodeView,
    policy: &Policy,
    history: &History,
    since: u64,
) -> bool {
    let (Some(node), Governing::Old(base)) = (on_node.node, situation.base()) else { return false };
    let is_its_own = |node: &Node| {
        !policy.is_absent(node)
            && !policy.holds(&node.metadata.labels)
            && base.placement.eligibility(node, None) == Eligibility::ShouldRun
            && situation.ds.placement.eligibility(node, None) == Eligibility::MustNotRun
    };
    let mut later = history.nodes.of(&node.metadata.uid).filter(|(at, _)| *at > since);
    let was_its_own = history.nodes.at(&node.metadata.uid, since).is_some_and(is_its_own);
    let had_pod = history.pods.histories().any(|(uid, _)| {
        history.pods.at(uid, since).is_some_and(|pod| {
            situation.ds.owns(&pod.metadata)
                && pod.node() == Some(&node.metadata.name)
                && pod.metadata.hash() == Some(base.metadata.pod_hash())
                && pod.is_ready
                && !pod.metadata.is_terminating
        })
    });
    had_pod && was_its_own && later.all(|(_, node)| is_its_own(node))
}
