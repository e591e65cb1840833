//! For which nodes something else than the template is the reason (G33).

use everynode_core::api::Timestamp;
use everynode_core::daemon_set::SetAside;

use super::{Claim, Problem, REPAIRABLE_MS, TOLERANCE_MS, UNORDERED_MS};
use crate::checker::model::{Eligibility, Node};
use crate::checker::situation::OurPod;

impl Claim<'_, '_> {
    /// "Something else than the template is the reason."
    pub(super) fn set_aside(&self, reason: SetAside) -> Problem {
        let by_target = self.on_node.by_target;
        let is_true = match reason {
            SetAside::Held => self.policy.holds(&self.node.metadata.labels) && !self.is_touched(),
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
            // Which pods were there before is seen in any order.
            SetAside::Joined => true,
            SetAside::BrokenBefore => {
                let took_ms = self.stated.since.0 - self.stated.at_stage_since.0;
                let is_late = took_ms + TOLERANCE_MS >= self.least_limit_ms();
                is_late && !self.is_surely_done() || self.situation.may_keep_unchangeable_pods()
            }
            SetAside::Lost => self.is_absent() && self.was_absent_for(self.least_limit_ms()),
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
        let may_not = |by: Eligibility| by != Eligibility::ShouldRun;
        self.is_open()
            && !self.has_old()
            && !self.has_target()
            && may_not(self.on_node.by_target)
            && self.on_node.by_base.is_none_or(may_not)
    }

    /// When the attempt began.
    pub(super) fn attempt_at(&self) -> Timestamp {
        self.history.time_of(self.attempt)
    }
}
