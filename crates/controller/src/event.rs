//! All that can happen to the loop, in one closed enum.

use everynode_core::api::{DaemonSetKey, Uid};
use everynode_core::plan::WriteResult;

use crate::observation::{Observation, Orphans};

/// What the loop is told.
#[derive(Debug)]
pub enum Event {
    /// A watch saw something.
    Observed(Observation),
    /// What became of one write of a plan.
    Written { key: DaemonSetKey, uid: Uid, result: WriteResult },
    /// All writes of a plan have been reported. `was_waiting`: it was a plan of the status alone, because
    /// something is yet to be seen.
    Executed { key: DaemonSetKey, was_waiting: bool },
    /// A watch has contact with the server, for the first time or again.
    Connected,
    /// The orphan pods that a new DaemonSet may adopt, read live.
    Orphans(Orphans),
}
