//! The situation of one node with its reason, and what happens next there.

use everynode_core::api::{NodeName, UpdateStrategy};
use everynode_core::daemon_set::{InspectedPod, Inspection, Step};
use everynode_core::placement::Eligibility;
use everynode_core::plan::Write;

use super::duration::short_duration;
use super::reason;
use crate::controller_view::ControllerView;
use crate::rollout::{Cause, Evidence};
use crate::situation::Situation;
use crate::snapshot::{NodeHealth, ObjectKind, PodDetail, PodState};

/// The minimum time by which a pod is late that is worth a word.
const OVERDUE_SECONDS_MIN: u64 = 30;

/// What happens with an old pod that nobody but an operator replaces.
const ON_DELETE: &str = "updateStrategy is OnDelete: it stays until someone deletes it";

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
    pub(super) fn of(view: &ControllerView<'_>, evidence: &Evidence<'_>, node: &NodeName) -> Self {
        let inspection = view.inspect(node);
        let has_pods = inspection.pods.iter().any(|pod| !pod.orphan);
        let reasons = || reason::shared_text(&view.reasons_against(node));
        match inspection.eligibility {
            Eligibility::Run if !view.has_read(ObjectKind::Pod) => {
                Self::new(Situation::ShouldRun, "should run a pod")
            }
            Eligibility::Run => of_pods(view, evidence, node, &inspection),
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

fn of_pods(
    view: &ControllerView<'_>,
    evidence: &Evidence<'_>,
    node: &NodeName,
    inspection: &Inspection,
) -> Finding {
    let pods = inspection.pods.iter().filter(|pod| !pod.orphan);
    let (terminating, running): (Vec<_>, Vec<_>) = pods.partition(|pod| pod.terminating);
    let decisive = running
        .into_iter()
        .filter_map(|pod| Some((pod, view.pod(&pod.uid)?)))
        .min_by_key(|(pod, detail)| urgency(pod, detail));
    if let Some((pod, detail)) = decisive {
        return of_pod(view, evidence, node, inspection, (pod, detail));
    }
    match terminating.first().and_then(|pod| Some((pod, view.pod(&pod.uid)?))) {
        Some((pod, detail)) => of_terminating(view, evidence, node, (pod, detail)),
        None => missing(view, evidence, node),
    }
}

/// Sorts the pods of a node (two with surge) so that the one to report comes first: the one in the
/// worse state, else the one of the older revision.
fn urgency(pod: &InspectedPod, detail: &PodDetail) -> (bool, bool, bool) {
    (!detail.state.is_failing(), detail.pod.readiness.is_ready(), pod.updated)
}

fn missing(view: &ControllerView<'_>, evidence: &Evidence<'_>, node: &NodeName) -> Finding {
    let is_planned = view.plan.writes.iter().any(|write| match write {
        Write::CreatePod(new) => new.node == *node,
        Write::CreateRevision(_) => true,
        _ => false,
    });
    let key = &view.daemon_set().key;
    let events = format!("kubectl -n {} describe ds {}", key.namespace, key.name);
    let cause = evidence.cause_of_missing_pod();
    let finding = match &cause {
        Cause::NotCreated => Finding::new(cause.situation(), "no pod"),
        _ => Finding::new(cause.situation(), cause.to_string()),
    };
    let finding = finding.detail(cause.message().unwrap_or_default());
    match cause {
        _ if view.daemon_set().terminating => {
            finding.next("none is created: the DaemonSet is being deleted")
        }
        Cause::CreationFails { .. } => {
            finding.next("the controller tries again until the API server accepts it")
        }
        _ if is_planned => finding
            .next(format!("the controller creates it; if this persists, see its events: {events}")),
        _ => finding.next("the controller creates it when its turn comes"),
    }
}

fn of_pod(
    view: &ControllerView<'_>,
    evidence: &Evidence<'_>,
    node: &NodeName,
    inspection: &Inspection,
    (pod, detail): (&InspectedPod, &PodDetail),
) -> Finding {
    let state = &detail.state;
    let revision = revision(view, pod);
    // The core decides on revisions here, and on availability.
    match evidence.cause_of(detail, false) {
        Some(cause @ Cause::NodeNotReady { .. }) => {
            let message = not_ready_message(view, node).unwrap_or_default();
            Finding::new(cause.situation(), format!("the node is not ready{revision}"))
                .detail(message)
                .next("its pod can't become ready before the node does")
        }
        Some(cause @ Cause::Failing(_)) => {
            failing(detail, Finding::new(cause.situation(), format!("{cause}{revision}")))
        }
        Some(cause @ (Cause::Starting { .. } | Cause::Terminating { .. })) => {
            let finding = Finding::new(cause.situation(), format!("{cause}{revision}"));
            let finding = finding.detail(match cause.message() {
                Some(message) => message.to_owned(),
                None => format!("pod {} is {} old", detail.pod.name, age(view, detail)),
            });
            match cause.is_stuck() || cause.message().is_some() {
                true => finding.next(describe(detail)),
                false => finding,
            }
        }
        _ if view.daemon_set().terminating => {
            Finding::new(Situation::Lingering, "ready").next("it stays until the DaemonSet is gone")
        }
        _ if *state == PodState::Ready && !pod.available => not_yet_available(view, pod, revision),
        _ if pod.updated || !view.knows_revisions_of_pods() => {
            Finding::new(Situation::UpToDate, "ready")
        }
        _ => outdated(view, node, inspection, detail),
    }
}

/// The words about the revision of a pod while a rollout is under way.
fn revision(view: &ControllerView<'_>, pod: &InspectedPod) -> &'static str {
    match (view.is_rolling(), pod.updated) {
        (false, _) => "",
        (true, true) => ", current revision",
        (true, false) => ", older revision",
    }
}

fn failing(detail: &PodDetail, finding: Finding) -> Finding {
    match &detail.state {
        PodState::Unscheduled { message } => finding.detail(message),
        PodState::Waiting(container) => finding.detail(&container.message).next(logs(
            detail,
            &container.name,
            container.last_exit.is_some(),
        )),
        PodState::Failed { message, .. } => finding
            .detail(message)
            .next("the controller replaces it, after a back-off of at most 15 min"),
        PodState::NotReady { .. }
        | PodState::Ready
        | PodState::Terminating
        | PodState::Succeeded
        | PodState::Unknown => finding,
    }
}

/// A node whose only pods are being deleted.
fn of_terminating(
    view: &ControllerView<'_>,
    evidence: &Evidence<'_>,
    node: &NodeName,
    (pod, detail): (&InspectedPod, &PodDetail),
) -> Finding {
    let Some(cause) = evidence.cause_of(detail, !pod.updated) else {
        return missing(view, evidence, node);
    };
    if let Cause::NodeNotReady { .. } = cause {
        let message = not_ready_message(view, node).unwrap_or_default();
        let why = "the node is not ready, and its pod can't stop";
        return Finding::new(cause.situation(), why)
            .detail(message)
            .next("repair the node, or delete it");
    }
    let finding = Finding::new(cause.situation(), format!("its pod is {cause}"));
    let due_at = detail.deletion.as_ref().and_then(|deletion| deletion.due_at);
    let overdue = due_at.map_or(0, |at| view.now.since(at).as_secs());
    let finding = match (cause.message(), overdue) {
        (Some(message), _) => finding.detail(message),
        (None, 0..OVERDUE_SECONDS_MIN) => finding,
        (None, seconds) => {
            let (name, overdue) = (&detail.pod.name, short_duration(seconds));
            finding.detail(format!("pod {name} should have been gone {overdue} ago"))
        }
    };
    match cause.is_stuck() {
        true => finding.next(describe(detail)),
        false if view.daemon_set().terminating => finding,
        false => finding.next("a new one is created when it is gone"),
    }
}

fn age(view: &ControllerView<'_>, detail: &PodDetail) -> String {
    short_duration(view.now.since(detail.pod.creation_timestamp).as_secs())
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

fn outdated(
    view: &ControllerView<'_>,
    node: &NodeName,
    inspection: &Inspection,
    detail: &PodDetail,
) -> Finding {
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
        (UpdateStrategy::OnDelete, _) => ON_DELETE,
        (UpdateStrategy::Malformed, _) => "updateStrategy is malformed: it is not replaced",
        (UpdateStrategy::RollingUpdate { .. }, _) if is_planned => "it is next",
        (UpdateStrategy::RollingUpdate { .. }, Step::None) => "its replacement has been created",
        (UpdateStrategy::RollingUpdate { .. }, _) => "it waits for its turn",
    };
    let finding = Finding::new(Situation::Outdated, format!("ready, older revision: {next}"));
    if next == ON_DELETE {
        let (namespace, pod) = (&detail.pod.namespace, &detail.pod.name);
        return finding.next(format!("kubectl -n {namespace} delete pod {pod}"));
    }
    finding
}

fn logs(detail: &PodDetail, container: &str, has_run: bool) -> String {
    let (namespace, pod) = (&detail.pod.namespace, &detail.pod.name);
    if has_run {
        format!("kubectl -n {namespace} logs {pod} -c {container} --previous")
    } else {
        describe(detail)
    }
}

fn describe(detail: &PodDetail) -> String {
    format!("kubectl -n {} describe pod {}", detail.pod.namespace, detail.pod.name)
}
