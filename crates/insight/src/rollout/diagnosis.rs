//! Recognizes the cause for which a node holds up a rollout. It is the only place that does: the
//! commands agree.

use std::time::Duration;

use everynode_core::api::{ImagePuller, NodeName, PullState, ReasonClass, UpdateStrategy};

use super::cause::{Age, Cause, CauseKind, Occurrence};
use super::evidence::{Evidence, is_stated_guarded};
use super::grace;
use crate::snapshot::{PodDetail, PodState};

/// How long a pull may fail until it counts as stuck, as for the controller (G55).
const PULL_GRACE: Duration = Duration::from_secs(60);

impl Evidence<'_> {
    /// The cause for which a node without a pod holds up the rollout.
    pub(crate) fn cause_of_missing_pod(&self, node: Option<&NodeName>) -> Cause {
        let (kind, is_long) = match self.refusal() {
            Some(refusal) => (CauseKind::CreationFails, refusal.lasts),
            None => (CauseKind::NotCreated, self.has_long_been_missing(node)),
        };
        Occurrence { evidence: self, age: Age::long_if(is_long), node, pod: None }.cause(kind)
    }

    /// The cause for which this pod of the DaemonSet holds up the rollout, if any.
    pub(crate) fn cause_of(&self, detail: &PodDetail, outdated: bool) -> Option<Cause> {
        let state = &detail.state;
        let cause = |kind, is_long| Some(self.cause(kind, Age::long_if(is_long), detail));
        let waits_for_long = self.is_long_ago(detail.not_ready_since);
        if !state.is_settled()
            && let Some(cause) = self.cause_of_node(detail)
        {
            return Some(cause);
        }
        match state {
            PodState::Unscheduled { message } if !message.is_empty() => {
                match self.preemption(detail) {
                    Some((_, due_at)) => cause(CauseKind::Preempting, self.is_long_ago(due_at)),
                    None => Some(self.cause(CauseKind::Unschedulable, self.grace(detail), detail)),
                }
            }
            PodState::Unscheduled { .. } => cause(CauseKind::AwaitsScheduler, waits_for_long),
            PodState::Terminating if detail.pod.phase.is_terminal() => None,
            PodState::Terminating => {
                let due_at = detail.deletion.as_ref().and_then(|deletion| deletion.due_at);
                cause(CauseKind::Terminating, due_at.is_some_and(|at| self.is_long_ago(at)))
            }
            _ if state.is_failing() => {
                Some(self.cause(CauseKind::Failing, self.grace(detail), detail))
            }
            // Nothing replaces its pods.
            PodState::Ready if self.daemon_set().terminating => None,
            _ if let Some(change) = &detail.pod.change => {
                cause(CauseKind::Changes, self.is_long_ago(change.since))
            }
            _ if outdated && self.is_asked_about(detail) => cause(CauseKind::Asked, false),
            _ if outdated && let Some(puller) = self.puller(detail.pod.target_node_name()) => {
                Some(self.cause(CauseKind::PullsImages, self.age_of_pull(puller), detail))
            }
            _ if outdated && !self.daemon_set().terminating => {
                let (kind, age) = self.turn(detail.pod.target_node_name());
                Some(self.cause(kind, age, detail))
            }
            PodState::Ready if detail.is_available(self.daemon_set(), self.now()) => None,
            PodState::Ready => cause(CauseKind::NotYetAvailable, false),
            PodState::Waiting(_)
            | PodState::NotReady { .. }
            | PodState::Failed { .. }
            | PodState::Succeeded
            | PodState::Unknown => cause(CauseKind::Starting, waits_for_long),
        }
    }

    /// The age of a pull, which is stuck once it has failed for a minute.
    pub(crate) fn age_of_pull(&self, puller: &ImagePuller) -> Age {
        let is_troubled = matches!(puller.state, PullState::Troubled(_));
        let age = self.now().since(puller.creation_timestamp.min(self.now()));
        Age::long_if(is_troubled && age >= PULL_GRACE)
    }

    /// The age of a failure of the pod, which may pass by itself for a while.
    fn grace(&self, detail: &PodDetail) -> Age {
        grace::end(detail).map_or(Age::Unknown, |end| Age::long_if(self.now() > end))
    }

    /// The pod's node as the cause; `None` if it is ready.
    pub(crate) fn cause_of_node(&self, detail: &PodDetail) -> Option<Cause> {
        let (node, _) = self.node_not_ready(detail.pod.target_node_name())?;
        let since = node.not_ready_since();
        let age = since.map_or(Age::Unknown, |since| Age::long_if(self.is_long_ago(since)));
        let is_terminating = detail.pod.terminating;
        let kind = if is_terminating { CauseKind::CannotStop } else { CauseKind::NodeNotReady };
        Some(self.cause(kind, age, detail))
    }

    /// The node as the cause for which it gets no pod.
    pub(crate) fn cause_of_node_alone(&self, node: &NodeName) -> Cause {
        let (age, node, pod) = (Age::Short, Some(node), None);
        Occurrence { evidence: self, age, node, pod }.cause(CauseKind::NodeNotReady)
    }

    /// The kind of cause for which a pod of an older revision is still on this node.
    pub(crate) fn turn(&self, node: Option<&NodeName>) -> (CauseKind, Age) {
        let kind = match self.daemon_set().strategy() {
            _ if self.is_kept_by_pause() => CauseKind::Paused,
            _ if self.is_held(node) => CauseKind::Held,
            _ if self.stated_class() == Some(ReasonClass::WaitsForWindow) => {
                CauseKind::OutsideWindow
            }
            _ if self.keeps_old_pods() || self.is_behind(node) => CauseKind::WaveNotOpen,
            UpdateStrategy::OnDelete if !is_stated_guarded(self.daemon_set()) => {
                CauseKind::AwaitsDeletion
            }
            UpdateStrategy::OnDelete
            | UpdateStrategy::RollingUpdate { .. }
            | UpdateStrategy::Malformed => {
                return (CauseKind::AwaitsReplacement, Age::long_if(self.is_controller_idle()));
            }
        };
        (kind, Age::Short)
    }

    /// The cause of this kind, in the words of its row, for a pod.
    pub(crate) fn cause(&self, kind: CauseKind, age: Age, pod: &PodDetail) -> Cause {
        let node = pod.pod.target_node_name();
        Occurrence { evidence: self, age, node, pod: Some(pod) }.cause(kind)
    }
}
