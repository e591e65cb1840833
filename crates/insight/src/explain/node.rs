//! One node in full.

use everynode_core::api::{
    DaemonSet, DaemonSetKey, Node, NodeName, NodeSelectorTerm, OVERRIDE_LABEL, Timestamp,
};
use everynode_core::daemon_set::{Availability, InspectedPod};
use everynode_core::placement::Reason;
use schemars::JsonSchema;
use serde::Serialize;

use super::finding::Finding;
use super::{findings, problems, rollout_summary};
use crate::controller_view::ControllerView;
use crate::eviction;
use crate::overridden;
use crate::rollout::{Evidence, Rollout};
use crate::situation::Situation;
use crate::snapshot::{NodeDetail, NodeHealth, PodState, Snapshot};

/// Everything that is known about a DaemonSet on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeExplanation {
    /// The DaemonSet's namespace.
    pub namespace: String,
    /// The DaemonSet's name.
    pub name: String,
    /// The node's name.
    pub node: String,
    /// The value of the node's label `topology.kubernetes.io/zone`; absent without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Problems of the node itself: not ready, cordoned.
    pub node_notes: Vec<String>,
    /// Whether the node should get a pod.
    pub should_run: bool,
    /// Whether a pod that runs there may stay.
    pub should_continue_running: bool,
    /// The name of the override that counts on the node; absent if its pod is that of the template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#override: Option<String>,
    /// Every reason against a pod.
    pub reasons: Vec<ReasonDetail>,
    /// The state of the node.
    pub situation: Situation,
    /// The reason for the state.
    pub why: String,
    /// The message of the scheduler, the kubelet or the container; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What the controller does next on this node, or what the operator should do; absent if there
    /// is nothing to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The progress of the whole rollout, in one sentence.
    pub rollout: String,
    /// The DaemonSet's pods on this node, and orphans that it will adopt.
    pub pods: Vec<PodExplanation>,
    /// Problems of the DaemonSet itself, and objects that could not be read.
    pub problems: Vec<String>,
}

/// One reason against a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasonDetail {
    /// The reason in one line.
    pub reason: String,
    /// Whether an existing pod has to go, too.
    pub evicts: bool,
    /// For node affinity: each requirement compared with the node; absent for other reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<AffinityCheck>,
}

/// One requirement of a node affinity term, compared with a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AffinityCheck {
    /// The number of the term, counted from 1. At least one term has to match completely.
    pub term: usize,
    /// The requirement, such as `disk In [ssd]`.
    pub requirement: String,
    /// Whether the node meets the requirement.
    pub holds: bool,
    /// The node's value; `null` if it has no such label.
    pub found: Option<String>,
}

/// One pod on the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodExplanation {
    /// The pod's name.
    pub name: String,
    /// The time since the pod's creation, in seconds.
    pub age_seconds: u64,
    /// Whether the pod is of the current revision.
    pub current_revision: bool,
    /// The override that made the pod, as its label `everynode.dev/override` states it; absent if
    /// none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#override: Option<String>,
    /// Whether the pod is available.
    pub available: bool,
    /// The number of restarts of all containers.
    pub restarts: u32,
    /// The state in a few words.
    pub state: String,
    /// Whether the pod does not recover without intervention.
    pub failing: bool,
    /// The message of the scheduler, the kubelet or the container; absent if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The time until the pod is available if it stays ready, in seconds; absent unless it is ready
    /// and not yet available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_in_seconds: Option<u64>,
}

/// Explains one node; `None` if the snapshot lacks the DaemonSet or the node.
pub fn explain_node(
    snapshot: &Snapshot,
    key: &DaemonSetKey,
    node: &NodeName,
    now: Timestamp,
) -> Option<NodeExplanation> {
    let daemon_set = &snapshot.daemon_sets.get(key)?.daemon_set;
    let detail = snapshot.nodes.get(node)?;
    let view = ControllerView::new(snapshot, daemon_set.clone(), now);
    let evidence = Evidence::new(snapshot, daemon_set, now);
    let inspection = view.inspect(node);
    let reasons = view.reasons_against(node);
    let rollout = Rollout::of(snapshot, key, now)?;
    let findings = findings(&view, &evidence, &rollout);
    let summary = rollout_summary(&view, &findings, &rollout);
    let (_, finding) = findings.into_iter().find(|(name, _)| *name == node)?;
    let Finding { situation, why, detail: said, next, .. } = finding;
    Some(NodeExplanation {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        node: node.to_string(),
        zone: detail.zone().map(str::to_owned),
        node_notes: notes(detail, asks_for_eviction(&view)),
        should_run: inspection.eligibility.should_run(),
        should_continue_running: inspection.eligibility.should_continue_running(),
        r#override: override_of(daemon_set, &detail.node),
        reasons: reasons.iter().map(|reason| reason_detail(reason, &detail.node)).collect(),
        situation,
        why: match overridden::missing_override(snapshot, daemon_set, node) {
            Some(note) => format!("{why}; {note}"),
            None => why,
        },
        detail: said,
        next,
        rollout: summary,
        pods: inspection.pods.iter().map(|pod| pod_explanation(&view, pod)).collect(),
        problems: problems::problems(&view),
    })
}

fn override_of(daemon_set: &DaemonSet, node: &Node) -> Option<String> {
    let overrides = daemon_set.policy.valid()?.stated_overrides()?;
    Some(overrides.of_node(node)?.name.to_string())
}

fn pod_explanation(view: &ControllerView<'_>, pod: &InspectedPod) -> PodExplanation {
    let now = view.now;
    let detail = view.pod(&pod.uid);
    let created = detail.map_or(now, |detail| detail.pod.creation_timestamp);
    let state = detail.map(|detail| &detail.state);
    PodExplanation {
        name: pod.name.to_string(),
        age_seconds: now.since(created).as_secs(),
        current_revision: pod.updated,
        r#override: detail
            .and_then(|it| it.pod.labels.get(OVERRIDE_LABEL))
            .map(ToString::to_string),
        available: pod.availability == Availability::Available,
        restarts: detail.map_or(0, |detail| detail.restarts),
        state: state.map(ToString::to_string).unwrap_or_default(),
        failing: state.is_some_and(PodState::is_failing),
        message: state.map(PodState::message).unwrap_or_default().to_owned(),
        available_in_seconds: pod.availability.at().map(|at| at.since(now).as_secs()),
    }
}

fn asks_for_eviction(view: &ControllerView<'_>) -> bool {
    let object = view.snapshot.daemon_sets.get(&view.daemon_set().key);
    object.is_some_and(|it| eviction::asks_for_eviction(&it.raw.template()["spec"]))
}

fn notes(node: &NodeDetail, asks_for_eviction: bool) -> Vec<String> {
    let health = match &node.health {
        NodeHealth::Ready | NodeHealth::Unreported => None,
        NodeHealth::NotReady { message } => Some(format!("not ready: {message}")),
    };
    let stays = (health.is_some() && asks_for_eviction).then(|| eviction::NOT_EVICTED.to_owned());
    let cordoned = node
        .is_cordoned()
        .then(|| "cordoned, which does not keep a DaemonSet's pods away".to_owned());
    health.into_iter().chain(stays).chain(cordoned).collect()
}

fn reason_detail(reason: &Reason<'_>, node: &Node) -> ReasonDetail {
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
    ReasonDetail { reason: reason.to_string(), evicts: reason.evicts(), checks }
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
