//! How often a controller writes for each DaemonSet. A controller that repeats a write without
//! end, and without a back-off, exceeds the bound.

use std::collections::{BTreeMap, VecDeque};

use everynode_core::api::Timestamp;

use crate::checker::{Property, Violation};
use crate::role::Role;

/// How long a write counts.
const PERIOD_MS: i64 = 60_000;
/// Maximum number of writes for a DaemonSet in a minute, without those for its nodes. A user who
/// edits it five times meanwhile causes 40 writes of its status.
const WRITES_MAX: usize = 60;
/// Maximum number of writes for each node in a minute. A new template, or another content of a
/// ConfigMap, causes ten where a pod pulls the images: four writes of pods and six of the status.
/// Each new template also ends the back-off of pods that fail (C24).
const WRITES_PER_NODE_MAX: usize = 50;

/// The times of the latest writes for each DaemonSet.
#[derive(Clone, Debug, Default)]
pub struct WriteRates {
    latest: BTreeMap<(Role, String), VecDeque<Timestamp>>,
}

impl WriteRates {
    /// Counts a write for a DaemonSet in a cluster with this number of nodes.
    pub(crate) fn count(
        &mut self,
        (role, ds): (Role, &str),
        now: Timestamp,
        nodes: usize,
    ) -> Option<Violation> {
        let latest = self.latest.entry((role, ds.to_owned())).or_default();
        latest.push_back(now);
        while latest.front().is_some_and(|at| at.0 + PERIOD_MS < now.0) {
            latest.pop_front();
        }
        let (writes, max) = (latest.len(), WRITES_MAX + nodes * WRITES_PER_NODE_MAX);
        (writes > max).then(|| {
            let message =
                format!("DaemonSet {ds}: {writes} writes in a minute, at most {max} expected");
            Violation { property: Property::WriteRate, message }
        })
    }
}
