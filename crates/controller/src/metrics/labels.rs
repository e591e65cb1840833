//! Labels that several metrics have.

use prometheus_client::encoding::EncodeLabelSet;

use everynode_core::api::DaemonSetKey;

/// Labels of metrics that count by reason.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReasonLabels {
    /// The reason of the Kubernetes Event, or `Undecodable` for a problem of an object that cannot
    /// be decoded.
    pub reason: &'static str,
}

/// Labels of the gauges of a DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DaemonSetLabels {
    pub(super) namespace: String,
    pub(super) daemonset: String,
}

impl DaemonSetLabels {
    pub(super) fn new(key: &DaemonSetKey) -> Self {
        Self { namespace: key.namespace.to_string(), daemonset: key.name.to_string() }
    }
}
