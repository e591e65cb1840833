//! The state of a node in a guarded rollout: what its pods, the node itself and what was seen of
//! both before say (G31, G33, G34).

mod beginning;
mod holding;
mod judgement;
mod observed;
mod past;
mod restarts;

use std::time::Duration;

use bitflags::bitflags;

use crate::api::{Node, PodTrouble, Timestamp};
use crate::config::Clocks;
use crate::node::{
    BudgetUse, Direction, NodeProgress, NodeState, Outage, PodView, SetAside, Slot, Wave,
};

use super::super::images::PullProgress;
use super::super::input::RolloutInput;
use beginning::{Absence, WhenBegun};
pub(super) use holding::Holding;
use judgement::Blame;
pub(crate) use judgement::{Judgement, failing_pull_limit};
use observed::{Holds, Observed};
pub(crate) use past::Of;
use past::Past;
use restarts::Restarts;

/// How long a node starts until the condition names it, and until a pod that cannot start is blamed
/// for it, or its old pod for a node that is not ready: what is over within a minute says nothing
/// (G32, G33, G34).
pub(crate) const LONG_START: Duration = Duration::from_secs(60);

pub(super) const UPDATING: NodeState = NodeState::Updating { is_absent: false, was_passed: false };

/// The past of a node and its pods, as far as the present ones do not tell it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeHistory {
    past: Past,
    /// Since when it has no available pod of any revision, as the watch shows it; `None` while it
    /// has one.
    without_pod_since: Option<Timestamp>,
    loss: Loss,
    /// How the node was when the rollout began on it; `None` until it has.
    begun: Option<WhenBegun>,
    /// Since when its old pod is gone and none of the target is available. Time in which the node
    /// is absent does not count.
    starting_since: Option<Timestamp>,
    /// Since when its pod of the target cannot start.
    trouble_since: Option<Timestamp>,
    /// Set while the node is down or leaving.
    absence: Option<Absence>,
    available: Option<Availability>,
    passed: Passed,
    sight: Sight,
    restarts: Restarts,
}

bitflags! {
    /// The earlier end of the rollout on a node.
    #[derive(Clone, Copy, Debug, Default)]
    struct Passed: u8 {
        /// The rollout was done with it in this attempt: only the first time is progress (G15).
        const IN_ATTEMPT = 1;
        /// It had an available pod of the target.
        const WITH_TARGET = 1 << 1;
    }
}

bitflags! {
    /// The loss of a node's pod to this controller or an earlier one, which have deleted it or
    /// change it in place.
    #[derive(Clone, Copy, Debug, Default)]
    struct Loss: u8 {
        /// The watch has just shown the deletion of a pod, or its change in place.
        const SEEN = 1;
        /// The pod was available, or may have been before this controller looked, and the node has
        /// had no such pod since. So it is with one that an override has changed (G57).
        const TAKEN = 1 << 1;
    }
}

/// Availability of a node's pods, as far as this controller has seen it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sight {
    /// None was available since the node came.
    #[default]
    Never,
    /// The node was there before, and none was available since this controller looked.
    NotYet,
    /// One was available.
    Available,
}

/// When a node became available with the target, by the steady clock.
#[derive(Clone, Copy, Debug)]
struct Availability {
    /// As the bake time counts it: it remains so while the node is absent (G39).
    since: Timestamp,
    /// The same of its present pod.
    of_pod: Timestamp,
}

/// News of a pod, recorded when the watch shows them: nothing looks at the node while a write is in
/// flight, and by then the pod may be gone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shown {
    /// It is there, and has this revision.
    Pod(Of),
    /// This controller has deleted it, and it ends, or it is being changed in place.
    Loss,
    /// It was ready, and is not any more or is gone, before anything looked at the node.
    Outage,
}

impl NodeHistory {
    /// The history of a node that was there before this controller looked. An earlier rollout may
    /// have taken the predecessor of its pod away since `taken_since`; of an older pod it has not.
    /// With pods that were there at `passed_at`, the rollout was done with the node before.
    pub(super) fn unknown(
        slot: Option<&Slot>,
        taken_since: Option<Timestamp>,
        passed_at: Option<Timestamp>,
    ) -> Self {
        let pods = || slot.into_iter().flat_map(|slot| slot.pods.as_slice());
        let mut stays = pods().filter(|pod| !pod.is_terminating());
        let mut is_older = |at| stays.any(|pod| pod.creation_timestamp < at);
        let mut loss = Loss::empty();
        loss.set(Loss::TAKEN, taken_since.is_some_and(|at| !is_older(at)));
        let was_passed = passed_at.is_some_and(|at| pods().all(|pod| pod.creation_timestamp <= at));
        let passed = if was_passed { Passed::all() } else { Passed::empty() };
        let past = Past::Unknown { had_target: false };
        let restarts = Restarts::unknown();
        Self { past, loss, passed, sight: Sight::NotYet, restarts, ..Self::default() }
    }

    /// True if the rollout was done with the node before, in this attempt.
    const fn was_passed(&self) -> bool {
        self.passed.contains(Passed::IN_ATTEMPT)
    }

    /// True if an available pod was taken away, and the node has had none since.
    const fn is_taken(&self) -> bool {
        self.loss.contains(Loss::TAKEN)
    }

    /// Records what the watch shows of a pod of the node.
    pub(super) fn record(&mut self, shown: Shown) {
        match shown {
            Shown::Pod(of) => self.past = self.past.with(of),
            Shown::Loss => self.loss |= Loss::SEEN,
            // It was available until now, as far as that is known.
            Shown::Outage => (self.without_pod_since, self.sight) = (None, Sight::Available),
        }
    }

    /// The history under another target, for which nothing has begun. `has_target` is whether the
    /// node has pods of that one, and no others.
    pub(super) fn of_another_target(self, has_target: bool) -> Self {
        let absence = self.absence.map(|absence| Absence { has_begun: false, ..absence });
        let past = self.past.of_another_target(self.has_begun(), has_target);
        let is_begun =
            self.past.had_other() && self.begun == Some(WhenBegun::Well) && !self.was_passed();
        let loss = if is_begun { self.loss | Loss::TAKEN } else { self.loss };
        let (without_pod_since, sight) = (self.without_pod_since, self.sight);
        Self { past, without_pod_since, loss, absence, sight, ..Self::default() }
    }

    /// The history of a node with which the rollout has nothing to do.
    pub(super) fn left_out(self) -> Self {
        Self { past: self.past.left_out(), sight: self.sight, ..Self::default() }
    }

    /// True if an earlier controller may have begun the rollout on the node, so that it has no pod.
    /// On one that was not ready before the attempt it has not.
    pub(super) fn may_have_begun(&self, node: &Node, attempt: Option<Timestamp>) -> bool {
        let is_possible = attempt.is_some_and(|attempt| {
            node.created < attempt && node.not_ready_since().is_none_or(|at| at >= attempt)
        });
        self.past.is_unknown() && self.without_pod_since.is_some() && is_possible
    }

    /// Measures anew how long the node is without an available pod, or absent.
    pub(super) fn restart(&mut self, now: Timestamp) {
        self.passed -= Passed::IN_ATTEMPT;
        self.starting_since = self.starting_since.map(|_| now);
        self.absence = self.absence.map(|absence| Absence { since: now, ..absence });
    }

    /// Begins another attempt: the restarts of its pod count anew. A node that is absent was so
    /// before, unless somebody retries what was at work on it.
    pub(super) fn begin_attempt(&mut self, is_retry: bool) {
        self.restarts.forget();
        if !is_retry {
            self.absence = self.absence.map(|absence| Absence { has_begun: false, ..absence });
        }
    }

    /// Records that the rollout goes on although the node, on which it has begun, has no available
    /// pod of the target. One that has joined is not blamed anyway.
    pub(super) fn forgive(&mut self) {
        if self.starting_since.is_some() && !self.has_joined() {
            self.begun = self.begun.map(|_| WhenBegun::Broken);
        }
    }

    /// When its pod of the target became available, by the steady clock (G39).
    pub(super) fn available_since(&self) -> Option<Timestamp> {
        self.available.map(|it| it.since)
    }

    /// True if it had no pod of another revision when the rollout began on it (G33).
    pub(super) fn has_joined(&self) -> bool {
        self.begun == Some(WhenBegun::Joined)
    }

    /// Since when it is without an available pod of the target.
    pub(super) const fn starting_since(&self) -> Option<Timestamp> {
        self.starting_since
    }

    /// Records that the rollout is done with the node, if it is; returns whether that is progress.
    pub(super) fn record_progress(&mut self, state: NodeState) -> bool {
        let is_passed = match state {
            NodeState::Waiting { .. }
            | NodeState::Asked { .. }
            | NodeState::Pulling { .. }
            | NodeState::Updating { .. } => false,
            NodeState::Done | NodeState::Failed | NodeState::SetAside(_) => true,
        };
        let is_new = self.begun.is_some() && is_passed && !self.was_passed();
        self.passed.set(Passed::IN_ATTEMPT, is_new || self.was_passed());
        let begun = [WhenBegun::Well, WhenBegun::Broken, WhenBegun::Unready];
        is_new && self.begun.is_some_and(|it| begun.contains(&it))
    }

    /// True if it began once the rollout was complete (G40).
    pub(super) fn is_late(&self) -> bool {
        self.begun == Some(WhenBegun::Late)
    }

    /// True if it had a pod of another revision, as far as that is known.
    pub(super) fn had_pod(&self) -> bool {
        !self.past.had_no_other()
    }

    /// True if the rollout has begun on the node, or its deletion of the old pod was just shown.
    pub(super) const fn has_lost_old_pod(&self) -> bool {
        self.has_begun() || self.loss.contains(Loss::SEEN)
    }

    /// True if the rollout has begun on the node.
    pub(super) const fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Applies the present state of a node. Returns its state in the rollout, and when that may
    /// change by itself.
    pub(super) fn apply(
        &mut self,
        known: NodeState,
        slot: &Slot,
        (node, wave, images): (&Node, Wave, Option<PullProgress>),
        judgement: &Judgement,
        input: &RolloutInput<'_>,
    ) -> (NodeState, Option<Timestamp>) {
        let mut observed = Observed::new(node, wave, slot, images, input);
        let now = judgement.now;
        let is_undone = match judgement.direction {
            Direction::Forward => !observed.has_begun(),
            Direction::Back => !observed.has(Holds::TARGET) && observed.has(Holds::AVAILABLE),
        };
        if is_undone {
            (self.begun, self.starting_since) = (None, None);
        }
        self.begun = self.begun.and_then(|begun| self.still_begun(begun, &observed, judgement));
        if self.repairable_at(&observed, judgement, input).is_some_and(|at| at <= now) {
            let is_leaving = input.policy().is_some_and(|policy| policy.absent.matches(node));
            observed.absent = is_leaving.then_some(SetAside::Leaving);
        }
        let is_loss_seen = self.loss.contains(Loss::SEEN);
        let is_pod_lost = is_loss_seen && judgement.is_target_known;
        self.apply_absence(&observed, judgement, is_pod_lost, input);
        let known = match is_undone {
            true => known,
            false => self.apply_beginning(known, &observed, judgement, input),
        };
        self.restarts.record(observed.restarts, || observed.has_pod_before(judgement));
        let is_available = observed.has(Holds::AVAILABLE);
        // It may be shown after another template that it was not for.
        let is_changed = slot.assessment.budget_use.contains(BudgetUse::CHANGED);
        let is_lost = is_changed || is_loss_seen && self.without_pod_since.is_none();
        let is_taken = self.is_taken() || is_lost;
        let needs_pod = !is_available && observed.eligibility.should_run();
        self.loss = if is_taken && needs_pod { Loss::TAKEN } else { Loss::empty() };
        if is_available {
            self.sight = Sight::Available;
        }
        let is_without = !observed.has(Holds::SEEN_AVAILABLE);
        self.without_pod_since = is_without.then(|| self.without_pod_since.unwrap_or(now));
        if observed.has(Holds::OLD) {
            self.past = self.past.with(Of::Other);
        }
        if observed.has(Holds::TARGET) {
            self.past = self.past.with(Of::target(judgement.is_target_known));
        }
        self.starting_since = self
            .is_starting(&observed, judgement)
            .then(|| self.starting_since.unwrap_or_else(|| observed.starting_since(now, input)));
        let is_troubled = observed.trouble.is_some_and(PodTrouble::prevents_start);
        self.trouble_since = self.starting_since.filter(|_| is_troubled).map(|starting_since| {
            self.trouble_since.unwrap_or(match input.clocks {
                Clocks::Observed => now,
                Clocks::Stated => starting_since,
            })
        });
        let state = match judgement.direction {
            Direction::Forward => self.forward(known, &observed, judgement),
            Direction::Back => self.back(&observed, judgement),
        };
        let state = match state {
            NodeState::Updating { is_absent, .. } => {
                NodeState::Updating { is_absent, was_passed: self.was_passed() }
            }
            other => other,
        };
        self.apply_availability(known, state, slot, input);
        let repairable_at = self.repairable_at(&observed, judgement, input);
        let answered_until = observed.asked.map(|asked| asked.until);
        let overdue_at = observed.images.and_then(|images| judgement.overdue_at(&images));
        let long_without = self.without_pod_since.filter(|_| observed.images.is_some());
        let long_without = long_without.map(|since| since + LONG_START);
        let others = [repairable_at, answered_until, overdue_at, long_without];
        let others = others.map(|at| at.filter(|at| *at > now));
        let times = [self.changes_at(judgement)].into_iter().chain(others);
        (state, times.flatten().min())
    }

    /// True if the node gets a pod that is not available yet. A request without an answer that may
    /// change its pod says nothing about the template.
    fn is_starting(&self, observed: &Observed<'_>, judgement: &Judgement) -> bool {
        // An old pod that was broken before and does not end must not hold the rollout up either.
        let was_broken =
            matches!(self.begun, Some(WhenBegun::Broken | WhenBegun::Unready | WhenBegun::Late));
        // Whoever deletes a pod of the target gives its successor no more time.
        let is_successor = self.starting_since.is_some() && !observed.has(Holds::FORMER);
        let is_starting = match judgement.direction {
            Direction::Forward if was_broken || is_successor => observed.progress.is_in_flight(),
            Direction::Forward => observed.progress == NodeProgress::Starting,
            Direction::Back => self.begun.is_some() && observed.lacks_pod_of_base(),
        };
        is_starting && !observed.has(Holds::ASSUMED)
    }

    /// When the state of the node, or whether it is named, changes unless something else does.
    fn changes_at(&self, judgement: &Judgement) -> Option<Timestamp> {
        let since = match (self.begun, self.absence) {
            (Some(WhenBegun::Well), None) if judgement.is_endless() => None,
            (
                Some(WhenBegun::Well | WhenBegun::Broken | WhenBegun::Unready | WhenBegun::Late),
                _,
            ) => self.absence.map_or(self.starting_since, |absence| Some(absence.since)),
            (None, None) if self.is_taken() => self.without_pod_since,
            (None | Some(WhenBegun::Joined), _) => None,
        };
        let is_long = [self.starting_since, self.trouble_since];
        let is_long = is_long.map(|since| since.map(|since| since + LONG_START));
        let times = is_long.into_iter().chain([since.map(|since| since + judgement.limit)]);
        times.flatten().filter(|at| *at > judgement.now).min()
    }

    /// True if the node has lost its old pod, and may run no other one: nothing was tried there
    /// (G33).
    fn is_barred(&self, observed: &Observed<'_>) -> bool {
        observed.has(Holds::BARRED) && observed.wave.is_open() && self.is_untried(observed)
    }

    /// True if the node has no pod, and never had an available one of the target.
    fn is_untried(&self, observed: &Observed<'_>) -> bool {
        !observed.pods.iter().any(PodView::counts) && !self.passed.contains(Passed::WITH_TARGET)
    }

    /// True if a node that has failed remains so: until it gets an available pod, also while it is
    /// down or leaves, or may have none (G34).
    fn remains_failed(&self, observed: &Observed<'_>) -> bool {
        matches!(self.begun, Some(WhenBegun::Well | WhenBegun::Late))
            && (self.starting_since.is_some() || !observed.has(Holds::AVAILABLE))
    }

    fn forward(
        &self,
        known: NodeState,
        observed: &Observed<'_>,
        judgement: &Judgement,
    ) -> NodeState {
        let is_over = |limit| self.starting_since.is_some_and(|at| judgement.is_over(at, limit));
        let is_late = |limit| judgement.blames_late() && is_over(limit);
        let Blame { after, max_restarts, cannot_start, .. } = judgement.blame;
        let is_judged = self.absence.is_none() || known == NodeState::Failed;
        let restarts_too_often =
            is_judged && max_restarts.is_some_and(|max| self.restarts.since() > max);
        let awaited_images = observed.awaited_images(judgement, self.without_pod_since);
        let is_barred = self.is_barred(observed);
        match (self.begun, self.absence) {
            (Some(WhenBegun::Well), _) if restarts_too_often => NodeState::Failed,
            _ if known == NodeState::Failed && self.remains_failed(observed) => NodeState::Failed,
            _ if observed.progress == NodeProgress::Done && !is_barred => NodeState::Done,
            (None, _)
                if observed.wave.is_held()
                    && !observed.has_begun()
                    && self.taken(judgement) == Outage::None =>
            {
                NodeState::SetAside(SetAside::Held)
            }
            (Some(WhenBegun::Joined), _) => NodeState::SetAside(SetAside::Joined),
            (Some(_), Some(Absence { since, has_begun: true })) => {
                if judgement.is_over(since, judgement.limit) {
                    NodeState::SetAside(SetAside::Lost)
                } else {
                    NodeState::Updating { is_absent: true, was_passed: false }
                }
            }
            (_, Some(_)) => NodeState::SetAside(observed.absent.unwrap_or(SetAside::Down)),
            (_, None) if is_barred || self.begun.is_none() && observed.is_tainted() => {
                NodeState::SetAside(SetAside::Tainted)
            }
            (None, None) if observed.is_excluded(judgement) => {
                NodeState::SetAside(SetAside::Excluded)
            }
            (_, None) if observed.is_unchangeable => self.unchangeable(known, observed, judgement),
            (Some(_), None) if observed.keeps_given_up() => NodeState::SetAside(SetAside::Tainted),
            // A pod that cannot be changed in place goes as any other: by the same agreement.
            (begun, None)
                if (begun.is_none() || observed.has(Holds::GIVEN_UP))
                    && let Some(state) = observed.agreement(judgement, awaited_images) =>
            {
                state
            }
            (None, None) if let Some(images) = awaited_images => {
                let is_overdue = judgement.is_overdue(&images);
                match is_overdue && judgement.blame.pulls {
                    true => NodeState::Failed,
                    false => NodeState::Pulling { is_overdue, outage: self.outage(judgement) },
                }
            }
            (None, None) => NodeState::Waiting { outage: self.outage(judgement) },
            (Some(WhenBegun::Late), None) if is_late(judgement.limit) => NodeState::Failed,
            (Some(WhenBegun::Broken | WhenBegun::Unready), None) if is_over(judgement.limit) => {
                NodeState::SetAside(SetAside::BrokenBefore)
            }
            (Some(WhenBegun::Broken | WhenBegun::Unready | WhenBegun::Late), None) => UPDATING,
            (Some(WhenBegun::Well), None) => {
                let is_stuck = |since| judgement.is_over(since, LONG_START);
                // Another attempt, and a node that was down, begin the former time anew.
                let is_long = is_over(LONG_START) && self.trouble_since.is_some_and(is_stuck);
                let has_failed = after.is_some_and(is_over) || cannot_start && is_long;
                match judgement.is_complete() && is_over(judgement.limit) {
                    _ if has_failed => NodeState::Failed,
                    true => NodeState::SetAside(SetAside::BrokenBefore),
                    false => UPDATING,
                }
            }
        }
    }

    /// The state of a node whose pod can only be changed in place, and cannot be (G56). Without a
    /// fix that gets in, one that is not ready is down as any other. One that has no pod that is
    /// ready, and has had no available one for long or since before the attempt, is not blamed.
    fn unchangeable(
        &self,
        known: NodeState,
        observed: &Observed<'_>,
        judgement: &Judgement,
    ) -> NodeState {
        let is_ready = |pod: &PodView| pod.readiness.is_ready() && !pod.is_terminating();
        let was_broken =
            |since| judgement.is_before_attempt(since) || judgement.is_over(since, judgement.limit);
        let was_broken =
            self.without_pod_since.is_some_and(was_broken) && !observed.pods.iter().any(is_ready);
        match known {
            _ if observed.node.not_ready_since().is_some() => NodeState::SetAside(SetAside::Down),
            NodeState::Failed => NodeState::Failed,
            _ if was_broken => NodeState::SetAside(SetAside::BrokenBefore),
            _ => NodeState::Failed,
        }
    }

    /// Since when the pod of a node on which the rollout has yet to begin is not available.
    fn outage(&self, judgement: &Judgement) -> Outage {
        match (self.taken(judgement), self.without_pod_since) {
            (Outage::None, Some(since))
                if self.had_pod()
                    && self.sight == Sight::Available
                    && !judgement.is_before_attempt(since) =>
            {
                Outage::New
            }
            (outage, _) => outage,
        }
    }

    /// The outage of a pod that was taken away before the attempt, and not for long. A request
    /// without an answer may take one away that the watch shows as available.
    fn taken(&self, judgement: &Judgement) -> Outage {
        let is_over = |since| judgement.is_over(since, judgement.limit);
        let is_recent = !self.without_pod_since.is_some_and(is_over);
        match self.is_taken() && self.had_pod() && is_recent {
            true => Outage::Taken,
            false => Outage::None,
        }
    }

    /// The state of a node while pods of the target are replaced with those of the base (G41).
    fn back(&self, observed: &Observed<'_>, judgement: &Judgement) -> NodeState {
        match (self.begun, observed.absent) {
            // Its pod stays, whatever it is like.
            _ if observed.wave.is_held() && observed.has(Holds::STAYING_TARGET) => {
                NodeState::SetAside(SetAside::Held)
            }
            _ if observed.absent.is_none()
                && (observed.keeps_target_by_taint() || observed.keeps_given_up()) =>
            {
                NodeState::SetAside(SetAside::Tainted)
            }
            // It may have been so since before this controller looked.
            (None, Some(why)) if observed.has(Holds::TARGET) => NodeState::SetAside(why),
            (None, Some(_)) => NodeState::default(),
            (None, None) => NodeState::Waiting { outage: self.taken(judgement) },
            (Some(_), Some(why)) => NodeState::SetAside(why),
            // A pod of the base starts beside that of the target.
            (Some(_), None) if observed.has(Holds::TARGET) && observed.has(Holds::OLD) => UPDATING,
            (Some(_), None) if observed.has(Holds::AVAILABLE) => NodeState::default(),
            (Some(_), None) if observed.has(Holds::TARGET) || observed.eligibility.should_run() => {
                UPDATING
            }
            (Some(_), None) => NodeState::Done,
        }
    }

    /// Records when the pod of the target became available. A node does not lose that time because
    /// it is absent for a while (G39). Nothing looks at it while a write is in flight: if its pod
    /// was unavailable meanwhile, only the time of the pod tells.
    fn apply_availability(
        &mut self,
        known: NodeState,
        state: NodeState,
        slot: &Slot,
        input: &RolloutInput<'_>,
    ) {
        let pods = slot.pods.as_slice().iter().filter(|pod| !pod.is_terminating());
        let min_ready_seconds = input.daemon_set.min_ready_seconds;
        let times = pods.filter_map(|pod| pod.available_at(min_ready_seconds, input.now));
        let loses_time = known == NodeState::Done && self.absence.is_none();
        if state != NodeState::Done {
            self.available = self.available.filter(|_| !loses_time);
        } else if let Some(of_pod) = times.max() {
            let kept = self.available.filter(|it| !loses_time || of_pod <= it.of_pod);
            let since = kept.map_or(of_pod, |it| it.since);
            self.available = Some(Availability { since, of_pod });
            self.passed |= Passed::WITH_TARGET;
        }
    }
}
