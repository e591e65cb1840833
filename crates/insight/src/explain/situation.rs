//! What is to be said of one node.

use everynode_core::api::{NodeName, UpdateStrategy};
use everynode_core::daemon_set::{InspectedPod, Inspection, Step};
use everynode_core::placement::Eligibility;
use everynode_core::plan::Write;
use serde::Serialize;

use super::{View, reason};
use crate::snapshot::{Kind, NodeHealth, PodDetail, PodState};

/// In the order in which people should look at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Situation {
    /// A pod that does not get better by waiting.
    Failing,
    /// A pod that fits nowhere it may go.
    Unschedulable,
    /// A pod that is not ready because its node is not.
    NodeNotReady,
    /// No pod where there should be one.
    Missing,
    /// A pod where there must be none.
    ToBeDeleted,
    /// A pod on its way, or not ready yet.
    NotReady,
    Terminating,
    /// Ready, and not yet for `minReadySeconds`.
    NotYetAvailable,
    /// A pod of an older revision that does well.
    Outdated,
    /// A pod that may stay where none would be created.
    Lingering,
    UpToDate,
    /// It is not known what pods there are.
    ShouldRun,
    /// No pod, and there should be none.
    Excluded,
}

impl Situation {
    /// Whether a DaemonSet with such a node is not rolled out yet, or has pods that are to go.
    pub const fn holds_up(self) -> bool {
        match self {
            Self::Failing
            | Self::Unschedulable
            | Self::NodeNotReady
            | Self::Missing
            | Self::ToBeDeleted
            | Self::NotReady
            | Self::Terminating
            | Self::NotYetAvailable
            | Self::Outdated => true,
            Self::Lingering | Self::UpToDate | Self::ShouldRun | Self::Excluded => false,
        }
    }

    /// Whether waiting alone does not help such a node.
    pub const fn is_stuck(self) -> bool {
        match self {
            Self::Failing | Self::Unschedulable | Self::NodeNotReady => true,
            Self::Missing
            | Self::ToBeDeleted
            | Self::NotReady
            | Self::Terminating
            | Self::NotYetAvailable
            | Self::Outdated
            | Self::Lingering
            | Self::UpToDate
            | Self::ShouldRun
            | Self::Excluded => false,
        }
    }

    /// Whether someone should look at it.
    pub const fn needs_attention(self) -> bool {
        self.is_stuck() || matches!(self, Self::Missing)
    }

    /// In two or three words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Failing => "failing",
            Self::Unschedulable => "unschedulable",
            Self::NodeNotReady => "node not ready",
            Self::Missing => "missing",
            Self::ToBeDeleted => "to be deleted",
            Self::NotReady => "not ready",
            Self::Terminating => "terminating",
            Self::NotYetAvailable => "not yet available",
            Self::Outdated => "outdated",
            Self::Lingering => "may stay",
            Self::UpToDate => "up to date",
            Self::ShouldRun => "should run",
            Self::Excluded => "no pod here",
        }
    }
}

/// What is to be said of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub situation: Situation,
    pub why: String,
    pub detail: Option<String>,
    pub next: Option<String>,
}

impl Finding {
    fn new(situation: Situation, why: impl Into<String>) -> Self {
        Self { situation, why: why.into(), detail: None, next: None }
    }

    fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()).filter(|detail| !detail.is_empty()), ..self }
    }

    fn next(self, next: impl Into<String>) -> Self {
        Self { next: Some(next.into()), ..self }
    }
}

pub(super) fn find(view: &View<'_>, node: &NodeName) -> Finding {
    let inspection = view.inspect(node);
    let has_pods = inspection.pods.iter().any(|pod| !pod.orphan);
    match inspection.eligibility {
        Eligibility::Run if !view.knows(Kind::Pod) => {
            Finding::new(Situation::ShouldRun, "should run a pod")
        }
        Eligibility::Run => of_pods(view, node, &inspection),
        Eligibility::ContinueRunning if has_pods && is_not_ready(view, node).is_some() => {
            let stays = inspection.pods.iter().any(|pod| !pod.orphan && !pod.terminating);
            let (why, next) = if stays {
                (
                    "the node is not ready",
                    "its pod stays; a new one is created only when the node is ready",
                )
            } else {
                (
                    "the node is not ready, and its pod can't stop",
                    "bring the node back, or delete it",
                )
            };
            Finding::new(Situation::NodeNotReady, why)
                .detail(is_not_ready(view, node).unwrap_or_default())
                .next(next)
        }
        Eligibility::ContinueRunning if has_pods => {
            Finding::new(Situation::Lingering, reasons(view, node))
                .next("its pod stays; no new one would be created")
        }
        Eligibility::Neither if has_pods => {
            Finding::new(Situation::ToBeDeleted, reasons(view, node)).next("its pod is deleted")
        }
        Eligibility::ContinueRunning | Eligibility::Neither | Eligibility::NoNode => {
            Finding::new(Situation::Excluded, reasons(view, node))
        }
    }
}

/// The words of a node that is not ready.
fn is_not_ready<'a>(view: &View<'a>, node: &NodeName) -> Option<&'a str> {
    match &view.snapshot.nodes[node].health {
        NodeHealth::NotReady { message } => Some(message),
        NodeHealth::Ready | NodeHealth::Untold => None,
    }
}

fn reasons(view: &View<'_>, node: &NodeName) -> String {
    let id = view.known.nodes.id(node).expect("it is one of the snapshot's nodes");
    reason::shared(&view.known.state.reasons_against(id, &view.known.nodes))
}

fn of_pods(view: &View<'_>, node: &NodeName, inspection: &Inspection) -> Finding {
    let pods = inspection.pods.iter().filter(|pod| !pod.orphan);
    let (terminating, running): (Vec<_>, Vec<_>) = pods.partition(|pod| pod.terminating);
    let speaks = running
        .into_iter()
        .filter_map(|pod| Some((pod, view.pod(&pod.uid)?)))
        .min_by_key(|(pod, detail)| urgency(pod, detail));
    match (speaks, terminating.is_empty()) {
        (Some((pod, detail)), _) => of_pod(view, node, inspection, pod, detail),
        (None, false) => Finding::new(Situation::Terminating, "its pod is terminating")
            .next("a new one is created when it is gone"),
        (None, true) => missing(view, node),
    }
}

/// Of two pods on a node (with surge), the one to speak of: the one that is worse, else the older revision.
fn urgency(pod: &InspectedPod, detail: &PodDetail) -> (bool, bool, bool) {
    (!detail.state.is_failing(), detail.pod.readiness.is_ready(), pod.updated)
}

fn missing(view: &View<'_>, node: &NodeName) -> Finding {
    let is_planned = view.plan.writes.iter().any(|write| match write {
        Write::CreatePod(new) => new.node == *node,
        _ => false,
    });
    let next = if is_planned
        || view.plan.writes.iter().any(|w| matches!(w, Write::CreateRevision(_)))
    {
        "the controller creates it; if this stays, see the DaemonSet's events: kubectl describe ds"
    } else {
        "the controller creates it in its turn"
    };
    Finding::new(Situation::Missing, "no pod").next(next)
}

fn of_pod(
    view: &View<'_>,
    node: &NodeName,
    inspection: &Inspection,
    pod: &InspectedPod,
    detail: &PodDetail,
) -> Finding {
    let state = &detail.state;
    let revision = match (view.is_rolling(), pod.updated) {
        (false, _) => "",
        (true, true) => ", current revision",
        (true, false) => ", older revision",
    };
    if let (Some(message), false) = (is_not_ready(view, node), state.is_settled()) {
        return Finding::new(Situation::NodeNotReady, format!("the node is not ready{revision}"))
            .detail(message)
            .next("its pod can't become ready before the node does");
    }
    match state {
        PodState::Unscheduled { message } if !message.is_empty() => {
            let why = format!("can't be scheduled: {}{revision}", scheduler_words(message));
            Finding::new(Situation::Unschedulable, why).detail(message)
        }
        PodState::Waiting(container) if state.is_failing() => {
            Finding::new(Situation::Failing, format!("{state}{revision}"))
                .detail(&container.message)
                .next(logs(detail, &container.name, container.last_exit.is_some()))
        }
        PodState::Failed { message, .. } => {
            Finding::new(Situation::Failing, format!("{state}{revision}"))
                .detail(message)
                .next("the controller replaces it, after a back-off of at most 15 min")
        }
        PodState::Unknown => Finding::new(Situation::Failing, format!("{state}{revision}")),
        PodState::Ready if !pod.available => not_yet_available(view, pod, revision),
        PodState::Ready if pod.updated || !view.knows_revisions_of_pods() => {
            Finding::new(Situation::UpToDate, "ready")
        }
        PodState::Ready => outdated(view, node, inspection),
        PodState::Unscheduled { .. }
        | PodState::Waiting(_)
        | PodState::NotReady { .. }
        | PodState::Terminating
        | PodState::Succeeded => not_ready(view, detail, state, revision),
    }
}

fn not_ready(view: &View<'_>, detail: &PodDetail, state: &PodState, revision: &str) -> Finding {
    let age = view.now.since(detail.pod.creation_timestamp).as_secs();
    Finding::new(Situation::NotReady, format!("{state}{revision}")).detail(format!(
        "pod {} is {} old",
        detail.pod.name,
        super::rollout::duration(age)
    ))
}

fn not_yet_available(view: &View<'_>, pod: &InspectedPod, revision: &str) -> Finding {
    let wanted = view.daemon_set().min_ready_seconds;
    let left = pod.available_at.map(|at| at.since(view.now).as_millis().div_ceil(1000));
    let finding = Finding::new(
        Situation::NotYetAvailable,
        format!("ready, but not yet for minReadySeconds ({wanted} s){revision}"),
    );
    match left {
        Some(seconds) => finding.detail(format!("{} counts as available in {seconds} s", pod.name)),
        None => finding,
    }
}

fn outdated(view: &View<'_>, node: &NodeName, inspection: &Inspection) -> Finding {
    let is_planned = view.plan.writes.iter().any(|write| match write {
        Write::DeletePod(pod) => pod.node.as_ref() == Some(node),
        Write::CreatePod(new) => new.node == *node,
        _ => false,
    });
    let next = match (view.daemon_set().update_strategy, inspection.step) {
        (UpdateStrategy::OnDelete, _) => {
            "updateStrategy is OnDelete: it stays until someone deletes it"
        }
        (UpdateStrategy::Malformed, _) => "updateStrategy is malformed: it is not replaced",
        (UpdateStrategy::RollingUpdate { .. }, _) if is_planned => "its turn is now",
        (UpdateStrategy::RollingUpdate { .. }, Step::None) => "its successor has been created",
        (UpdateStrategy::RollingUpdate { .. }, _) => "it waits for its turn",
    };
    Finding::new(Situation::Outdated, format!("ready, older revision: {next}"))
}

fn logs(detail: &PodDetail, container: &str, has_run: bool) -> String {
    let (namespace, pod) = (&detail.pod.namespace, &detail.pod.name);
    if has_run {
        format!("kubectl -n {namespace} logs {pod} -c {container} --previous")
    } else {
        format!("kubectl -n {namespace} describe pod {pod}")
    }
}

/// `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. …`: what is
/// said of the one node that the pod may go to.
fn scheduler_words(message: &str) -> String {
    let Some((_, clauses)) = message.split_once(": ") else { return message.to_owned() };
    let clauses = clauses.split_once(". ").map_or(clauses, |(clauses, _)| clauses);
    let told: Vec<&str> = clauses
        .split(", ")
        .map(|clause| clause.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' '))
        .map(|clause| clause.trim_end_matches('.'))
        .filter(|clause| !clause.contains("node affinity") && !clause.contains("[NodeAffinity]"))
        .collect();
    if told.is_empty() { message.to_owned() } else { told.join(", ") }
}

impl PodState {
    /// Whether its node can't make it worse: it is ready, or it has ended.
    const fn is_settled(&self) -> bool {
        match self {
            Self::Ready | Self::Failed { .. } | Self::Succeeded => true,
            Self::Unscheduled { .. }
            | Self::Waiting(_)
            | Self::NotReady { .. }
            | Self::Terminating
            | Self::Unknown => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_is_quoted_on_the_one_node_that_matters() {
        for (message, expected) in [
            (
                "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. \
                 preemption: 0/3 nodes are available: 1 No preemption victims found.",
                "Insufficient cpu",
            ),
            (
                "0/2 nodes are available: 1 node(s) didn't have free ports for the requested pod ports, \
                 1 node(s) didn't match Pod's node affinity/selector.",
                "node(s) didn't have free ports for the requested pod ports",
            ),
            ("no nodes available to schedule pods", "no nodes available to schedule pods"),
        ] {
            assert_eq!(scheduler_words(message), expected);
        }
    }
}
