//! A forecast of applying a DaemonSet to a cluster: which nodes get, lose or keep a pod, in which
//! order, how long it takes, and what can go wrong.
//!
//! The core decides: its plans are executed in a simulation of the cluster in virtual time.

mod change;
mod risk;
mod simulation;
mod timing;

use std::collections::BTreeMap;

use everynode_core::api::{NodeName, Timestamp};
use everynode_k8s::convert::DaemonSetObject;
use schemars::JsonSchema;
use serde::Serialize;

use crate::overridden::{OverriddenNodes, changes_overrides, overridden_nodes};
use crate::rollout::Strategy;
use crate::snapshot::{ObjectKind, Snapshot};
use simulation::Simulation;

pub(crate) use change::template_changes;
pub use change::{Change, changes};
pub use risk::{Risk, RiskKind};
pub use timing::ObservedTimings;

/// A DaemonSet to be applied.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The object with all defaults, as the API server would store it.
    pub object: DaemonSetObject,
    /// The differences from the existing object; `None` if there is none.
    pub changes: Option<Vec<Change>>,
    /// The pods of all controllers were read, so that free resources are known.
    pub knows_room: bool,
    /// The start-up time to assume instead of the one observed.
    pub start_up: Option<std::time::Duration>,
}

/// The effects of applying a DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// The DaemonSet's namespace.
    pub namespace: String,
    /// The DaemonSet's name.
    pub name: String,
    /// What applying does to the object.
    pub action: Action,
    /// The update strategy.
    pub update_strategy: Strategy,
    /// The fields that change.
    pub changes: Vec<Change>,
    /// What happens on which nodes; `null` if nodes were not read. Then waves and duration are
    /// unknown, too.
    pub nodes: Option<NodeChanges>,
    /// The steps of the rollout: nodes whose pods are replaced at the same time.
    pub waves: Vec<Wave>,
    /// The waves of the rollout policy that the rollout reaches; empty without a policy.
    pub guarded_waves: Vec<GuardedWave>,
    /// The overrides of the rollout policy, with the nodes on which they count; absent if it has
    /// none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<OverriddenNodes>,
    /// True if other overrides than before replace pods of the same template.
    #[serde(skip)]
    pub changes_overrides: bool,
    /// The duration of the rollout; `null` if no start-up time is known.
    pub duration: Option<DurationEstimate>,
    /// The nodes that have no available pod of the new revision at the end.
    pub unfinished: Vec<UnfinishedNodes>,
    /// What can go wrong.
    pub risks: Vec<Risk>,
    /// What could not be read or checked.
    pub problems: Vec<String>,
}

/// What applying does to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// The object is created.
    Create,
    /// The object is changed.
    Change,
    /// The object stays as it is.
    Nothing,
}

/// What happens on each node. Lists contain node names in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeChanges {
    /// Nodes that have no pod and get one.
    pub gain: Vec<String>,
    /// Nodes that have a pod and have none at the end.
    pub lose: Vec<String>,
    /// Nodes whose pod is replaced by another one.
    pub replace: Vec<String>,
    /// Nodes whose pod is changed in place.
    pub change_in_place: Vec<String>,
    /// Nodes that keep their pod.
    pub keep: Vec<String>,
    /// The number of nodes that have no pod before and after.
    pub without: usize,
}

impl NodeChanges {
    /// True if pods are replaced or changed.
    pub(crate) fn updates_pods(&self) -> bool {
        !self.replace.is_empty() || !self.change_in_place.is_empty()
    }

    /// The nodes whose pods are replaced or changed.
    pub(crate) fn updated(&self) -> impl Iterator<Item = &String> {
        self.replace.iter().chain(&self.change_in_place)
    }
}

/// Nodes whose pods are replaced or changed at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PlannedWave")]
pub struct Wave {
    /// The time from the start of the rollout, with typical timings, in seconds.
    pub starts_after_seconds: u64,
    /// The names of the nodes.
    pub nodes: Vec<String>,
}

/// A wave of the rollout policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PlannedPolicyWave")]
pub struct GuardedWave {
    /// Its name; `null` for that of all nodes which no step names.
    pub name: Option<String>,
    /// The time from the start of the rollout, with typical timings, if approvals are given and
    /// checks pass at once; in seconds.
    pub starts_after_seconds: u64,
    /// The names of the nodes whose pods are replaced or changed in it.
    pub nodes: Vec<String>,
    /// How long its nodes must be updated and available, in seconds.
    pub bake_seconds: u64,
    /// Whether somebody must approve it before the next one begins.
    pub approval: bool,
    /// The names of the checks that it must pass.
    pub checks: Vec<String>,
}

/// The time until every pod is available.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DurationEstimate {
    /// If pods start in the median time and stop at once.
    pub typical_seconds: u64,
    /// If pods start as slowly as the slowest observed, and use their whole grace period to stop.
    pub worst_seconds: u64,
    /// The timings that the estimate is computed from.
    pub pace: ObservedTimings,
}

/// Nodes that do not finish, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnfinishedNodes {
    /// The reason.
    pub why: String,
    /// The names of the nodes.
    pub nodes: Vec<String>,
}

/// Predicts what applying the proposal to the cluster of the snapshot does, from `now` on.
pub fn forecast(snapshot: &Snapshot, proposal: &Proposal, now: Timestamp) -> Forecast {
    if snapshot.unread.contains(&ObjectKind::Node) {
        return without_nodes(snapshot, proposal);
    }
    let timings = ObservedTimings::of(snapshot, &proposal.object, proposal.start_up);
    // As records state times, so that no bake time seems to be shorter than it is.
    let now = Timestamp::from_seconds(now.as_millis().div_euclid(1000));
    let mut typical = Simulation::new(snapshot, proposal, timings.typical(), now);
    typical.run();
    let nodes = typical.node_changes();
    let waves = typical.waves(&nodes);
    let duration = timings.is_known().then(|| {
        let mut worst = Simulation::new(snapshot, proposal, timings.worst(), now);
        worst.run();
        DurationEstimate {
            typical_seconds: typical.duration().as_millis().div_ceil(1000) as u64,
            worst_seconds: worst.duration().as_millis().div_ceil(1000) as u64,
            pace: timings,
        }
    });
    let unfinished = grouped(typical.unfinished());
    Forecast {
        risks: risk::risks(snapshot, proposal, &nodes, &waves, &typical, now),
        guarded_waves: typical.guarded_waves(&nodes),
        overrides: overridden_nodes(snapshot, &proposal.object.daemon_set),
        changes_overrides: changes_overrides(snapshot, &proposal.object.daemon_set),
        nodes: Some(nodes),
        waves,
        duration,
        unfinished,
        ..without_nodes(snapshot, proposal)
    }
}

/// The forecast as far as it is known without the nodes.
fn without_nodes(snapshot: &Snapshot, proposal: &Proposal) -> Forecast {
    let daemon_set = &proposal.object.daemon_set;
    let action = match &proposal.changes {
        None => Action::Create,
        Some(changes) if changes.is_empty() => Action::Nothing,
        Some(_) => Action::Change,
    };
    Forecast {
        namespace: daemon_set.key.namespace.to_string(),
        name: daemon_set.key.name.to_string(),
        action,
        update_strategy: Strategy(daemon_set.update_strategy),
        changes: proposal.changes.clone().unwrap_or_default(),
        nodes: None,
        waves: Vec::new(),
        guarded_waves: Vec::new(),
        overrides: Vec::new(),
        changes_overrides: false,
        duration: None,
        unfinished: Vec::new(),
        risks: risk::without_nodes(snapshot, proposal),
        problems: snapshot.problems.clone(),
    }
}

impl Forecast {
    /// True if applying changes nothing.
    pub fn is_nothing_to_do(&self) -> bool {
        match self.action {
            Action::Nothing => !self.changes_overrides,
            Action::Create | Action::Change => false,
        }
    }
}

/// Groups nodes by reason, the largest group first.
fn grouped(found: Vec<(NodeName, String)>) -> Vec<UnfinishedNodes> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (node, why) in found {
        groups.entry(why).or_default().push(node.to_string());
    }
    let mut groups: Vec<UnfinishedNodes> =
        groups.into_iter().map(|(why, nodes)| UnfinishedNodes { why, nodes }).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.nodes.len()));
    groups
}
