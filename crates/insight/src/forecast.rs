//! What becomes of a cluster's nodes when a DaemonSet is applied: who gains, loses or keeps a pod, in which waves, for
//! how long, and what can go wrong.
//!
//! The core decides, in fast-forward: its plans are executed on a [`model`] of the cluster in virtual time.

mod apply;
mod change;
mod model;
mod pace;
mod risk;

use std::collections::BTreeMap;

use everynode_core::api::{NodeName, Timestamp, Uid};
use everynode_k8s::convert::DaemonSetObject;
use serde::Serialize;

use crate::rollout::strategy_text;
use crate::snapshot::Snapshot;
use model::Model;

pub use apply::{apply_patch, settable};
pub use change::{Change, changes};
pub use pace::Pace;
pub use risk::{Risk, RiskKind};

/// What is to be applied.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// As the API server would have it: with all defaults.
    pub object: DaemonSetObject,
    /// What differs from the object that is there; none if there is none.
    pub changes: Option<Vec<Change>>,
    /// Whether pods of all controllers were read, so that it is known what nodes have left.
    pub knows_room: bool,
    /// How long pods take to start, if that is not to be taken from the pods that there are.
    pub start_up: Option<std::time::Duration>,
}

/// What applying does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    pub namespace: String,
    pub name: String,
    pub action: Action,
    pub update_strategy: String,
    pub changes: Vec<Change>,
    pub nodes: NodeChanges,
    /// The rollout's steps: nodes whose pods are replaced at the same time.
    pub waves: Vec<Wave>,
    /// None if nothing is known of how long pods take to start.
    pub duration: Option<Expectation>,
    /// Nodes that have no available pod of the new revision in the end.
    pub unfinished: Vec<Unfinished>,
    pub risks: Vec<Risk>,
    /// What could not be learnt, or checked.
    pub problems: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    Create,
    Change,
    Nothing,
}

/// Names of nodes, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeChanges {
    /// Had no pod and get one.
    pub gain: Vec<String>,
    /// Had a pod and have none in the end.
    pub lose: Vec<String>,
    /// Get another pod in place of theirs.
    pub replace: Vec<String>,
    /// Keep their pod.
    pub keep: Vec<String>,
    /// Have none before and after.
    pub without: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wave {
    /// After the start, at the pace seen so far.
    pub starts_after_seconds: u64,
    pub nodes: Vec<String>,
}

/// How long it takes until every pod is available.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Expectation {
    /// With pods that start as the median of those seen, and stop at once.
    pub typical_seconds: u64,
    /// With pods that start like the slowest seen, and take all their grace period to stop.
    pub worst_seconds: u64,
    pub pace: Pace,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unfinished {
    pub why: String,
    pub nodes: Vec<String>,
}

/// Forecasts what applying does to the cluster of the snapshot, from `now` on.
pub fn forecast(snapshot: &Snapshot, proposal: &Proposal, now: Timestamp) -> Forecast {
    let daemon_set = &proposal.object.daemon_set;
    let pace = Pace::seen(snapshot, &proposal.object, proposal.start_up);
    let mut typical = Model::new(snapshot, proposal, pace.typical(), now);
    typical.run();
    let nodes = typical.compare();
    let waves = typical.waves(&nodes);
    let duration = pace.is_known().then(|| {
        let mut worst = Model::new(snapshot, proposal, pace.worst(), now);
        worst.run();
        Expectation {
            typical_seconds: typical.took().as_millis().div_ceil(1000) as u64,
            worst_seconds: worst.took().as_millis().div_ceil(1000) as u64,
            pace,
        }
    });
    let unfinished = grouped(typical.unfinished());
    let action = match &proposal.changes {
        None => Action::Create,
        Some(changes) if changes.is_empty() => Action::Nothing,
        Some(_) => Action::Change,
    };
    Forecast {
        namespace: daemon_set.key.namespace.to_string(),
        name: daemon_set.key.name.to_string(),
        action,
        update_strategy: strategy_text(daemon_set.update_strategy),
        changes: proposal.changes.clone().unwrap_or_default(),
        risks: risk::risks(snapshot, proposal, &nodes, &waves, &typical),
        nodes,
        waves,
        duration,
        unfinished,
        problems: snapshot.problems.clone(),
    }
}

impl Forecast {
    /// Whether applying would change nothing.
    pub fn is_nothing_to_do(&self) -> bool {
        match self.action {
            Action::Nothing => true,
            Action::Create | Action::Change => false,
        }
    }
}

/// The pod that speaks for a node at one moment.
type Pods = BTreeMap<NodeName, Uid>;

fn grouped(found: Vec<(NodeName, String)>) -> Vec<Unfinished> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (node, why) in found {
        groups.entry(why).or_default().push(node.to_string());
    }
    let mut groups: Vec<Unfinished> =
        groups.into_iter().map(|(why, nodes)| Unfinished { why, nodes }).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.nodes.len()));
    groups
}
