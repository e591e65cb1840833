//! When a rollout may end: estimated from the recent pace, or from the time that pods took to
//! start.

use std::time::Duration;

use everynode_core::api::{Budget, DaemonSet, DaemonSetKey, ReasonClass, Timestamp};

use super::Progress;
use crate::age::duration;
use crate::course::available_at;
use crate::rollout::{self, HeldUpNodes, PROGRESS_DEADLINE, Phase, is_stated_guarded};
use crate::situation::Situation;
use crate::snapshot::Snapshot;

/// When a rollout may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimate {
    /// The rollout has ended.
    Done,
    /// The rollout ends some time after somebody has resumed it.
    Paused,
    /// With `OnDelete`: the rollout ends when somebody has deleted the old pods.
    AwaitsDeletion,
    /// The rollout makes no progress until the failing nodes are repaired.
    Blocked,
    /// Neither a pace nor a start-up time has been observed yet.
    Unknown,
    /// The rollout ends after this time, except for nodes that need intervention.
    In {
        /// The estimated time.
        seconds: u64,
        /// The observation that the estimate is computed from.
        basis: EstimateBasis,
    },
}

/// The observation that an estimate is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EstimateBasis {
    /// The recent pace: this number of nodes was updated in this time.
    Pace {
        /// The number of nodes.
        nodes: usize,
        /// The time in which they were updated.
        seconds: u64,
    },
    /// The median of the times that pods took to become ready.
    StartUp {
        /// The median.
        seconds: u64,
    },
}

impl Estimate {
    /// The estimate in words, with what it is computed from; empty if there is nothing to say.
    pub fn text(self) -> String {
        match self {
            Self::Done | Self::Paused | Self::AwaitsDeletion | Self::Unknown => String::new(),
            Self::Blocked => "not progressing".to_owned(),
            Self::In { seconds, basis: EstimateBasis::Pace { nodes, seconds: of } } => {
                format!("ends in {} ({})", about(seconds), pace_text(nodes as u64, of))
            }
            Self::In { seconds, basis: EstimateBasis::StartUp { seconds: start_up } } => {
                format!("ends in {} (pods start in {})", about(seconds), duration(start_up))
            }
        }
    }
}

fn about(seconds: u64) -> String {
    if seconds == 0 { "a moment".to_owned() } else { format!("about {}", duration(seconds)) }
}

fn pace_text(nodes: u64, seconds: u64) -> String {
    let each = |of: u64| nodes * of / seconds.max(1);
    match (each(60), each(3600)) {
        (0, an_hour) => format!("{an_hour} nodes an hour"),
        (1, _) => "a node a minute".to_owned(),
        (a_minute, _) => format!("{a_minute} nodes a minute"),
    }
}

/// The period over which the pace is measured. Older updates may have had other conditions.
const PACE_WINDOW: Duration = Duration::from_mins(10);
/// The maximum number of nodes in a pace, so that it follows changes.
const PACE_NODES_MAX: usize = 100;
/// The minimum number of nodes for a pace.
const PACE_NODES_MIN: usize = 3;

pub(super) fn estimate(
    snapshot: &Snapshot,
    key: &DaemonSetKey,
    phase: Phase,
    held_up: &[HeldUpNodes],
    progress: Progress,
    now: Timestamp,
) -> Estimate {
    match phase {
        Phase::Done => return Estimate::Done,
        Phase::Deleting => return Estimate::Unknown,
        Phase::Paused | Phase::AwaitsPerson => return Estimate::Paused,
        Phase::AwaitsDeletion => return Estimate::AwaitsDeletion,
        Phase::Failing | Phase::Unobserved | Phase::Progressing => {}
    }
    let Some(object) = snapshot.daemon_sets.get(key) else { return Estimate::Unknown };
    let daemon_set = &object.daemon_set;
    let stated = daemon_set.status.rollout.as_ref();
    if stated.is_some_and(|stated| stated.reason.class() == ReasonClass::WaitsForWindow) {
        return Estimate::Unknown;
    }
    let left = RemainingNodes::of(held_up);
    let budget = daemon_set.budget(progress.desired);
    if budget.is_none() && left.outdated > 0 {
        let is_guarded = is_stated_guarded(daemon_set);
        return if is_guarded { Estimate::Unknown } else { Estimate::AwaitsDeletion };
    }
    let budget = budget.map_or(0, Budget::nodes);
    let uses_up_budget = left.outdated > 0 && left.stuck >= budget;
    if left.stuck > 0 && (uses_up_budget || left.outdated + left.under_way == 0) {
        return Estimate::Blocked;
    }
    match pace(&recently_available_at(snapshot, daemon_set, now), now) {
        Some(basis @ EstimateBasis::Pace { nodes, seconds }) => {
            let healthy = (left.outdated + left.under_way) as u64;
            let seconds = (healthy * seconds).div_ceil(nodes as u64);
            let wait = longest_wait(snapshot, daemon_set, now).as_secs();
            let seconds = seconds.max(wait).max(paced(daemon_set, &left));
            Estimate::In { seconds, basis }
        }
        Some(EstimateBasis::StartUp { .. }) | None => {
            from_start_up(snapshot, daemon_set, &left, budget, now)
        }
    }
}

/// The time that the policy's `podsPerMinute` demands for the nodes that are left.
fn paced(daemon_set: &DaemonSet, left: &RemainingNodes) -> u64 {
    let limit = daemon_set.policy.valid().and_then(|policy| policy.pods_per_minute);
    limit.map_or(0, |limit| (left.outdated as u64).saturating_sub(1) / u64::from(limit.get()) * 60)
}

/// The longest time for which a pod of the current revision has not been ready. The end is at least
/// as far away: a pod that has waited longer than others does not start sooner than they did. Pods
/// that are stuck do not count.
fn longest_wait(snapshot: &Snapshot, daemon_set: &DaemonSet, now: Timestamp) -> Duration {
    let current = rollout::CurrentContent::new(snapshot, daemon_set);
    let pods = snapshot.pods_of(&daemon_set.key).filter(|detail| {
        current.has(&detail.pod) && !detail.state.is_settled() && !detail.pod.terminating
    });
    let waits = pods.map(|detail| now.since(detail.not_ready_since));
    waits.filter(|wait| *wait <= PROGRESS_DEADLINE).max().unwrap_or_default()
}

/// The nodes that are not done yet.
struct RemainingNodes {
    /// They need intervention.
    stuck: usize,
    /// Their pod is of an older revision.
    outdated: usize,
    /// Their pod is being replaced.
    under_way: usize,
}

impl RemainingNodes {
    fn of(held_up: &[HeldUpNodes]) -> Self {
        let mut left = Self { stuck: 0, outdated: 0, under_way: 0 };
        for HeldUpNodes { situation, count, .. } in held_up {
            if situation.is_stuck() {
                left.stuck += count;
            } else if *situation == Situation::Outdated {
                left.outdated += count;
            } else {
                left.under_way += count;
            }
        }
        left
    }
}

/// The times within [`PACE_WINDOW`] at which pods of the current revision became available, sorted.
fn recently_available_at(
    snapshot: &Snapshot,
    daemon_set: &DaemonSet,
    now: Timestamp,
) -> Vec<Timestamp> {
    let mut times = available_at(snapshot, daemon_set, now);
    times.retain(|at| now.since(*at) <= PACE_WINDOW);
    times
}

/// The pace of the last updates until `now`, so that it drops when the rollout stops.
fn pace(available_at: &[Timestamp], now: Timestamp) -> Option<EstimateBasis> {
    let last = &available_at[available_at.len().saturating_sub(PACE_NODES_MAX)..];
    let since = *last.first()?;
    // The first one marks the start of the period.
    let nodes = last.len() - 1;
    let seconds = now.since(since).as_secs().max(1);
    (last.len() >= PACE_NODES_MIN).then_some(EstimateBasis::Pace { nodes, seconds })
}

/// Nodes under way take one start-up time; outdated nodes take one for each batch that the budget
/// allows.
fn from_start_up(
    snapshot: &Snapshot,
    daemon_set: &DaemonSet,
    left: &RemainingNodes,
    budget: usize,
    now: Timestamp,
) -> Estimate {
    let observed = snapshot.pods_of(&daemon_set.key).filter_map(|detail| detail.start_up);
    let mut observed: Vec<u64> = observed.map(|start_up| start_up.as_secs()).collect();
    observed.sort_unstable();
    let Some(&median) = observed.get(observed.len() / 2) else { return Estimate::Unknown };
    let batches = left.outdated.div_ceil(budget.max(1)) + usize::from(left.under_way > 0);
    let start_up = median.max(longest_wait(snapshot, daemon_set, now).as_secs()).max(1);
    let batch = start_up + u64::from(daemon_set.min_ready_seconds);
    Estimate::In {
        seconds: (batches as u64 * batch).max(paced(daemon_set, left)),
        basis: EstimateBasis::StartUp { seconds: median },
    }
}
