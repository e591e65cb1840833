//! The reasons that the rules give for a deletion or a creation of a pod.

use super::answer::Answer;
use super::judged_plan::{Creation, Deletion};
use super::model::{Budget, Eligibility, Pod, PodStatus};
use super::situation::{NodeView, Situation};
use super::stage::Wanted;

impl Deletion {
    /// True if a rollout begins on a node with this deletion (G14).
    pub(super) fn begins(self) -> bool {
        self == Self::OldAndUnavailable || self.is_within_budget()
    }

    /// True if the budget must allow it.
    pub(super) fn is_within_budget(self) -> bool {
        matches!(self, Self::WithinBudget | Self::GoingBack | Self::Removed | Self::Permitted)
    }
}

impl Creation {
    /// True if a rollout begins on a node with this creation (G14).
    pub(super) fn begins(self) -> bool {
        matches!(self, Self::SurgeAtOnce | Self::SurgeWithinBudget)
    }

    /// True if the budget must allow it.
    pub(super) fn is_within_budget(self) -> bool {
        self == Self::SurgeWithinBudget
    }

    /// The name of the reason in coverage.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::SurgeAtOnce => "surge beside an unavailable pod",
            Self::SurgeWithinBudget => "surge within the budget",
        }
    }
}

/// Which of two answers counts where clocks leave it open whether a pod is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uncertainty {
    /// The answer that allows the write.
    Allows,
    /// The answer that does not demand it.
    Demands,
}

impl<'a> Situation<'a> {
    /// True if a new pod that replaces another one counts as available.
    fn is_replacement_available(&self, pod: &Pod, uncertainty: Uncertainty) -> bool {
        match uncertainty {
            Uncertainty::Allows => self.may_be_available(pod),
            Uncertainty::Demands => self.is_surely_available(pod) && !pod.has_ended(),
        }
    }

    /// True if an old pod counts as available. Without a policy one that is ready does, too: it
    /// soon is (C52).
    fn is_old_available(&self, pod: &Pod, uncertainty: Uncertainty) -> bool {
        let is_soon =
            !self.is_guarded() && pod.change.is_none() && pod.is_ready && pod.ready_since.is_some();
        is_soon
            || match uncertainty {
                Uncertainty::Allows => self.is_surely_available(pod),
                Uncertainty::Demands => self.may_be_available(pod),
            }
    }

    /// Why this pod of the DaemonSet may be deleted; `None` if no rule gives a reason. Budgets are
    /// not counted here.
    pub(super) fn reason_to_delete(
        &self,
        on_node: &NodeView<'a>,
        pod: &Pod,
        uncertainty: Uncertainty,
    ) -> Option<Deletion> {
        match on_node.eligibility {
            Eligibility::NoNode => {
                return pod.node_name.is_none().then_some(Deletion::NodeIsGone);
            }
            Eligibility::MustNotRun => return self.misplaced(on_node, pod, uncertainty),
            Eligibility::MayKeep | Eligibility::ShouldRun => {}
        }
        self.ended_or_surplus(on_node, pod, uncertainty)
            .or_else(|| self.old(on_node, pod, uncertainty))
    }

    /// Why a pod goes whatever its revision from a node that may keep one (C24–C26).
    fn ended_or_surplus(
        &self,
        on_node: &NodeView<'a>,
        pod: &Pod,
        uncertainty: Uncertainty,
    ) -> Option<Deletion> {
        match pod.status {
            PodStatus::Failed => Some(Deletion::Failed),
            PodStatus::Succeeded => Some(Deletion::Succeeded),
            PodStatus::Unfinished => self.surplus(on_node, pod, uncertainty),
        }
    }

    /// Why a pod is deleted from a node that must not run it: at once, or as a step of the rollout
    /// if only the target's own placement removes it (G42).
    fn misplaced(
        &self,
        on_node: &NodeView<'a>,
        pod: &Pod,
        uncertainty: Uncertainty,
    ) -> Option<Deletion> {
        let is_step = match (self.is_removal(on_node, pod), uncertainty) {
            (Answer::No, _) | (Answer::Maybe, Uncertainty::Allows) => false,
            (Answer::Yes, _) | (Answer::Maybe, Uncertainty::Demands) => true,
        };
        // Until the step the node is one that may keep a pod.
        let other = self.ended_or_surplus(on_node, pod, uncertainty).filter(|_| is_step);
        match () {
            () if uncertainty == Uncertainty::Demands
                && self.is_target_on_its_way_back(on_node, pod) =>
            {
                match self.is_old_available(pod, uncertainty) {
                    _ if self.keeps_pods(on_node) || self.is_target_left_alone(on_node, pod) => {
                        None
                    }
                    true => Some(Deletion::GoingBack),
                    false => Some(Deletion::OldAndUnavailable),
                }
            }
            () if !is_step => Some(Deletion::Misplaced),
            () if other.is_some() => other,
            () if self.keeps_pods(on_node) || self.is_left_alone(on_node, uncertainty) => None,
            () if self.is_old_available(pod, uncertainty) => Some(Deletion::Removed),
            () => Some(Deletion::OldAndUnavailable),
        }
    }

    /// True if only the base's placement removes a pod of the target from a node that goes back:
    /// that may be done within the budget, as where it is replaced (G41).
    pub(super) fn is_target_on_its_way_back(&self, on_node: &NodeView<'a>, pod: &Pod) -> bool {
        self.goes_back()
            && on_node.wanted == Wanted::Base
            && on_node.by_target.keeps()
            && self.is_updated(pod)
            && !pod.has_ended()
    }

    /// The same on a node that is down or leaves: what becomes of that pod does not matter (G33).
    pub(super) fn is_target_left_alone(&self, on_node: &NodeView<'a>, pod: &Pod) -> bool {
        self.is_target_on_its_way_back(on_node, pod) && self.is_away(on_node)
    }

    /// The deletion of the pod as one too many on its node (C25, C26).
    fn surplus(
        &self,
        on_node: &NodeView<'a>,
        pod: &Pod,
        uncertainty: Uncertainty,
    ) -> Option<Deletion> {
        let is_it = |other: &Pod| other.metadata.uid == pod.metadata.uid;
        if !self.ds.strategy.surges() {
            return on_node.running().skip(1).any(is_it).then_some(Deletion::Surplus);
        }
        let (new, old): (Vec<&Pod>, Vec<&Pod>) =
            on_node.running().partition(|pod| self.wants(on_node, pod));
        let mut others = new.iter().skip(1).chain(old.iter().skip(1));
        if others.any(|other| is_it(other)) {
            return Some(Deletion::Surplus);
        }
        let (new, old) = (new.first()?, old.first()?);
        let is_superseded = !old.is_ready || self.is_replacement_available(new, uncertainty);
        (is_it(old) && is_superseded).then_some(Deletion::Superseded)
    }

    /// The deletion of the pod as the old one of its node, which the rolling update replaces (C52,
    /// C53).
    pub(super) fn old(
        &self,
        on_node: &NodeView<'a>,
        pod: &Pod,
        uncertainty: Uncertainty,
    ) -> Option<Deletion> {
        let budget = self.budget()?;
        let active = self.active(on_node);
        let [old] = &active.old[..] else { return None };
        // A paused rollout replaces no pod, but finishes where the new one is there (G6).
        let is_kept = self.keeps_pods(on_node) && active.new.is_empty();
        let is_left_alone = active.new.is_empty() && self.is_left_alone(on_node, uncertainty);
        let is_last = self.takes_no_part(on_node, &active);
        if old.metadata.uid != pod.metadata.uid || is_kept || is_left_alone || is_last {
            return None;
        }
        match (&active.new[..], budget) {
            ([], _) => {}
            ([new], Budget::Surge(_)) if self.is_replacement_available(new, uncertainty) => {
                return Some(Deletion::Superseded);
            }
            _ => return None,
        }
        let is_available = self.is_old_available(old, uncertainty);
        let is_last = on_node.eligibility == Eligibility::MayKeep;
        match (budget, self.ds.strategy.surges()) {
            (Budget::Unavailable(_), true) | (Budget::Surge(_), _) if !is_last => None,
            _ if is_available && on_node.wanted == Wanted::Base => Some(Deletion::GoingBack),
            _ if is_available => Some(Deletion::WithinBudget),
            _ => Some(Deletion::OldAndUnavailable),
        }
    }

    /// Why a pod may be created on this node; `None` if no rule gives a reason. Budgets are not
    /// counted here.
    pub(super) fn reason_to_create(
        &self,
        on_node: &NodeView<'a>,
        uncertainty: Uncertainty,
    ) -> Option<Creation> {
        let surges = self.ds.strategy.surges();
        if on_node.needs_pod(surges) {
            return Some(Creation::Missing);
        }
        let active = self.active(on_node);
        let has_orphan = on_node.pods.iter().any(|our| our.is_orphan);
        match (&active.old[..], &active.new[..], self.budget()) {
            ([old], [], Some(Budget::Surge(_)))
                if on_node.eligibility == Eligibility::ShouldRun
                    && surges
                    && !has_orphan
                    && !self.keeps_pods(on_node)
                    && !self.is_left_alone(on_node, uncertainty)
                    && !self.takes_no_part(on_node, &active) =>
            {
                Some(if self.is_old_available(old, uncertainty) {
                    Creation::SurgeWithinBudget
                } else {
                    Creation::SurgeAtOnce
                })
            }
            _ => None,
        }
    }
}
