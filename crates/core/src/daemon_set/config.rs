//! Settings that all DaemonSets share.

use std::time::Duration;

use crate::plan::ScheduleBy;

/// Settings that all DaemonSets share.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Maximum number of pods that one sync creates, and maximum number that it deletes (C28).
    pub burst_replicas: usize,
    /// Which component binds created pods to their nodes (C31).
    pub schedule_by: ScheduleBy,
    /// Minimum time between two writes of a status in which only counts changed (C70, C80).
    pub status_interval: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            burst_replicas: 250,
            schedule_by: ScheduleBy::Scheduler,
            status_interval: Duration::ZERO,
        }
    }
}
