//! When the controller next tries what has failed: pods that ended on their node (C24), and pods
//! that the API server has refused (C72).
//!
//! No object states it. It follows from when the last attempt was, as events and pods tell, and
//! from the length of the delay.

use std::collections::BTreeMap;
use std::fmt;

use everynode_core::api::{DaemonSet, NodeName, Timestamp};
use everynode_core::plan::{CREATION_RETRY_MAX, ENDED_POD_DELAY_MAX, REPORTING_CONTROLLER};

use crate::snapshot::{EventDetail, PodDetail, Snapshot};

/// When something is next tried if nothing changes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextAttempt {
    At(Timestamp),
    AtTheLatest(Timestamp),
}

impl fmt::Display for NextAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(time) => write!(f, "at {}", time.time_of_day()),
            Self::AtTheLatest(time) => write!(f, "by {}", time.time_of_day()),
        }
    }
}

/// When the last back-off of each node ends, as far as the events tell.
pub(super) type Backoffs = BTreeMap<NodeName, Timestamp>;

pub(super) fn backoffs(snapshot: &Snapshot, daemon_set: &DaemonSet) -> Backoffs {
    let mut backoffs = Backoffs::new();
    // An event that stands for several has the node of the first and the time of the last.
    let events = snapshot.events.values();
    for event in events.filter(|event| event.about == daemon_set.uid && event.count == 1) {
        let Some(((node, delay), at)) = event.backoff.as_ref().zip(event.at) else { continue };
        let last = backoffs.entry(node.clone()).or_insert(at + *delay);
        *last = (*last).max(at + *delay);
    }
    backoffs
}

/// When a pod that has ended is replaced; `None` if that is due.
pub(super) fn of_ended_pod(
    backoffs: &Backoffs,
    detail: &PodDetail,
    now: Timestamp,
) -> Option<NextAttempt> {
    let created = detail.pod.creation_timestamp;
    let end = detail.pod.target_node_name().and_then(|node| backoffs.get(node));
    // One that ended before the pod was created is not the last: its event is missing.
    let (at, next) = match end.filter(|end| **end > created) {
        Some(end) => (*end, NextAttempt::At(*end)),
        None => {
            let latest = created + ENDED_POD_DELAY_MAX;
            (latest, NextAttempt::AtTheLatest(latest))
        }
    };
    (at > now).then_some(next)
}

/// When a refused pod is created again after the event for the last refusal; `None` if that is due,
/// or if another controller creates the pods.
pub(super) fn after_refusal(last: &EventDetail, now: Timestamp) -> Option<NextAttempt> {
    let is_ours = last.reporter == REPORTING_CONTROLLER && last.reason == "FailedCreate";
    let latest = last.at.filter(|_| is_ours)? + CREATION_RETRY_MAX;
    (latest > now).then_some(NextAttempt::AtTheLatest(latest))
}
