//! The situation of one node with its reason, and what happens next there.

use everynode_core::api::{NodeName, UpdateStrategy};
use everynode_core::daemon_set::{InspectedPod, Inspection, Step};
use everynode_core::placement::Eligibility;
use everynode_core::plan::Write;

use super::duration::short_duration;
use super::reason;
use crate::controller_view::ControllerView;
use crate::situation::Situation;
use crate::snapshot::{NodeHealth, ObjectKind, PodDetail, PodState};

/// The situation of one node, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) situation: Situation,
    pub(super) why: String,
    /// The message of the scheduler, the kubelet or the container.
    pub(super) detail: Option<String>,
    /// What the controller does next, or what the operator should do.
    pub(super) next: Option<String>,
}

impl Finding {
    /// The finding for a node of the snapshot.
    pub(super) fn of(view: &ControllerView<'_>, node: &NodeName) -> Self {
        let inspection = view.inspect(node);
        let has_pods = inspection.pods.iter().any(|pod| !pod.orphan);
        let reasons = || reason::shared_text(&view.reasons_against(node));
        match inspection.eligibility {
            Eligibility::Run if !view.has_read(ObjectKind::Pod) => {
                Self::new(Situation::ShouldRun, "should run a pod")
            }
            Eligibility::Run => of_pods(view, node, &inspection),
            Eligibility::ContinueRunning if has_pods => match not_ready_message(view, node) {
                Some(message) => on_node_that_is_not_ready(&inspection, message),
                None => Self::new(Situation::Lingering, reasons())
                    .next("its pod stays; no new one would be created"),
            },
            Eligibility::MustNotRun if has_pods => {
                Self::new(Situation::ToBeDeleted, reasons()).next("its pod is deleted")
            }
            Eligibility::ContinueRunning | Eligibility::MustNotRun | Eligibility::NoNode => {
                Self::new(Situation::Excluded, reasons())
            }
        }
    }

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

/// The message of the node's condition `Ready` if the node is not ready.
fn not_ready_message<'a>(view: &ControllerView<'a>, node: &NodeName) -> Option<&'a str> {
    match &view.snapshot.nodes[node].health {
        NodeHealth::NotReady { message } => Some(message),
        NodeHealth::Ready | NodeHealth::Unreported => None,
    }
}

/// A node that keeps its pods and would get no new one, because it is not ready.
fn on_node_that_is_not_ready(inspection: &Inspection, message: &str) -> Finding {
    let stays = inspection.pods.iter().any(|pod| !pod.orphan && !pod.terminating);
    let (why, next) = if stays {
        ("the node is not ready", "its pod stays; a new one is created only when the node is ready")
    } else {
        ("the node is not ready, and its pod can't stop", "repair the node, or delete it")
    };
    Finding::new(Situation::NodeNotReady, why).detail(message).next(next)
}

fn of_pods(view: &ControllerView<'_>, node: &NodeName, inspection: &Inspection) -> Finding {
    let pods = inspection.pods.iter().filter(|pod| !pod.orphan);
    let (terminating, running): (Vec<_>, Vec<_>) = pods.partition(|pod| pod.terminating);
    let decisive = running
        .into_iter()
        .filter_map(|pod| Some((pod, view.pod(&pod.uid)?)))
        .min_by_key(|(pod, detail)| urgency(pod, detail));
    match (decisive, terminating.is_empty()) {
        (Some((pod, detail)), _) => of_pod(view, node, inspection, pod, detail),
        (None, false) => Finding::new(Situation::Terminating, "its pod is terminating")
            .next("a new one is created when it is gone"),
        (None, true) => missing(view, node),
    }
}

/// Sorts the pods of a node (two with surge) so that the one to report comes first: the one in the
/// worse state, else the one of the older revision.
fn urgency(pod: &InspectedPod, detail: &PodDetail) -> (bool, bool, bool) {
    (!detail.state.is_failing(), detail.pod.readiness.is_ready(), pod.updated)
}

fn missing(view: &ControllerView<'_>, node: &NodeName) -> Finding {
    let is_planned = view.plan.writes.iter().any(|write| match write {
        Write::CreatePod(new) => new.node == *node,
        _ => false,
    });
    let next =
        if is_planned || view.plan.writes.iter().any(|w| matches!(w, Write::CreateRevision(_))) {
            "the controller creates it; if this persists, check the DaemonSet's events: kubectl \
         describe ds"
        } else {
            "the controller creates it when its turn comes"
        };
    Finding::new(Situation::Missing, "no pod").next(next)
}

fn of_pod(
    view: &ControllerView<'_>,
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
    if let (Some(message), false) = (not_ready_message(view, node), state.is_settled()) {
        return Finding::new(Situation::NodeNotReady, format!("the node is not ready{revision}"))
            .detail(message)
            .next("its pod can't become ready before the node does");
    }
    match state {
        PodState::Unscheduled { message } if !message.is_empty() => {
            let why = format!("can't be scheduled: {}{revision}", scheduler_reason(message));
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

fn not_ready(
    view: &ControllerView<'_>,
    detail: &PodDetail,
    state: &PodState,
    revision: &str,
) -> Finding {
    let age = view.now.since(detail.pod.creation_timestamp).as_secs();
    Finding::new(Situation::NotReady, format!("{state}{revision}")).detail(format!(
        "pod {} is {} old",
        detail.pod.name,
        short_duration(age)
    ))
}

fn not_yet_available(view: &ControllerView<'_>, pod: &InspectedPod, revision: &str) -> Finding {
    let wanted = view.daemon_set().min_ready_seconds;
    let left = pod.available_at.map(|at| at.since(view.now).as_millis().div_ceil(1000));
    let finding = Finding::new(
        Situation::NotYetAvailable,
        format!("ready for less than minReadySeconds ({wanted} s){revision}"),
    );
    match left {
        Some(seconds) => finding.detail(format!("{} is available in {seconds} s", pod.name)),
        None => finding,
    }
}

fn outdated(view: &ControllerView<'_>, node: &NodeName, inspection: &Inspection) -> Finding {
    let is_planned = view.plan.writes.iter().any(|write| match write {
        Write::DeletePod(pod) => pod.node.as_ref() == Some(node),
        Write::CreatePod(new) => new.node == *node,
        _ => false,
    });
    let next = match (view.daemon_set().strategy(), inspection.step) {
        _ if view.daemon_set().is_paused() && !is_planned => {
            "the rollout is paused: it stays until someone resumes it"
        }
        _ if inspection.is_kept && !is_planned => "its wave of the rollout is not open",
        (UpdateStrategy::OnDelete, _) => {
            "updateStrategy is OnDelete: it stays until someone deletes it"
        }
        (UpdateStrategy::Malformed, _) => "updateStrategy is malformed: it is not replaced",
        (UpdateStrategy::RollingUpdate { .. }, _) if is_planned => "it is next",
        (UpdateStrategy::RollingUpdate { .. }, Step::None) => "its replacement has been created",
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

/// The part of the scheduler's message that concerns the one node that the pod may run on: of `0/3
/// nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. …`
/// it is `Insufficient cpu`.
fn scheduler_reason(message: &str) -> String {
    let Some((_, clauses)) = message.split_once(": ") else { return message.to_owned() };
    let clauses = clauses.split_once(". ").map_or(clauses, |(clauses, _)| clauses);
    let reasons: Vec<&str> = clauses
        .split(", ")
        .map(|clause| clause.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' '))
        .map(|clause| clause.trim_end_matches('.'))
        .filter(|clause| !clause.contains("node affinity") && !clause.contains("[NodeAffinity]"))
        .collect();
    if reasons.is_empty() { message.to_owned() } else { reasons.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedulers_message_is_reduced_to_the_pods_own_node() {
        for (message, expected) in [
            (
                "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) \
                 [NodeAffinity]. preemption: 0/3 nodes are available: 1 No preemption \
                 victims found.",
                "Insufficient cpu",
            ),
            (
                "0/2 nodes are available: 1 node(s) didn't have free ports for the requested pod \
                 ports, 1 node(s) didn't match Pod's node affinity/selector.",
                "node(s) didn't have free ports for the requested pod ports",
            ),
            ("no nodes available to schedule pods", "no nodes available to schedule pods"),
        ] {
            assert_eq!(scheduler_reason(message), expected);
        }
    }
}
