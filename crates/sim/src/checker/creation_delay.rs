//! The delay of creations after admission has changed a created pod so that it does not count for
//! its node (C28).

use everynode_core::api::Timestamp;
use everynode_core::plan::{NewPod, Outcome, Write};

use super::history::History;
use super::model::{DaemonSet, Pod};
use crate::view::{View, WriteOutcome};

/// The delay doubles from the first to the second. So does the back-off of pods that have ended
/// (C24).
pub(super) const BACKOFF_MIN_MS: i64 = 1_000;
pub(super) const BACKOFF_MAX_MS: i64 = 15 * 60_000;

#[derive(Clone, Copy, Debug)]
struct Delay {
    /// The generation of the DaemonSet that was known when the delay began: a new one ends it.
    generation: i64,
    since: Timestamp,
    length_ms: i64,
}

/// When the delay ends that counts for a plan; `None` if creations are not delayed.
pub(super) fn end(view: &View, ds: &DaemonSet, history: &History) -> Option<Timestamp> {
    let delay = view.outcomes.iter().fold(None, |last, outcome| next(last, outcome, view, history));
    let delay = delay.filter(|delay| delay.generation == ds.generation);
    delay.filter(|delay| delay.is_running(view.planned_at)).map(Delay::end)
}

/// The delay after the outcome of a write. A pod that counts ends it if it was created afterwards.
fn next(
    last: Option<Delay>,
    outcome: &WriteOutcome,
    view: &View,
    history: &History,
) -> Option<Delay> {
    let Write::CreatePod(new) = &outcome.result.write else { return last };
    let (Outcome::Written { uid, resource_version }
    | Outcome::Changed { uid, resource_version, .. }) = &outcome.result.outcome
    else {
        return last;
    };
    let pod = history.pods.at(&uid.to_string(), resource_version.0);
    let daemon_sets = history.daemon_sets(view.role).seen(outcome.daemon_sets);
    let Some((pod, ds)) = pod.zip(daemon_sets.get(&*view.daemon_set)) else { return last };
    let now = outcome.arrived_at;
    let last = last.filter(|last| last.generation == ds.generation);
    if last.is_some_and(|last| last.is_running(now)) {
        return last;
    }
    if counts(pod, new, ds) {
        return None;
    }
    let is_recent = |last: &Delay| now.0 - last.since.0 <= 2 * BACKOFF_MAX_MS;
    let length_ms = last
        .filter(is_recent)
        .map_or(BACKOFF_MIN_MS, |last| (last.length_ms * 2).min(BACKOFF_MAX_MS));
    Some(Delay { generation: ds.generation, since: now, length_ms })
}

/// True if the pod is one of the DaemonSet's on the node for which it was created. A rolling update
/// replaces a pod that does not show its revision.
fn counts(pod: &Pod, new: &NewPod, ds: &DaemonSet) -> bool {
    let is_ours = ds.owns(&pod.metadata) || ds.adopts(&pod.metadata);
    let has_revision = pod.metadata.hash().is_some() || pod.generation().is_some();
    let is_rolling = ds.strategy.budget(1).is_some();
    is_ours && pod.node() == Some(new.node.as_str()) && (has_revision || !is_rolling)
}

impl Delay {
    fn end(self) -> Timestamp {
        Timestamp(self.since.0 + self.length_ms)
    }

    fn is_running(self, now: Timestamp) -> bool {
        now < self.end()
    }
}
