//! For which nodes something else than the template is the reason (G33).

use everynode_core::api::Timestamp;
use everynode_core::daemon_set::SetAside;

use super::{Claim, Problem, REPAIRABLE_MS, TOLERANCE_MS, UNORDERED_MS};
use crate::checker::model::{Eligibility, Node, Pod};
use crate::checker::situation::OurPod;
use crate::checker::stage::Stage;

impl Claim<'_, '_> {
    /// "Something else than the template is the reason."
    pub(super) fn set_aside(&self, reason: SetAside) -> Problem {
        let by_target = self.on_node.by_target;
        let is_true = match reason {
            SetAside::Held => {
                self.policy.holds(&self.node.metadata.labels)
                    && !self.is_touched()
                    && !self.was_begun_before_held()
            }
            SetAside::Down => {
                let is_unscheduled = self.of_others().any(|our| our.pod.is_unschedulable);
                !self.node.is_ready() && !self.must_be_repaired() || is_unscheduled
            }
            SetAside::Leaving => self.policy.is_leaving(self.node),
            SetAside::Tainted => {
                let may_keep = by_target.max(self.on_node.eligibility) == Eligibility::MayKeep;
                may_keep && self.on_node.occupants().next().is_some() || self.may_be_barred()
            }
            SetAside::Excluded => by_target == Eligibility::MustNotRun && self.has_old(),
            SetAside::Joined => self.last_old().is_none_or(|(end, old)| {
                let is_old = |pod: &Pod| pod.metadata.uid == old.metadata.uid;
                let first_new = self.first_here(|pod| self.situation.is_updated(pod));
                let first_old = self.first_here(is_old).map_or(i64::MAX, |at| at.0 + UNORDERED_MS);
                // Until watches have surely shown another hash of its revision, it had the target.
                let shown = Timestamp(self.history.time_of(end).0 - UNORDERED_MS);
                let mut former = self.history.former_hashes(self.situation.ds, shown);
                former.any(|hash| old.metadata.hash() == Some(hash))
                    || first_new.is_some_and(|at| at.0 <= first_old)
            }),
            SetAside::BrokenBefore => {
                let took_ms = self.stated.since.0 - self.stated.at_stage_since.0;
                let is_late = took_ms + TOLERANCE_MS >= self.least_limit_ms();
                let is_blamed = self.is_surely_late() && self.has_target();
                is_late && !self.is_surely_done() && !is_blamed
                    || self.may_be_unchangeable_and_broken()
            }
            SetAside::Lost => {
                self.is_absent()
                    && self.was_absent_for(self.least_limit_ms())
                    && !self.is_down_since_before()
            }
            SetAside::NotAgreed => false,
        };
        (!is_true).then_some("which is not true")
    }

    /// True if the node has been down or leaving for as long, but for moments: a replica need not
    /// have looked at it then.
    fn was_absent_for(&self, limit_ms: i64) -> bool {
        let (history, uid) = (self.history, &self.node.metadata.uid);
        let is_absent = |node: &Node| self.policies().any(|(_, policy)| policy.is_absent(node));
        let was_back = |at: u64| {
            let until = history.version_before(Timestamp(history.time_of(at).0 + UNORDERED_MS));
            history.nodes.was_always(uid, (at, until), |node| !is_absent(node))
        };
        let states = || history.nodes.of(uid).filter(|(at, _)| *at <= self.view.feeds.nodes);
        let back = states().map(|(at, _)| at).filter(|at| was_back(*at)).max();
        let absent = states().find(|(at, node)| Some(*at) > back && is_absent(node));
        let since = absent.map(|(at, _)| history.time_of(at));
        since.is_some_and(|since| self.situation.now.0 - since.0 + TOLERANCE_MS > limit_ms)
    }

    /// True if the old pod of a node that is not ready must be replaced, because that may be why:
    /// no pod has been available for more than a minute (G33).
    fn must_be_repaired(&self) -> bool {
        let since = self.situation.now.0 - REPAIRABLE_MS - UNORDERED_MS;
        let all: Vec<&OurPod> = self.on_node.occupants().collect();
        let [our] = all[..] else { return false };
        let unready = our.pod.ready_since.or(our.pod.created());
        self.node.is_unready()
            && !self.situation.may_keep_unchangeable_pods()
            && !self.has_target()
            && !our.is_going
            && !our.pod.is_ready
            && self.stated.at_stage_since.0 < since
            && unready.is_some_and(|at| at.0 < since)
    }

    /// True if the node is open and has no pod, and may surely not run the target, nor the base as
    /// far as that is known; then nothing was tried there, unless a pod of the target was available
    /// there.
    pub(super) fn may_be_barred(&self) -> bool {
        let known = self.stated.known_since.max(self.view.stated.since.at);
        let may_not = |by: Eligibility| by != Eligibility::ShouldRun;
        self.is_open()
            && !self.has_old()
            && !self.has_target()
            && may_not(self.on_node.by_target)
            && self.on_node.by_base.is_none_or(may_not)
            && !self.was_target_ready(UNORDERED_MS, known)
    }

    /// True if the node is surely so, and has lost its old pod in this attempt.
    pub(super) fn is_surely_barred(&self) -> bool {
        self.may_be_barred()
            && self.on_node.by_base.is_some()
            && !self.was_target_ready(0, Timestamp(0))
            && self.last_old().is_some_and(|(end, _)| end <= self.view.feeds.pods)
    }

    /// True if a pod of the target was ready here for longer than this after a time.
    pub(super) fn was_target_ready(&self, for_ms: i64, since: Timestamp) -> bool {
        let histories = self.history.pods.histories();
        let is_it = |pod: &Pod| pod.is_ready && self.is_here(pod) && self.situation.is_updated(pod);
        histories.into_iter().any(|(_, states)| {
            states.iter().enumerate().any(|(index, (at, pod))| {
                let until = states
                    .get(index + 1)
                    .map_or(self.situation.now, |(next, _)| self.history.time_of(*next));
                let ready_since = self.history.time_of(*at).max(since);
                pod.as_deref().is_some_and(is_it) && until.0 - ready_since.0 >= for_ms
            })
        })
    }

    /// True if the rollout had surely begun on the node before the replica saw that somebody holds
    /// it (G33).
    fn was_begun_before_held(&self) -> bool {
        let Some(begun) = self.stated.in_waves.begun else { return false };
        let then = self.history.nodes.at(&self.node.metadata.uid, begun);
        let is_held =
            |node: &Node| self.policies().any(|(_, policy)| policy.holds(&node.metadata.labels));
        then.is_some_and(|then| !is_held(then)) && !self.has_old()
    }

    /// True if the node is not ready since before the rollout began on it, was begun because its
    /// kubelet answered, and surely does not answer any more: it is down (G33).
    pub(super) fn is_down_since_before(&self) -> bool {
        let Some(begun) = self.stated.begun_at else { return false };
        let before = Timestamp(begun.0 - UNORDERED_MS);
        let silent = self.node.unreachable_since();
        silent.is_some_and(|at| at.0 + UNORDERED_MS < self.situation.now.0)
            && begun.0 > self.stated.known_since.0 + UNORDERED_MS
            && !self.policy.is_leaving(self.node)
            && self.was_since(before, |node| !node.is_ready() && !self.policy.is_leaving(node))
    }

    /// True if the node may have a pod that cannot be changed in place, and had no available one
    /// for long, or since before the attempt (G56).
    fn may_be_unchangeable_and_broken(&self) -> bool {
        let mut old = self.of_others().filter(|our| !our.is_going);
        let after = self.attempt_at().0 + UNORDERED_MS;
        let was_available_until = |our: &OurPod| self.available_until(our.pod).map(|at| at.0);
        let since = Timestamp(self.situation.now.0 - self.least_limit_ms() - TOLERANCE_MS);
        // By a wrong clock the attempt may seem to have begun later.
        let is_timed = self.is_attempt_timed();
        let is_recent = |our: &OurPod| {
            let until = was_available_until(our).filter(|_| is_timed);
            our.pod.is_ready || until.is_some_and(|at| at > after.max(since.0))
        };
        self.situation.may_keep_unchangeable_pods() && self.has_old() && !old.any(is_recent)
    }

    /// When the attempt began.
    pub(super) fn attempt_at(&self) -> Timestamp {
        self.history.time_of(self.attempt)
    }

    /// True if an attempt is under way or complete, and clocks are right: then it is known which
    /// pods became unavailable after its beginning.
    pub(super) fn is_attempt_timed(&self) -> bool {
        let Stage::Moving(record) = &self.situation.stage else { return false };
        let is_right = |clock: Timestamp, time: Timestamp| (clock.0 - time.0).abs() < TOLERANCE_MS;
        is_right(record.began, self.attempt_at())
            && is_right(self.view.followed_clock, self.view.planned_at)
    }

    /// The time before which a pod became unavailable that was so for longer than any policy allows
    /// when the replica looked for the first time.
    pub(super) fn long_ago(&self) -> Timestamp {
        let limits = self.policies().map(|(ds, policy)| super::limit_ms(ds, policy));
        Timestamp(self.stated.known_since.0 - limits.max().unwrap_or(i64::MAX / 2))
    }

    /// True if the pod has surely not been available since this time, nor any other one here, as
    /// the replica has seen.
    pub(super) fn was_broken_since(&self, our: &OurPod, time: Timestamp) -> bool {
        let before = Timestamp(time.0 - UNORDERED_MS);
        let seen = self.view.feeds.pods;
        let version = self.history.version_before(before).min(seen);
        let pods = &self.history.pods;
        let later = pods.states().filter(|(at, _)| *at > version && *at <= seen);
        let mut all = pods.seen(version).into_values().chain(later.map(|(_, pod)| pod));
        !all.any(|pod| pod.is_ready && self.is_here(pod))
            && pods.was_always(&our.pod.metadata.uid, (version, seen), |pod| {
                self.situation.ds.owns(&pod.metadata) && pod.change.is_none()
            })
    }
}
