//! The course of a rollout so far: when its pods became available.
//!
//! It is read from the pods, so it is the same for every reader, also for one that comes later. A
//! pod that has been replaced since counts from its replacement.

use everynode_core::api::{DaemonSet, DaemonSetKey, Timestamp};

use crate::rollout;
use crate::snapshot::Snapshot;

/// The course of a rollout so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// When the first pod of the current revision was created.
    pub began_at: Timestamp,
    /// The time of the snapshot.
    pub now: Timestamp,
    /// When each available pod of the current revision became available, in order.
    pub available_at: Vec<Timestamp>,
}

impl Course {
    /// The course of a DaemonSet of the snapshot at `now`; `None` without a pod of the current
    /// revision.
    pub fn of(snapshot: &Snapshot, key: &DaemonSetKey, now: Timestamp) -> Option<Self> {
        let daemon_set = &snapshot.daemon_sets.get(key)?.daemon_set;
        let current = rollout::CurrentContent::new(snapshot, daemon_set);
        let pods = snapshot.pods_of(key).filter(|detail| current.has(&detail.pod));
        let began_at = pods.map(|detail| detail.pod.creation_timestamp).min()?;
        let available_at = available_at(snapshot, daemon_set, now);
        // Clocks of nodes may differ from the server's.
        let began_at = available_at.first().map_or(began_at, |first| began_at.min(*first));
        Some(Self { began_at: began_at.min(now), now, available_at })
    }
}

/// The times at which the available pods of the current revision became available, sorted.
pub(crate) fn available_at(
    snapshot: &Snapshot,
    daemon_set: &DaemonSet,
    now: Timestamp,
) -> Vec<Timestamp> {
    let current = rollout::CurrentContent::new(snapshot, daemon_set);
    let pods = snapshot
        .pods_of(&daemon_set.key)
        .filter(|detail| !detail.pod.terminating && current.has(&detail.pod));
    let times = pods.filter_map(|detail| {
        detail.pod.readiness.available_at(Some(now), daemon_set.min_ready_seconds)
    });
    let mut times: Vec<Timestamp> = times.filter(|at| *at <= now).collect();
    times.sort_unstable();
    times
}
