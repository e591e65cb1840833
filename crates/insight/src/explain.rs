//! Why each node runs a DaemonSet's pod or not, and what its pod is doing: nodes in groups of one reason, those
//! that need attention first.
//!
//! Whether a node should run a pod, and what comes next there, is the core's answer.

mod node;
mod reason;
mod rollout;
mod situation;

use std::collections::BTreeMap;

use everynode_core::api::{
    DaemonSet, DaemonSetKey, NAMESPACE_NODE_SELECTOR_ANNOTATION, NodeName, ResourceVersion,
    Timestamp, Uid,
};
use everynode_core::daemon_set::{Inspection, Tally};
use everynode_core::plan::{Notice, Plan, Watermarks};
use serde::Serialize;

use crate::known::Known;
use crate::rollout::strategy_text;
use crate::snapshot::{Kind, PodDetail, Snapshot};

pub use node::{AffinityCheck, NodeStory, PodStory, ReasonStory, node};
pub use situation::{Finding, Situation};

/// A DaemonSet, and all nodes in groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub namespace: String,
    pub name: String,
    pub nodes: usize,
    /// That should run a pod.
    pub desired: usize,
    /// Absent as the next two if pods were not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<usize>,
    /// Absent if pods or revisions were not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<usize>,
    pub update_strategy: String,
    /// What the rollout is waiting for, or that there is none.
    pub rollout: String,
    /// What is wrong with the DaemonSet itself, or could not be learnt.
    pub problems: Vec<String>,
    pub groups: Vec<Group>,
}

/// Nodes with one answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    pub situation: Situation,
    /// The very term, label, taint or container.
    pub why: String,
    /// In the words of the scheduler, the kubelet or the container, on the first of the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What the controller does next here, or what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// In the order of their names.
    pub nodes: Vec<String>,
}

/// Explains a DaemonSet of the snapshot, at `now`; none if it is not there.
pub fn explain(snapshot: &Snapshot, key: &DaemonSetKey, now: Timestamp) -> Option<Explanation> {
    let daemon_set = snapshot.daemon_sets.get(key)?.daemon_set.clone();
    Some(View::new(snapshot, daemon_set, now).explanation())
}

/// What all answers about one DaemonSet are read from.
pub(crate) struct View<'a> {
    pub snapshot: &'a Snapshot,
    pub known: Known,
    /// What the controller would do now.
    pub plan: Plan,
    pub now: Timestamp,
    pods: BTreeMap<Uid, &'a PodDetail>,
}

impl<'a> View<'a> {
    pub fn new(snapshot: &'a Snapshot, daemon_set: DaemonSet, now: Timestamp) -> Self {
        let namespace = daemon_set.key.namespace.clone();
        let mut known = Known::new(snapshot, daemon_set);
        let plan = known.state.plan(now, &Watermarks::default(), &known.nodes);
        let pods = snapshot.in_namespace(&namespace);
        let pods = pods.map(|detail| (detail.pod.uid.clone(), detail)).collect();
        Self { snapshot, known, plan, now, pods }
    }

    pub fn daemon_set(&self) -> &DaemonSet {
        self.known.state.daemon_set()
    }

    pub fn tally(&self) -> &Tally {
        self.known.state.tally()
    }

    /// How many nodes use up the rolling update's budget.
    pub fn budget_used(&self) -> usize {
        self.known.state.budget_used()
    }

    pub fn inspect(&self, node: &NodeName) -> Inspection {
        let id = self.known.nodes.id(node).expect("it is one of the snapshot's nodes");
        self.known.state.inspect(id, self.now, &self.known.nodes)
    }

    pub fn pod(&self, uid: &Uid) -> Option<&'a PodDetail> {
        self.pods.get(uid).copied()
    }

    pub fn knows(&self, kind: Kind) -> bool {
        !self.snapshot.unread.contains(&kind)
    }

    pub fn knows_revisions_of_pods(&self) -> bool {
        self.knows(Kind::Pod) && self.knows(Kind::ControllerRevision)
    }

    /// Whether it is an API server's, and not only a manifest's.
    pub fn is_applied(&self) -> bool {
        self.daemon_set().resource_version > ResourceVersion(0)
    }

    /// Whether there are pods of another revision where there should be the current one.
    pub fn is_rolling(&self) -> bool {
        self.knows_revisions_of_pods() && self.tally().updated < self.tally().current
    }

    fn explanation(&self) -> Explanation {
        let daemon_set = self.daemon_set();
        let tally = self.tally();
        let findings: Vec<(&NodeName, Finding)> =
            self.snapshot.nodes.keys().map(|name| (name, situation::find(self, name))).collect();
        Explanation {
            namespace: daemon_set.key.namespace.to_string(),
            name: daemon_set.key.name.to_string(),
            nodes: findings.len(),
            desired: tally.desired,
            ready: self.knows(Kind::Pod).then_some(tally.ready),
            available: self.knows(Kind::Pod).then_some(tally.available),
            updated: self.knows_revisions_of_pods().then_some(tally.updated),
            update_strategy: strategy_text(daemon_set.update_strategy),
            rollout: rollout::waits_for(self, &findings),
            problems: self.problems(),
            groups: groups(findings),
        }
    }

    fn problems(&self) -> Vec<String> {
        let daemon_set = self.daemon_set();
        let mut problems: Vec<String> = self
            .plan
            .notices
            .iter()
            .filter(|notice| is_problem(notice))
            .map(Notice::to_string)
            .collect();
        if daemon_set.terminating {
            problems.push("it is being deleted: nothing is done for it any more".to_owned());
        }
        problems.extend(self.namespace_node_selector());
        let (observed, generation) = (daemon_set.status.observed_generation, daemon_set.generation);
        if observed < generation && self.is_applied() {
            problems.push(format!(
                "no controller has dealt with its last change yet (generation {generation}, observed {observed}): \
                 if this stays, see whether a DaemonSet controller runs"
            ));
        }
        problems.extend(self.snapshot.problems.iter().cloned());
        problems
    }

    /// C15: the annotation, if it is there and left out of the answer.
    fn namespace_node_selector(&self) -> Option<String> {
        let namespace = &self.daemon_set().key.namespace;
        let selector = self.snapshot.namespace_node_selectors.get(namespace)?;
        if self.snapshot.heeds_namespace_node_selectors {
            return None;
        }
        let labels: Vec<String> =
            selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
        Some(format!(
            "namespace {namespace} has the annotation {NAMESPACE_NODE_SELECTOR_ANNOTATION}: {}, which is not taken into account: \
             everynode heeds it with --namespace-node-selectors only",
            labels.join(",")
        ))
    }
}

/// Whether it is about the DaemonSet itself; the others announce what the plan does to pods.
const fn is_problem(notice: &Notice) -> bool {
    match notice {
        Notice::SelectingAll | Notice::Problem(_) => true,
        Notice::FailedDaemonPod { .. }
        | Notice::SucceededDaemonPod { .. }
        | Notice::ExpectationLapsed { .. } => false,
    }
}

fn groups(findings: Vec<(&NodeName, Finding)>) -> Vec<Group> {
    let mut groups: BTreeMap<(Situation, String), Group> = BTreeMap::new();
    for (node, finding) in findings {
        let Finding { situation, why, detail, next } = finding;
        let group = groups.entry((situation, why.clone())).or_insert_with(|| Group {
            situation,
            why,
            detail,
            next,
            nodes: Vec::new(),
        });
        group.nodes.push(node.to_string());
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_key(|group| (group.situation, std::cmp::Reverse(group.nodes.len())));
    groups
}
