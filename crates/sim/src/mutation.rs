//! Deliberate bugs, inserted at the simulation's interfaces to the controller: what a watch
//! reports, what is planned, sent and reported, and what time it is. The checker of the violated
//! property must catch each of them.

mod beside;
mod bugs;
mod config_map;
mod forgetting;
mod guarded;
mod reading;

use bytes::Bytes;
use everynode_controller::event::Event;
use everynode_controller::observation::Observation;
use everynode_controller::recorder::Occurrence;
use everynode_controller::watch::Change as WatchChange;
use everynode_core::api::{
    AdmissionChange, Now, ResourceVersion, RevisionHash, TEMPLATE_GENERATION_ANNOTATION, Timestamp,
};
use everynode_core::daemon_set::Mode;
use everynode_core::plan::{Outcome, Plan, ScheduleBy, Write, WriteResult};
use everynode_sandbox::json::{Value, json};
use everynode_sandbox::kind::Kind;
use everynode_sandbox::kinds::{CONTROLLER_REVISION, DAEMON_SET, NODE, POD};
use everynode_sandbox::object::Object;
use everynode_sandbox::store::{Action, Change, Store};

use crate::checker::Property;
use crate::network::Request;
use crate::role::Role;
use crate::serve::Target;

use bugs::bugs;

pub use beside::BesideMutation;
pub use config_map::ConfigMapMutation;
pub(crate) use forgetting::Forgetting;
pub use guarded::GuardedMutation;

/// How late [`Mutation::CountEarlier`] is.
const COUNTS_LATE_MS: i64 = 10_000;

/// How late the timers of [`Mutation::LateTimers`] are.
const TIMERS_LATE_MS: i64 = 30_000;

bugs! {
    /// A deliberate bug.
    Mutation (
        /// One of guarded rollouts.
        Guarded(GuardedMutation),
        /// One of copies of ConfigMaps.
        ConfigMap(ConfigMapMutation),
        /// One of a replica beside the built-in controller.
        Beside(BesideMutation),
    ):
    /// The controller does not wait to observe its writes (C60).
    SkipExpectations: Duplicate,
    /// A terminating pod is treated as deleted (C22).
    TerminatingIsGone: Duplicate,
    /// A creation without an answer is treated as refused (C34).
    UnansweredCreationIsRefused: Duplicate,
    /// A creation without an answer is sent again under another name (C35).
    AnotherName: Duplicate,
    /// `maxUnavailable` is one too high (C52).
    BudgetOffByOne: Budget,
    /// A ready pod counts as available at once (C54).
    ForgetMinReadySeconds: Budget,
    /// A deletion without an answer is treated as refused (C52).
    UnansweredDeletionIsRefused: Budget,
    /// Pods of other controllers are treated as the DaemonSet's own (C21).
    IgnoreOwner: Foreign,
    /// Writes have no UID precondition (C61).
    DropUidPrecondition: Foreign,
    /// Orphans are adopted regardless of their labels (C21).
    AdoptUnselected: Foreign,
    /// Revisions are deleted instead of renumbered (C42).
    DeleteInsteadOfRaise: Revision,
    /// The newest revision is deleted instead of the oldest (C44).
    DeleteNewestRevision: Revision,
    /// A pod gets a hash that no revision has (C30).
    WrongHash: Template,
    /// A pod that the controller should bind is created without a node name (C31).
    LeaveUnbound: Template,
    /// A pod is created from the oldest template but has the current hash (C30).
    StaleTemplate: Template,
    /// Changes of nodes are not observed (C16).
    LoseNodeChanges: Placement,
    /// Pods are not deleted from nodes that must not run them (C23).
    LeavePods: ExpectationLapse,
    /// NoExecute taints are not observed (C13).
    IgnoreNoExecute: Placement,
    /// The status is not written (C70).
    SkipStatus: Status,
    /// The status is not written if the number of misscheduled pods changes (C70).
    SkipMisscheduled: Status,
    /// A plan that waits raises observedGeneration (C56).
    ObserveTooEarly: Status,
    /// The status counts pods as available as soon as they are ready (C70).
    ReadyIsAvailable: Status,
    /// Pods that are not ready count as ready (C52, C70).
    CountUnready: Budget,
    /// Timers do not start a sync (C54).
    ForgetTimers: Status,
    /// Timers start a sync half a minute too late (C24, C28).
    LateTimers: Placement,
    /// The deletion of a pod starts no sync (C23).
    OverlookDeletions: Placement,
    /// No Event says that a pod was created (C71).
    OmitEvents: Event,
    /// The Event of a deletion names another pod (C71).
    MisnamePods: Event,
    /// The stored status always differs from the computed one (C70).
    StatusNeverRight: WriteRate,
    /// The number of the current revision is always too low (C42).
    RevisionNeverRight: Revision,
    /// The status is written again every few minutes (C70, C80).
    ForgetStatus: Quiescence,
    /// The number of the newest revision is written again every few minutes (C42, C80).
    ForgetNumber: Quiescence,
    /// Deletions of pods are not observed (C60).
    LoseDeletions: ExpectationLapse,
    /// The controller waits for a write that was never made (C60).
    WaitForTooMuch: ExpectationLapse,
    /// Counts are computed for an earlier time (C80).
    CountEarlier: Recount,
    /// Counts omit the latest observation (C80).
    CountTooFew: Recount,
    /// No pod counts as up to date (C45).
    ForgetHash: Deletion,
    /// NoSchedule taints remove pods (C13).
    EvictForNoSchedule: Deletion,
    /// Succeeded pods are treated as running (C24).
    LeaveSucceeded: Backoff,
    /// Failed pods are treated as running (C24).
    LeaveFailed: Backoff,
    /// A node never recovers, so that its back-off goes on (C24).
    ForgetRecovery: Backoff,
    /// Each change of a node ends its back-off (C24).
    RecoverAlways: Backoff,
    /// A pod that a former DaemonSet has left is treated as any other (C36).
    ForgetFormer: Duplicate,
    /// The template generation of revisions is not read (C41).
    ForgetGeneration: Revision,
    /// A pod is current by its template generation alone (C45).
    GenerationAlone: Budget,
    /// Pods that wait for `minReadySeconds` are treated as not ready (C52).
    ReplaceWaiting: Budget,
    /// NoSchedule taints are not observed (C57).
    IgnoreNoSchedule: Status,
    /// Nodes whose kubelet does not answer are treated as those whose kubelet says that they are
    /// not ready (C58).
    WaitForUnreachable: Budget,
    /// Nodes whose kubelet does not answer have always been so (C58).
    ForgetBeginnings: Budget,
    /// Nodes whose kubelet does not answer were up when their pods were created or deleted (C58).
    AssumeBeginnings: Budget,
    /// `maxSurge` does not limit (C53).
    UnlimitedSurge: Budget,
    /// `maxUnavailable` is never more than one (C52).
    SlowRollout: Budget,
    /// A pod that admission has changed is treated as any other (C28).
    TrustAdmission: Backoff,
    /// Any created pod is treated as changed by admission (C28).
    DistrustAdmission: Placement,
    /// Three revisions more than `revisionHistoryLimit` are kept (C44).
    LongHistory: Revision,
    /// A paused rollout goes on (G6).
    IgnorePause: Gate,
    /// A pod of the base is made from the current template (G16).
    BaseOfTarget: Template,
}

/// How a watch reports a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedChange {
    /// The change is reported as it is.
    Unchanged,
    /// The change is not reported.
    Hidden,
    /// The change is reported as a deletion.
    AsDeleted,
}

impl Mutation {
    /// Returns the mutation with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().map(|(mutation, _)| mutation).find(|mutation| mutation.name() == name)
    }

    /// Returns how a watch of this kind reports a change.
    pub fn reported_change(mutation: Option<Self>, kind: &Kind, change: &Change) -> ReportedChange {
        let (is_pod, is_node) = (kind.kind == POD.kind, kind.kind == NODE.kind);
        match mutation {
            Some(Self::TerminatingIsGone) if is_pod && change.object.is_terminating() => {
                ReportedChange::AsDeleted
            }
            Some(Self::LoseDeletions) if is_pod && change.action == Action::Deleted => {
                ReportedChange::Hidden
            }
            Some(Self::LoseNodeChanges) if is_node && change.action == Action::Modified => {
                ReportedChange::Hidden
            }
            Some(_) | None => ReportedChange::Unchanged,
        }
    }

    /// How a replica runs.
    pub fn mode(self, mode: Mode) -> Mode {
        match self {
            Self::Beside(mutation) => mutation.mode(mode),
            _ => mode,
        }
    }

    /// Returns an object's JSON as a replica with this role receives it.
    pub fn json(self, role: Role, kind: &Kind, object: &Object) -> Bytes {
        let mut value = object.value().clone();
        let is_changed = match kind.kind {
            "DaemonSet" => self.change_daemon_set(&mut value),
            "Pod" => self.change_pod(&mut value, object),
            "Node" => self.change_node(&mut value),
            _ => false,
        };
        let is_changed = match self {
            Self::Guarded(mutation) => mutation.change(kind.kind, &mut value),
            Self::ConfigMap(mutation) if kind.kind == DAEMON_SET.kind => {
                mutation.change_daemon_set(&mut value)
            }
            Self::Beside(mutation) if role == Role::Beside => {
                mutation.change(kind.kind, &mut value)
            }
            _ => is_changed,
        };
        match (self, kind.kind) {
            (Self::StatusNeverRight, "DaemonSet") => {
                let ready = value["status"]["numberReady"].as_i64().unwrap_or(0);
                value["status"]["numberReady"] = json!(ready + 1);
            }
            (Self::RevisionNeverRight, "ControllerRevision") => value["revision"] = json!(0),
            (Self::ForgetGeneration, "ControllerRevision") => {
                let annotations = value["metadata"]["annotations"].as_object_mut();
                annotations.map(|all| all.remove(TEMPLATE_GENERATION_ANNOTATION));
            }
            _ if is_changed => {}
            _ => return object.json(),
        }
        value.to_string().into()
    }

    /// True if the replica applies an observation only after it has planned.
    pub fn applies_late(self, observation: &Observation) -> bool {
        self == Self::CountTooFew
            && matches!(observation, Observation::Pod(WatchChange::Applied { .. }))
    }

    /// Returns the time that the replica uses instead of the current time.
    pub fn now(self, now: Now) -> Now {
        let late_ms = if self == Self::CountEarlier { COUNTS_LATE_MS } else { 0 };
        Now { steady: Timestamp(now.steady.0 - late_ms), ..now }
    }

    /// Returns when the replica's next timer is due, by its own clock.
    pub fn deadline(self, at: Timestamp) -> Option<Timestamp> {
        let late_ms = match self {
            Self::CountEarlier => COUNTS_LATE_MS,
            Self::LateTimers => TIMERS_LATE_MS,
            _ => 0,
        };
        (self != Self::ForgetTimers).then_some(Timestamp(at.0 + late_ms))
    }

    /// True if the replica does nothing, because only a timer or a bookmark would start a sync.
    pub fn skips(self, events: &[Event]) -> bool {
        let is_bookmark = |event: &Event| match event {
            Event::Observed(seen) => matches!(seen.change(), WatchChange::Reached(_)),
            _ => false,
        };
        self == Self::ForgetTimers && events.iter().all(is_bookmark)
    }

    /// True if the replica plans nothing because of what it observes.
    pub(crate) fn overlooks(self, event: &Event) -> bool {
        self == Self::OverlookDeletions
            && matches!(event, Event::Observed(Observation::Pod(WatchChange::Deleted { .. })))
    }

    /// True if the bug is one of Events. Those of other bugs state what a replica wrongly believes,
    /// and are not judged, so that the checker of the property must find the bug.
    pub(crate) const fn is_of_events(self) -> bool {
        matches!(self, Self::OmitEvents | Self::MisnamePods)
    }

    /// True if a violation is judged. Some bugs make a replica believe something wrong, and so it
    /// states that.
    pub(crate) fn is_judged(self, property: Property) -> bool {
        let misleads = match self {
            Self::Guarded(mutation) => mutation.misleads(),
            other => matches!(other, Self::GenerationAlone | Self::ReplaceWaiting),
        };
        !misleads || property != Property::Status
    }

    /// The Event that the replica records.
    pub(crate) fn event(self, occurrence: Occurrence) -> Option<Occurrence> {
        match (self, occurrence.reason) {
            (Self::OmitEvents, "SuccessfulCreate") => None,
            (Self::MisnamePods, "SuccessfulDelete") => {
                Some(Occurrence { note: "Deleted pod: another".to_owned(), ..occurrence })
            }
            _ => Some(occurrence),
        }
    }

    /// Changes a plan before it is executed.
    pub fn plan(self, plan: &mut Plan) {
        match self {
            Self::Guarded(mutation) => mutation.plan(plan),
            Self::ConfigMap(mutation) => mutation.plan(plan),
            _ => {}
        }
        for write in &mut plan.writes {
            match (self, &mut *write) {
                (Self::AnotherName, Write::CreatePod(new)) => new.name = None,
                (Self::WrongHash, Write::CreatePod(new)) => new.hash = RevisionHash::new("none"),
                (Self::BaseOfTarget, Write::CreatePod(new)) => new.template = None,
                (Self::LeaveUnbound, Write::CreatePod(new)) => {
                    new.schedule_by = ScheduleBy::Scheduler;
                }
                (Self::DeleteInsteadOfRaise, Write::RaiseRevision { revision, .. }) => {
                    *write = Write::DeleteRevision(revision.clone());
                }
                _ => {}
            }
        }
    }

    /// Changes the result of a write before it is reported.
    pub fn result(self, result: &mut WriteResult) {
        match (self, &result.write, &mut result.outcome) {
            (
                Self::SkipExpectations,
                Write::DeletePod(_) | Write::DeleteRevision(_),
                Outcome::Written { .. },
            ) => result.outcome = Outcome::Skipped,
            (Self::SkipExpectations, _, Outcome::Written { resource_version, .. }) => {
                *resource_version = ResourceVersion(0);
            }
            (Self::TrustAdmission, _, Outcome::Changed { uid, resource_version, .. }) => {
                let (uid, resource_version) = (uid.clone(), *resource_version);
                result.outcome = Outcome::Written { uid, resource_version };
            }
            (
                Self::DistrustAdmission,
                Write::CreatePod(_),
                Outcome::Written { uid, resource_version },
            ) => {
                let (uid, resource_version) = (uid.clone(), *resource_version);
                let change = AdmissionChange::Labels;
                result.outcome = Outcome::Changed { uid, resource_version, change };
            }
            (Self::WaitForTooMuch, _, Outcome::Written { resource_version, .. }) => {
                resource_version.0 += 1_000_000;
            }
            (Self::UnansweredCreationIsRefused, Write::CreatePod(_), outcome)
            | (Self::UnansweredDeletionIsRefused, Write::DeletePod(_), outcome) => {
                if let Outcome::Unknown { message } = outcome {
                    *outcome = Outcome::Failed { message: message.clone() };
                }
            }
            _ => {}
        }
    }

    /// Changes a request before it is sent. Returns an answer if the request is not sent at all.
    pub fn request(self, store: &Store, request: &mut Request) -> Option<Bytes> {
        let is_pod = request.path.contains("/pods/");
        match self {
            Self::Guarded(mutation) => mutation.request(request),
            Self::ConfigMap(mutation) => mutation.request(store, request),
            Self::Beside(mutation) => mutation.request(request),
            _ => {}
        }
        match (self, request.method.as_str()) {
            (Self::LeavePods, "DELETE") if is_pod => empty_answer(),
            (Self::DropUidPrecondition, "DELETE" | "PATCH") => {
                request.change(|body| {
                    body.as_object_mut().into_iter().for_each(|body| {
                        body.remove("preconditions");
                    });
                    body["metadata"].as_object_mut().into_iter().for_each(|metadata| {
                        metadata.remove("uid");
                    });
                });
                None
            }
            (_, "PATCH") if request.path.ends_with("/status") => self.status(store, request),
            (Self::StaleTemplate, "POST") if request.path.ends_with("/pods") => {
                let oldest = revisions(store).min_by_key(|revision| number(revision))?;
                let template = &oldest.value()["data"]["spec"]["template"];
                let containers = template["spec"]["containers"].clone();
                request.change(|body| body["spec"]["containers"] = containers);
                None
            }
            (Self::DeleteNewestRevision, "DELETE")
                if request.path.contains("/controllerrevisions/") =>
            {
                let newest = revisions(store).max_by_key(|revision| number(revision))?;
                let (collection, _) = request.path.rsplit_once('/')?;
                request.path = format!("{collection}/{}", newest.name());
                let uid = newest.uid().to_owned();
                request.change(|body| body["preconditions"] = json!({"uid": uid}));
                None
            }
            _ => None,
        }
    }

    /// Changes a write of the status. Returns an answer if it is not sent at all.
    fn status(self, store: &Store, request: &mut Request) -> Option<Bytes> {
        let target = Target::parse(&request.path)?;
        let stored = store.find(&DAEMON_SET, &target.namespace, &target.name)?.value();
        match self {
            Self::SkipStatus => return empty_answer(),
            Self::SkipMisscheduled => {
                let body: Value = serde_json::from_slice(&request.body).ok()?;
                let misscheduled = |ds: &Value| ds["status"]["numberMisscheduled"].as_u64();
                if misscheduled(&body) != misscheduled(stored) {
                    return empty_answer();
                }
            }
            Self::ObserveTooEarly if request.view.as_ref().is_some_and(|v| v.is_waiting) => {
                let generation = stored["metadata"]["generation"].clone();
                request.change(|body| body["status"]["observedGeneration"] = generation);
            }
            Self::ReadyIsAvailable => request.change(|body| {
                let status = &mut body["status"];
                if let Some(ready) = status["numberReady"].as_i64() {
                    status["numberAvailable"] = ready.into();
                    let desired = status["desiredNumberScheduled"].as_i64().unwrap_or_default();
                    status["numberUnavailable"] = (desired - ready).into();
                }
            }),
            _ => {}
        }
        None
    }
}

fn empty_answer() -> Option<Bytes> {
    Some("{\"metadata\":{}}".into())
}

fn revisions(store: &Store) -> impl Iterator<Item = &Object> {
    store.iter(&CONTROLLER_REVISION, None).map(|revision| &**revision)
}

fn number(revision: &Object) -> i64 {
    revision.value()["revision"].as_i64().unwrap_or(0)
}
