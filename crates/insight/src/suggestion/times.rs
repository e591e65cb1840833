//! How long the pods of a DaemonSet take to start and to fail.

use everynode_k8s::convert::DaemonSetObject;
use serde_json::Value;

use crate::snapshot::Snapshot;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// As long as somebody needs to look at the first nodes.
pub(super) const CANARY_BAKE_MIN: u64 = 5 * MINUTE;
/// As long as it may take to pull a new image.
pub(super) const READY_WITHIN_MIN: u64 = 5 * MINUTE;
/// The default `progressDeadlineSeconds` of Deployments.
pub(super) const READY_WITHIN_UNKNOWN: u64 = 10 * MINUTE;
/// How many times as long as pods took to start they may take.
const START_UPS: u64 = 3;
/// A pod that became ready later than this after its creation has lost its readiness meanwhile, for
/// example because its node was down: the time does not tell how long it took to start.
const START_UP_MAX: u64 = HOUR;

/// The durations, in seconds, that people write.
const ROUND: [u64; 15] = [
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    20 * MINUTE,
    30 * MINUTE,
    45 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    4 * HOUR,
    6 * HOUR,
    12 * HOUR,
    24 * HOUR,
];

/// How long pods take, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    /// The start-up times seen; `None` if no pod tells.
    pub(super) start_up: Option<StartUp>,
    /// `minReadySeconds`.
    pub(super) min_ready: u64,
    /// How long a container may take to start until its `startupProbe` ends it.
    pub(super) startup_probe: u64,
    /// How long a container may hang until its `livenessProbe` ends it.
    pub(super) liveness_probe: u64,
}

/// The start-up times of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StartUp {
    /// The number of pods.
    pub(super) pods: usize,
    /// The time within which nine of ten became ready. Times of objects are whole seconds.
    pub(super) seconds: u64,
}

impl Times {
    pub(super) fn of(snapshot: &Snapshot, object: &DaemonSetObject) -> Self {
        let daemon_set = &object.daemon_set;
        let pods = snapshot.pods_of(&daemon_set.key);
        let seen = pods.filter_map(|pod| pod.start_up).map(|start_up| start_up.as_secs());
        let mut seen: Vec<u64> = seen.filter(|seconds| *seconds <= START_UP_MAX).collect();
        seen.sort_unstable();
        let ninth = seen.get((seen.len() * 9).div_ceil(10).saturating_sub(1));
        let spec = &object.raw.template()["spec"];
        Self {
            start_up: ninth.map(|ninth| StartUp { pods: seen.len(), seconds: (*ninth).max(1) }),
            min_ready: u64::from(daemon_set.min_ready_seconds),
            startup_probe: longest_probe(spec, "startupProbe"),
            liveness_probe: longest_probe(spec, "livenessProbe"),
        }
    }

    /// The time from the creation of a pod until it has shown that it fails, unless it takes longer
    /// than others: until it is available, and then until its probes end it.
    pub(super) fn until_failure(self) -> u64 {
        let start_up = self.start_up.map_or(READY_WITHIN_UNKNOWN, |start_up| start_up.seconds);
        start_up + self.min_ready + self.startup_probe + self.liveness_probe
    }

    /// How long a wave bakes.
    pub(super) fn bake(self) -> u64 {
        longer_than(self.until_failure())
    }

    /// How long the first nodes bake.
    pub(super) fn canary_bake(self) -> u64 {
        self.bake().max(CANARY_BAKE_MIN)
    }

    pub(super) fn ready_within(self) -> u64 {
        let start_up = self.start_up.map(|start_up| longer_than(START_UPS * start_up.seconds));
        let usual = start_up.map_or(READY_WITHIN_UNKNOWN, |time| time.max(READY_WITHIN_MIN));
        if self.startup_probe < usual { usual } else { longer_than(self.startup_probe) }
    }
}

/// The first round duration that is longer.
fn longer_than(seconds: u64) -> u64 {
    let longest = ROUND[ROUND.len() - 1];
    ROUND.into_iter().find(|round| *round > seconds).unwrap_or(longest)
}

/// The longest time until a probe of a container has failed as often as it may, in seconds.
fn longest_probe(spec: &Value, probe: &str) -> u64 {
    let lists = [&spec["containers"], &spec["initContainers"]];
    let containers = lists.into_iter().filter_map(Value::as_array).flatten();
    containers.map(|container| seconds_of_probe(&container[probe])).max().unwrap_or(0)
}

fn seconds_of_probe(probe: &Value) -> u64 {
    if !probe.is_object() {
        return 0;
    }
    // As the API server fills them in.
    let number = |field: &str, default: u64| probe[field].as_u64().unwrap_or(default);
    let failures = number("periodSeconds", 10).saturating_mul(number("failureThreshold", 3));
    number("initialDelaySeconds", 0).saturating_add(failures)
}
