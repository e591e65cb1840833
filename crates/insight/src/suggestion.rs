//! A rollout policy for one DaemonSet, made from what the cluster's objects tell (G52).
//!
//! Steps follow from the labels of the nodes that should run a pod, times from the pods and their
//! probes, the budget from the update strategy. The policy states in comments from what each of its
//! numbers follows.

mod groups;
mod manifest;
mod times;
mod window;
mod yaml;

use everynode_core::api::{
    DaemonSet, DaemonSetKey, IntOrPercent, Labels, Timestamp, UpdateStrategy,
};
use everynode_k8s::convert::DaemonSetObject;
use thiserror::Error;

use crate::controller_view::ControllerView;
use crate::no_node;
use crate::snapshot::Snapshot;
use groups::{Kinds, Shares};
use times::Times;

pub use window::Window;

/// A rollout policy for one DaemonSet, with the observations that it follows from.
#[derive(Clone, Debug)]
pub struct Suggestion {
    key: DaemonSetKey,
    /// The number of nodes that should run a pod.
    nodes: usize,
    kinds: Kinds,
    /// The number of zones; 0 if nodes have no label of one.
    zones: usize,
    shares: Shares,
    times: Times,
    budget: Budget,
    /// Each pod has restarted at least this often.
    restarts: u32,
    windows: Vec<Window>,
}

/// Why there is no policy to suggest.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoSuggestion {
    /// No node should run a pod.
    #[error("{0}; a policy would have no node to try a template on")]
    NoNode(String),
}

/// The number of nodes that a rollout may work on at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Budget {
    /// `maxUnavailable` of the update strategy.
    Unavailable(IntOrPercent),
    /// `maxSurge` of the update strategy.
    Surge(IntOrPercent),
    /// The update strategy states none.
    Unstated,
}

impl Suggestion {
    /// The policy for a DaemonSet in the cluster of the snapshot.
    ///
    /// # Errors
    /// If no node should run a pod of it.
    pub fn new(
        snapshot: &Snapshot,
        object: &DaemonSetObject,
        windows: Vec<Window>,
        now: Timestamp,
    ) -> Result<Self, NoSuggestion> {
        let DaemonSet { key, update_strategy, .. } = &object.daemon_set;
        let view = ControllerView::new(snapshot, object.daemon_set.clone(), now);
        let nodes: Vec<&Labels> = snapshot
            .nodes
            .values()
            .filter(|detail| view.inspect(&detail.node.name).eligibility.should_run())
            .map(|detail| &detail.node.labels)
            .collect();
        if nodes.is_empty() {
            let why = no_node::sentence(&view);
            return Err(NoSuggestion::NoNode(why.unwrap_or_else(|| "there is no node".to_owned())));
        }
        let kinds = Kinds::of(&nodes);
        let zones = groups::zones(&nodes);
        Ok(Self {
            shares: Shares::of(&nodes, zones, kinds.canaries()),
            nodes: nodes.len(),
            kinds,
            zones,
            times: Times::of(snapshot, object),
            budget: Budget::of(*update_strategy),
            restarts: snapshot.pods_of(key).map(|pod| pod.restarts).min().unwrap_or(0),
            windows,
            key: key.clone(),
        })
    }
}

impl Budget {
    fn of(strategy: UpdateStrategy) -> Self {
        match strategy {
            UpdateStrategy::RollingUpdate { max_surge, .. } if strategy.surges() => {
                Self::Surge(max_surge)
            }
            UpdateStrategy::RollingUpdate { max_unavailable, .. } => {
                Self::Unavailable(max_unavailable)
            }
            UpdateStrategy::OnDelete | UpdateStrategy::Malformed => Self::Unstated,
        }
    }

    const fn max(self) -> IntOrPercent {
        match self {
            Self::Unavailable(max) | Self::Surge(max) => max,
            Self::Unstated => IntOrPercent::Int(1),
        }
    }

    /// The same share of each zone as of all nodes.
    fn of_zone(self, nodes: usize) -> IntOrPercent {
        match self.max() {
            IntOrPercent::Int(number) if number > 1 => {
                let percent = (number as usize * 100).div_ceil(nodes).min(100);
                IntOrPercent::Percent(u32::try_from(percent).unwrap_or(100))
            }
            max => max,
        }
    }
}
