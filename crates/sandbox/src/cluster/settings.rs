//! The settings of the simulated cluster.

/// How the simulated cluster behaves. Two periods are shorter than upstream's 40 s, so that users
/// don't have to wait: the node monitor's grace period and the delay of pod garbage collection.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The seed of all randomness (S24).
    pub seed: u64,
    /// The interval at which a kubelet renews its node's lease, in milliseconds.
    pub lease_renew_ms: i64,
    /// The age in milliseconds from which a lease is expired and its node not ready.
    pub node_monitor_grace_ms: i64,
    /// The time in milliseconds from the deletion of a node to the removal of its pods.
    pub pod_gc_delay_ms: i64,
    /// The time in milliseconds from the deletion of a namespace to that of its content. On a real
    /// cluster it takes seconds, in which `kubectl delete -f` deletes the content by name.
    pub namespace_delay_ms: i64,
    /// The time in milliseconds after its last write at which an event is deleted; 0 records no
    /// events.
    pub event_age_ms: i64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 0,
            lease_renew_ms: 10_000,
            node_monitor_grace_ms: 15_000,
            pod_gc_delay_ms: 1_000,
            namespace_delay_ms: 0,
            event_age_ms: 3_600_000,
        }
    }
}
