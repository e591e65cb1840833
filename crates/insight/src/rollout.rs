//! The progress of a DaemonSet's rollout, and the pods that hold it up.
//!
//! The counts are those that the controller (everynode or upstream's) wrote to `status`. The causes
//! of a delay come from pods, revisions and nodes, as far as these could be read.

mod cause;
mod completion;
mod deletion;
mod diagnosis;
mod evidence;
mod grace;
mod guard;
mod held_up;
mod next_attempt;
mod next_step;
mod notes;
mod pause;
mod phase;
pub(crate) mod progress;
mod revision;
mod set_aside;
mod shortage;
mod strategy;
#[cfg(test)]
mod tests;
mod words;

use std::time::Duration;

use everynode_core::api::{DaemonSetKey, NodeName, ReasonClass, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::controller_view::ControllerView;
use crate::no_node;
use crate::snapshot::Snapshot;
use held_up::{groups, held_up};
use phase::phase;

pub use cause::{Age, Cause, CauseKind};
pub use completion::Completion;
pub use deletion::PendingDeletion;
pub(crate) use evidence::{Evidence, is_stated_guarded};
pub use guard::{Guard, GuardedWave};
pub use held_up::{CauseGroup, HeldUpNodes, HeldUpPod};
pub use next_step::announced;
pub(crate) use next_step::of_reason;
pub(crate) use notes::{notes, same_pods};
pub use pause::Pause;
pub use phase::Phase;
pub(crate) use phase::is_long_unobserved;
pub(crate) use revision::CurrentContent;
pub use set_aside::Awaited;
pub(crate) use set_aside::SET_ASIDE;
pub(crate) use shortage::surge_with_host_ports;
pub use strategy::Strategy;
pub(crate) use words::unobserved;

/// How long a pod may make no progress until it counts as stuck: the default of a Deployment's
/// `progressDeadlineSeconds`.
pub const PROGRESS_DEADLINE: Duration = Duration::from_mins(10);

/// The progress of one DaemonSet's rollout: the counts of its status, and what holds it up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// The DaemonSet's namespace.
    pub namespace: String,
    /// The DaemonSet's name.
    pub name: String,
    /// The state of the rollout.
    #[serde(rename = "state")]
    pub phase: Phase,
    /// The number of nodes that should run a pod.
    pub desired: u32,
    /// The number of nodes whose pod is of the current revision.
    pub updated: u32,
    /// The number of nodes with a ready pod.
    pub ready: u32,
    /// The number of nodes with an available pod.
    pub available: u32,
    /// The number of nodes that should have a pod and have none.
    pub missing: u32,
    /// Whether the rollout is paused, so that no pod is replaced.
    pub pause: Pause,
    /// What the controller states of a guarded or paused rollout; absent without such a statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guard>,
    /// The update strategy.
    pub update_strategy: Strategy,
    /// The deletion of the DaemonSet; absent unless somebody has deleted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<PendingDeletion>,
    /// Why no node should run a pod; absent unless none should and nodes were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_node: Option<String>,
    /// Whether no controller has observed the latest spec for longer than 10 minutes.
    pub long_unobserved: bool,
    /// What the operator should do about the DaemonSet as a whole; absent if there is nothing to
    /// do. What to do about its pods is in `heldUp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// What an operator should know of the DaemonSet although it holds nothing up; absent if there
    /// is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The pods that hold up the rollout, the worst cause first.
    pub held_up: Vec<HeldUpPod>,
}

impl Rollout {
    /// The rollout of a DaemonSet of the snapshot at `now`; `None` if the snapshot lacks it.
    pub fn of(snapshot: &Snapshot, key: &DaemonSetKey, now: Timestamp) -> Option<Self> {
        Self::awaiting(snapshot, key, now, Awaited::OfRollout)
    }

    /// [`of`](Self::of) for a rollout that is done when these nodes are.
    pub fn awaiting(
        snapshot: &Snapshot,
        key: &DaemonSetKey,
        now: Timestamp,
        awaited: Awaited,
    ) -> Option<Self> {
        let daemon_set = &snapshot.daemon_sets.get(key)?.daemon_set;
        let status = &daemon_set.status;
        let desired = status.desired_number_scheduled;
        let missing = desired.saturating_sub(status.current_number_scheduled);
        let evidence = Evidence::new(snapshot, daemon_set, now);
        let held_up = held_up(&evidence, missing, awaited);
        let guard = Guard::of(snapshot, daemon_set, now);
        let deletion = snapshot.deletions.get(key).map(|it| PendingDeletion::of(it, now));
        let phase = match &deletion {
            Some(_) => Phase::Deleting,
            None => phase(&evidence, guard.as_ref(), &held_up),
        };
        let (no_node, no_node_next) = if phase == Phase::Done && desired == 0 {
            let view = ControllerView::new(snapshot, daemon_set.clone(), now);
            (no_node::sentence(&view), no_node::next_step(&view))
        } else {
            (None, None)
        };
        let long_unobserved =
            phase == Phase::Unobserved && is_long_unobserved(snapshot, daemon_set, now);
        let next = match (phase, &deletion) {
            (Phase::Deleting, Some(deletion)) => deletion.next_step(key),
            (Phase::Unobserved, _) if long_unobserved => Some(next_step::see_controller()),
            (Phase::AwaitsPerson | Phase::Progressing, _) => {
                guard.as_ref().and_then(|guard| guard.next.clone())
            }
            (Phase::Failing, _) => {
                let failed = guard.as_ref().filter(|guard| guard.has_failed());
                failed.and_then(|guard| guard.next.clone())
            }
            _ => no_node_next,
        };
        Some(Self {
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            phase,
            desired,
            updated: status.updated_number_scheduled,
            ready: status.number_ready,
            available: status.number_available,
            missing,
            pause: Pause::of(daemon_set),
            guard,
            update_strategy: Strategy(daemon_set.update_strategy),
            deletion,
            no_node,
            long_unobserved,
            next,
            notes: notes(snapshot, key, now),
            held_up,
        })
    }

    /// The held-up pods by cause, the worst first. Causes with the same text form one group, even
    /// if details that the text omits differ.
    pub fn groups(&self) -> Vec<CauseGroup> {
        groups(&self.held_up)
    }

    /// The first next step, or else the command that shows what the pods print: `try: kubectl …`.
    pub fn next_or_logs(&self) -> String {
        let Self { namespace, name, .. } = self;
        let steps = self.held_up.iter().filter_map(|held_up| held_up.cause.next.clone());
        let logs = || match self.held_up.iter().find_map(|held_up| held_up.pod.as_deref()) {
            Some(pod) => format!("kubectl -n {namespace} logs {pod} --all-containers"),
            None if self.missing == 0 => format!("kubectl -n {namespace} logs ds/{name}"),
            None => format!("kubectl -n {namespace} describe ds {name}"),
        };
        announced(&steps.chain(self.next.clone()).next().unwrap_or_else(logs))
    }

    /// The number of nodes with an available pod of the current revision, as far as pods were read.
    pub fn done(&self) -> u32 {
        let is_updated = |it: &&HeldUpPod| it.desired && !it.outdated && it.pod.is_some();
        let unavailable = self.held_up.iter().filter(is_updated).count();
        let unavailable = u32::try_from(unavailable).unwrap_or(u32::MAX);
        self.updated.saturating_sub(unavailable).min(self.available)
    }

    /// True if it is done, and nodes that should run a pod are set aside.
    pub(crate) fn is_done_without_some(&self) -> bool {
        self.phase == Phase::Done && self.updated.min(self.available) < self.desired
    }

    /// True if the rollout does not end without intervention: waiting will not help.
    pub const fn is_stuck(&self) -> bool {
        matches!(self.phase, Phase::Failing | Phase::Deleting) || self.long_unobserved
    }

    /// A node whose pods should all be fetched, because a pod does not fit it.
    pub fn full_node(&self) -> Option<&NodeName> {
        let is_full = |kind| matches!(kind, CauseKind::Unschedulable | CauseKind::Preempting);
        let full = |it: &&HeldUpPod| is_full(it.cause.kind);
        self.held_up.iter().find(full)?.node.as_ref()
    }

    /// True if events may tell more about a cause. It is worth reading them only then.
    pub fn events_may_tell_more(&self) -> bool {
        self.held_up.iter().any(|held_up| !held_up.cause.awaits_turn())
    }

    /// True if a pod of the current revision is stuck, or can't be created.
    pub fn has_stuck_new_pods(&self) -> bool {
        self.held_up.iter().any(|held_up| held_up.stuck && !held_up.outdated)
    }

    /// True if the rollout does not go on before a person approves a wave, corrects the policy, or
    /// ends a failure, whatever pods do.
    pub fn awaits_person(&self) -> bool {
        let awaits_person = self.class().is_some_and(ReasonClass::awaits_person);
        let is_failing = self.phase == Phase::Failing && self.updated < self.desired;
        self.phase == Phase::AwaitsPerson || (is_failing && awaits_person)
    }

    /// True if the next step is an order or the rolling back of the rollout, for which pages have
    /// buttons.
    pub fn next_is_order(&self) -> bool {
        let order = self.guard.as_ref().and_then(|guard| guard.next.clone());
        self.next.is_some() && self.next == order
    }

    /// The class of the reason that the controller states.
    pub(crate) fn class(&self) -> Option<ReasonClass> {
        self.guard.as_ref().map(|guard| guard.reason.class())
    }
}
