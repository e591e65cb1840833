//! The situation of one node with its reason, and what happens next there.

use everynode_core::api::{NodeName, UpdateStrategy};
use everynode_core::daemon_set::{Availability, InspectedPod, Inspection, Step};
use everynode_core::ownership::Ownership;
use everynode_core::placement::Eligibility;
use everynode_core::plan::Write;

use super::duration::short_duration;
use crate::controller_view::ControllerView;
use crate::reasons::{self, SeenLabels};
use crate::rollout::{Age, Cause, CauseKind, Evidence, SET_ASIDE, is_long_unobserved};
use crate::situation::Situation;
use crate::snapshot::{ObjectKind, PodDetail, PodState};

/// The minimum time by which a pod is late that is worth a word.
const OVERDUE_SECONDS_MIN: u64 = 30;

/// The situation of one node, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) situation: Situation,
    pub(super) why: String,
    /// The message of the scheduler, the kubelet or the container.
    pub(super) detail: Option<String>,
    /// The next step of the controller, or of the operator.
    pub(super) next: Option<String>,
    /// The end of the rollout does not wait for the node.
    pub(super) is_set_aside: bool,
}

impl Finding {
    /// The finding for a node of the snapshot.
    pub(super) fn of(
        view: &ControllerView<'_>,
        evidence: &Evidence<'_>,
        seen: &SeenLabels,
        node: &NodeName,
    ) -> Self {
        let inspection = view.inspect(node);
        let has_pods = inspection.pods.iter().any(|pod| pod.ownership == Ownership::Owned);
        let reasons = view.reasons_against(node);
        let why = || reasons::shared_text(&reasons, &view.snapshot.nodes[node].node, seen);
        match inspection.eligibility {
            Eligibility::Run if !view.has_read(ObjectKind::Pod) => {
                Self::new(Situation::ShouldRun, "should run a pod")
            }
            Eligibility::Run => of_pods(view, evidence, node, &inspection),
            Eligibility::ContinueRunning if has_pods => {
                on_node_that_is_not_ready(view, evidence, node, &inspection).unwrap_or_else(|| {
                    let is_old = inspection.pods.iter().any(|pod| !pod.updated);
                    let next = match is_old && view.knows_revisions_of_pods() {
                        true => {
                            "its pod stays, and updates leave it alone: no new one would be created"
                        }
                        false => "its pod stays; no new one would be created",
                    };
                    Self::new(Situation::Lingering, why()).next(next)
                })
            }
            Eligibility::MustNotRun if has_pods => {
                Self::new(Situation::ToBeDeleted, why()).next("its pod is deleted")
            }
            Eligibility::ContinueRunning | Eligibility::MustNotRun | Eligibility::NoNode => {
                let finding = Self::new(Situation::Excluded, why());
                match view.tally().desired {
                    0 if view.is_applied() => finding.next(reasons::next_step(&reasons, view)),
                    _ if !reasons.is_empty() && reasons.iter().all(reasons::is_down) => {
                        let cause = evidence.cause_of_node_alone(node);
                        Self { detail: cause.message, next: cause.next, ..finding }
                    }
                    _ => finding,
                }
            }
        }
    }

    /// The finding for a pod of which the node was not read.
    pub(super) fn of_pod_alone(evidence: &Evidence<'_>, detail: &PodDetail) -> Self {
        let outdated = evidence.is_outdated(&detail.pod);
        match evidence.cause_of(detail, outdated) {
            None => Self::new(Situation::UpToDate, detail.state.to_string()),
            Some(cause) => Self::of_cause(cause),
        }
    }

    /// A held-up node, in the words of all commands.
    fn of_cause(cause: Cause) -> Self {
        let situation = cause.situation();
        let Cause { text: why, message: detail, next, .. } = cause;
        Self { situation, why, detail, next, is_set_aside: false }
    }

    /// A held-up node whose pod this is, if it has one.
    fn of_node(
        evidence: &Evidence<'_>,
        node: &NodeName,
        pod: Option<&PodDetail>,
        cause: Cause,
    ) -> Self {
        let is_set_aside = evidence.set_aside(Some(node), pod, &cause).is_some();
        Self { is_set_aside, ..Self::of_cause(cause) }
    }

    /// The finding with a word on nodes that are set aside. One that is stuck is not, because the
    /// rollout has no others to try, or has used up its budget.
    pub(super) fn marked(self, is_stuck: bool) -> Self {
        match self.is_set_aside && !is_stuck {
            true => self.why(SET_ASIDE),
            false => Self { is_set_aside: false, ..self },
        }
    }

    fn new(situation: Situation, why: impl Into<String>) -> Self {
        Self { situation, why: why.into(), detail: None, next: None, is_set_aside: false }
    }

    fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()).filter(|detail| !detail.is_empty()), ..self }
    }

    /// The finding with this detail, if no component says anything.
    fn or_detail(self, detail: String) -> Self {
        if self.detail.is_some() { self } else { self.detail(detail) }
    }

    /// The finding with more words to the reason.
    fn why(mut self, more: &str) -> Self {
        self.why.push_str(more);
        self
    }

    fn next(self, next: impl Into<String>) -> Self {
        Self { next: Some(next.into()), ..self }
    }
}

/// A node that keeps its pods and would get no new one, because it is not ready.
fn on_node_that_is_not_ready(
    view: &ControllerView<'_>,
    evidence: &Evidence<'_>,
    node: &NodeName,
    inspection: &Inspection,
) -> Option<Finding> {
    let pods = inspection.pods.iter().filter(|pod| pod.ownership == Ownership::Owned);
    let (_, detail) = pods
        .filter_map(|pod| Some((pod, view.pod(&pod.uid)?)))
        .min_by_key(|(pod, detail)| (pod.terminating, detail.pod.phase.is_terminal()))?;
    let cause = evidence.cause_of_node(detail)?;
    Some(Finding::of_node(evidence, node, Some(detail), cause))
}

fn of_pods(
    view: &ControllerView<'_>,
    evidence: &Evidence<'_>,
    node: &NodeName,
    inspection: &Inspection,
) -> Finding {
    let pods = inspection.pods.iter().filter(|pod| pod.ownership == Ownership::Owned);
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
    if let Some(pod) = view.inspect(node).former_pods.first()
        && !view.daemon_set().strategy().surges()
    {
        let why = "a pod of the former DaemonSet of this name is still ending";
        let finding = Finding::new(Situation::Terminating, why).detail(format!("pod {pod}"));
        return finding.next("its own pod is created when that one is gone");
    }
    let is_planned = view.plan.writes.iter().any(|write| match write {
        Write::CreatePod(new) => new.node == *node,
        Write::CreateRevision(_) => true,
        _ => false,
    });
    let cause = evidence.cause_of_missing_pod(Some(node));
    let (kind, is_stuck) = (cause.kind, cause.is_stuck());
    let finding = Finding::of_node(evidence, node, None, cause);
    let is_unobserved = is_long_unobserved(view.snapshot, view.daemon_set(), view.now);
    match kind {
        CauseKind::NotCreated if is_unobserved => Finding { next: None, ..finding },
        CauseKind::NotCreated if !is_stuck && is_planned && !view.daemon_set().terminating => {
            let key = &view.daemon_set().key;
            finding.next(format!(
                "the controller creates it; if this persists, see its events: kubectl -n {} \
                 describe ds {}",
                key.namespace, key.name
            ))
        }
        _ => finding,
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
    // The core decides on revisions here, and on availability.
    let cause = evidence.cause_of(detail, false);
    let held_up = |cause: Cause| {
        Finding::of_node(evidence, node, Some(detail), cause).why(revision(view, pod))
    };
    match cause {
        Some(cause) if cause.kind != CauseKind::NotYetAvailable => {
            let detail = match cause.kind {
                CauseKind::Failing => state.message().to_owned(),
                CauseKind::Starting | CauseKind::Terminating => {
                    format!("pod {} is {} old", detail.pod.name, age(view, detail))
                }
                _ => String::new(),
            };
            held_up(cause).or_detail(detail)
        }
        _ if view.daemon_set().terminating => {
            Finding::new(Situation::Lingering, "ready").next("it stays until the DaemonSet is gone")
        }
        _ if *state == PodState::Ready && pod.availability != Availability::Available => {
            let finding = held_up(evidence.cause(CauseKind::NotYetAvailable, Age::Short, detail));
            let left =
                pod.availability.at().map(|at| at.since(view.now).as_millis().div_ceil(1000));
            let left =
                left.map(|seconds| short_duration(u64::try_from(seconds).unwrap_or(u64::MAX)));
            match left {
                Some(left) => finding.detail(format!("{} is available in {left}", pod.name)),
                None => finding,
            }
        }
        _ if pod.updated || !view.knows_revisions_of_pods() => {
            Finding::new(Situation::UpToDate, "ready")
        }
        _ => outdated(view, evidence, node, inspection, detail),
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
    let finding = Finding::of_node(evidence, node, Some(detail), cause);
    let due_at = detail.deletion.as_ref().and_then(|deletion| deletion.due_at);
    let overdue = due_at.map_or(0, |at| view.now.since(at).as_secs());
    match (&finding.detail, overdue) {
        (Some(_), _) | (None, 0..OVERDUE_SECONDS_MIN) => finding,
        (None, seconds) => {
            let (name, overdue) = (&detail.pod.name, short_duration(seconds));
            finding.detail(format!("pod {name} should have been gone {overdue} ago"))
        }
    }
}

fn age(view: &ControllerView<'_>, detail: &PodDetail) -> String {
    short_duration(view.now.since(detail.pod.creation_timestamp).as_secs())
}

fn outdated(
    view: &ControllerView<'_>,
    evidence: &Evidence<'_>,
    node: &NodeName,
    inspection: &Inspection,
    detail: &PodDetail,
) -> Finding {
    let is_planned = view.plan.writes.iter().any(|write| match write {
        Write::DeletePod(pod) => pod.node.as_ref() == Some(node),
        Write::CreatePod(new) => new.node == *node,
        _ => false,
    });
    // The core knows more than the status states: whether a wave is open for this very node.
    let (kind, age) = match evidence.turn(Some(node)) {
        _ if view.daemon_set().is_paused() && !evidence.keeps_old_pods() && !is_planned => {
            (CauseKind::Paused, Age::Short)
        }
        turn @ (CauseKind::Held | CauseKind::OutsideWindow, _) => turn,
        _ if let Some(puller) = evidence.puller(Some(node)) => {
            (CauseKind::PullsImages, evidence.age_of_pull(puller))
        }
        _ if inspection.is_kept && !is_planned => (CauseKind::WaveNotOpen, Age::Short),
        _ if evidence.is_asked_about(detail) => (CauseKind::Asked, Age::Short),
        turn => turn,
    };
    let cause = evidence.cause(kind, age, detail);
    let is_stuck = cause.is_stuck();
    let finding = Finding::of_node(evidence, node, Some(detail), cause);
    let is_malformed = view.daemon_set().strategy() == UpdateStrategy::Malformed;
    match kind {
        CauseKind::AwaitsReplacement if is_malformed => {
            finding.why(": updateStrategy is malformed")
        }
        CauseKind::AwaitsReplacement if is_stuck => finding,
        CauseKind::AwaitsReplacement if is_planned && evidence.is_pulling_stated() => {
            finding.why(": it is next, or its node pulls the images first")
        }
        CauseKind::AwaitsReplacement if is_planned => finding.why(": it is next"),
        CauseKind::AwaitsReplacement if inspection.step == Step::None => {
            finding.why(": its replacement has been created")
        }
        _ => finding,
    }
}
