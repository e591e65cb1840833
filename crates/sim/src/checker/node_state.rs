//! The states that each node may be in while a policy guards a rollout (G31, G33, G34).
//!
//! What a replica remembers, and in which order its watches have shown it what happened, is known
//! to that replica only. So a node has every state that some memory allows: what is surely wrong is
//! forbidden, and only what is surely due is demanded.

mod past;

use std::collections::BTreeSet;

use super::history::History;
use super::model::{Eligibility, Node, Phase, Pod, Policy, Update};
use super::situation::{OnNode, OurPod, Situation};
use super::stage::{Stage, Wanted};
use super::standing::{Answer, Memory, NodeState, NodeStates, Standing};
use crate::role::Role;
use past::Past;

/// Clocks drift, and objects have whole seconds.
const TOLERANCE_MS: i64 = 3_000;
/// Longer than the watches of a replica are behind each other, or its process stands still: what
/// happens within this time may be shown in another order.
const UNORDERED_MS: i64 = 60_000;
/// How long a node that is not ready has had no available pod before it is updated (G33).
const REPAIRABLE_MS: i64 = 60_000;

impl<'a> Situation<'a> {
    /// Whether a policy guards a rollout that goes forward, or has yet to begin.
    pub(super) fn goes_forward(&self) -> bool {
        self.is_guarded() && self.movement().is_some_and(|movement| !movement.goes_back)
    }

    /// Determines how all nodes take part in the rollout.
    pub(super) fn determine_standings(&mut self, memory: &Memory, history: &History) {
        let Some(policy) = self.ds.policy.valid().filter(|_| self.goes_forward()) else { return };
        let mut past = self.past(memory, history);
        let standings: Vec<Standing> = self
            .nodes
            .iter()
            .map(|(name, on_node)| {
                let past = past.remove(name).unwrap_or_default();
                match on_node.node {
                    Some(node) => {
                        Reading { situation: self, policy, on_node, node, past }.standing()
                    }
                    None => Standing { states: [NodeState::Done].into(), ..Standing::default() },
                }
            })
            .collect();
        for (on_node, standing) in self.nodes.values_mut().zip(standings) {
            on_node.standing = standing;
        }
    }
}

/// A node of a guarded rollout, with all that decides about its state.
struct Reading<'s, 'a> {
    situation: &'s Situation<'a>,
    policy: &'s Policy,
    on_node: &'s OnNode<'a>,
    node: &'s Node,
    past: Past,
}

impl Reading<'_, '_> {
    fn standing(&self) -> Standing {
        let is_untouched = self.is_untouched();
        Standing {
            states: match () {
                () if self.is_revision_doubtful() => [
                    NodeState::Waiting,
                    NodeState::Updating,
                    NodeState::Done,
                    NodeState::Failed,
                    NodeState::SetAside,
                ]
                .into(),
                () if is_untouched => {
                    let NodeStates(mut states) = self.untouched();
                    // Its pod may be one that cannot be changed, and stays (G56).
                    states.extend(self.may_stay().then_some(NodeState::Failed));
                    NodeStates(states)
                }
                () if self.on_node.wanted == Wanted::Target => self.begun(),
                () => self.closed(),
            },
            may_have_been_done: self.past.may_have_been_done,
            may_have_joined: self.past.may_have_joined,
            may_have_failed_late: self.may_have_failed_late(),
            has_surely_failed_late: self.has_surely_failed_late(),
            is_lost: if is_untouched { Answer::No } else { self.is_lost() },
            has_outage: self.has_outage(),
            is_excluded: match self.on_node.by_target {
                Eligibility::MustNotRun if self.past.was_excluded => Answer::Yes,
                Eligibility::MustNotRun => Answer::Maybe,
                _ => Answer::No,
            },
        }
    }

    /// Whether nothing shows of which revision pods are.
    fn is_revision_doubtful(&self) -> bool {
        let situation = self.situation;
        situation.revisions.current.is_empty()
            || situation.is_hash_doubtful()
            || situation.is_generation_doubtful(self.on_node)
    }

    fn of_target(&self) -> impl Iterator<Item = &OurPod<'_>> {
        self.on_node.occupants().filter(|our| self.situation.is_updated(our.pod))
    }

    fn of_others(&self) -> impl Iterator<Item = &OurPod<'_>> {
        self.on_node.occupants().filter(|our| !self.situation.is_updated(our.pod))
    }

    /// Whether the rollout has done nothing on the node: an old pod is there, and no other.
    fn is_untouched(&self) -> bool {
        self.of_target().next().is_none() && self.of_others().any(|our| !our.is_going)
    }

    /// Whether the node's broken pod may be why its kubelet says that it is not ready: the node has
    /// had no available pod for a minute (G33). A replica sees that later, and knows nothing of
    /// what was before it looked.
    fn is_repairable(&self) -> Answer {
        let mut old = self.of_others().filter(|our| !our.is_going);
        let was_available =
            self.past.available_ms.is_some_and(|ago_ms| ago_ms + TOLERANCE_MS < REPAIRABLE_MS);
        match () {
            () if !self.node.is_unready() || was_available => Answer::No,
            () if old.any(|our| self.situation.is_surely_available(our.pod)) => Answer::No,
            () if self.past.without_ready_ms >= REPAIRABLE_MS + UNORDERED_MS => Answer::Yes,
            () => Answer::Maybe,
        }
    }

    /// The policy selects it to be held. It is, while no pod of the target is there.
    fn is_held(&self) -> bool {
        self.policy.holds(&self.node.metadata.labels) && self.of_target().next().is_none()
    }

    /// The states of a node with an old pod on which the rollout has not begun.
    fn untouched(&self) -> NodeStates {
        let mut unscheduled = self.of_others().filter(|our| our.pod.is_unschedulable).peekable();
        let is_unscheduled = unscheduled.peek().is_some();
        let was_tried = unscheduled.any(|our| self.was_tried(our.pod));
        let is_tainted = self.on_node.by_target == Eligibility::MayKeep;
        let is_creation_unknown = self.on_node.pending.is_some() || self.on_node.has_seen_pending;
        let is_down = !self.node.is_ready() || is_unscheduled;
        let is_repairable = if is_down { self.is_repairable() } else { Answer::Yes };
        let is_aside = self.is_held()
            || self.policy.is_leaving(self.node)
            || is_tainted
            || is_repairable == Answer::No;
        match () {
            () if self.past.is_deletion_unknown || is_creation_unknown => {
                [NodeState::Waiting, NodeState::Updating, NodeState::SetAside].into()
            }
            () if is_aside && !was_tried => [NodeState::SetAside].into(),
            () if was_tried || is_repairable == Answer::Maybe => {
                [NodeState::Waiting, NodeState::SetAside].into()
            }
            () if self.on_node.by_target == Eligibility::MustNotRun
                && self.situation.may_await_removals() =>
            {
                [NodeState::Waiting, NodeState::SetAside].into()
            }
            () => [NodeState::Waiting].into(),
        }
    }

    /// Whether the pod has a revision that was tried: then that may be why it cannot be scheduled
    /// (G33).
    fn was_tried(&self, pod: &Pod) -> bool {
        let mut old = self.situation.revisions.old.iter();
        let own = old.find(|old| old.metadata.hash() == pod.metadata.hash());
        own.is_some_and(|own| own.is_recorded(|it| it.phase != Phase::Complete))
    }

    /// Whether pods that cannot be changed in place stay, so that their nodes fail (G56).
    fn may_stay(&self) -> bool {
        self.policy.update == Update::InPlaceOnly
    }

    /// The states of a node without a pod whose wave is closed, or whose pods end.
    fn closed(&self) -> NodeStates {
        if self.on_node.by_target != Eligibility::ShouldRun {
            return [NodeState::Waiting, NodeState::Done, NodeState::SetAside].into();
        }
        match self.policy.is_absent(self.node) || self.is_held() || !self.on_node.pods.is_empty() {
            true => [NodeState::Waiting, NodeState::SetAside].into(),
            false => [NodeState::Waiting].into(),
        }
    }

    /// The states of a node that is open, or has a pod of the target.
    fn begun(&self) -> NodeStates {
        if self.has_surely_failed() {
            return [NodeState::Failed].into();
        }
        let must_run_none = self.on_node.by_target != Eligibility::ShouldRun;
        let is_empty = self.on_node.occupants().next().is_none();
        if self.is_surely_done() || must_run_none && is_empty && !self.policy.is_absent(self.node) {
            // A pod that restarts too often fails its node, available or not.
            return match self.may_have_failed() {
                true => [NodeState::Done, NodeState::Failed].into(),
                false => [NodeState::Done].into(),
            };
        }
        let mut states = BTreeSet::new();
        let is_alone = || self.of_others().all(|our| our.is_going);
        let may_be_available = |our: &OurPod| self.situation.may_be_available(our.pod);
        let is_left = self.on_node.occupants().any(|our| !our.is_going);
        if self.of_target().any(may_be_available) && is_alone() || must_run_none && !is_left {
            states.insert(NodeState::Done);
        }
        if self.is_surely_aside() {
            states.insert(NodeState::SetAside);
            return NodeStates(states);
        }
        states.insert(NodeState::Updating);
        if self.may_have_failed() {
            states.insert(NodeState::Failed);
        }
        if self.may_be_aside() {
            states.insert(NodeState::SetAside);
        }
        NodeStates(states)
    }

    fn is_surely_done(&self) -> bool {
        let mut all = self.on_node.occupants();
        let (Some(only), None) = (all.next(), all.next()) else { return false };
        let pod = only.pod;
        let situation = self.situation;
        self.on_node.by_target.keeps()
            && !only.is_going
            && situation.is_updated(pod)
            && situation.is_surely_available(pod)
            && !pod.has_ended()
    }

    /// Whether something else than the template may be the reason that a node is not done (G33).
    fn may_be_aside(&self) -> bool {
        let may_be_absent =
            self.policy.is_absent(self.node) && !self.is_surely_updating_although_absent();
        let may_have_joined = !self.past.has_seen_old;
        let may_be_broken = self.past.elapsed_ms + TOLERANCE_MS >= self.policy.ready_within_ms()
            && (!self.past.was_surely_well || self.is_promoted_in_full());
        may_be_absent || self.is_held() || may_have_joined || may_be_broken
    }

    /// True if the replica has begun on the node itself before the node was absent, or because its
    /// pod may be why it is not ready, and that has not been so for so long that the node is set
    /// aside.
    fn is_surely_updating_although_absent(&self) -> bool {
        let absent_ms = self.past.absent_ms.unwrap_or_default();
        let is_short = |ms: i64| ms + TOLERANCE_MS < self.policy.ready_within_ms();
        let was_up = self.past.begun_by_replica_ms.is_some_and(|begun_ms| begun_ms > absent_ms);
        let is_repaired = !self.policy.is_leaving(self.node)
            && self.past.has_seen_old
            && self.is_repairable() == Answer::Yes;
        is_short(absent_ms) && was_up || is_short(self.past.elapsed_ms) && is_repaired
    }

    fn is_surely_aside(&self) -> bool {
        let is_down_before = self.node.unreachable_since().is_some_and(|since| {
            self.situation.now.0 - since.0 > self.past.elapsed_ms + UNORDERED_MS
        });
        is_down_before || self.past.has_surely_joined || self.is_lost() == Answer::Yes
    }

    /// Whether the node went down or began to leave after the rollout began on it, and has been so
    /// for long enough (G33).
    fn is_lost(&self) -> Answer {
        let limit_ms = self.policy.ready_within_ms();
        let Some(absent_ms) = self.past.absent_ms.filter(|_| self.on_node.wanted == Wanted::Target)
        else {
            return Answer::No;
        };
        let is_without = !self.of_target().any(|our| self.situation.may_be_available(our.pod));
        let is_begun = self.of_target().next().is_some() && self.past.has_seen_old;
        let is_later = |down_ms: i64| down_ms + UNORDERED_MS < self.past.least_elapsed_ms;
        // A retry gives it time again.
        let is_long = |down_ms: i64| down_ms.min(self.past.attempt_ms) >= limit_ms + UNORDERED_MS;
        let was_seen = |down_ms: i64| down_ms + UNORDERED_MS < self.past.known_ms;
        let is_sure = |down_ms: i64| is_later(down_ms) && is_long(down_ms) && was_seen(down_ms);
        match self.past.down_ms {
            Some(down_ms) if is_sure(down_ms) && is_begun && is_without => Answer::Yes,
            _ if absent_ms + TOLERANCE_MS < limit_ms => Answer::No,
            _ => Answer::Maybe,
        }
    }

    /// Whether the node may be blamed (G34).
    fn may_have_failed(&self) -> bool {
        // A request without an answer is no reason to blame anybody (G56).
        if self.of_target().next().is_some()
            && self.of_target().all(|our| our.pod.is_assumed_to_change())
        {
            return false;
        }
        // One that is old may stay beside one of the target that ends.
        let is_stuck = |our: &OurPod| {
            our.pod.change.is_some() || !our.is_going && !self.situation.is_updated(our.pod)
        };
        if self.may_stay() && self.on_node.occupants().any(is_stuck) {
            return true;
        }
        let Some(rule) = &self.policy.failure else { return false };
        // By an earlier limit it may have failed sooner, and remains so.
        let is_late = self
            .past
            .limit_ms
            .is_some_and(|limit_ms| self.past.elapsed_ms + TOLERANCE_MS >= limit_ms);
        let may_have_been_well =
            self.past.may_have_been_well || self.situation.role == Role::Beside;
        let max_restarts = rule.max_restarts;
        let may_restart_too_often = max_restarts.is_some_and(|max| self.past.restarts > max);
        !self.policy.is_absent(self.node)
            && may_have_been_well
            && !self.past.was_surely_unready
            && (is_late || may_restart_too_often)
    }

    /// Whether the node surely has, because a pod restarts too often, even if it is available.
    fn has_surely_failed(&self) -> bool {
        // Once the rollout is complete, no node is judged.
        let stage = self.situation.stage;
        let is_judged = matches!(stage, Stage::Moving(record) if record.is_under_way());
        is_judged
            && !self.is_promoted_in_full()
            && !self.policy.is_absent(self.node)
            && self.past.was_surely_well
            && self.past.has_seen_old
            && self.on_node.by_target.keeps()
            && self.restarts_too_often()
    }

    /// Whether somebody may have promoted the rollout after it failed. Then nodes without an
    /// available pod are not blamed (G10).
    fn is_promoted_in_full(&self) -> bool {
        self.past.is_repeated
            && matches!(self.situation.stage, Stage::Moving(record) if record.is_promoted_in_full())
    }

    fn restarts_too_often(&self) -> bool {
        let rule = self.policy.failure.as_ref();
        let max = rule.and_then(|rule| rule.max_restarts);
        // Those before the attempt do not count.
        let restarts = |pod: &Pod| pod.restarts.saturating_sub(self.past.restarts_before);
        let restarts_too_often = |pod: &Pod| max.is_some_and(|max| restarts(pod) > max);
        let changed = self.of_target().filter(|our| !our.pod.is_assumed_to_change());
        changed.into_iter().any(|our| restarts_too_often(our.pod))
    }

    /// Whether the node has been without an available pod of the target for too long, after the
    /// rollout was complete (G40).
    fn may_have_failed_late(&self) -> bool {
        let is_late = self.past.elapsed_ms + TOLERANCE_MS >= self.late_after_ms();
        let is_available = |our: &OurPod| self.situation.is_surely_available(our.pod);
        is_late && !self.is_untouched() && !self.of_target().any(is_available)
    }

    /// The replica has seen all of it, and the node has always been up and has not left.
    fn has_surely_failed_late(&self) -> bool {
        self.past.was_begun_when_complete
            && self.past.has_seen_old
            && self.past.least_elapsed_ms >= self.late_after_ms() + UNORDERED_MS
            && self.past.known_ms >= self.past.elapsed_ms + UNORDERED_MS
            && self.past.was_always_present
            && !self.past.was_target_ready
            && self.on_node.by_target == Eligibility::ShouldRun
            && self.of_target().next().is_some()
    }

    fn late_after_ms(&self) -> i64 {
        self.policy.ready_within_ms() + self.situation.ds.min_ready_seconds * 1000
    }

    /// Whether the old pod of a waiting node became unavailable after the attempt began (G14).
    fn has_outage(&self) -> Answer {
        let old: Vec<&Pod> = self.of_others().map(|our| our.pod).collect();
        if old.iter().any(|pod| self.situation.is_surely_available(pod) && !pod.has_ended()) {
            return Answer::No;
        }
        let [pod] = old[..] else { return Answer::Maybe };
        let is_new = |ago_ms: i64| ago_ms + UNORDERED_MS < self.past.attempt_ms;
        match self.past.outage_ms {
            _ if self.situation.may_be_available(pod) => Answer::Maybe,
            // A replica that took over later takes the pod to have been well before.
            Some(_) if self.past.known_ms <= self.past.attempt_ms => Answer::Maybe,
            Some(ago_ms) if ago_ms > self.past.attempt_ms + UNORDERED_MS => Answer::No,
            Some(ago_ms)
                if is_new(ago_ms)
                    && self.past.available_ms.is_some_and(is_new)
                    && ago_ms + UNORDERED_MS < self.past.known_ms
                    && self.is_untouched() =>
            {
                Answer::Yes
            }
            _ => Answer::Maybe,
        }
    }
}
