//! What one node contributes to counts and candidate sets: a pure function of its slot and the time.

use crate::api::{DaemonSet, Timestamp, UpdateStrategy};
use crate::placement::Eligibility;

use super::carried::Carried;
use super::manage;
use super::slot::{PodView, Slot};

/// What a node counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    pub desired: bool,
    pub current: bool,
    pub misscheduled: bool,
    pub ready: bool,
    pub available: bool,
    pub updated: bool,
    /// It is to get a pod (C23).
    pub needs_pod: bool,
    /// It has pods that are to go whatever their revision (C23, C25–C27).
    pub has_surplus: bool,
    /// It has failed or succeeded pods that may be deleted now (C24).
    pub has_ended: bool,
    /// It has orphans to adopt (C21).
    pub has_orphans: bool,
    /// It uses up one of `maxUnavailable` (C52). Known with surge, too: which of the two budgets is in force
    /// depends on how many nodes are desired (C51).
    pub uses_unavailable: bool,
    /// With surge: it uses up one of `maxSurge` (C53).
    pub uses_surge: bool,
    /// With surge: it has an available pod (C53).
    pub serves: bool,
    pub step: Step,
}

/// The rolling update's next step on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Step {
    #[default]
    None,
    /// C52: delete the old pod, which is not available. With surge only where no new one should run (C53).
    ReplaceNow,
    /// C52: delete the old pod if the budget has room.
    Replace,
    /// C53: create a new pod beside the old one, which is not available.
    SurgeNow,
    /// C53: create a new pod if there is surge room.
    Surge,
    /// C53: delete the old pod.
    Retire,
    /// C53: delete the old pod while more are available than desired.
    Sunset,
}

impl Step {
    const fn creates(self) -> bool {
        match self {
            Self::SurgeNow | Self::Surge => true,
            Self::None | Self::ReplaceNow | Self::Replace | Self::Retire | Self::Sunset => false,
        }
    }
}

pub(super) struct Assessment {
    pub standing: Standing,
    /// When time alone may change it.
    pub again_at: Option<Timestamp>,
}

/// What pods are judged by.
#[derive(Clone, Copy)]
pub(super) struct Judge<'a> {
    pub strategy: UpdateStrategy,
    pub min_ready_seconds: u32,
    pub carried: &'a Carried,
    pub now: Timestamp,
}

/// The pods of a node that are not terminating, as the rolling update sees them.
/// Upstream: `findUpdatedPodsOnNode`.
enum OnNode<'a> {
    Nothing,
    New(&'a PodView),
    Old(&'a PodView),
    Both {
        new: &'a PodView,
        old: &'a PodView,
    },
    /// More than one of a kind: [`manage`] clears it up first.
    TooMany,
}

impl<'a> Judge<'a> {
    pub fn new(daemon_set: &DaemonSet, carried: &'a Carried, now: Timestamp) -> Self {
        Self {
            strategy: daemon_set.update_strategy,
            min_ready_seconds: daemon_set.min_ready_seconds,
            carried,
            now,
        }
    }

    /// `backed_off_until` is when the node's failed pods may be deleted (C24).
    pub fn assess(&self, slot: &Slot, backed_off_until: Option<Timestamp>) -> Assessment {
        let pods = slot.pods.as_slice();
        let mut standing = Standing {
            needs_pod: manage::needs_pod(slot, self.strategy),
            has_surplus: !manage::surplus(slot, self).is_empty(),
            has_orphans: pods.iter().any(|pod| pod.orphan),
            ..Standing::default()
        };
        let has_ended = manage::ended(slot).next().is_some();
        standing.has_ended =
            has_ended && (backed_off_until.is_none() || manage::has_succeeded(slot));
        self.count(slot, &mut standing);
        self.roll(slot, &mut standing);
        let available_at = pods.iter().filter_map(|pod| self.becomes_available_at(pod)).min();
        let backed_off_until = backed_off_until.filter(|_| has_ended);
        let again_at = available_at.into_iter().chain(backed_off_until).min();
        Assessment { standing, again_at }
    }

    pub fn is_available(&self, pod: &PodView) -> bool {
        pod.is_available(self.min_ready_seconds, self.now)
    }

    pub fn is_updated(&self, pod: &PodView) -> bool {
        self.carried.is_updated(pod.carried)
    }

    /// The one pod of an older revision that the rolling update may delete.
    pub fn old_pod<'p>(&self, slot: &'p Slot) -> Option<&'p PodView> {
        match self.on_node(slot) {
            OnNode::Old(old) | OnNode::Both { old, .. } => Some(old),
            OnNode::Nothing | OnNode::New(_) | OnNode::TooMany => None,
        }
    }

    pub fn becomes_available_at(&self, pod: &PodView) -> Option<Timestamp> {
        pod.available_at(self.min_ready_seconds).filter(|&at| at > self.now)
    }

    /// C70: the oldest pod of a node speaks for it.
    fn count(&self, slot: &Slot, standing: &mut Standing) {
        let oldest = slot.pods.as_slice().iter().find(|pod| pod.counts());
        match slot.eligibility {
            Eligibility::NoNode => {}
            Eligibility::Neither | Eligibility::ContinueRunning => {
                standing.misscheduled = oldest.is_some();
            }
            Eligibility::Run => {
                standing.desired = true;
                standing.current = oldest.is_some();
                standing.ready = oldest.is_some_and(|pod| pod.readiness.is_ready());
                standing.available = oldest.is_some_and(|pod| self.is_available(pod));
                standing.updated = oldest.is_some_and(|pod| self.is_updated(pod));
            }
        }
    }

    fn roll(&self, slot: &Slot, standing: &mut Standing) {
        match (self.strategy, slot.eligibility) {
            (UpdateStrategy::OnDelete | UpdateStrategy::Malformed, _)
            | (UpdateStrategy::RollingUpdate { .. }, Eligibility::NoNode) => {}
            (strategy @ UpdateStrategy::RollingUpdate { .. }, eligibility) => {
                let pods = self.on_node(slot);
                let takes_part =
                    || eligibility.should_run() || slot.pods.as_slice().iter().any(PodView::counts);
                standing.uses_unavailable = self.is_unavailable(&pods) && takes_part();
                if strategy.surges() {
                    self.roll_with_surge(eligibility, &pods, standing);
                    // An orphan is adopted first: it may be the second pod that there is room for (C26).
                    if standing.has_orphans && standing.step.creates() {
                        standing.step = Step::None;
                    }
                } else {
                    standing.step = self.step_without_surge(&pods);
                }
            }
        }
    }

    /// C52
    fn is_unavailable(&self, pods: &OnNode<'_>) -> bool {
        match pods {
            OnNode::Nothing | OnNode::Both { .. } | OnNode::TooMany => true,
            OnNode::New(pod) | OnNode::Old(pod) => !self.is_available(pod),
        }
    }

    /// C52
    fn step_without_surge(&self, pods: &OnNode<'_>) -> Step {
        match pods {
            OnNode::Nothing | OnNode::New(_) | OnNode::Both { .. } | OnNode::TooMany => Step::None,
            OnNode::Old(pod) if self.is_available(pod) => Step::Replace,
            OnNode::Old(_) => Step::ReplaceNow,
        }
    }

    /// C53
    fn roll_with_surge(
        &self,
        eligibility: Eligibility,
        pods: &OnNode<'_>,
        standing: &mut Standing,
    ) {
        (standing.serves, standing.uses_surge) = match pods {
            OnNode::Nothing => (false, false),
            OnNode::TooMany => (false, true),
            OnNode::New(pod) | OnNode::Old(pod) => (self.is_available(pod), false),
            OnNode::Both { new, old } => (self.is_available(old), !self.is_available(new)),
        };
        standing.step = match pods {
            OnNode::Nothing | OnNode::TooMany | OnNode::New(_) => Step::None,
            OnNode::Both { new, .. } if self.is_available(new) => Step::Retire,
            OnNode::Both { .. } => Step::None,
            OnNode::Old(pod) => match (self.is_available(pod), eligibility.should_run()) {
                (true, true) => Step::Surge,
                (true, false) => Step::Sunset,
                (false, true) => Step::SurgeNow,
                (false, false) => Step::ReplaceNow,
            },
        };
    }

    /// A node that must be cleared has no pods to the rolling update: they are as good as terminating.
    fn on_node<'p>(&self, slot: &'p Slot) -> OnNode<'p> {
        let mut found = OnNode::Nothing;
        if !slot.eligibility.should_continue_running() {
            return found;
        }
        for pod in slot.pods.as_slice().iter().filter(|pod| !pod.orphan && !pod.terminating) {
            found = match (found, self.is_updated(pod)) {
                (OnNode::Nothing, true) => OnNode::New(pod),
                (OnNode::Nothing, false) => OnNode::Old(pod),
                (OnNode::New(new), false) => OnNode::Both { new, old: pod },
                (OnNode::Old(old), true) => OnNode::Both { new: pod, old },
                (OnNode::New(_), true)
                | (OnNode::Old(_), false)
                | (OnNode::Both { .. } | OnNode::TooMany, _) => return OnNode::TooMany,
            };
        }
        found
    }
}
