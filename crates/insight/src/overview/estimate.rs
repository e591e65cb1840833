//! When a rollout may end, from the pace so far; while that is too little to go by, from the time that pods took to start.

use std::time::Duration;

use everynode_core::api::{Budget, DaemonSet, DaemonSetKey, Timestamp};

use super::{HeldUp, Progress};
use crate::explain::Situation;
use crate::rollout::{self, Phase, Rollout};
use crate::snapshot::Snapshot;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimate {
    /// It has ended.
    Done,
    /// With `OnDelete`, somebody decides.
    AwaitsDeletion,
    /// Nothing gets on any more: nodes need help.
    HeldUp,
    /// Nothing was seen yet that tells.
    Unknown,
    /// In so many seconds, but for nodes that need help.
    In { seconds: u64, basis: Basis },
}

/// What an estimate is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// So many nodes in the last seconds.
    Pace { nodes: usize, seconds: u64 },
    /// The median of the times that pods took to become ready.
    StartUp { seconds: u64 },
}

/// The pace is that of so long: what was before says little of a rollout that is under way.
const WINDOW: Duration = Duration::from_mins(10);
/// And of so many nodes, so that it follows changes.
const NODES_MAX: usize = 100;
/// Fewer nodes are no pace.
const NODES_MIN: usize = 3;

pub(super) fn estimate(
    snapshot: &Snapshot,
    key: &DaemonSetKey,
    rollout: &Rollout,
    progress: Progress,
    held_up: &[HeldUp],
    now: Timestamp,
) -> Estimate {
    match rollout.phase {
        Phase::Done => return Estimate::Done,
        Phase::AwaitsDeletion => return Estimate::AwaitsDeletion,
        Phase::Failing | Phase::Unobserved | Phase::Progressing => {}
    }
    let Some(object) = snapshot.daemon_sets.get(key) else { return Estimate::Unknown };
    let daemon_set = &object.daemon_set;
    let left = Left::of(held_up);
    let budget = daemon_set.update_strategy.budget(progress.desired);
    if budget.is_none() && left.outdated > 0 {
        return Estimate::AwaitsDeletion;
    }
    let budget = budget.map_or(0, Budget::nodes);
    let uses_up_budget = left.outdated > 0 && left.stuck >= budget;
    if left.stuck > 0 && (uses_up_budget || left.outdated + left.under_way == 0) {
        return Estimate::HeldUp;
    }
    match pace(&done_at(snapshot, daemon_set, now), now) {
        Some(basis @ Basis::Pace { nodes, seconds }) => {
            let healthy = (left.outdated + left.under_way) as u64;
            Estimate::In { seconds: (healthy * seconds).div_ceil(nodes as u64), basis }
        }
        Some(Basis::StartUp { .. }) | None => from_start_up(snapshot, daemon_set, &left, budget),
    }
}

/// How many nodes have which way to go.
struct Left {
    stuck: usize,
    outdated: usize,
    under_way: usize,
}

impl Left {
    fn of(held_up: &[HeldUp]) -> Self {
        let mut left = Self { stuck: 0, outdated: 0, under_way: 0 };
        for HeldUp { situation, count, .. } in held_up {
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

/// When the available pods of the current revision came to be available, in order.
fn done_at(snapshot: &Snapshot, daemon_set: &DaemonSet, now: Timestamp) -> Vec<Timestamp> {
    let current = rollout::current_hashes(snapshot, daemon_set);
    let pods = snapshot.pods_of(&daemon_set.key).filter(|detail| {
        let hash = detail.pod.revision_hash();
        !detail.pod.terminating && hash.is_some_and(|hash| current.contains(&hash))
    });
    let mut times: Vec<Timestamp> = pods
        .filter_map(|detail| {
            detail.pod.readiness.available_at(Some(now), daemon_set.min_ready_seconds)
        })
        .filter(|at| *at <= now && now.since(*at) <= WINDOW)
        .collect();
    times.sort_unstable();
    times
}

/// A standstill since the last node counts, too.
fn pace(done_at: &[Timestamp], now: Timestamp) -> Option<Basis> {
    let last = &done_at[done_at.len().saturating_sub(NODES_MAX)..];
    let since = *last.first()?;
    // The first of them only says when counting begins.
    let nodes = last.len() - 1;
    let seconds = now.since(since).as_secs().max(1);
    (last.len() >= NODES_MIN).then_some(Basis::Pace { nodes, seconds })
}

/// All that are on their way take one start; those of older revisions take one for each time that the budget is used up.
fn from_start_up(
    snapshot: &Snapshot,
    daemon_set: &DaemonSet,
    left: &Left,
    budget: usize,
) -> Estimate {
    let seen = snapshot.pods_of(&daemon_set.key).filter_map(|detail| detail.start_up);
    let mut seen: Vec<u64> = seen.map(|start_up| start_up.as_secs()).collect();
    seen.sort_unstable();
    let Some(&median) = seen.get(seen.len() / 2) else { return Estimate::Unknown };
    let rounds = left.outdated.div_ceil(budget.max(1)) + usize::from(left.under_way > 0);
    let round = median.max(1) + u64::from(daemon_set.min_ready_seconds);
    Estimate::In { seconds: rounds as u64 * round, basis: Basis::StartUp { seconds: median } }
}
