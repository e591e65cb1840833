//! Determines the cause for which a node holds up a rollout, from the states of pods and nodes,
//! events, deletions and the time. It is the only place that does: the commands agree.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use everynode_core::api::{
    DaemonSet, Labels, NodeName, Pod, RevisionHash, RolloutReason, Timestamp, Uid, UpdateStrategy,
};
use everynode_core::placement::{self, Eligibility};

use super::cause::{Cause, Warning};
use super::revision::{current_hashes, is_outdated};
use super::{PROGRESS_DEADLINE, Pause};
use crate::snapshot::{EventDetail, NodeHealth, ObjectKind, PodDetail, PodState, Snapshot};

/// The time for which creations must have failed: a ServiceAccount, for example, appears shortly
/// after its namespace.
const CREATION_FAILURE_SECONDS_MIN: u64 = 10;

/// The reasons of warnings about a DaemonSet that no pod can be created.
const CREATION_FAILURES: [&str; 2] = ["FailedCreate", "PodChangedByAdmission"];

/// The reasons of warnings about a pod that its state and that of its node tell better.
const KNOWN_OTHERWISE: [&str; 2] = ["FailedScheduling", "NodeNotReady"];

/// What is known about one DaemonSet at one time.
pub(crate) struct Evidence<'a> {
    snapshot: &'a Snapshot,
    daemon_set: &'a DaemonSet,
    now: Timestamp,
    current: BTreeSet<RevisionHash>,
    /// The last warning about each pod.
    warnings: BTreeMap<&'a Uid, &'a EventDetail>,
    /// The message of the failure for which pods can't be created, and whether it lasts.
    creation_failure: Option<(String, bool)>,
}

impl<'a> Evidence<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, daemon_set: &'a DaemonSet, now: Timestamp) -> Self {
        let mut warnings: BTreeMap<&Uid, &EventDetail> = BTreeMap::new();
        let events = snapshot.pod_warnings.values();
        for event in events.filter(|event| !KNOWN_OTHERWISE.contains(&event.reason.as_str())) {
            let last = warnings.entry(&event.about).or_insert(event);
            if last.at < event.at {
                *last = event;
            }
        }
        Self {
            snapshot,
            daemon_set,
            now,
            current: current_hashes(snapshot, daemon_set),
            warnings,
            creation_failure: creation_failure(snapshot, daemon_set, now),
        }
    }

    /// Whether the pod is of an older revision.
    pub(super) fn is_outdated(&self, pod: &Pod) -> bool {
        is_outdated(pod, &self.current)
    }

    /// Whether the controller replaces pods of older revisions.
    pub(super) fn replaces_old_pods(&self) -> bool {
        let is_rolling = match self.daemon_set.strategy() {
            UpdateStrategy::RollingUpdate { .. } => true,
            UpdateStrategy::OnDelete | UpdateStrategy::Malformed => false,
        };
        is_rolling && Pause::of(self.daemon_set) != Pause::Yes && !keeps_old_pods(self.daemon_set)
    }

    /// Whether the node should run a pod; true if the node was not read.
    pub(super) fn is_desired(&self, node: Option<&NodeName>) -> bool {
        let Some(node) = node.and_then(|name| self.snapshot.nodes.get(name)) else { return true };
        let none = Labels::default();
        let selectors = &self.snapshot.namespace_node_selectors;
        let selector = selectors.get(&self.daemon_set.key.namespace);
        let selector = selector.filter(|_| self.snapshot.honors_namespace_node_selectors);
        let placement = &self.daemon_set.template.placement;
        match placement::eligibility(placement, selector.unwrap_or(&none), &node.node) {
            Eligibility::Run => true,
            Eligibility::NoNode | Eligibility::MustNotRun | Eligibility::ContinueRunning => false,
        }
    }

    /// The nodes that should run a pod and have none; `None` if nodes or pods were not read.
    pub(super) fn nodes_without_pod(&self) -> Option<Vec<&'a NodeName>> {
        let is_unread = |kind| self.snapshot.unread.contains(&kind);
        if self.snapshot.nodes.is_empty() || is_unread(ObjectKind::Pod) {
            return None;
        }
        // The controller does not wait for a pod that has ended.
        let has_ended = |pod: &Pod| pod.terminating && pod.phase.is_terminal();
        let pods = self.snapshot.pods_of(&self.daemon_set.key);
        let pods = pods.filter(|detail| !has_ended(&detail.pod));
        let occupied: BTreeSet<_> =
            pods.filter_map(|detail| detail.pod.target_node_name()).collect();
        let nodes = self.snapshot.nodes.keys().filter(|name| !occupied.contains(name));
        Some(nodes.filter(|name| self.is_desired(Some(name))).collect())
    }

    /// The cause for which a node without a pod holds up the rollout.
    pub(crate) fn cause_of_missing_pod(&self) -> Cause {
        match &self.creation_failure {
            Some((message, stuck)) => {
                Cause::CreationFails { message: message.clone(), stuck: *stuck }
            }
            None => Cause::NotCreated,
        }
    }

    /// The cause for which this pod of the DaemonSet holds up the rollout, if any.
    pub(crate) fn cause_of(&self, detail: &PodDetail, outdated: bool) -> Option<Cause> {
        let state = &detail.state;
        match self.node_is_down_for_long(detail) {
            Some(stuck) if !state.is_settled() => return Some(Cause::NodeNotReady { stuck }),
            Some(_) | None => {}
        }
        match state {
            PodState::Terminating => {
                (!detail.pod.phase.is_terminal()).then(|| self.termination(detail))
            }
            _ if state.is_failing() => Some(Cause::Failing(state.clone())),
            // Nothing replaces its pods.
            PodState::Ready if self.daemon_set.terminating => None,
            _ if outdated && !self.daemon_set.terminating => Some(self.turn()),
            PodState::Ready if detail.is_available(self.daemon_set, self.now) => None,
            PodState::Ready => Some(Cause::NotYetAvailable {
                min_ready_seconds: self.daemon_set.min_ready_seconds,
            }),
            PodState::Unscheduled { .. }
            | PodState::Waiting(_)
            | PodState::NotReady { .. }
            | PodState::Failed { .. }
            | PodState::Succeeded
            | PodState::Unknown => Some(Cause::Starting {
                state: state.clone(),
                warning: self.warning(detail),
                stuck: self.now.since(detail.not_ready_since) > PROGRESS_DEADLINE,
            }),
        }
    }

    /// What a pod of an older revision waits for.
    fn turn(&self) -> Cause {
        match self.daemon_set.strategy() {
            _ if Pause::of(self.daemon_set) == Pause::Yes => Cause::Paused,
            _ if keeps_old_pods(self.daemon_set) => Cause::WaveNotOpen,
            UpdateStrategy::OnDelete => Cause::AwaitsDeletion,
            UpdateStrategy::RollingUpdate { .. } | UpdateStrategy::Malformed => {
                Cause::AwaitsReplacement
            }
        }
    }

    fn termination(&self, detail: &PodDetail) -> Cause {
        let deletion = detail.deletion.as_ref();
        let due_at = deletion.and_then(|deletion| deletion.due_at);
        Cause::Terminating {
            finalizers: deletion.map(|it| it.finalizers.clone()).unwrap_or_default(),
            warning: self.warning(detail),
            stuck: due_at.is_some_and(|at| self.now.since(at) > PROGRESS_DEADLINE),
        }
    }

    fn warning(&self, detail: &PodDetail) -> Option<Warning> {
        let event = self.warnings.get(&detail.pod.uid)?;
        Some(Warning { reason: event.reason.clone(), message: event.message.clone() })
    }

    /// Whether the pod's node has not been ready for long; `None` if the node is ready. A node
    /// that does not say since when counts as down for long.
    fn node_is_down_for_long(&self, detail: &PodDetail) -> Option<bool> {
        let node = self.snapshot.nodes.get(detail.pod.target_node_name()?)?;
        let is_down = |since| self.now.since(since) > PROGRESS_DEADLINE;
        match node.health {
            NodeHealth::NotReady { .. } => Some(node.node.not_ready_since.is_none_or(is_down)),
            NodeHealth::Ready | NodeHealth::Unreported => None,
        }
    }
}

/// The last failure to create a pod, unless a pod has been created since, and whether pods have
/// been failing for some seconds.
fn creation_failure(
    snapshot: &Snapshot,
    daemon_set: &DaemonSet,
    now: Timestamp,
) -> Option<(String, bool)> {
    let pods = snapshot.pods_of(&daemon_set.key);
    let created_at = pods.map(|detail| detail.pod.creation_timestamp).max();
    let failures: Vec<&EventDetail> = snapshot
        .events
        .values()
        .filter(|event| event.is_warning && event.about == daemon_set.uid)
        .filter(|event| CREATION_FAILURES.contains(&event.reason.as_str()))
        .filter(|event| event.at >= created_at)
        .collect();
    let last = failures.iter().max_by_key(|event| event.at)?;
    let first = failures.iter().filter_map(|event| event.since).min();
    let since = first.max(created_at)?;
    let lasts = now.since(since) >= Duration::from_secs(CREATION_FAILURE_SECONDS_MIN);
    Some((refusal(&last.message), lasts))
}

/// What the API server says about a pod that it refuses, without the pod's name, which is another
/// one each time.
fn refusal(message: &str) -> String {
    let message = message.strip_prefix("(combined from similar events): ").unwrap_or(message);
    let message = message.strip_prefix("Error creating: ").unwrap_or(message);
    let named = |start: &str, verdict: &str| {
        let (_, rest) = message.strip_prefix(start)?.split_once(verdict)?;
        Some(rest.to_owned())
    };
    named("pods \"", "\" is forbidden: ")
        .or_else(|| named("Pod \"", "\" is invalid: "))
        .unwrap_or_else(|| message.to_owned())
}

/// Whether a guarded rollout replaces no old pod at present.
fn keeps_old_pods(daemon_set: &DaemonSet) -> bool {
    daemon_set.status.rollout.as_ref().is_some_and(|rollout| match rollout.reason {
        RolloutReason::InvalidPolicy
        | RolloutReason::Baking
        | RolloutReason::AwaitingApproval
        | RolloutReason::RollingBack
        | RolloutReason::Failed => true,
        RolloutReason::Paused | RolloutReason::Updating | RolloutReason::Complete => false,
    })
}
