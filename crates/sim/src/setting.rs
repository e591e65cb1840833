//! The parameters of a world.

use serde::{Deserialize, Serialize};

use crate::role::Installation;

/// A renewal interval that exceeds every schedule. Without renewals virtual time costs little, and
/// no lease starts a sync that the controller did not schedule.
pub const LEASE_NEVER_MS: i64 = 1_000 * 3_600_000;

/// The parameters of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Setting {
    /// Seed of all random choices except those of the workload.
    pub seed: u64,
    /// Number of nodes at the start.
    pub nodes: u32,
    /// Maximum number of nodes that the workload may create.
    pub nodes_max: u32,
    /// Interval at which kubelets renew their leases.
    pub lease_ms: i64,
    /// The controller's limit of creations and deletions in one sync.
    pub burst_replicas: u32,
    /// The controllers that are installed.
    pub installation: Installation,
    /// Number of replicas that compete for each lease.
    pub replicas: u32,
    /// How often the lease is renewed.
    pub election: ElectionTiming,
    /// Number of API servers. Of several, each may be up to 5 s behind the store.
    pub api_servers: u32,
    /// Maximum rate of each fault at rest, per thousand. At 0 faults end when the workload does.
    pub rest_faults: u32,
    /// True if the controller binds pods to their nodes.
    pub schedule_by_controller: bool,
    /// Minimum time between two writes of a status in which only counts changed.
    pub status_interval_ms: u32,
    /// True if the controller reads the node selectors of namespaces.
    pub namespace_node_selectors: bool,
    /// True if the first template tolerates all taints, as that of a network agent does.
    pub tolerates_all: bool,
    /// True if the clocks of replicas may be wrong by seconds or hours.
    pub wrong_clocks: bool,
    /// Maximum number of millionths by which the wall clocks of replicas are too fast or too slow.
    pub clock_drift_ppm: u32,
}

impl Setting {
    /// One replica, one API server and three nodes, and nothing that happens by itself.
    pub const DEFAULT: Self = Self {
        seed: 0,
        nodes: 3,
        nodes_max: 3,
        lease_ms: LEASE_NEVER_MS,
        burst_replicas: 250,
        installation: Installation::Controller,
        replicas: 1,
        election: ElectionTiming::Fast,
        api_servers: 1,
        rest_faults: 0,
        schedule_by_controller: false,
        status_interval_ms: 0,
        namespace_node_selectors: false,
        tolerates_all: false,
        wrong_clocks: false,
        clock_drift_ppm: 0,
    };
}

impl Default for Setting {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The timing of the leader election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ElectionTiming {
    /// The default: a renewal every 2 s, another leader after 15 s.
    #[default]
    Fast,
    /// A renewal every 9 s, another leader after 20 s. One renewal may fail.
    Slow,
    /// A renewal every 40 s, another leader after 60 s. Such schedules cost little.
    Rare,
}
