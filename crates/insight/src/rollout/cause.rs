//! The causes for which a node holds up a rollout. One row for each states how grave it is, the
//! text, the message of a component, and the next step. It decides nothing about which cause a
//! node has.

use std::fmt;

use everynode_core::api::{
    ChangeState, DaemonSetKey, ImagePuller, NodeName, PullState, RolloutReason,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::PROGRESS_DEADLINE;
use super::evidence::Evidence;
use super::next_step::{
    LEASES, after_failure, after_refusal, describe, of_reason, see_controller, without_finalizers,
};
use super::shortage::{PORTS_TAKEN, scheduler_reason};
use crate::names;
use crate::program::command;
use crate::situation::Situation;
use crate::snapshot::{EventDetail, PodDetail, PodState};

/// Why a node holds up the rollout. Its text has no times and no [message](Self::message), so that
/// nodes with the same cause form a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Cause {
    /// The kind, from which follows whether the node needs intervention.
    #[serde(skip)]
    pub kind: CauseKind,
    /// For how long it has lasted.
    #[serde(skip)]
    pub age: Age,
    /// Why the pod holds up the rollout, for people to read.
    #[serde(rename = "cause")]
    pub text: String,
    /// What a component has said about it, or the numbers behind it; absent if there is neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What happens next, or what the operator should do; absent if there is nothing to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The kind of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CauseKind {
    /// The kubelet reports an error.
    Failing,
    /// The scheduler finds no room for the pod on its node.
    Unschedulable,
    /// Other pods of its node are being deleted to make room for the pod.
    Preempting,
    /// No scheduler has tried the pod.
    AwaitsScheduler,
    /// The API server refuses the pod, or admission changes it so that it does not count.
    CreationFails,
    /// The pod is being created, or is not ready yet.
    Starting,
    /// The pod is being deleted.
    Terminating,
    /// The pod's node is not ready.
    NodeNotReady,
    /// The pod is being deleted, and its node is not ready, which alone can report that it has
    /// ended.
    CannotStop,
    /// The node has no pod yet.
    NotCreated,
    /// The pod is ready, but not yet for `minReadySeconds`.
    NotYetAvailable,
    /// The pod is of an older revision, and the update strategy will replace it.
    AwaitsReplacement,
    /// The pod is of an older revision, and the rollout is paused (G6).
    Paused,
    /// The pod is of an older revision, and its wave of a guarded rollout is not open (G1).
    WaveNotOpen,
    /// Somebody is asked whether it may go.
    Asked,
    /// The pod is of an older revision, and its node pulls the images of the new one first.
    PullsImages,
    /// The pod is being changed in place.
    Changes,
    /// The pod is of an older revision, and the policy excludes its node from rollouts (G5).
    Held,
    /// The pod is of an older revision, and the rollout waits for a window of its policy (G5).
    OutsideWindow,
    /// The pod is of an older revision, and somebody has to delete it.
    AwaitsDeletion,
}

/// For how long a cause has lasted, compared with the time after which it counts as stuck: mostly
/// [`PROGRESS_DEADLINE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// For a shorter time, as far as that is known.
    Short,
    /// The object does not say since when, so that it counts as stuck.
    Unknown,
    /// For a longer time.
    Long,
}

impl Age {
    pub(super) const fn long_if(is_long: bool) -> Self {
        if is_long { Self::Long } else { Self::Short }
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Long { " for more than 10 min" } else { "" })
    }
}

/// The situation of a node with a cause, and if the node is stuck.
#[derive(Clone, Copy)]
enum Gravity {
    Recovers(Situation),
    /// The second situation, and stuck, unless its age is short.
    StuckInTime(Situation, Situation),
}

/// The row of a kind of cause. The functions make the text, the message and the next step.
struct Row {
    gravity: Gravity,
    /// A pod of an older revision is replaced first of all if it fails, but not if it does not end,
    /// or if the controller does nothing.
    survives_replacement: bool,
    text: fn(&Occurrence<'_>) -> String,
    message: fn(&Occurrence<'_>) -> Option<String>,
    next: fn(&Occurrence<'_>) -> Option<String>,
}

impl CauseKind {
    #[expect(clippy::too_many_lines, reason = "a table")]
    const fn row(self) -> Row {
        match self {
            Self::Failing => Row {
                gravity: Gravity::StuckInTime(Situation::NotReady, Situation::Failing),
                survives_replacement: false,
                text: |at| at.state().to_string(),
                message: |at| {
                    let kill = || at.evidence.kill(at.pod?).map(|event| event.message.clone());
                    at.state().error().map(str::to_owned).or_else(kill)
                },
                next: |at| Some(after_failure(at.evidence, at.pod?, at.node)),
            },
            Self::Unschedulable => Row {
                gravity: Gravity::StuckInTime(Situation::NotReady, Situation::Unschedulable),
                survives_replacement: false,
                text: |at| {
                    let reason = scheduler_reason(at.state().message());
                    format!("can't be scheduled: {}", reason.replace(PORTS_TAKEN, PORT_IN_USE))
                },
                message: |at| {
                    let shortage = at.evidence.shortage(at.pod?).map(|shortage| shortage.text);
                    Some(shortage.unwrap_or_else(|| at.state().message().to_owned()))
                },
                next: |at| {
                    let shortage = at.evidence.shortage(at.pod?).and_then(|it| it.next);
                    shortage.or_else(|| at.describe())
                },
            },
            Self::Preempting => Row {
                gravity: Gravity::StuckInTime(Situation::NotReady, Situation::Unschedulable),
                survives_replacement: false,
                text: |at| format!("waiting for the pods to end that it preempts{}", at.age),
                message: |at| {
                    let (names, _) = at.evidence.preemption(at.pod?)?;
                    let names = names::shortened(names.iter().map(String::as_str), NAMES_WIDTH_MAX);
                    Some(format!("{names} on {}", at.node?)).filter(|_| !names.is_empty())
                },
                next: |at| at.describe().filter(|_| at.is_long()),
            },
            Self::AwaitsScheduler => Row {
                gravity: Gravity::StuckInTime(Situation::NotReady, Situation::Stuck),
                survives_replacement: false,
                text: |at| {
                    let name = at.scheduler().map(|name| format!(" {name}")).unwrap_or_default();
                    format!("waiting for the scheduler{name}{}", at.age)
                },
                message: |_| None,
                next: |at| {
                    let DaemonSetKey { namespace, name } = at.key();
                    at.is_long().then(|| match at.scheduler() {
                        Some(scheduler) => format!(
                            "start the scheduler {scheduler}, or correct schedulerName: kubectl -n \
                             {namespace} edit ds {name}"
                        ),
                        None => format!("see whether kube-scheduler runs: {LEASES}"),
                    })
                },
            },
            Self::CreationFails => Row {
                gravity: Gravity::StuckInTime(Situation::Missing, Situation::NotCreated),
                survives_replacement: false,
                text: |_| "can't be created".into(),
                message: |at| at.evidence.refusal().map(|refusal| refusal.message.clone()),
                next: |at| Some(after_refusal(at.evidence.refusal()?, at.key())),
            },
            Self::Starting => Row {
                gravity: Gravity::StuckInTime(Situation::NotReady, Situation::Stuck),
                survives_replacement: false,
                text: |at| format!("{}{}{}", at.state(), at.age, at.warnings_reason()),
                message: |at| Some(at.warning()?.message.clone()),
                next: |at| at.describe().filter(|_| at.is_long() || at.warning().is_some()),
            },
            Self::Terminating => Row {
                gravity: Gravity::StuckInTime(Situation::Terminating, Situation::Stuck),
                survives_replacement: true,
                text: |at| {
                    let finalizers = match at.finalizers() {
                        [] => String::new(),
                        finalizers => format!(", finalizers: {}", finalizers.join(", ")),
                    };
                    format!("terminating{}{finalizers}{}", at.age, at.warnings_reason())
                },
                message: |at| Some(at.warning()?.message.clone()),
                next: |at| {
                    let pod = at.pod?;
                    let (namespace, name) = (&at.key().namespace, &pod.pod.name);
                    // As long as containers run, the pod does not wait for its finalizers.
                    if pod.has_ended && !at.finalizers().is_empty() {
                        Some(without_finalizers("pod", namespace.as_str(), name.as_str()))
                    } else if at.is_long() {
                        at.describe()
                    } else {
                        let is_replaced = !at.evidence.daemon_set().terminating;
                        is_replaced.then(|| "a new one is created when it is gone".into())
                    }
                },
            },
            Self::NodeNotReady => Row {
                gravity: Gravity::StuckInTime(Situation::NodeNotReady, Situation::NodeNotReady),
                survives_replacement: false,
                text: |at| format!("node not ready{}", at.age),
                message: |at| {
                    let (_, message) = at.evidence.node_not_ready(at.node)?;
                    Some(message.to_owned()).filter(|message| !message.is_empty())
                },
                next: |at| Some(format!("kubectl describe node {}", at.node?)),
            },
            Self::CannotStop => Row {
                survives_replacement: true,
                text: |at| format!("node not ready{}, its pod can't stop", at.age),
                next: |at| {
                    let node = at.node?;
                    Some(format!(
                        "repair the node; if it is gone for good: kubectl delete node {node}"
                    ))
                },
                ..Self::NodeNotReady.row()
            },
            Self::NotCreated => Row {
                gravity: Gravity::StuckInTime(Situation::Missing, Situation::NotCreated),
                survives_replacement: false,
                text: |at| format!("not created{}", at.age),
                message: |_| None,
                next: |at| match at.age {
                    Age::Long => Some(see_controller()),
                    Age::Short | Age::Unknown => {
                        Some("the controller creates it when its turn comes".into())
                    }
                },
            },
            Self::NotYetAvailable => Row {
                gravity: Gravity::Recovers(Situation::NotYetAvailable),
                survives_replacement: false,
                text: |at| {
                    let seconds = at.evidence.daemon_set().min_ready_seconds;
                    format!("ready for less than {seconds} s (minReadySeconds)")
                },
                message: |_| None,
                next: |at| {
                    let (now, seconds) =
                        (at.evidence.now(), at.evidence.daemon_set().min_ready_seconds);
                    let available_at = at.pod?.pod.readiness.available_at(Some(now), seconds)?;
                    let DaemonSetKey { namespace, name } = at.key();
                    (available_at.since(now) > PROGRESS_DEADLINE).then(|| {
                        format!(
                            "it waits; to wait for less: kubectl -n {namespace} patch ds {name} \
                             --type=merge -p '{{\"spec\":{{\"minReadySeconds\":30}}}}'"
                        )
                    })
                },
            },
            Self::AwaitsReplacement => Row {
                gravity: Gravity::StuckInTime(Situation::Outdated, Situation::Stuck),
                survives_replacement: true,
                text: |at| match at.age {
                    Age::Long => format!("older revision, not replaced{}", at.age),
                    Age::Short | Age::Unknown => "older revision, waiting to be replaced".into(),
                },
                message: |at| at.evidence.stated_refusal(),
                next: |at| at.is_long().then(see_controller),
            },
            Self::Paused => Row {
                gravity: Gravity::Recovers(Situation::Outdated),
                survives_replacement: false,
                text: |_| "older revision, kept while the rollout is paused".into(),
                message: |_| None,
                next: |at| of_reason(RolloutReason::Paused, None, at.evidence.daemon_set()),
            },
            Self::Asked => Row {
                gravity: Gravity::Recovers(Situation::Outdated),
                survives_replacement: false,
                text: |_| "older revision, somebody must agree that it goes".into(),
                message: |_| None,
                next: |at| {
                    let DaemonSetKey { namespace, name } = at.key();
                    let node = at.node?;
                    Some(command(format_args!(
                        "rollout agree ds/{name} -n {namespace} --node {node}"
                    )))
                },
            },
            Self::PullsImages => Row {
                gravity: Gravity::StuckInTime(Situation::Outdated, Situation::Stuck),
                survives_replacement: false,
                text: |at| {
                    let text = "older revision, its node pulls the new images first";
                    match at.evidence.puller(at.node).map(|puller| puller.state) {
                        Some(PullState::Troubled(why)) => format!("{text}: {}", why.as_str()),
                        Some(PullState::Pulling | PullState::Pulled | PullState::Ended) | None => {
                            text.into()
                        }
                    }
                },
                message: |_| None,
                next: |at| {
                    let ImagePuller { namespace, name, .. } = at.evidence.puller(at.node)?;
                    Some(format!("kubectl -n {namespace} describe pod {name}"))
                },
            },
            Self::Changes => Row {
                gravity: Gravity::StuckInTime(Situation::Outdated, Situation::Stuck),
                survives_replacement: true,
                text: |at| {
                    let change = at.pod.and_then(|pod| pod.pod.change.as_deref());
                    match change.map(|change| change.state) {
                        Some(ChangeState::ResizeDeferred { .. }) => {
                            "being changed in place, its node has no room for the new resources"
                                .into()
                        }
                        Some(ChangeState::ResizeFails { .. }) => {
                            "being changed in place, its kubelet cannot change the resources".into()
                        }
                        Some(ChangeState::ResizeInfeasible) => {
                            "its node can never have the new resources for it".into()
                        }
                        Some(ChangeState::UnderWay | ChangeState::Done) | None => {
                            format!("being changed in place{}", at.age)
                        }
                    }
                },
                message: |at| at.evidence.stated_refusal(),
                next: |at| at.describe().filter(|_| at.is_long()),
            },
            Self::WaveNotOpen => Row {
                gravity: Gravity::Recovers(Situation::Outdated),
                survives_replacement: false,
                text: |_| "older revision, its wave is not open".into(),
                message: |_| None,
                next: |_| None,
            },
            Self::Held => Row {
                gravity: Gravity::Recovers(Situation::Outdated),
                survives_replacement: false,
                text: |_| "older revision, the rollout policy holds its node".into(),
                message: |_| None,
                next: |at| {
                    let node = at.node?;
                    Some(format!(
                        "it keeps its pod until it is no longer held: kubectl get node {node} \
                         --show-labels"
                    ))
                },
            },
            Self::OutsideWindow => Row {
                gravity: Gravity::Recovers(Situation::Outdated),
                survives_replacement: false,
                text: |_| "older revision, kept until a window of the rollout opens".into(),
                message: |at| at.evidence.stated_message().map(str::to_owned),
                next: |_| None,
            },
            Self::AwaitsDeletion => Row {
                gravity: Gravity::Recovers(Situation::Outdated),
                survives_replacement: false,
                text: |_| AWAITS_DELETION.into(),
                message: |_| None,
                next: |at| {
                    let name = &at.pod?.pod.name;
                    Some(format!("kubectl -n {} delete pod {name}", at.key().namespace))
                },
            },
        }
    }
}

/// The maximum width of the names of pods that are preempted, in characters.
const NAMES_WIDTH_MAX: usize = 60;

/// The scheduler's [`PORTS_TAKEN`] in fewer words.
const PORT_IN_USE: &str = "host port in use";

/// The text of [`CauseKind::AwaitsDeletion`], also where no pod was read.
pub(super) const AWAITS_DELETION: &str = "older revision, to be deleted manually (OnDelete)";

impl Cause {
    /// The situation of a node that is held up by this cause.
    pub const fn situation(&self) -> Situation {
        match self.kind.row().gravity {
            Gravity::Recovers(situation) => situation,
            Gravity::StuckInTime(_, situation) if self.is_stuck() => situation,
            Gravity::StuckInTime(situation, _) => situation,
        }
    }

    /// True if the node does not recover without intervention, as far as one can tell.
    pub const fn is_stuck(&self) -> bool {
        match self.kind.row().gravity {
            Gravity::Recovers(_) => false,
            Gravity::StuckInTime(..) => !matches!(self.age, Age::Short),
        }
    }

    /// True if the cause keeps an outdated pod from being replaced, too.
    pub(super) const fn survives_replacement(&self) -> bool {
        self.kind.row().survives_replacement
    }

    /// True if the node waits for its turn, so that other nodes hold up the rollout.
    pub(crate) fn awaits_turn(&self) -> bool {
        self.situation() == Situation::Outdated
    }
}

/// A cause on one node, and what is known there.
pub(super) struct Occurrence<'a> {
    pub(super) evidence: &'a Evidence<'a>,
    pub(super) age: Age,
    pub(super) node: Option<&'a NodeName>,
    /// `None` if the node has no pod.
    pub(super) pod: Option<&'a PodDetail>,
}

impl<'a> Occurrence<'a> {
    /// The cause of this kind, in the words of its row.
    pub(super) fn cause(&self, kind: CauseKind) -> Cause {
        let row = kind.row();
        let is_terminating = self.evidence.daemon_set().terminating;
        Cause {
            kind,
            age: self.age,
            text: (row.text)(self),
            message: (row.message)(self),
            next: match self.pod {
                None if is_terminating => {
                    Some("none is created: the DaemonSet is being deleted".into())
                }
                None | Some(_) => (row.next)(self),
            },
        }
    }

    const fn key(&self) -> &'a DaemonSetKey {
        &self.evidence.daemon_set().key
    }

    const fn is_long(&self) -> bool {
        matches!(self.age, Age::Long)
    }

    fn state(&self) -> &'a PodState {
        self.pod.map_or(&PodState::Unknown, |pod| &pod.state)
    }

    fn scheduler(&self) -> Option<&'a str> {
        self.pod?.scheduler.as_deref()
    }

    fn finalizers(&self) -> &'a [String] {
        let deletion = self.pod.and_then(|pod| pod.deletion.as_ref());
        deletion.map_or(&[], |deletion| &deletion.finalizers)
    }

    fn warning(&self) -> Option<&'a EventDetail> {
        self.evidence.warning(self.pod?)
    }

    fn warnings_reason(&self) -> String {
        self.warning().map(|warning| format!(" ({})", warning.reason)).unwrap_or_default()
    }

    fn describe(&self) -> Option<String> {
        self.pod.map(describe)
    }
}
