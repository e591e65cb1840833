//! Which revision governs a node of a guarded or paused rollout, and which pods are replaced (G1,
//! G6, G7, G11, G15, G33), by the text of the rules.
//!
//! Which nodes of a wave are open depends on what the replica did before, so its view states them.
//! [`waves`](super::waves) judges that statement; here it is used.

use everynode_core::api::Timestamp;

use crate::role::Role;

use super::model::{Eligibility, Namespace, Node, Phase, Pod, Record, Revision};
use super::reason::Uncertainty;
use super::situation::{NodeView, OurPod, Situation};
use super::stage::{Movement, Stage, Wanted};
use everynode_core::daemon_set::{NodeState, SetAside};

/// Records have whole seconds, and that of an end may be a second late (G36).
const RECORD_TIME_ERROR_MS: i64 = 2_000;

/// The revision that governs a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Governing<'a> {
    Target,
    Old(&'a Revision),
    /// The base, which nothing shows: neither a record nor a pod of a stored revision does.
    Unknown,
}

impl<'a> Situation<'a> {
    /// True if a policy that is followed guards the rollout.
    pub(super) fn is_guarded(&self) -> bool {
        self.ds.policy.valid().is_some()
    }

    /// Which pods are replaced; `None` if the target governs all nodes.
    pub(super) fn movement(&self) -> Option<Movement> {
        self.stage.movement(self.role, self.ds.is_paused() || self.awaits_window)
    }

    /// True if no window is open, and the rollout goes forward (G5, G11): going back to the base or
    /// to the revision that was complete before another was tried does not wait, and a first
    /// template replaces nothing.
    pub(super) fn must_await_window(&self, wall: Timestamp) -> bool {
        let goes_forward = match &self.stage {
            Stage::Pending => !self.revisions.old.is_empty(),
            Stage::Moving(record) if record.phase == Phase::Complete => !self.has_bad_pod(record),
            Stage::Moving(_) => !self.revisions.old.is_empty(),
            _ => false,
        };
        goes_forward && self.ds.policy.valid().is_some_and(|policy| !policy.is_open(wall))
    }

    /// True if a pod has a revision that was tried in vain after this record was complete.
    pub(super) fn has_bad_pod(&self, complete: &Record) -> bool {
        let is_bad = |record: &Record| {
            matches!(record.phase, Phase::Failed | Phase::Superseded)
                && record.began.0 + RECORD_TIME_ERROR_MS >= complete.since.0
        };
        let mut bad = self.revisions.old.iter().filter(|old| old.is_recorded(is_bad));
        bad.any(|old| self.is_used(old.metadata.pod_hash()))
    }

    /// True if no pod of the node is replaced for its revision (G1, G6); nor is one that a request
    /// without an answer may change yet (G56).
    pub(super) fn keeps_pods(&self, on_node: &NodeView<'a>) -> bool {
        self.movement().is_some_and(|movement| !movement.replaces)
            || on_node.wanted == Wanted::Kept
            || on_node.deletable().any(Pod::is_assumed_to_change)
    }

    /// True if the node is one whose old pod is left alone until the rollout has begun there
    /// (G33). Going back, it does not matter what becomes of absent nodes.
    pub(super) fn is_left_alone(&self, on_node: &NodeView<'a>, uncertainty: Uncertainty) -> bool {
        match (on_node.state(), uncertainty) {
            _ if self.goes_back() => uncertainty == Uncertainty::Demands && self.is_absent(on_node),
            (Some(NodeState::Waiting { .. }), _) => false,
            (None, _) => self.goes_forward() && uncertainty == Uncertainty::Demands,
            (Some(state), Uncertainty::Allows) => matches!(state, NodeState::SetAside(reason)
                if !matches!(reason, SetAside::Joined | SetAside::BrokenBefore | SetAside::Lost)),
            (Some(_), Uncertainty::Demands) => true,
        }
    }

    /// True if nodes go back to the base.
    pub(super) fn goes_back(&self) -> bool {
        self.movement().is_some_and(|movement| movement.goes_back)
    }

    /// True if the node is down, leaves, or has a taint that keeps new pods away.
    fn is_absent(&self, on_node: &NodeView<'a>) -> bool {
        on_node.eligibility != Eligibility::ShouldRun || self.is_away(on_node)
    }

    /// True if the node is down or leaves (G33).
    pub(super) fn is_away(&self, on_node: &NodeView<'a>) -> bool {
        let policy = self.ds.policy.valid();
        let is_away =
            |node: &Node| policy.map_or(!node.is_ready(), |policy| policy.is_absent(node));
        on_node.node.is_some_and(is_away)
    }

    /// True if the rollout wants the pod on its node.
    pub(super) fn wants(&self, on_node: &NodeView<'a>, pod: &Pod) -> bool {
        match on_node.wanted {
            Wanted::Target => self.is_updated(pod),
            Wanted::Kept => false,
            Wanted::Base => match self.base() {
                Governing::Old(base) => pod.metadata.hash() == Some(base.metadata.pod_hash()),
                Governing::Target | Governing::Unknown => self.is_updated(pod),
            },
        }
    }

    /// The revision that governs the node with this name.
    pub(super) fn governing(&self, node: &str) -> Governing<'a> {
        match (self.nodes.get(node), self.movement()) {
            (Some(on_node), Some(movement)) => {
                self.governing_of(node, on_node, movement, self.base()).0
            }
            (Some(_) | None, _) => Governing::Target,
        }
    }

    /// True if some node may be governed by a base that nothing shows. Beside the built-in
    /// controller the target governs all nodes without a pod.
    pub(super) fn is_base_unknown(&self) -> bool {
        self.role != Role::Beside
            && self.movement().is_some()
            && matches!(self.base(), Governing::Unknown)
    }

    /// Determines for each node which revision governs it, and its eligibility by that one.
    pub(super) fn apply_guard(&mut self, namespace: Option<&Namespace>) {
        let Some(movement) = self.movement() else { return };
        let base = self.base();
        let is_unknown = self.role != Role::Beside && matches!(base, Governing::Unknown);
        let found: Vec<_> = self
            .nodes
            .iter()
            .map(|(name, on_node)| {
                let governing = self.governing_of(name, on_node, movement, base);
                let placed_by = match self.role {
                    // The built-in controller places all pods by the target.
                    Role::Beside => (Governing::Target, Wanted::Target),
                    Role::Controller | Role::BuiltIn => governing,
                };
                let eligibility =
                    on_node.node.map(|node| self.eligibility(on_node, node, placed_by, namespace));
                (governing.1, eligibility)
            })
            .collect();
        for ((name, on_node), (wanted, found)) in self.nodes.iter_mut().zip(found) {
            let is_open = self.open_nodes.contains(*name);
            on_node.eligibility = found.unwrap_or(on_node.eligibility);
            on_node.wanted = wanted;
            on_node.by_base = match (base, on_node.node) {
                (Governing::Old(base), Some(node)) => {
                    Some(base.placement.eligibility(node, namespace))
                }
                _ => None,
            };
            on_node.is_doubtful = wanted == Wanted::Kept && is_unknown && on_node.pods.is_empty();
            let should_run = on_node.by_target.max(on_node.eligibility) == Eligibility::ShouldRun;
            let has_pod = on_node.occupants().next().is_some();
            on_node.is_member = on_node.node.is_some() && (should_run || has_pod || is_open);
        }
    }

    fn eligibility(
        &self,
        on_node: &NodeView<'a>,
        node: &Node,
        (governing, wanted): (Governing<'a>, Wanted),
        namespace: Option<&Namespace>,
    ) -> Eligibility {
        let placement = match governing {
            Governing::Old(revision) => &revision.placement,
            Governing::Target => &self.ds.placement,
            // Any revision may be the base: what each of them allows is allowed.
            Governing::Unknown => return Eligibility::ShouldRun,
        };
        let found = placement.eligibility(node, namespace);
        let is_known = |pod: &Pod| self.is_updated(pod) || self.old_revision_of(pod).is_some();
        if wanted != Wanted::Kept || on_node.pods.iter().all(|our| is_known(our.pod)) {
            found
        } else {
            found.max(Eligibility::MayKeep)
        }
    }

    fn governing_of(
        &self,
        name: &str,
        on_node: &NodeView<'a>,
        movement: Movement,
        base: Governing<'a>,
    ) -> (Governing<'a>, Wanted) {
        let is_there = |our: &&OurPod| !(our.pod.metadata.is_terminating && our.pod.has_ended());
        let present = || on_node.pods.iter().filter(is_there);
        let pods = || present().map(|our| our.pod);
        let has_target = pods().any(|pod| self.is_target(pod));
        // Beside another pod, one that ends is left from an earlier rollout, and an orphan may turn
        // out to be one too many.
        let stays = |our: &OurPod| !our.pod.metadata.is_terminating && !our.is_orphan;
        let any_stays = present().any(stays);
        let governs = present().any(|our| self.is_target(our.pod) && (!any_stays || stays(our)));
        let is_open = self.open_nodes.contains(name);
        let is_held = on_node.is_held(self.ds.policy.valid());
        if movement.goes_back && has_target && is_held {
            return (Governing::Target, Wanted::Kept);
        }
        if movement.goes_back && has_target {
            return match base {
                Governing::Target => (base, Wanted::Target),
                Governing::Old(_) | Governing::Unknown => (base, Wanted::Base),
            };
        }
        // Without a policy it goes to all nodes, also while it is paused (G43).
        let is_everywhere = matches!(self.stage, Stage::Paused) && self.is_promoted_in_full();
        if !movement.goes_back && (governs || is_open || is_everywhere) {
            return (Governing::Target, Wanted::Target);
        }
        let kept = pods().find_map(|pod| self.old_revision_of(pod));
        (kept.map_or(base, Governing::Old), Wanted::Kept)
    }

    /// The revision of nodes without a pod: the one that is about to be recorded as the one in use
    /// (G37), or whose rollout was completed last (G36). While no record states one, it is the
    /// newest old one that a pod has and of which no rollout is known, or else the record cannot be
    /// read, or the target if there is none.
    pub(super) fn base(&self) -> Governing<'a> {
        let current = self.revisions.current.last().copied();
        let completed = self.revisions.old_and_target().filter(|it| it.is_complete());
        let last = completed.max_by_key(|it| (it.record.as_ref().map(|it| it.since), it.number));
        let is_current = |revision: &Revision| {
            current.is_some_and(|current| current.metadata.uid == revision.metadata.uid)
        };
        // Somebody has gone back to the target without a guard.
        let is_left = |last: &Revision| {
            current.is_some_and(|it| it.is_complete() && self.is_used(it.metadata.pod_hash()))
                && !self.is_used(last.metadata.pod_hash())
        };
        let stated = current.and_then(|current| current.record.as_ref()?.base.as_ref());
        let is_of = |hash: &String| {
            self.revisions.old.iter().any(|old| is_stored(old) && old.metadata.pod_hash() == *hash)
        };
        // The base has gone that differs from the target in overrides or copies only (G57).
        if stated.is_some_and(|base| !is_of(base)) {
            return Governing::Target;
        }
        if self.movement().is_some()
            && !matches!(self.stage, Stage::NotGuarded)
            && let Some(current) = current
            && let Some(in_use) = self.unrecorded_in_use(current)
        {
            return match in_use[..] {
                [one] if is_current(one) => Governing::Target,
                [one] if is_stored(one) => Governing::Old(one),
                _ => Governing::Unknown,
            };
        }
        match last {
            Some(last) if is_current(last) || is_left(last) => return Governing::Target,
            Some(last) if is_stored(last) => return Governing::Old(last),
            Some(_) | None => {}
        }
        let is_used = |revision: &&Revision| self.is_used(revision.metadata.pod_hash());
        let old = self.revisions.old.iter().rev().copied();
        let mut stored = old.filter(|old| is_stored(old) && !old.has_record());
        let current = &self.revisions.current;
        let unreadable = self.revisions.old.iter().rev().copied();
        let mut unreadable = unreadable.filter(|old| is_stored(old) && old.has_unreadable_record);
        match stored.clone().find(|old| is_used(old)).or_else(|| unreadable.find(is_used)) {
            Some(old) => Governing::Old(old),
            None if current.iter().any(is_used) => Governing::Target,
            None if stored.next().is_none() => Governing::Target,
            None => Governing::Unknown,
        }
    }

    /// True if somebody has promoted the rollout in full, and it is not complete.
    pub(super) fn is_promoted_in_full(&self) -> bool {
        let current = self.revisions.current.last();
        current.is_some_and(|current| current.is_recorded(Record::is_promoted_in_full))
    }

    /// True if this record of the target is that of an earlier rollout: it was superseded, or
    /// another one was complete later (G38).
    pub(super) fn begins_anew(&self, record: &Record) -> bool {
        let is_later =
            |other: &Record| other.phase == Phase::Complete && other.since > record.since;
        record.phase == Phase::Superseded
            || record.phase == Phase::Complete
                && self.revisions.old.iter().any(|old| old.is_recorded(is_later))
    }

    /// The revisions that most pods have, while the target has no record and one of them has to be
    /// recorded as the one in use (G37), once more if no pod has the one that was complete last
    /// (G36).
    fn unrecorded_in_use(&self, target: &'a Revision) -> Option<Vec<&'a Revision>> {
        let all = || self.revisions.old_and_target();
        let pods = |revision: &Revision| self.pods_of(revision, target);
        let most = all().map(pods).max().filter(|most| *most > 0)?;
        let used: Vec<&Revision> = all().filter(|it| pods(it) == most).collect();
        let is_known = target.has_record() && all().any(Revision::is_complete);
        let is_again = |revision: &Revision| {
            let since = |it: &Revision| it.record.as_ref().map(|record| record.since);
            let mut later = all().filter(|it| it.is_complete() && since(it) > since(revision));
            let is_left = later.next().is_some_and(|it| pods(it) == 0);
            revision.is_complete() && is_left && later.all(|it| pods(it) == 0)
        };
        let is_it = |revision: &&Revision| {
            !revision.has_record() || !target.has_record() && is_again(revision)
        };
        (!is_known && used.iter().any(is_it)).then_some(used)
    }

    /// True if the history keeps a revision: a pod is of it, or it is the base (C44, G16), also
    /// without a policy that of a rollout that was promoted in full (G43).
    pub(super) fn is_needed(&self, revision: &Revision) -> bool {
        let is_used = self.is_used(revision.metadata.pod_hash());
        let is_base = || {
            (self.movement().is_some() || self.role != Role::BuiltIn && self.is_promoted_in_full())
                && matches!(self.base(), Governing::Old(base)
                    if base.metadata.uid == revision.metadata.uid)
        };
        is_used || is_base()
    }

    /// True if the pod is of the target, and not of an old revision whose pods have its template
    /// generation.
    pub(super) fn is_target(&self, pod: &Pod) -> bool {
        self.is_updated(pod) && self.old_revision_of(pod).is_none()
    }

    /// The older revision that the pod has, if it is stored.
    pub(super) fn old_revision_of(&self, pod: &Pod) -> Option<&'a Revision> {
        let hash = pod.metadata.hash()?;
        let mut old = self.revisions.old.iter().copied().filter(|old| is_stored(old));
        old.find(|old| old.metadata.pod_hash() == hash)
    }
}

/// True if pods can be made from the revision.
fn is_stored(revision: &Revision) -> bool {
    revision.template.is_object()
}
