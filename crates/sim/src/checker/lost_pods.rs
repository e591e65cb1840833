//! The delay of creations on nodes whose pods other clients delete, or take from the DaemonSet,
//! before they are ready (C23).
//!
//! The delay begins when the replica sees that a pod is lost. That is known to the replica only.

use std::collections::{BTreeMap, BTreeSet};

use everynode_core::api::{Timestamp, Uid};
use everynode_core::plan::{Outcome, Write};

use super::history::History;
use super::model::{DaemonSet, Pod};
use crate::view::View;

/// From the second loss on, the delay doubles from the first to the second.
const DELAY_MIN_MS: i64 = 1_000;
const DELAY_MAX_MS: i64 = 60_000;
/// A pod that lives for longer after the delay ends the series.
const SHORT_LIVED_MS: i64 = 10_000;
/// Longer than a series of losses lasts until the delay is the longest.
const SERIES_MS: i64 = 5 * 60_000;
/// Longer than a watch is late.
const LATE_MS: i64 = 60_000;

/// The pods that a DaemonSet has lost on nodes where it has lost several, and what that delays.
pub(super) struct LossDelays<'a> {
    by_node: BTreeMap<&'a str, Vec<Loss<'a>>>,
    now: Timestamp,
    /// When the delays end at the earliest that are certain.
    certain: BTreeMap<&'a str, Timestamp>,
}

#[derive(Clone, Copy)]
struct Loss<'a> {
    pod: &'a Pod,
    at: Timestamp,
}

impl DaemonSet {
    /// True if a pod that was its own is not any more, or is being deleted. It adopts an orphan.
    pub(super) fn has_lost(&self, pod: &Pod) -> bool {
        let is_kept = self.owns(&pod.metadata) || self.adopts(&pod.metadata);
        !is_kept || pod.metadata.is_terminating
    }
}

impl<'a> LossDelays<'a> {
    /// The losses that the replica has seen.
    pub(super) fn of(view: &View, ds: &DaemonSet, history: &'a History) -> Self {
        let now = view.planned_at;
        let mut by_node: BTreeMap<&str, Vec<Loss>> = BTreeMap::new();
        for (pod, version) in history.lost_pods(ds, view.feeds.pods) {
            let at = history.time_of(version);
            let is_recent = at.0 > now.0 - SERIES_MS;
            let node = pod.node().filter(|_| is_recent);
            if let Some(node) = node.filter(|_| !deletes(view, pod, is_executed)) {
                by_node.entry(node).or_default().push(Loss { pod, at });
            }
        }
        by_node.retain(|_, losses| losses.len() > 1);
        by_node.values_mut().for_each(|losses| losses.sort_by_key(|loss| loss.at));
        let end = |(node, losses): (&&'a str, &Vec<Loss>)| {
            Some((*node, certain_end(node, losses, view, ds, history)?))
        };
        let certain = by_node.iter().filter_map(end).collect();
        Self { by_node, now, certain }
    }

    /// The nodes on which a creation may be delayed.
    pub(super) fn delayed_nodes(&self) -> BTreeSet<&'a str> {
        let may_be_delayed = |losses: &[Loss]| {
            let doublings = u32::try_from(losses.len() - 2).unwrap_or(u32::MAX).min(10);
            let length_ms = (DELAY_MIN_MS << doublings).min(DELAY_MAX_MS);
            let last = losses.last();
            last.is_some_and(|last| self.now.0 < last.at.0 + length_ms + LATE_MS)
        };
        let delayed = self.by_node.iter().filter(|(_, losses)| may_be_delayed(losses));
        delayed.map(|(node, _)| *node).collect()
    }

    /// When the delay of a node ends at the earliest, if creations are certainly delayed there.
    pub(super) fn certain_end(&self, node: &str) -> Option<Timestamp> {
        self.certain.get(node).copied()
    }
}

/// When creations are certainly delayed: the replica has created the last two pods of the node, the
/// second after it had seen that the first was lost, and nothing has reset the delay.
fn certain_end(
    node: &str,
    losses: &[Loss<'_>],
    view: &View,
    ds: &DaemonSet,
    history: &History,
) -> Option<Timestamp> {
    let [.., first, second] = losses else { return None };
    let now = view.planned_at;
    let created_both = [first, second].iter().all(|loss| is_created_by(view, loss.pod));
    let deletes_one = [first, second].iter().any(|loss| deletes(view, loss.pod, |_| true));
    let begun = history.pods.of(&first.pod.metadata.uid).next().map_or(0, |(version, _)| version);
    // With surge, the second may have been created beside the first. A list may be the first that
    // the replica sees of a pod, after that was lost.
    let is_doubtful = ds.strategy.surges()
        || first.pod.is_ready
        || second.pod.is_ready
        || first.pod.metadata.uid == second.pod.metadata.uid
        || view.feeds.pods_listed >= begun;
    if is_doubtful || !created_both || deletes_one || now.0 > first.at.0 + SHORT_LIVED_MS {
        return None;
    }
    let is_back = |loss: &Loss| {
        let pod = history.pods.at(&loss.pod.metadata.uid, view.feeds.pods);
        pod.is_some_and(|pod| !ds.has_lost(pod))
    };
    let end = Timestamp(second.at.0 + DELAY_MIN_MS);
    let is_over = is_back(first) || is_back(second) || now >= end;
    let since = history.version_before(Timestamp(first.at.0 - LATE_MS));
    (!is_over && !is_reset(node, (since, begun), view, ds, history)).then_some(end)
}

/// True if a change of the node or of the spec that was seen after the version `since` ends the
/// delay. `begun` is the version at which the first pod was created.
fn is_reset(
    node: &str,
    (since, begun): (u64, u64),
    view: &View,
    ds: &DaemonSet,
    history: &History,
) -> bool {
    let nodes = history.nodes.seen(view.feeds.nodes);
    let Some(node) = nodes.values().find(|other| other.metadata.name == node) else { return true };
    let node = &node.metadata.uid;
    // That node and DaemonSet are new was seen before the first pod was created.
    let created = history.nodes.of(node).next().map_or(0, |(version, _)| version);
    if created > begun {
        return true;
    }
    let daemon_sets = history.daemon_sets(view.role);
    let earlier = daemon_sets.at(&ds.metadata.uid, since);
    let earlier = earlier.or_else(|| daemon_sets.first(&ds.metadata.uid));
    history.nodes.has_changed(node, since.max(created), view.feeds.nodes)
        || earlier.is_none_or(|earlier| earlier.generation != ds.generation)
}

fn is_created_by(view: &View, pod: &Pod) -> bool {
    let created = Uid::from(pod.metadata.uid.as_str());
    view.outcomes.iter().map(|outcome| &outcome.result).any(|result| {
        matches!(result.write, Write::CreatePod(_))
            && matches!(&result.outcome, Outcome::Written { uid, .. } if *uid == created)
    })
}

/// True if the replica has deleted the pod, with such an outcome.
fn deletes(view: &View, pod: &Pod, is_such: fn(&Outcome) -> bool) -> bool {
    let deleted = Uid::from(pod.metadata.uid.as_str());
    view.outcomes.iter().map(|outcome| &outcome.result).any(|result| {
        let is_it = matches!(&result.write, Write::DeletePod(it) if it.uid == deleted);
        is_it && is_such(&result.outcome)
    })
}

const fn is_executed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Written { .. } | Outcome::Gone)
}
