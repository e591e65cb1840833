//! The contribution of one node to counts and sets: a pure function of its slot and the time.
//! Upstream: `podsShouldBeOnNode`, and the loops over nodes in `rollingUpdate`.

use std::collections::BTreeSet;

use crate::api::{DaemonSet, Now, PodPhase, RevisionHash, Timestamp, UpdateStrategy};
use crate::placement::Eligibility;
use crate::revisions::RevisionLabels;

use super::pods::{PodFlags, PodView};
use super::slot::{
    BudgetUse, Health, NodeAssessment, NodeProgress, Scheduling, Slot, SlotFlags, Step, Wanted,
    Work,
};
use super::state::Direction;

/// For how long a pod that is ready counts as one that starts, in seconds: it gets its override
/// without a budget (G57).
const STARTING_SECONDS: u32 = 60;

/// When the delayed work of a node is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeDelays {
    /// When its pods that have ended may be deleted (C24).
    pub deletion_until: Option<Timestamp>,
    /// When a pod may be created, because others have deleted the last ones (C23).
    pub creation_until: Option<Timestamp>,
}

/// An assessment, and how long it is valid.
pub(crate) struct TimedAssessment {
    pub assessment: NodeAssessment,
    /// When the assessment may change without an observation.
    pub expires_at: Option<Timestamp>,
}

/// The fields of a DaemonSet that an assessment reads beside the slot. When they change, all slots
/// are assessed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RolloutParameters {
    pub strategy: UpdateStrategy,
    pub min_ready_seconds: u32,
}

/// The rules of a rollout that assessments read. They are the same for all nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RolloutRules<'a> {
    /// True if any pod is replaced for its revision.
    pub replaces: bool,
    /// The hashes of pods that have the template of the base, unless that is the target.
    pub of_base: Option<&'a BTreeSet<RevisionHash>>,
    /// The direction of a guarded rollout; `None` if no policy guards it.
    pub guarded: Option<Direction>,
    /// Since when pods of the target have been available that state that their node is updated
    /// (G54).
    pub told_since: Option<Timestamp>,
}

impl RolloutParameters {
    pub(crate) fn new(daemon_set: &DaemonSet) -> Self {
        Self { strategy: daemon_set.strategy(), min_ready_seconds: daemon_set.min_ready_seconds }
    }
}

/// Assesses slots at one time.
#[derive(Clone, Copy)]
pub(crate) struct Assessor<'a> {
    parameters: RolloutParameters,
    rules: RolloutRules<'a>,
    labels: &'a RevisionLabels,
    now: Now,
}

/// The pods of a node that are not terminating: those that the rollout wants there are new, all
/// others old. Upstream: `findUpdatedPodsActivePods`.
enum ActivePods<'a> {
    Nothing,
    New(&'a PodView),
    Old(&'a PodView),
    Both {
        new: &'a PodView,
        old: &'a PodView,
    },
    /// More than one new or more than one old pod: the surplus is deleted first.
    TooMany,
}

impl<'a> Assessor<'a> {
    pub(crate) fn new(
        daemon_set: &DaemonSet,
        rules: RolloutRules<'a>,
        labels: &'a RevisionLabels,
        now: Now,
    ) -> Self {
        Self { parameters: RolloutParameters::new(daemon_set), rules, labels, now }
    }

    pub(crate) fn assess(&self, slot: &Slot, delays: NodeDelays) -> TimedAssessment {
        let NodeDelays { deletion_until, creation_until } = delays;
        let pods = slot.pods.as_slice();
        let has_ended = ended_pods(slot).next().is_some();
        let mut work = Work::empty();
        work.set(Work::CREATE, needs_pod(slot, self.parameters.strategy));
        work.set(Work::DELETE_SURPLUS, !surplus_pods(slot, self).is_empty());
        work.set(Work::DELETE_ENDED, has_ended && deletion_until.is_none());
        work.set(Work::ADOPT, pods.iter().any(PodView::is_orphan));
        work.set(Work::TELL, self.must_tell(slot));
        work.set(Work::CHANGE, changing_pods(slot).next().is_some());
        let scheduling = self.scheduling(slot);
        let mut assessment = NodeAssessment { scheduling, work, ..NodeAssessment::default() };
        self.assess_rolling_update(slot, &mut assessment);
        let starts_until = self.assess_overrides(slot, &mut assessment);
        let available_at = pods.iter().filter_map(|pod| self.becomes_available_at(pod)).min();
        let available_at = available_at.into_iter().chain(starts_until);
        let creates = assessment.work.contains(Work::CREATE) || assessment.step.creates();
        let creation_until = creation_until.filter(|_| creates);
        if creation_until.is_some() {
            assessment.work.remove(Work::CREATE);
            if assessment.step.creates() {
                assessment.step = Step::None;
            }
        }
        let deletion_until = deletion_until.filter(|_| has_ended);
        let expires_at = available_at.chain(deletion_until).chain(creation_until).min();
        TimedAssessment { assessment, expires_at }
    }

    /// True if the pod is available now (C54).
    pub(crate) fn is_available(&self, pod: &PodView) -> bool {
        pod.is_available(self.parameters.min_ready_seconds, self.now)
    }

    /// True if the pod is of the current revision (C45).
    pub(crate) fn is_updated(&self, pod: &PodView) -> bool {
        pod.is_updated(self.labels)
    }

    /// True if the rollout wants the pod on its node (G1).
    fn is_wanted(&self, wanted: Wanted, pod: &PodView) -> bool {
        match wanted {
            _ if pod.is_given_up() => false,
            Wanted::Target => self.is_updated(pod),
            Wanted::Kept => false,
            Wanted::Base => {
                let hash = self.labels.hash(pod.labels);
                let is_of_base =
                    |hash| self.rules.of_base.is_some_and(|of_base| of_base.contains(hash));
                hash.is_some_and(is_of_base) && !pod.flags.contains(PodFlags::NOT_OF_BASE)
            }
        }
    }

    /// The old pod that the rolling update may delete, if there is exactly one.
    pub(crate) fn old_pod<'p>(&self, slot: &'p Slot) -> Option<&'p PodView> {
        match self.active_pods(slot) {
            ActivePods::Old(old) | ActivePods::Both { old, .. } => Some(old),
            ActivePods::Nothing | ActivePods::New(_) | ActivePods::TooMany => None,
        }
    }

    /// The new pod, if it is the only one.
    pub(crate) fn new_pod<'p>(&self, slot: &'p Slot) -> Option<&'p PodView> {
        match self.active_pods(slot) {
            ActivePods::New(new) => Some(new),
            ActivePods::Nothing
            | ActivePods::Old(_)
            | ActivePods::Both { .. }
            | ActivePods::TooMany => None,
        }
    }

    /// True if the node is updated, and its new pod does not say so yet (G54).
    fn must_tell(&self, slot: &Slot) -> bool {
        let Some(since) = self.rules.told_since else { return false };
        let new = self.new_pod(slot).filter(|_| slot.wanted == Wanted::Target);
        new.is_some_and(|pod| {
            let at = pod.available_at(self.parameters.min_ready_seconds, self.now);
            at.is_some_and(|at| self.now.to_wall(at) >= since)
                && !pod.flags.contains(PodFlags::REPLACED)
                && self.is_available(pod)
        })
    }

    /// When the pod becomes available, if that lies in the future.
    pub(crate) fn becomes_available_at(&self, pod: &PodView) -> Option<Timestamp> {
        let at = pod.available_at(self.parameters.min_ready_seconds, self.now);
        at.filter(|&at| at > self.now.steady)
    }

    /// How the status counts the node.
    fn scheduling(&self, slot: &Slot) -> Scheduling {
        let oldest = slot.pods.as_slice().iter().find(|pod| pod.counts());
        match (slot.eligibility, oldest) {
            (Eligibility::NoNode, _)
            | (Eligibility::MustNotRun | Eligibility::ContinueRunning, None) => {
                Scheduling::Unneeded
            }
            (Eligibility::MustNotRun | Eligibility::ContinueRunning, Some(_)) => {
                Scheduling::Misscheduled
            }
            (Eligibility::Run, None) => Scheduling::Missing,
            (Eligibility::Run, Some(pod)) => {
                let is_updated = self.is_updated(pod) && !pod.is_changing();
                Scheduling::Scheduled { health: self.health(pod), is_updated }
            }
        }
    }

    fn health(&self, pod: &PodView) -> Health {
        let min_ready_seconds = self.parameters.min_ready_seconds;
        match (pod.readiness.is_ready(), pod.is_seen_available(min_ready_seconds, self.now)) {
            (_, true) => Health::Available,
            (true, false) => Health::Ready,
            (false, false) => Health::NotReady,
        }
    }

    /// Sets the next step, and which budgets the node uses (C52, C53). While the rollout is paused
    /// or the node's wave is closed, a node that has only an old pod keeps it (G1, G6).
    fn assess_rolling_update(&self, slot: &Slot, assessment: &mut NodeAssessment) {
        match (self.parameters.strategy, slot.eligibility) {
            (UpdateStrategy::OnDelete | UpdateStrategy::Malformed, _)
            | (UpdateStrategy::RollingUpdate { .. }, Eligibility::NoNode) => {}
            (UpdateStrategy::RollingUpdate { .. }, _) if self.takes_no_part(slot) => {}
            (strategy @ UpdateStrategy::RollingUpdate { .. }, eligibility) => {
                let pods = self.active_pods(slot);
                let counts =
                    || eligibility.should_run() || slot.pods.as_slice().iter().any(PodView::counts);
                let is_unavailable = self.is_unavailable(&pods) && counts();
                assessment.budget_use.set(BudgetUse::UNAVAILABLE, is_unavailable);
                if strategy.surges() {
                    self.assess_surge(eligibility, &pods, assessment);
                    // An orphan is adopted first, because it may be the second of two allowed pods
                    // (C26).
                    if assessment.work.contains(Work::ADOPT) && assessment.step.creates() {
                        assessment.step = Step::None;
                    }
                } else {
                    assessment.step = self.step_without_surge(&pods);
                }
                // A request without an answer may change the pod yet.
                let is_settled = |old: &PodView| !old.flags.contains(PodFlags::ASSUMED);
                let replaces = self.rules.replaces && slot.wanted != Wanted::Kept;
                if matches!(pods, ActivePods::Old(old) if !replaces || !is_settled(old)) {
                    assessment.step = Step::None;
                }
                if self.rules.guarded.is_some() && slot.wanted != Wanted::Kept {
                    assessment.progress = self.progress(slot, &pods);
                }
            }
        }
    }

    /// Where overrides are those of running pods: sets the next step of a node whose pod gets
    /// another one, unless it goes, and if a pod that was changed uses the budget, or its successor
    /// that does not run yet (G57). One on a node whose kubelet does not answer uses none. Returns
    /// when that step changes without an observation.
    fn assess_overrides(&self, slot: &Slot, assessment: &mut NodeAssessment) -> Option<Timestamp> {
        let may_run = slot.eligibility.should_continue_running();
        if !self.labels.are_overrides_of_running() || !may_run {
            return None;
        }
        let mut pods = slot.pods.as_slice().iter().filter(|pod| is_ours_to_delete(pod));
        let was_changed =
            |pod: &PodView| pod.was_changed() || self.labels.tag(pod.labels).is_some();
        let is_down = |pod: &PodView| was_changed(pod) && !self.is_available(pod);
        let has_run = |pod: &PodView| pod.phase == PodPhase::Running;
        let is_successor =
            slot.assessment.budget_use.contains(BudgetUse::CHANGED) && !pods.clone().any(has_run);
        let is_changed = is_successor || pods.clone().any(is_down);
        let is_reachable = !slot.flags.contains(SlotFlags::UNREACHABLE);
        assessment.budget_use.set(BudgetUse::CHANGED, is_reachable && is_changed);
        assessment.budget_use.set(BudgetUse::UNREACHABLE, !is_reachable);
        if !is_reachable && is_changed {
            assessment.budget_use.remove(BudgetUse::UNAVAILABLE);
        }
        let stays = assessment.step == Step::None;
        let pod = pods.find(|pod| stays && pod.flags.contains(PodFlags::GETS_OVERRIDE))?;
        let starts_until = pod
            .available_at(STARTING_SECONDS, self.now)
            .filter(|at| pod.flags.contains(PodFlags::OVERRIDE_NOW) && *at > self.now.steady);
        let needs_budget = self.is_available(pod) && starts_until.is_none();
        assessment.step = if needs_budget { Step::Override } else { Step::OverrideNow };
        starts_until
    }

    /// True if the node keeps its old pod because it would get no new one (C57), or if its kubelet
    /// does not answer, and the rolling update has not begun there before that (C58). In a guarded
    /// rollout its state says so (G33).
    fn takes_no_part(&self, slot: &Slot) -> bool {
        let is_unreachable = slot.flags.contains(SlotFlags::UNREACHABLE);
        if self.rules.guarded.is_some() || !is_unreachable && !slot.only_keeps() {
            return false;
        }
        let is_later = |pod: &PodView| pod.flags.contains(PodFlags::SINCE_UNREACHABLE);
        match self.active_pods(slot) {
            ActivePods::Old(_) => true,
            ActivePods::New(new) | ActivePods::Both { new, .. } => is_unreachable && is_later(new),
            ActivePods::Nothing => {
                let mut ending = slot.pods.as_slice().iter().filter(|pod| pod.counts()).peekable();
                is_unreachable && ending.peek().is_some() && ending.all(is_later)
            }
            ActivePods::TooMany => false,
        }
    }

    /// True if the budget must allow to replace the old pod: it is available or, without a policy,
    /// ready, so that it soon is (C52). A guarded rollout begins on nodes without an available pod
    /// as G14 and G41 say.
    fn needs_budget(&self, old: &PodView) -> bool {
        let is_soon_available =
            || self.rules.guarded.is_none() && self.becomes_available_at(old).is_some();
        self.is_available(old) || is_soon_available()
    }

    /// True if the node counts as unavailable (C52).
    fn is_unavailable(&self, pods: &ActivePods<'_>) -> bool {
        match pods {
            ActivePods::Nothing | ActivePods::Both { .. } | ActivePods::TooMany => true,
            ActivePods::New(pod) | ActivePods::Old(pod) => !self.is_available(pod),
        }
    }

    /// How far a guarded rollout is on the node.
    fn progress(&self, slot: &Slot, pods: &ActivePods<'_>) -> NodeProgress {
        if self.is_in_flight(slot, pods) {
            if self.is_starting(slot, pods) {
                NodeProgress::Starting
            } else {
                NodeProgress::InFlight
            }
        } else if self.is_done(slot, pods) {
            NodeProgress::Done
        } else {
            NodeProgress::NotBegun
        }
    }

    /// True if the new pod starts (G34). A node whose old pod has yet to stop does not start.
    fn is_starting(&self, slot: &Slot, pods: &ActivePods<'_>) -> bool {
        slot.wanted == Wanted::Target
            && slot.eligibility.should_continue_running()
            && match pods {
                ActivePods::Nothing => {
                    slot.eligibility.should_run()
                        && slot.pods.as_slice().is_empty()
                        && !slot.flags.contains(SlotFlags::FORMER_POD)
                }
                ActivePods::New(new) | ActivePods::Both { new, .. } => !self.is_available(new),
                ActivePods::Old(_) | ActivePods::TooMany => false,
            }
    }

    /// True if the node is without its old pod, or has a new one that is not available (G14). One
    /// that is to have none is so until its pods are gone.
    fn is_in_flight(&self, slot: &Slot, pods: &ActivePods<'_>) -> bool {
        match pods {
            ActivePods::Nothing => {
                slot.eligibility.should_run() || slot.pods.as_slice().iter().any(PodView::counts)
            }
            ActivePods::New(new) | ActivePods::Both { new, .. } => !self.is_available(new),
            ActivePods::Old(_) => false,
            ActivePods::TooMany => true,
        }
    }

    /// True if the node has nothing but an available pod that is wanted, or, if it should run none,
    /// no other pod (G11).
    fn is_done(&self, slot: &Slot, pods: &ActivePods<'_>) -> bool {
        match slot.eligibility {
            Eligibility::NoNode => true,
            Eligibility::MustNotRun => !slot.pods.as_slice().iter().any(PodView::counts),
            // A node that goes down gets a taint which the pod may not tolerate: it counts.
            Eligibility::ContinueRunning => match pods {
                ActivePods::Nothing => true,
                ActivePods::New(new) => self.is_available(new),
                ActivePods::Old(_) | ActivePods::Both { .. } | ActivePods::TooMany => false,
            },
            Eligibility::Run => match pods {
                ActivePods::New(new) => self.is_available(new),
                ActivePods::Nothing
                | ActivePods::Old(_)
                | ActivePods::Both { .. }
                | ActivePods::TooMany => false,
            },
        }
    }

    /// The next step of a strategy that does not surge (C52).
    fn step_without_surge(&self, pods: &ActivePods<'_>) -> Step {
        match pods {
            ActivePods::Nothing
            | ActivePods::New(_)
            | ActivePods::Both { .. }
            | ActivePods::TooMany => Step::None,
            ActivePods::Old(pod) if self.needs_budget(pod) => Step::Replace,
            ActivePods::Old(_) => Step::ReplaceNow,
        }
    }

    /// Sets step and budget of a strategy that surges (C53).
    fn assess_surge(
        &self,
        eligibility: Eligibility,
        pods: &ActivePods<'_>,
        assessment: &mut NodeAssessment,
    ) {
        let surges = match pods {
            ActivePods::Nothing | ActivePods::New(_) | ActivePods::Old(_) => false,
            ActivePods::TooMany => true,
            ActivePods::Both { new, .. } => !self.is_available(new),
        };
        assessment.budget_use.set(BudgetUse::SURGE, surges);
        assessment.step = match pods {
            ActivePods::Nothing | ActivePods::TooMany | ActivePods::New(_) => Step::None,
            ActivePods::Both { new, .. } if self.is_available(new) => Step::DeleteOld,
            ActivePods::Both { .. } => Step::None,
            ActivePods::Old(pod) => match (self.needs_budget(pod), eligibility.should_run()) {
                (true, true) => Step::Surge,
                (true, false) => Step::Replace,
                (false, true) => Step::SurgeNow,
                (false, false) => Step::ReplaceNow,
            },
        };
    }

    /// The rolling update ignores pods on nodes that must not run one.
    fn active_pods<'p>(&self, slot: &'p Slot) -> ActivePods<'p> {
        let mut found = ActivePods::Nothing;
        if !slot.eligibility.should_continue_running() {
            return found;
        }
        for pod in
            slot.pods.as_slice().iter().filter(|pod| !pod.is_orphan() && !pod.is_terminating())
        {
            found = match (found, self.is_wanted(slot.wanted, pod)) {
                (ActivePods::Nothing, true) => ActivePods::New(pod),
                (ActivePods::Nothing, false) => ActivePods::Old(pod),
                (ActivePods::New(new), false) => ActivePods::Both { new, old: pod },
                (ActivePods::Old(old), true) => ActivePods::Both { new: pod, old },
                (ActivePods::New(_), true)
                | (ActivePods::Old(_), false)
                | (ActivePods::Both { .. } | ActivePods::TooMany, _) => return ActivePods::TooMany,
            };
        }
        found
    }
}

/// True if a pod must be created (C23). An ended pod is deleted first, an orphan is adopted first,
/// and unless the strategy surges, a terminating pod must have ended (C22), and so must one of a
/// former DaemonSet (C36).
fn needs_pod(slot: &Slot, strategy: UpdateStrategy) -> bool {
    let occupies = |pod: &PodView| {
        pod.is_orphan() || (pod.counts() && !(pod.is_terminating() && strategy.surges()))
    };
    let awaits_former = slot.flags.contains(SlotFlags::FORMER_POD) && !strategy.surges();
    slot.eligibility.should_run() && !awaits_former && !slot.pods.as_slice().iter().any(occupies)
}

/// The pods that have failed or succeeded on a node where a pod may run (C24).
pub(crate) fn ended_pods(slot: &Slot) -> impl Iterator<Item = &PodView> {
    let may_run = slot.eligibility.should_continue_running();
    let pods = slot.pods.as_slice().iter().filter(move |_| may_run);
    pods.filter(|pod| is_ours_to_delete(pod) && pod.phase.is_terminal())
}

/// The pods that are being changed in place (G56).
pub(crate) fn changing_pods(slot: &Slot) -> impl Iterator<Item = &PodView> {
    let pods = slot.pods.as_slice().iter();
    let ignored = PodFlags::GIVEN_UP | PodFlags::ASSUMED;
    let is_followed = move |pod: &&PodView| pod.is_changing() && !pod.flags.intersects(ignored);
    pods.filter(is_followed).filter(|pod| is_ours_to_delete(pod) && !pod.phase.is_terminal())
}

/// The pods that must be deleted regardless of budgets (C23, C25–C27).
pub(crate) fn surplus_pods<'a>(slot: &'a Slot, assessor: &Assessor<'_>) -> Vec<&'a PodView> {
    let ours = slot.pods.as_slice().iter().filter(|pod| is_ours_to_delete(pod));
    match slot.eligibility {
        // The pod garbage collector deletes the scheduled ones (C27).
        Eligibility::NoNode => {
            ours.filter(|pod| !pod.flags.contains(PodFlags::SCHEDULED)).collect()
        }
        Eligibility::MustNotRun => ours.collect(),
        Eligibility::ContinueRunning | Eligibility::Run => {
            let running = ours.filter(|pod| !pod.phase.is_terminal());
            if assessor.parameters.strategy.surges() {
                surplus_of_surge(running, slot.wanted, assessor)
            } else {
                running.skip(1).collect()
            }
        }
    }
}

/// With surge the oldest new and the oldest old pod stay; the old one is surplus once it is not
/// ready or the new one is available (C26).
fn surplus_of_surge<'a>(
    running: impl Iterator<Item = &'a PodView>,
    wanted: Wanted,
    assessor: &Assessor<'_>,
) -> Vec<&'a PodView> {
    let (mut new, mut old, mut surplus) = (None, None, Vec::new());
    for pod in running {
        let oldest = if assessor.is_wanted(wanted, pod) { &mut new } else { &mut old };
        match oldest {
            None => *oldest = Some(pod),
            Some(_) => surplus.push(pod),
        }
    }
    if let (Some(new), Some(old)) = (new, old)
        && (!old.readiness.is_ready() || assessor.is_available(new))
    {
        surplus.push(old);
    }
    surplus
}

fn is_ours_to_delete(pod: &PodView) -> bool {
    !pod.is_orphan() && !pod.is_terminating()
}
