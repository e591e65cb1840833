//! The states of the nodes while a policy guards a rollout (G31, G33, G34, G41).
//!
//! Which state a node is in depends on what a replica remembers. So each replica states it, and the
//! checkers use what it states. Here that is judged: a state must be true of the pods and the node
//! as the replica has seen them. What happened within a minute may have been shown in any order.

mod aside;
mod blame;

use everynode_core::api::Timestamp;
use everynode_core::daemon_set::{NodeState, Outage, SetAside};
use everynode_core::plan::{Outcome, Write};

use super::history::History;
use super::model::{DaemonSet, Eligibility, Node, Phase, Pod, Policy};
use super::situation::{NodeView, OurPod, Situation};
use super::stage::Stage;
use super::{Property, Violation};
use crate::statement::StatedNode;
use crate::view::{View, WriteOutcome};

/// Clocks drift, and objects have whole seconds.
pub(super) const TOLERANCE_MS: i64 = 3_000;
/// Longer than the watches of a replica are behind each other, or its process stands still.
const UNORDERED_MS: i64 = 60_000;
/// How long a node that is not ready has had no available pod before it is updated (G33).
const REPAIRABLE_MS: i64 = 60_000;

impl NodeView<'_> {
    /// The state of the node, as the replica states it; `None` unless a policy guards the rollout.
    pub(super) fn state(&self) -> Option<NodeState> {
        self.stated.map(|stated| stated.state)
    }

    /// True if the node does not hold up its wave (G39).
    pub(super) fn has_passed(&self) -> bool {
        self.is_tried() || self.is_aside()
    }

    /// True if the rollout has tried something on the node (G39).
    pub(super) fn is_tried(&self) -> bool {
        self.is_done() || self.has_failed()
    }

    pub(super) fn is_done(&self) -> bool {
        self.state() == Some(NodeState::Done)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.state() == Some(NodeState::Failed)
    }

    /// True if the node is set aside (G33).
    pub(super) fn is_aside(&self) -> bool {
        matches!(self.state(), Some(NodeState::SetAside(_)))
    }

    pub(super) fn is_lost(&self) -> bool {
        self.state() == Some(NodeState::SetAside(SetAside::Lost))
    }

    /// True if the rollout has yet to begin on the node.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state(), Some(NodeState::Waiting { .. }))
    }

    /// True if an earlier rollout took its available pod away, and nothing was done since.
    pub(super) fn is_taken(&self) -> bool {
        matches!(self.state(), Some(NodeState::Waiting { outage: Outage::Taken }))
    }

    /// True if the rollout was done with the node before, and is not now.
    pub(super) fn was_passed(&self) -> bool {
        matches!(self.state(), Some(NodeState::Updating { was_passed: true, .. }))
    }

    pub(super) fn is_updating(&self) -> bool {
        matches!(self.state(), Some(NodeState::Updating { .. }))
    }
}

impl Situation<'_> {
    /// True if a policy guards a rollout that goes forward, or has yet to begin.
    pub(super) fn goes_forward(&self) -> bool {
        self.is_guarded() && self.movement().is_some_and(|movement| !movement.goes_back)
    }

    /// The version with which the attempt began: that of its first record.
    pub(super) fn attempt(&self, history: &History) -> u64 {
        let (Stage::Moving(record), Some(current)) = (&self.stage, self.revisions.current.last())
        else {
            return history.version();
        };
        let mut records = history.records(&current.metadata.uid);
        let first = records.find(|(_, other)| other.began == record.began);
        first.map_or(history.version(), |(at, _)| at)
    }

    /// True if the target has had another attempt before this one.
    pub(super) fn is_repeated(&self, history: &History) -> bool {
        let (Stage::Moving(record), Some(current)) = (&self.stage, self.revisions.current.last())
        else {
            return false;
        };
        let mut records = history.records(&current.metadata.uid);
        records.any(|(_, it)| it.began != record.began && it.phase != Phase::Pending)
    }

    /// True if nothing shows of which revision pods are, or which ones are there.
    fn is_in_doubt(&self, on_node: &NodeView, view: &View) -> bool {
        let is_unknown = |WriteOutcome { result, .. }: &WriteOutcome| match &result.write {
            Write::DeletePod(pod) => {
                matches!(result.outcome, Outcome::Unknown { .. })
                    && on_node.pods.iter().any(|our| our.pod.metadata.uid == pod.uid.to_string())
            }
            _ => false,
        };
        !self.has_current_hash()
            || self.is_generation_doubtful(on_node)
            || on_node.pending.is_some()
            || on_node.has_seen_pending
            || view.outcomes.iter().any(is_unknown)
    }
}

/// Judges the states of the nodes.
pub(super) fn check(view: &View, situation: &Situation, history: &History) -> Option<Violation> {
    let is_followed = situation.movement().is_some() && !view.is_waiting;
    let policy = situation.ds.policy.valid().filter(|_| is_followed)?;
    let attempt = situation.attempt(history);
    situation.nodes.iter().find_map(|(name, on_node)| {
        let (node, stated) = (on_node.node?, on_node.stated?);
        if situation.is_in_doubt(on_node, view) {
            return None;
        }
        let claim = Claim { view, situation, history, policy, on_node, node, stated, attempt };
        let problem = match situation.goes_back() {
            true => claim.problem_going_back(),
            false => claim.problem(),
        }?;
        let pods: Vec<&str> = on_node.pods.iter().map(|our| &*our.pod.metadata.name).collect();
        let message =
            format!("node {name} is {:?}, {problem}; its pods are {pods:?}", stated.state);
        Some(situation.violation(Property::State, message))
    })
}

/// A replica's statement about a node, and what it is judged by.
struct Claim<'s, 'a> {
    view: &'s View,
    situation: &'s Situation<'a>,
    history: &'s History,
    policy: &'s Policy,
    on_node: &'s NodeView<'a>,
    node: &'s Node,
    stated: StatedNode,
    /// The version with which the attempt began.
    attempt: u64,
}

/// Why a state is not true.
type Problem = Option<&'static str>;

impl Claim<'_, '_> {
    fn problem(&self) -> Problem {
        match self.stated.state {
            NodeState::Waiting { outage } | NodeState::Pulling { outage, .. } => {
                self.untouched().or_else(|| self.outage(outage))
            }
            NodeState::Asked { .. } => Some("although nobody is asked"),
            NodeState::Updating { .. } => self.updating(),
            NodeState::Done => self.done(),
            NodeState::Failed => self.failed(),
            NodeState::SetAside(reason) => self.set_aside(reason),
        }
    }

    /// "Each node whose pod is replaced uses the budget from then on until its pod of the base is
    /// available. Nodes that are down use none" (G41).
    fn problem_going_back(&self) -> Problem {
        let situation = self.situation;
        let mut stays = self.on_node.deletable();
        let is_away = situation.is_away(self.on_node);
        let is_kept = self.policy.holds(&self.node.metadata.labels)
            || self.on_node.eligibility == Eligibility::MayKeep;
        let is_surely_back = |pod: &Pod| {
            situation.is_surely_available(pod) && !pod.has_ended() && !situation.is_updated(pod)
        };
        match self.stated.state {
            NodeState::Updating { .. } if is_away => Some("although it is down or leaves"),
            NodeState::Updating { .. } if !self.has_target() && stays.any(is_surely_back) => {
                Some("although it is back")
            }
            NodeState::Updating { .. } | NodeState::SetAside(_) => None,
            _ if is_away || is_kept || stays.any(|pod| situation.may_be_available(pod)) => None,
            _ if self.has_target() => Some("although it goes back"),
            _ => None,
        }
    }

    fn of_target(&self) -> impl Iterator<Item = &OurPod<'_>> {
        self.on_node.occupants().filter(|our| self.situation.is_updated(our.pod))
    }

    fn of_others(&self) -> impl Iterator<Item = &OurPod<'_>> {
        self.on_node.occupants().filter(|our| !self.situation.is_updated(our.pod))
    }

    fn has_target(&self) -> bool {
        self.of_target().next().is_some()
    }

    /// True if the rollout has begun by the pods of the target: one that ends beside an old one is
    /// no beginning.
    fn is_touched(&self) -> bool {
        self.of_target().any(|our| !our.is_going || !self.has_old())
    }

    /// True if an old pod is there that stays.
    fn has_old(&self) -> bool {
        self.of_others().any(|our| !our.is_going)
    }

    fn is_open(&self) -> bool {
        self.situation.open_nodes.contains(&self.node.metadata.name)
    }

    fn is_absent(&self) -> bool {
        self.policy.is_absent(self.node)
    }

    /// "Its pod has another revision, and the rollout has done nothing there", nor is it set aside.
    fn untouched(&self) -> Problem {
        let must_run = self.on_node.by_target == Eligibility::ShouldRun;
        match () {
            () if self.is_touched() => Some("although a pod of the target is there"),
            () if self.is_open() && must_run && !self.has_old() && !self.is_absent() => {
                Some("although its wave is open and its old pod is gone")
            }
            () if self.has_old() && self.must_be_aside() => Some("although it must be set aside"),
            () => None,
        }
    }

    /// True if the node must be set aside while the rollout has done nothing there. One that is
    /// held and has lost its pod to an earlier attempt uses the budget instead (G14).
    fn must_be_aside(&self) -> bool {
        let is_tainted = self.on_node.by_target == Eligibility::MayKeep;
        let mut unscheduled = self.of_others().filter(|our| our.pod.is_unschedulable);
        let is_down = !self.node.is_ready()
            && (!self.node.is_unready() || self.had_available_pod_within(REPAIRABLE_MS))
            || unscheduled.any(|our| !self.was_tried(our.pod)) && !self.node.is_unready();
        self.on_node.is_held(Some(self.policy)) && !self.on_node.is_taken()
            || self.policy.is_leaving(self.node)
            || is_tainted && self.is_open()
            || is_down
    }

    /// True if the pod has a revision that was tried: then that may be why it cannot be scheduled.
    fn was_tried(&self, pod: &Pod) -> bool {
        let own = self.situation.old_revision_of(pod);
        own.is_none_or(|own| own.is_recorded(|it| it.phase != Phase::Complete))
    }

    /// True if the old pod was surely available less than this time ago, for as long as watches
    /// need to show it.
    fn had_available_pod_within(&self, within_ms: i64) -> bool {
        let situation = self.situation;
        self.of_others().filter(|our| !our.is_going).any(|our| {
            situation.is_surely_available(our.pod)
                || self
                    .available_until(our.pod)
                    .is_some_and(|until| situation.now.0 - until.0 + TOLERANCE_MS < within_ms)
        })
    }

    /// Until when a pod that is not ready was available, if watches surely have shown that.
    fn available_until(&self, pod: &Pod) -> Option<Timestamp> {
        let (pods, uid) = (&self.history.pods, &pod.metadata.uid);
        let seen: Vec<_> = pods.of(uid).filter(|(at, _)| *at <= self.view.feeds.pods).collect();
        let last = seen.iter().rposition(|(_, state)| state.is_ready)?;
        let until = self.history.time_of(seen.get(last + 1)?.0);
        let shown = Timestamp(until.0 - UNORDERED_MS);
        let version = self.history.version_before(shown);
        let was = pods.at(uid, version)?;
        let min_ready = 2 * self.situation.ds.min_ready_seconds + 1;
        let is_it = self.situation.ds.owns(&was.metadata)
            && was.is_available(min_ready, shown)
            && pods.was_always(uid, (version, seen[last].0), |state| state.is_ready);
        is_it.then_some(until)
    }

    /// The problem with the stated outage: whether the pod of a waiting node became unavailable
    /// after the attempt began (G14). One that is stated too often uses the budget in vain.
    fn outage(&self, outage: Outage) -> Problem {
        let old: Vec<&OurPod> = self.of_others().collect();
        let is_available = |our: &&OurPod| {
            self.situation.is_surely_available(our.pod) && !our.is_going && !our.pod.has_ended()
        };
        // On a machine that came later it was not available before.
        let known = self.stated.known_since.max(self.node.created().unwrap_or_default());
        let after = self.attempt_at().max(known).0;
        match (outage, &old[..]) {
            (Outage::New | Outage::Taken, pods) if pods.iter().any(is_available) => {
                Some("although its old pod is available")
            }
            (Outage::None, [our]) if !self.situation.may_be_available(our.pod) => {
                let until = self.available_until(our.pod)?;
                (until.0 > after + UNORDERED_MS && self.on_node.by_target == Eligibility::ShouldRun)
                    .then_some("although its old pod became unavailable after the attempt began")
            }
            _ => None,
        }
    }

    /// "Its wave is open, and its old pod is gone or ends, or a pod of the target is there, but
    /// none is available, or not the only one."
    fn updating(&self) -> Problem {
        match () {
            () if !self.is_touched() && self.has_old() => Some("although nothing was done there"),
            () if !self.is_touched() && !self.is_open() => Some("although its wave is closed"),
            () if self.is_surely_done() => Some("although it is done"),
            () if self.limit_ms().is_some_and(|limit_ms| self.lasts(limit_ms)) => {
                Some("which takes too long")
            }
            () if self.has_surely_failed() => Some("although a pod restarts too often"),
            () => None,
        }
    }

    /// For how long a node may be updated; `None` if for ever.
    fn limit_ms(&self) -> Option<i64> {
        let Stage::Moving(record) = &self.situation.stage else { return None };
        let rule = self.policy.failure.as_ref().and_then(|rule| rule.ready_within_ms);
        let is_limited = match record.phase {
            Phase::Complete => self.blames_late(),
            _ => rule.is_some(),
        };
        is_limited.then(|| limit_ms(self.situation.ds, self.policy))
    }

    /// True if the node, with a pod of the target that is not ready, or down, has surely been so
    /// for longer than this.
    fn lasts(&self, limit_ms: i64) -> bool {
        let since = Timestamp(self.situation.now.0 - limit_ms - UNORDERED_MS);
        let is_restarted = self.attempt_at() > since || self.has_lost_record(since);
        let is_old = |pod: &Pod| {
            let unready = pod.ready_since.or(pod.created());
            !pod.is_ready && pod.change.is_none() && unready.is_some_and(|at| at < since)
        };
        let is_absent = |node: &Node| self.policy.is_absent(node);
        let all: Vec<&OurPod> = self.on_node.occupants().collect();
        let [our] = all[..] else { return false };
        self.stated.since.max(self.stated.known_since) < since
            && !is_restarted
            && self.on_node.by_target.keeps()
            && self.situation.is_updated(our.pod)
            && !our.is_going
            && is_old(our.pod)
            && (self.was_since(since, |node| !is_absent(node)) || self.was_since(since, is_absent))
    }

    /// True if a record could not be written since this time: then times are measured anew (G15).
    fn has_lost_record(&self, since: Timestamp) -> bool {
        let mut outcomes = self.view.outcomes.iter();
        outcomes.any(|outcome: &WriteOutcome| {
            matches!(outcome.result.write, Write::WriteRecord { .. })
                && !matches!(outcome.result.outcome, Outcome::Written { .. })
                && outcome.arrived_at > since
        })
    }

    fn is_here(&self, pod: &Pod) -> bool {
        self.situation.ds.owns(&pod.metadata) && pod.node() == Some(&self.node.metadata.name)
    }

    fn is_surely_done(&self) -> bool {
        let mut all = self.on_node.occupants();
        let situation = self.situation;
        let must_run_none = self.on_node.by_target != Eligibility::ShouldRun;
        match (all.next(), all.next()) {
            (None, _) => must_run_none && !self.is_absent() && !self.may_be_barred(),
            (Some(our), None) => {
                self.on_node.by_target.keeps()
                    && !our.is_going
                    && !our.pod.has_ended()
                    && situation.is_updated(our.pod)
                    && situation.is_surely_available(our.pod)
            }
            _ => false,
        }
    }

    /// "It has an available pod of the target and no other, or must run none and has none."
    fn done(&self) -> Problem {
        let is_available = |our: &OurPod| self.situation.may_be_available(our.pod);
        let must_run_none = self.on_node.by_target != Eligibility::ShouldRun;
        let has_new = !self.has_old() && self.of_target().any(is_available);
        let has_none = must_run_none && self.on_node.occupants().all(|our| our.is_going);
        match () {
            () if !has_new && !has_none => Some("without an available pod of the target alone"),
            () if self.has_surely_failed() => Some("although a pod restarts too often"),
            () => None,
        }
    }

    /// True if the node has been so since this time, as far as the replica has seen.
    fn was_since(&self, since: Timestamp, is_it: impl Fn(&Node) -> bool) -> bool {
        let seen = self.view.feeds.nodes;
        let versions = (self.history.version_before(since).min(seen), seen);
        self.history.nodes.was_always(&self.node.metadata.uid, versions, is_it)
    }
}

/// For how long a node may have no available pod, or be absent (G33, G34).
fn limit_ms(ds: &DaemonSet, policy: &Policy) -> i64 {
    policy.ready_within_ms() + ds.min_ready_seconds * 1000
}
