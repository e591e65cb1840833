//! For how long a failure that may pass by itself is no verdict: a first pull that fails, a first
//! crash, a first attempt to schedule. All times are those of the pod, so that a command that does
//! not wait answers the same as one that does.

use std::time::Duration;

use everynode_core::api::Timestamp;

use super::PROGRESS_DEADLINE;
use crate::snapshot::{ContainerExit, PodDetail, PodState, WaitingContainer};

/// The kubelet has tried three times to pull the image.
const PULL: Duration = Duration::from_mins(1);
/// The registry has said twice that there is no such image, or that the node may not have it.
const REFUSED_PULL: Duration = Duration::from_secs(20);
/// The words of a registry that answers: another attempt gets the same answer.
const REFUSALS: [&str; 4] = ["not found", "manifest unknown", "denied", "unauthorized"];
/// A ConfigMap or Secret often comes with the DaemonSet, and a container is started again at once.
const START: Duration = Duration::from_secs(30);
/// The scheduler has tried several times.
const SCHEDULING: Duration = Duration::from_secs(30);
/// The reasons for which a kubelet ends and refuses pods because its machine shuts down.
const SHUTDOWNS: [&str; 2] = ["NodeShutdown", "Terminated"];
/// A machine is started again, and its pod replaced.
const SHUTDOWN: Duration = Duration::from_mins(10);
/// The number of restarts by which a container that ends soon after its start does not recover.
const RESTARTS_MAX: u32 = 2;

/// Until when the failure that the pod's state shows may pass by itself; `None` if it does not, or
/// if the pod does not say since when it lasts.
pub(super) fn end(detail: &PodDetail) -> Option<Timestamp> {
    match &detail.state {
        PodState::Unscheduled { .. } => Some(detail.scheduling.refused_since? + SCHEDULING),
        PodState::Waiting(container) => of_container(detail, container),
        PodState::Failed { reason, .. } if SHUTDOWNS.contains(&reason.as_str()) => {
            Some(detail.not_ready_since + SHUTDOWN)
        }
        PodState::NotReady { .. }
        | PodState::Ready
        | PodState::Terminating
        | PodState::Failed { .. }
        | PodState::Succeeded
        | PodState::Unknown => None,
    }
}

fn of_container(detail: &PodDetail, container: &WaitingContainer) -> Option<Timestamp> {
    let crashes = container.reason == "CrashLoopBackOff";
    // Before that, another container was the one to wait for.
    let since =
        detail.initialized_at.map_or(detail.not_ready_since, |at| at.max(detail.not_ready_since));
    let is_loop = container.last_exit.as_ref().map_or(crashes, ran_shortly);
    match (&container.last_exit, container.reason.as_str()) {
        _ if is_loop && container.restarts >= RESTARTS_MAX => None,
        (Some(exit), _) => Some(exit.finished_at? + START),
        (None, "InvalidImageName" | "ErrImageNeverPull") => None,
        (None, "ErrImagePull" | "ImagePullBackOff") => {
            let is_refused = REFUSALS.iter().any(|words| container.message.contains(words));
            Some(since + if is_refused { REFUSED_PULL } else { PULL })
        }
        (None, _) => Some(since + START),
    }
}

/// True if the container did not run for so long that its earlier exits say nothing.
fn ran_shortly(exit: &ContainerExit) -> bool {
    let times = exit.started_at.zip(exit.finished_at);
    times.is_none_or(|(started, finished)| finished.since(started) <= PROGRESS_DEADLINE)
}
