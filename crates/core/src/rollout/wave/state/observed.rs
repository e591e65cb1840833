//! The present state of a node and its pods, as far as its state in a guarded rollout needs it.

use std::time::Duration;

use bitflags::bitflags;

use crate::api::{Node, PodTrouble, Timestamp};
use crate::config::Clocks;
use crate::node::{
    NodeProgress, NodeState, PodFlags, PodView, SetAside, Slot, SlotFlags, Wanted, Wave,
};
use crate::placement::Eligibility;
use crate::rollout::agreement::Asked;
use crate::rollout::images::PullProgress;
use crate::rollout::input::RolloutInput;

use super::{Judgement, LONG_START};

bitflags! {
    /// The pods of a node, as far as its state depends on them.
    #[derive(Clone, Copy)]
    pub(super) struct Holds: u16 {
        /// It has a pod of the target, even one that ends.
        const TARGET = 1;
        /// It has another pod, which does not end.
        const OLD = 1 << 1;
        /// It has an available pod that does not end.
        const AVAILABLE = 1 << 2;
        /// Only the target's placement removes its pod (G42).
        const REMOVED = 1 << 3;
        /// A pod of another revision is there, even one that ends, or one that had another before
        /// it was changed in place (G56). One that is older than the node was that of a former
        /// machine.
        const FORMER = 1 << 4;
        /// Its change in place is only assumed: a request has no answer.
        const ASSUMED = 1 << 5;
        /// Its pod was being changed, and cannot be.
        const GIVEN_UP = 1 << 6;
        /// As the watch shows it, it has an available pod that does not end: of that one only a
        /// request without an answer may say that it is being changed (G56).
        const SEEN_AVAILABLE = 1 << 7;
        /// It gets no new pod, but may keep the one that it has (C57).
        const KEPT = 1 << 8;
        /// It has pods that do not end, and none of them is of the target.
        const ONLY_OLD = 1 << 9;
        /// It has no pod, and neither the target nor the base may run there.
        const BARRED = 1 << 11;
        /// It has a pod of the target that does not end.
        const STAYING_TARGET = 1 << 10;
    }
}

/// The present state of a node and its pods.
pub(super) struct Observed<'a> {
    pub node: &'a Node,
    pub wave: Wave,
    pub eligibility: Eligibility,
    pub progress: NodeProgress,
    /// Why the node is absent, if it is.
    pub absent: Option<SetAside>,
    pub pods: &'a [PodView],
    pub holds: Holds,
    /// The highest number of restarts of a container of a pod of the target.
    pub restarts: u8,
    pub trouble: Option<PodTrouble>,
    /// How far it has the images of the target, if it waits for them (G55).
    pub images: Option<PullProgress>,
    /// The question whether its old pod may go, if that was asked (G54).
    pub asked: Option<Asked>,
    /// True if its old pod can only be changed in place, and cannot be (G56).
    pub is_unchangeable: bool,
}

impl<'a> Observed<'a> {
    pub(super) fn new(
        node: &'a Node,
        wave: Wave,
        slot: &'a Slot,
        images: Option<PullProgress>,
        input: &RolloutInput<'_>,
    ) -> Self {
        let pods = slot.pods.as_slice();
        let is_target = |pod: &&PodView| match slot.wanted {
            Wanted::Base => pod.is_to_go_back(input.labels),
            Wanted::Target | Wanted::Kept => pod.is_updated(input.labels),
        };
        let is_active = |pod: &&PodView| !pod.is_orphan() && !pod.is_terminating();
        let min_ready_seconds = input.daemon_set.min_ready_seconds;
        let targets = || pods.iter().filter(|pod| pod.counts()).filter(is_target);
        // A template that was never complete may be why.
        let has_no_place = |pod: &PodView| {
            pod.flags.contains(PodFlags::UNSCHEDULABLE) && !input.is_of_bad_revision(pod)
        };
        let active = || pods.iter().filter(is_active);
        let flagged = |flag| active().any(|pod: &PodView| pod.flags.contains(flag));
        let is_changed = |pod: &&PodView| !pod.flags.contains(PodFlags::ASSUMED);
        let is_available = |pod: &PodView| pod.is_available(min_ready_seconds, input.now);
        let mut holds = Holds::empty();
        holds.set(Holds::TARGET, targets().next().is_some());
        let has_old = active().any(|pod| !is_target(&pod));
        holds.set(Holds::OLD, has_old);
        let has_staying_target = active().any(|pod| is_target(&pod));
        holds.set(Holds::STAYING_TARGET, has_staying_target);
        holds.set(Holds::ONLY_OLD, has_old && !has_staying_target);
        holds.set(Holds::AVAILABLE, active().any(is_available));
        let is_seen = |pod: &PodView| pod.is_seen_available(min_ready_seconds, input.now);
        holds.set(Holds::SEEN_AVAILABLE, active().any(is_seen));
        holds.set(Holds::REMOVED, slot.flags.contains(SlotFlags::LOSES_POD));
        holds.set(Holds::KEPT, slot.only_keeps());
        holds.set(Holds::BARRED, slot.flags.contains(SlotFlags::BARRED));
        holds.set(Holds::ASSUMED, flagged(PodFlags::ASSUMED));
        let is_changing = flagged(PodFlags::CHANGING) && !flagged(PodFlags::ASSUMED);
        let is_former = |pod: &PodView| {
            pod.counts() && !is_target(&pod) && pod.creation_timestamp >= node.created
        };
        holds.set(Holds::FORMER, is_changing || slot.pods.as_slice().iter().any(is_former));
        holds.set(Holds::GIVEN_UP, flagged(PodFlags::GIVEN_UP));
        let absent = match input.policy() {
            _ if node.not_ready_since().is_some() => Some(SetAside::Down),
            Some(policy) if policy.absent.matches(node) => Some(SetAside::Leaving),
            _ if holds.contains(Holds::ONLY_OLD) && active().any(has_no_place) => {
                Some(SetAside::Down)
            }
            _ => None,
        };
        Self {
            node,
            wave,
            eligibility: slot.eligibility,
            progress: slot.assessment.progress,
            absent,
            pods,
            holds,
            restarts: targets()
                .filter(is_changed)
                .map(|pod| pod.restarts)
                .max()
                .unwrap_or_default(),
            trouble: targets().filter_map(|pod| pod.trouble).max(),
            images,
            is_unchangeable: wave.is_open() && input.obstacle(slot).is_some(),
            asked: active().find_map(|pod| Asked::about(pod, input)).filter(|_| wave.is_open()),
        }
    }

    pub(super) const fn has(&self, pods: Holds) -> bool {
        self.holds.contains(pods)
    }

    /// True if the rollout has begun on the node: a pod of the target is there, or in an open wave
    /// the old one is gone. Where those of the target all end beside the old one, it has not.
    pub(super) fn has_begun(&self) -> bool {
        !self.has(Holds::ONLY_OLD) && (self.has(Holds::TARGET) || self.wave.is_open())
    }

    /// True if its pod of the target is gone, and no other one is available.
    pub(super) const fn lacks_pod_of_base(&self) -> bool {
        !self.has(Holds::AVAILABLE) && !self.has(Holds::TARGET)
    }

    /// Since when a node is without an available pod of the target that was not before.
    pub(super) fn starting_since(&self, now: Timestamp, input: &RolloutInput<'_>) -> Timestamp {
        let is_target = |pod: &&PodView| pod.counts() && pod.is_updated(input.labels);
        let targets = self.pods.iter().filter(is_target);
        match input.clocks {
            Clocks::Observed => now,
            Clocks::Stated => {
                targets.filter_map(|pod| pod.readiness_seen).max().unwrap_or(now).min(now)
            }
        }
    }

    /// True if a pod of the target was there before the attempt began, or became complete.
    pub(super) fn has_pod_before(&self, judgement: &Judgement) -> bool {
        let is_older = |began| self.pods.iter().any(|pod| pod.creation_timestamp < began);
        self.has(Holds::TARGET) && judgement.joined_after.is_some_and(is_older)
    }

    /// True if the node went down when a pod of the target had been there for longer than this.
    pub(super) fn went_down_after(&self, limit: Duration) -> bool {
        let is_older =
            |since: Timestamp| self.pods.iter().any(|pod| pod.creation_timestamp + limit < since);
        self.has(Holds::TARGET) && self.node.not_ready_since().is_some_and(is_older)
    }

    /// True if all its pods end, and no deletion was requested since its kubelet stopped answering.
    pub(super) fn has_ending_pods_only(&self) -> bool {
        let is_before = |pod: &PodView| {
            pod.is_terminating() && !pod.flags.contains(PodFlags::SINCE_UNREACHABLE)
        };
        !self.pods.is_empty() && self.pods.iter().all(is_before)
    }

    /// True if a pod was there before this time of the API server, in whole seconds, and stays.
    pub(super) fn keeps_pod_from_before(&self, at: Timestamp) -> bool {
        self.pods.iter().any(|pod| !pod.is_terminating() && pod.creation_timestamp < at)
    }
}

impl Observed<'_> {
    /// True if the target's placement would remove the node's pod, which it may not.
    pub(super) fn is_excluded(&self, judgement: &Judgement) -> bool {
        self.wave.is_open() && self.has(Holds::OLD | Holds::REMOVED) && !judgement.may_remove
    }

    /// True if a taint keeps a pod of the base away, while that of the target may stay.
    pub(super) fn keeps_target_by_taint(&self) -> bool {
        self.has(Holds::KEPT) && self.has(Holds::TARGET) && !self.has(Holds::OLD)
    }

    /// True if the node would get no other pod for one that cannot be changed in place after all,
    /// because of a taint.
    pub(super) fn keeps_given_up(&self) -> bool {
        self.has(Holds::KEPT) && self.has(Holds::GIVEN_UP)
    }

    /// The state of a node on which the rollout has yet to begin, if somebody is asked whether its
    /// old pod may go.
    pub(super) fn agreement(
        &self,
        judgement: &Judgement,
        awaited_images: Option<PullProgress>,
    ) -> Option<NodeState> {
        let Asked { is_agreed, until } = self.asked?;
        if is_agreed && awaited_images.is_some_and(|images| judgement.is_overdue(&images)) {
            return None;
        }
        Some(match until <= judgement.now && !is_agreed {
            true => NodeState::SetAside(SetAside::NotAgreed),
            // It may have been asked before somebody made the images a condition.
            false => NodeState::Asked { is_agreed: is_agreed && awaited_images.is_none() },
        })
    }

    /// How far the node has the images for which its old pod waits, if it does. Where none has been
    /// available for long nothing is lost while the new one pulls them: a reboot takes less. A pod
    /// that only the target's placement removes has no successor.
    pub(super) fn awaited_images(
        &self,
        judgement: &Judgement,
        without_pod_since: Option<Timestamp>,
    ) -> Option<PullProgress> {
        let is_long = |since| judgement.is_over(since, LONG_START);
        let waits = judgement.requires_images()
            && self.wave.is_open()
            && self.eligibility.should_run()
            && self.has(Holds::ONLY_OLD)
            && !without_pod_since.is_some_and(is_long)
            && !self.has(Holds::REMOVED);
        self.images.filter(|images| waits && !images.are_present)
    }

    /// True if a taint keeps a new pod away, while the old one may stay.
    pub(super) fn is_tainted(&self) -> bool {
        self.wave.is_open() && self.has(Holds::KEPT) && self.has(Holds::OLD)
    }
}
