//! The check that Kubernetes Events about pods that have ended are true (C71). Those about writes
//! are compared with the outcomes (`event_ledger.rs`).

use everynode_controller::recorder::Occurrence;

use super::history::History;
use super::model::{Pod, PodStatus};

/// The problem with an Event about pods.
pub(super) fn problem(occurrence: &Occurrence, history: &History) -> Option<&'static str> {
    let Occurrence { regarding, reason, note, .. } = occurrence;
    let is_named = |pod: &Pod| {
        *pod.metadata.namespace == *regarding.namespace
            && note.split([' ', '/', ',', ';']).any(|word| word == pod.metadata.name)
    };
    let existed =
        |is_it: fn(&Pod) -> bool| history.pods.states().any(|(_, pod)| is_it(pod) && is_named(pod));
    match *reason {
        "FailedDaemonPod" => {
            (!existed(|pod| pod.status == PodStatus::Failed)).then_some("no such pod had failed")
        }
        "SucceededDaemonPod" => {
            let has_succeeded = existed(|pod| pod.status == PodStatus::Succeeded);
            (!has_succeeded).then_some("no such pod had succeeded")
        }
        _ => None,
    }
}
