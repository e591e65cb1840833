//! What a replica knew when it made a plan.

use std::sync::Arc;

use everynode_controller::observation::Observation;
use everynode_core::api::{Timestamp, Uid};

/// What a replica had seen of the cluster when it made a plan.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The UID of the DaemonSet that the plan is for.
    pub daemon_set: Option<Uid>,
    /// The version up to which each feed had been seen.
    pub nodes: u64,
    pub daemon_sets: u64,
    pub revisions: u64,
    pub pods: u64,
    pub namespaces: u64,
    /// The replica's wall clock.
    pub now: Timestamp,
}

impl View {
    /// Records that the replica has seen a change.
    pub(crate) fn observe(&mut self, observation: &Observation) {
        let (seen, version) = match observation {
            Observation::Node(change) => (&mut self.nodes, change.version()),
            Observation::DaemonSet(change) => (&mut self.daemon_sets, change.version()),
            Observation::Revision(change) => (&mut self.revisions, change.version()),
            Observation::Pod(change) => (&mut self.pods, change.version()),
            Observation::Namespace(change) => (&mut self.namespaces, change.version()),
        };
        *seen = version.0;
    }

    /// The view of a plan that is made now.
    pub(crate) fn of_plan(&self, daemon_set: Uid, now: Timestamp) -> Arc<Self> {
        Arc::new(Self { daemon_set: Some(daemon_set), now, ..self.clone() })
    }
}
