//! Changes of pods in place whose requests have no answer: "a request without an answer counts as a
//! change for 90 seconds, or until the watch shows the pod" (G56).

use everynode_core::api::Timestamp;
use everynode_core::plan::{Outcome, Write};

use super::history::{History, Objects};
use super::model::Pod;
use crate::view::{View, WriteOutcome};

const UNKNOWN_FOR_MS: i64 = 90_000;

/// A change in place whose request has no answer.
pub(super) struct ChangeInDoubt {
    /// The UID of the pod.
    pod: String,
    /// The hash of the revision.
    to: String,
    /// When the replica knew that there would be no answer.
    since: Timestamp,
    /// The version that its watch of pods had reached then.
    shown: u64,
}

impl ChangeInDoubt {
    /// Those of a replica.
    pub(super) fn all(view: &View) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for WriteOutcome { result, arrived_at, pods, .. } in &view.outcomes {
            let Write::ChangePod(new) = &result.write else { continue };
            let (pod, to) = (new.pod.uid.to_string(), new.hash.to_string());
            all.retain(|other| {
                other.pod != pod || matches!(result.outcome, Outcome::Failed { .. })
            });
            if matches!(result.outcome, Outcome::Unknown { .. }) {
                all.push(Self { pod, to, since: *arrived_at, shown: *pods });
            }
        }
        all.retain(|change| view.planned_at.0 < change.since.0 + UNKNOWN_FOR_MS);
        all
    }

    /// Changes the pod, unless the watch had shown by then, or has since, that it is being changed.
    pub(super) fn apply<'a>(
        &self,
        pods: &mut Objects<'a, Pod>,
        version: u64,
        history: &'a History,
    ) {
        let Some(pod) = pods.get(self.pod.as_str()) else { return };
        let then = history.pods.at(&self.pod, self.shown);
        let all = history.pods.of(&self.pod);
        let later = all.filter(|(at, _)| *at > self.shown && *at <= version).map(|(_, pod)| pod);
        if then.into_iter().chain(later).all(|pod| pod.change.is_none()) {
            let assumed = history.assumed_to_change(pod, &self.to);
            pods.insert(&assumed.metadata.uid, assumed);
        }
    }
}
