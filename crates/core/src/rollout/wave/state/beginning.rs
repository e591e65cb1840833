//! How a node is when the rollout begins on it, and whether it is down or leaving: whether that was
//! so before (G33, G34).

use crate::api::{NodeReadiness, Timestamp, UpdateMethod};
use crate::config::Clocks;
use crate::node::{Direction, NodeState, PodView, Wave};
use crate::rollout::input::RolloutInput;

use super::judgement::Judgement;
use super::observed::{Holds, Observed};
use super::past::Past;
use super::{LONG_START, Loss, NodeHistory, Sight, UPDATING};

/// How a node was when the rollout began on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhenBegun {
    /// It had an available pod of another revision.
    Well,
    /// Its pod had been unavailable for too long.
    Broken,
    /// It was not ready, and its kubelet answered: its old pod may have been why.
    Unready,
    /// It had a pod of another revision, and the rollout was complete (G40).
    Late,
    /// It had no pod of another revision.
    Joined,
}

/// A node that is down or leaving.
#[derive(Clone, Copy, Debug)]
pub(super) struct Absence {
    pub since: Timestamp,
    /// True if the rollout had begun on the node before.
    pub has_begun: bool,
}

impl NodeHistory {
    /// When a node that is not ready counts as one whose old pod is broken, which may be why: its
    /// kubelet answers, and it has had no available pod for long (G33). `None` if it does not.
    pub(super) fn repairable_at(
        &self,
        observed: &Observed<'_>,
        judgement: &Judgement,
        input: &RolloutInput<'_>,
    ) -> Option<Timestamp> {
        let NodeReadiness::NotReady { since } = observed.node.readiness else { return None };
        let is_repairable = judgement.direction == Direction::Forward
            && matches!(self.begun, None | Some(WhenBegun::Broken | WhenBegun::Unready))
            && !observed.has(Holds::AVAILABLE);
        let since = match input.clocks {
            Clocks::Observed => self.without_pod_since,
            Clocks::Stated => Some(input.now.to_steady(since)),
        };
        since.filter(|_| is_repairable).map(|since| since + LONG_START)
    }

    /// Records whether the node is absent, and whether the rollout had begun on it before. That is
    /// known by what was seen; of a node that was down when this controller looked for the first
    /// time, by the times of the node and its pods. A deletion may be shown with the absence that
    /// it came before, or after it: of an absent node the rollout deletes no pod.
    pub(super) fn apply_absence(
        &mut self,
        observed: &Observed<'_>,
        judgement: &Judgement,
        is_pod_lost: bool,
        input: &RolloutInput<'_>,
    ) {
        let now = input.now.steady;
        match (observed.absent, self.absence) {
            (Some(_), Some(absence)) => {
                let has_begun = absence.has_begun || is_pod_lost;
                self.absence = Some(Absence { has_begun, ..absence });
            }
            (None, None) => {}
            (Some(_), None) => {
                let is_target = |pod: &&PodView| pod.is_updated(input.labels);
                let targets = observed.pods.iter().filter(is_target);
                let was_there = |since| targets.clone().any(|pod| pod.creation_timestamp <= since);
                // On a node that was not ready before the attempt it has not begun.
                let not_ready_since = observed.node.not_ready_since();
                let was_down = not_ready_since.is_some_and(|since| {
                    judgement.began.is_some_and(|began| input.now.to_steady(since) < began)
                });
                let by_times = not_ready_since.is_some_and(was_there);
                let by_times = !was_down && (by_times || observed.has_ending_pods_only());
                // Of one that was not ready before, the kubelet has only stopped answering.
                let was_well = self.begun.is_some_and(|begun| begun != WhenBegun::Unready);
                let has_begun = was_well || is_pod_lost || self.past.is_unknown() && by_times;
                let since = match input.clocks {
                    Clocks::Observed => now,
                    Clocks::Stated => observed.node.not_ready_since().unwrap_or(now).min(now),
                };
                self.absence = Some(Absence { since, has_begun });
            }
            (None, Some(absence)) => {
                self.absence = None;
                let resumed = |since: Timestamp| since + now.since(absence.since.max(since));
                self.starting_since = self.starting_since.map(resumed);
            }
        }
    }

    /// Records how the node is when the rollout begins on it. Returns its state so far: one whose
    /// pod could not be changed in place had failed only while that stayed (G56).
    pub(super) fn apply_beginning(
        &mut self,
        known: NodeState,
        observed: &Observed<'_>,
        judgement: &Judgement,
        input: &RolloutInput<'_>,
    ) -> NodeState {
        let had_begun = self.has_begun();
        if !had_begun && self.absence.is_none_or(|absence| absence.has_begun) {
            self.begun = self.when_begun(observed, judgement, input);
        }
        let begins = known == NodeState::Failed && !had_begun && self.has_begun();
        if begins && input.update_method() == UpdateMethod::InPlaceOnly { UPDATING } else { known }
    }

    /// How the node was when the rollout began on it, as far as that still says something. `None`
    /// if it begins anew.
    pub(super) fn still_begun(
        &self,
        begun: WhenBegun,
        observed: &Observed<'_>,
        judgement: &Judgement,
    ) -> Option<WhenBegun> {
        let is_well = |at: Timestamp| judgement.is_over(at, judgement.limit);
        match begun {
            WhenBegun::Unready if observed.node.not_ready_since().is_none() => {
                Some(WhenBegun::Broken)
            }
            // It is as all others that have the target.
            WhenBegun::Late if self.available_since().is_some_and(is_well) => Some(WhenBegun::Well),
            // A taint had emptied it: it gets its first pod of the target later.
            WhenBegun::Well
                if judgement.blames_late()
                    && !observed.eligibility.should_run()
                    && self.is_untried(observed) =>
            {
                None
            }
            _ => Some(begun),
        }
    }

    fn when_begun(
        &self,
        observed: &Observed<'_>,
        judgement: &Judgement,
        input: &RolloutInput<'_>,
    ) -> Option<WhenBegun> {
        let has_begun = match judgement.direction {
            Direction::Forward => judgement.is_target_known,
            // Another controller has taken the pod of the target away, or this one had no time to
            // see it, or has just seen its end.
            Direction::Back => {
                let is_new = |since| !observed.keeps_pod_from_before(since);
                observed.has(Holds::TARGET)
                    || self.loss.contains(Loss::SEEN)
                    || self.past.is_unknown() && judgement.phase_since.is_some_and(is_new)
            }
        };
        // Of a node that this controller found without a pod, an earlier one may have taken it.
        let was_broken = self.without_pod_since.is_some_and(|since| {
            let is_before = match self.past.is_unknown() {
                true => judgement.began.is_some_and(|began| since < began),
                false => judgement.is_before_attempt(since),
            };
            is_before || judgement.is_over(since, judgement.limit)
        });
        let has_joined = |since: Timestamp| observed.node.created > since;
        let is_replaced =
            judgement.phase_since.is_some_and(|at| !observed.keeps_pod_from_before(at));
        let is_unready = observed.node.not_ready_since().is_some();
        // A pod of the target in a closed wave counts toward it. On a new node only the built-in
        // controller creates one there (G17).
        let is_leaked =
            observed.wave == Wave::Closed && (input.is_beside() || self.past.had_other());
        has_begun.then(|| match self.past {
            Past::Nothing | Past::Target | Past::Other | Past::Several if is_leaked => {
                WhenBegun::Well
            }
            Past::Nothing | Past::Target => WhenBegun::Joined,
            Past::Unknown { .. }
                if judgement.joined_after.is_some_and(has_joined)
                    && !observed.has(Holds::FORMER)
                    && !is_leaked =>
            {
                WhenBegun::Joined
            }
            // Nothing says that a machine on which no pod was ever available is well. One that was
            // there before this controller was not ready before, by its time and that of its pod.
            _ if is_unready && self.absence.is_none() => WhenBegun::Unready,
            // However it was before, nothing else would stop a template that breaks it (G40).
            Past::Other | Past::Several if judgement.blames_late() => WhenBegun::Late,
            Past::Other | Past::Several if self.sight == Sight::Never => WhenBegun::Broken,
            // An earlier controller has begun there since, unless the pod was well for long.
            Past::Unknown { .. }
                if judgement.is_complete()
                    && is_replaced
                    && !observed.has(Holds::AVAILABLE)
                    && !observed.went_down_after(judgement.limit) =>
            {
                WhenBegun::Late
            }
            // Somebody has promoted it although the node, perhaps, had no available pod.
            Past::Unknown { .. }
                if judgement.is_promoted_in_full()
                    && !is_replaced
                    && !observed.has(Holds::AVAILABLE) =>
            {
                WhenBegun::Broken
            }
            _ if was_broken => WhenBegun::Broken,
            // One whose pod was there when the rollout became complete is not late.
            Past::Other | Past::Several
                if judgement.is_complete() && !observed.has_pod_before(judgement) =>
            {
                WhenBegun::Late
            }
            Past::Other | Past::Several | Past::Unknown { .. } => WhenBegun::Well,
        })
    }
}
