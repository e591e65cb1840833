//! The full story of one node.

use everynode_core::api::{DaemonSetKey, Node, NodeName, NodeSelectorTerm, Timestamp};
use everynode_core::placement::Reason;
use serde::Serialize;

use super::{Finding, Situation, View, rollout, situation};
use crate::snapshot::{NodeHealth, PodState, Snapshot};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStory {
    pub namespace: String,
    pub name: String,
    pub node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// What is the matter with the node, if something is: not ready, cordoned.
    pub node_notes: Vec<String>,
    pub should_run: bool,
    pub should_continue_running: bool,
    /// Everything that speaks against a pod.
    pub reasons: Vec<ReasonStory>,
    pub situation: Situation,
    pub why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    pub rollout: String,
    pub pods: Vec<PodStory>,
    pub problems: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReasonStory {
    pub reason: String,
    /// Whether a pod that is there has to go, too.
    pub evicts: bool,
    /// Of node affinity: each requirement, and what the node has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<AffinityCheck>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AffinityCheck {
    /// Which of the terms, counted from 1; one of them has to hold altogether.
    pub term: usize,
    pub requirement: String,
    pub holds: bool,
    pub found: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStory {
    pub name: String,
    pub age_seconds: u64,
    pub current_revision: bool,
    pub available: bool,
    pub restarts: u32,
    pub state: String,
    pub failing: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_in_seconds: Option<u64>,
}

/// The story of one node; none if DaemonSet or node are not in the snapshot.
pub fn node(
    snapshot: &Snapshot,
    key: &DaemonSetKey,
    node: &NodeName,
    now: Timestamp,
) -> Option<NodeStory> {
    let daemon_set = snapshot.daemon_sets.get(key)?.daemon_set.clone();
    let detail = snapshot.nodes.get(node)?;
    let view = View::new(snapshot, daemon_set, now);
    let inspection = view.inspect(node);
    let id = view.known.nodes.id(node)?;
    let reasons = view.known.state.reasons_against(id, &view.known.nodes);
    let findings: Vec<(&NodeName, Finding)> =
        snapshot.nodes.keys().map(|name| (name, situation::find(&view, name))).collect();
    let Finding { situation, why, next, .. } = situation::find(&view, node);
    let pods = inspection.pods.iter().map(|pod| {
        let detail = view.pod(&pod.uid);
        let created = detail.map_or(now, |detail| detail.pod.creation_timestamp);
        let state = detail.map(|detail| &detail.state);
        PodStory {
            name: pod.name.to_string(),
            age_seconds: now.since(created).as_secs(),
            current_revision: pod.updated,
            available: pod.available,
            restarts: detail.map_or(0, |detail| detail.restarts),
            state: state.map(ToString::to_string).unwrap_or_default(),
            failing: state.is_some_and(PodState::is_failing),
            message: state.map(message).unwrap_or_default(),
            available_in_seconds: pod.available_at.map(|at| at.since(now).as_secs()),
        }
    });
    Some(NodeStory {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        node: node.to_string(),
        zone: detail.zone().map(str::to_owned),
        node_notes: notes(&detail.health, detail.is_cordoned()),
        should_run: inspection.eligibility.should_run(),
        should_continue_running: inspection.eligibility.should_continue_running(),
        reasons: reasons.iter().map(|reason| reason_story(reason, &detail.node)).collect(),
        situation,
        why,
        next,
        rollout: rollout::waits_for(&view, &findings),
        pods: pods.collect(),
        problems: view.problems(),
    })
}

fn notes(health: &NodeHealth, is_cordoned: bool) -> Vec<String> {
    let health = match health {
        NodeHealth::Ready | NodeHealth::Untold => None,
        NodeHealth::NotReady { message } => Some(format!("not ready: {message}")),
    };
    let cordoned =
        is_cordoned.then(|| "cordoned, which does not keep a DaemonSet's pods away".to_owned());
    health.into_iter().chain(cordoned).collect()
}

fn reason_story(reason: &Reason<'_>, node: &Node) -> ReasonStory {
    let checks = match reason {
        Reason::NodeAffinity { terms } => terms
            .iter()
            .enumerate()
            .flat_map(|(index, term)| affinity_checks(index + 1, term, node))
            .collect(),
        Reason::NodeName { .. }
        | Reason::NodeSelector { .. }
        | Reason::NamespaceNodeSelector { .. }
        | Reason::Taint(_) => Vec::new(),
    };
    ReasonStory { reason: reason.to_string(), evicts: reason.evicts(), checks }
}

fn affinity_checks(number: usize, term: &NodeSelectorTerm, node: &Node) -> Vec<AffinityCheck> {
    let term = match term {
        NodeSelectorTerm::Parsed(term) => term,
        NodeSelectorTerm::Malformed(why) => {
            let requirement = format!("malformed: {why}");
            return vec![AffinityCheck { term: number, requirement, holds: false, found: None }];
        }
    };
    let labels = term
        .match_expressions
        .iter()
        .map(|requirement| (requirement, node.labels.get(&requirement.key).map(|value| &**value)));
    let fields = term.match_fields.iter().map(|field| (field, Some(node.name.as_str())));
    labels
        .chain(fields)
        .map(|(requirement, found)| AffinityCheck {
            term: number,
            requirement: requirement.to_string(),
            holds: requirement.operator.matches(found),
            found: found.map(str::to_owned),
        })
        .collect()
}

fn message(state: &PodState) -> String {
    match state {
        PodState::Unscheduled { message } | PodState::Failed { message, .. } => message.clone(),
        PodState::Waiting(container) => container.message.clone(),
        PodState::NotReady { .. }
        | PodState::Ready
        | PodState::Terminating
        | PodState::Succeeded
        | PodState::Unknown => String::new(),
    }
}
