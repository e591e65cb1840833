//! How long pods take to start and to stop, as observed in a snapshot.

use std::time::Duration;

use everynode_k8s::convert::DaemonSetObject;
use schemars::JsonSchema;
use serde::Serialize;

use crate::snapshot::Snapshot;

/// The start-up times of a DaemonSet's pods, and their grace period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedTimings {
    /// The number of pods whose start-up time was observed.
    pub pods_seen: usize,
    /// Whether the start-up time is that of `--start-up` instead of an observed one.
    pub assumed: bool,
    /// The median start-up time, in seconds.
    pub start_up_median_seconds: u64,
    /// The longest start-up time, in seconds.
    pub start_up_worst_seconds: u64,
    /// The longest time that a pod may take to stop, in seconds.
    pub grace_period_seconds: u64,
}

/// The timing of every pod in one simulation.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodTiming {
    /// From creation to ready.
    pub(super) start_up: Duration,
    /// From the deletion request to removal.
    pub(super) stop: Duration,
}

/// The start-up time in a simulation if none was observed. Then only the order of events is
/// reported.
const START_UP_SECONDS_MIN: u64 = 1;

impl ObservedTimings {
    /// The timings of the DaemonSet's pods. `assumed` replaces the observed start-up times.
    pub(super) fn of(
        snapshot: &Snapshot,
        object: &DaemonSetObject,
        assumed: Option<Duration>,
    ) -> Self {
        let pods = snapshot.pods_of(&object.daemon_set.key);
        let observed = pods.filter_map(|detail| detail.start_up).map(|start_up| start_up.as_secs());
        let mut observed: Vec<u64> = observed.collect();
        observed.sort_unstable();
        let median = observed.get(observed.len() / 2).copied().unwrap_or(START_UP_SECONDS_MIN);
        let worst = observed.last().copied().unwrap_or(START_UP_SECONDS_MIN);
        let assumed_seconds = assumed.map(|assumed| assumed.as_secs());
        Self {
            pods_seen: observed.len(),
            assumed: assumed.is_some(),
            start_up_median_seconds: assumed_seconds.unwrap_or(median),
            start_up_worst_seconds: assumed_seconds.unwrap_or(worst),
            grace_period_seconds: object.daemon_set.template.termination_grace_period.as_secs(),
        }
    }

    pub(super) const fn is_known(&self) -> bool {
        self.assumed || self.pods_seen > 0
    }

    /// The median start-up time, and no time to stop. A start-up time of zero would merge all
    /// waves.
    pub(super) fn typical(&self) -> PodTiming {
        let seconds = self.start_up_median_seconds.max(START_UP_SECONDS_MIN);
        PodTiming { start_up: Duration::from_secs(seconds), stop: Duration::ZERO }
    }

    /// The longest start-up time and the whole grace period.
    pub(super) fn worst(&self) -> PodTiming {
        PodTiming {
            start_up: Duration::from_secs(self.start_up_worst_seconds.max(START_UP_SECONDS_MIN)),
            stop: Duration::from_secs(self.grace_period_seconds),
        }
    }
}
