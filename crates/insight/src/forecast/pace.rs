//! How long pods take to start and to stop, as far as it was seen.

use std::time::Duration;

use everynode_k8s::convert::DaemonSetObject;
use serde::Serialize;

use crate::snapshot::Snapshot;

/// What was seen of the DaemonSet's pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pace {
    /// Of so many pods it is known how long they took to be ready.
    pub pods_seen: usize,
    /// Whether the start-up time was not seen, but given.
    pub assumed: bool,
    pub start_up_median_seconds: u64,
    pub start_up_worst_seconds: u64,
    /// The longest that a pod may take to stop.
    pub grace_period_seconds: u64,
}

/// One speed for all pods.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    /// From creation to ready.
    pub start_up: Duration,
    /// From deletion to being gone.
    pub stop: Duration,
}

const GRACE_PERIOD_SECONDS_DEFAULT: u64 = 30;

/// What is assumed when nothing was seen: then only the order of things is told.
const NOMINAL_SECONDS: u64 = 1;

impl Pace {
    /// `assumed` goes before what was seen.
    pub(super) fn seen(
        snapshot: &Snapshot,
        object: &DaemonSetObject,
        assumed: Option<Duration>,
    ) -> Self {
        let template = object.raw.template();
        let grace_period_seconds = template["spec"]["terminationGracePeriodSeconds"]
            .as_u64()
            .unwrap_or(GRACE_PERIOD_SECONDS_DEFAULT);
        let pods = snapshot.pods_of(&object.daemon_set.key);
        let seen = pods.filter_map(|detail| detail.start_up).map(|start_up| start_up.as_secs());
        let mut seen: Vec<u64> = seen.collect();
        seen.sort_unstable();
        let median = seen.get(seen.len() / 2).copied().unwrap_or(NOMINAL_SECONDS);
        let worst = seen.last().copied().unwrap_or(NOMINAL_SECONDS);
        let assumed_seconds = assumed.map(|assumed| assumed.as_secs());
        Self {
            pods_seen: seen.len(),
            assumed: assumed.is_some(),
            start_up_median_seconds: assumed_seconds.unwrap_or(median),
            start_up_worst_seconds: assumed_seconds.unwrap_or(worst),
            grace_period_seconds,
        }
    }

    pub(super) const fn is_known(&self) -> bool {
        self.assumed || self.pods_seen > 0
    }

    /// A pod that starts in no time would make all waves one.
    pub(super) fn typical(&self) -> Speed {
        let seconds = self.start_up_median_seconds.max(NOMINAL_SECONDS);
        Speed { start_up: Duration::from_secs(seconds), stop: Duration::ZERO }
    }

    pub(super) fn worst(&self) -> Speed {
        Speed {
            start_up: Duration::from_secs(self.start_up_worst_seconds.max(NOMINAL_SECONDS)),
            stop: Duration::from_secs(self.grace_period_seconds),
        }
    }
}
