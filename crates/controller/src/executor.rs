//! Executes plans beside the event loop: sends their writes and reports the outcome of each.
//!
//! The executor makes no decisions. It reports each write exactly once. A failed write does not
//! hold up others (C29), except that creations are sent in batches that grow while they succeed
//! (C28).

mod answer;
mod causes;
mod change;
mod copies;
mod creation;
mod images;
mod name;
mod request;

use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use everynode_core::api::{DaemonSetKey, Uid};
use everynode_core::plan::{NewRevision, Outcome, Plan, RevisionReference, Write, WriteResult};
use everynode_k8s::convert::{self, Interner, RawDaemonSet, RevisionObject};
use everynode_k8s::patch;
use futures::StreamExt;
use futures::stream;
use http::Method;
use serde_json::Value;
use tokio::sync::{OnceCell, mpsc};
use tokio_util::sync::CancellationToken;

use crate::api::{Api, Content, Error, Server};
use crate::event::Event;
use crate::index::PolicyStatusWrite;
use crate::metrics::{self, Metrics, WriteLabels};
use crate::observation::WatchedResource;
use crate::recorder::{Occurrence, Recorder, Regarding, Severity};
pub use name::PodNames;
use request::Request;

/// Size of the first batch of creations; each batch is twice as large as the one before (C28).
const BATCH_FIRST: usize = 1;
/// Maximum number of concurrent creations of a plan, and of its concurrent other writes. Each
/// holds some kilobytes, and a hundred plans may be executed at the same time.
const WRITES_AT_ONCE: usize = 32;

/// State shared by all executions.
#[derive(Clone)]
pub struct Executor<S = Api> {
    /// The API server.
    pub api: S,
    /// Takes the results.
    pub events: mpsc::Sender<Event>,
    /// Takes Kubernetes Events.
    pub recorder: Recorder,
    /// The controller's metrics.
    pub metrics: Arc<Metrics>,
    /// Generates the names of created pods (C35).
    pub names: Arc<PodNames>,
    /// Once cancelled, no further write is sent: the rest of a plan is skipped.
    pub stop: CancellationToken,
}

impl<S: Server> Executor<S> {
    /// Writes the status of a policy object, and reports whether that succeeded.
    pub async fn write_policy_status(self, write: PolicyStatusWrite) {
        let PolicyStatusWrite { reference, uid, status } = write;
        let path = request::policy_status(&reference);
        let body = patch::policy_status(&uid, &status).to_string().into();
        let result = self.api.write(Method::PATCH, &path, Content::MergePatch, body).await;
        let labels = WriteLabels {
            verb: request::verb(&Method::PATCH),
            resource: request::resource(&path),
            result: metrics::Outcome::from_result(&result),
        };
        self.metrics.writes.get_or_create(&labels).inc();
        let result = match result {
            Ok(_) => Ok(()),
            // It was deleted, or replaced by another one, whose status is another one.
            Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        let _ = self.events.send(Event::PolicyStatusWritten { reference, result }).await;
    }

    /// Executes a plan. Sends an [`Event::Written`] for each write, then [`Event::Executed`].
    pub async fn execute(mut self, plan: Plan, raw: Arc<RawDaemonSet>) {
        let key = raw.key.clone();
        self.api = self.api.for_plan(&key);
        let was_waiting = plan.waiting.is_some();
        let execution = Execution { executor: &self, raw: &raw, adoption: OnceCell::new() };
        let (creations, others): (Vec<Write>, Vec<Write>) =
            plan.writes.into_iter().partition(|write| matches!(write, Write::CreatePod(_)));
        let others = stream::iter(others.into_iter().map(|write| execution.execute_write(write)))
            .buffer_unordered(WRITES_AT_ONCE)
            .for_each(|_| std::future::ready(()));
        futures::join!(execution.create_pods(creations), others);
        self.send_event(Event::Executed { key, was_waiting }).await;
    }

    async fn send_event(&self, event: Event) {
        if self.events.send(event).await.is_err() {
            tracing::debug!("a write was not reported: the event loop has ended");
        }
    }
}

/// A revision whose template is restored.
#[derive(serde::Deserialize)]
struct StoredRevision {
    metadata: StoredMetadata,
    data: Value,
}

#[derive(serde::Deserialize)]
struct StoredMetadata {
    uid: String,
}

/// The execution of one plan.
struct Execution<'a, S> {
    executor: &'a Executor<S>,
    raw: &'a RawDaemonSet,
    /// True if a live read confirmed that the DaemonSet may adopt. It is read once per plan (C21).
    adoption: OnceCell<Result<(), String>>,
}

impl<S: Server> Execution<'_, S> {
    /// Creates pods in batches of 1, 2, 4, …; a batch with a failure, or with a pod that admission
    /// has changed, is the last (C28).
    async fn create_pods(&self, creations: Vec<Write>) {
        let mut rest = creations;
        let mut size = BATCH_FIRST;
        while !rest.is_empty() {
            let next = rest.split_off(size.min(rest.len()));
            let batch = std::mem::replace(&mut rest, next);
            let outcomes = stream::iter(batch.into_iter().map(|write| self.execute_write(write)))
                .buffer_unordered(WRITES_AT_ONCE);
            let succeeded = outcomes.fold(true, |all, one| std::future::ready(all && one));
            if !succeeded.await {
                break;
            }
            size *= 2;
        }
        for write in rest {
            self.report(write, Outcome::Skipped).await;
        }
    }

    /// Executes one write and reports it. Returns whether it succeeded.
    async fn execute_write(&self, mut write: Write) -> bool {
        let outcome = if self.executor.stop.is_cancelled() {
            Outcome::Skipped
        } else {
            self.outcome(&mut write).await
        };
        let succeeded = match &outcome {
            Outcome::Written { .. }
            | Outcome::Gone
            | Outcome::ImagesPresent
            | Outcome::RevisionExists { .. } => true,
            Outcome::Changed { .. }
            | Outcome::NamespaceTerminating
            | Outcome::CannotChange { .. }
            | Outcome::Begun { .. }
            | Outcome::Skipped
            | Outcome::Failed { .. }
            | Outcome::Unknown { .. } => false,
        };
        self.report(write, outcome).await;
        succeeded
    }

    async fn report(&self, write: Write, outcome: Outcome) {
        let result = WriteResult { write, outcome };
        let (key, uid) = (self.raw.key.clone(), self.raw.uid.clone());
        self.executor.send_event(Event::Written { key, uid, result }).await;
    }

    async fn outcome(&self, write: &mut Write) -> Outcome {
        match write {
            Write::CreatePod(new) => self.create_pod(new).await,
            Write::CreateRevision(new) => self.create_revision(new).await,
            Write::PullImages(new) => self.pull_images(new).await,
            Write::CopyConfigMap(new) => self.copy_config_map(new).await,
            Write::ChangePod(new) => self.change_pod(new).await,
            Write::RollBack { resource_version, base, attempt } => {
                let version = resource_version.to_string();
                self.roll_back(&version, base, attempt).await.unwrap_or_else(|error| {
                    Outcome::Failed { message: format!("{write}: {error}") }
                })
            }
            Write::AdoptPod(_) | Write::AdoptRevision(_) => match self.may_adopt().await {
                Ok(()) => self.update(write).await,
                Err(message) => Outcome::Failed { message },
            },
            Write::WriteRecord { record, .. } => {
                self.state_causes(record).await;
                self.update(write).await
            }
            Write::DeletePod(_)
            | Write::ReleasePod(_)
            | Write::ReleaseRevision(_)
            | Write::LabelRevision { .. }
            | Write::RaiseRevision { .. }
            | Write::RaiseCollisionCount { .. }
            | Write::RelabelPod { .. }
            | Write::AskForReplacement { .. }
            | Write::MarkReplaced { .. }
            | Write::FinishChange { .. }
            | Write::DeletePuller(_)
            | Write::DeleteCopy(_)
            | Write::DeleteRevision(_)
            | Write::UpdateStatus { .. }
            | Write::UpdateConditions { .. } => self.update(write).await,
        }
    }

    fn record_deletion(&self, write: &Write, outcome: &Outcome) {
        let Write::DeletePod(pod) = write else { return };
        match outcome {
            Outcome::Written { .. } => {
                let note = format!("Deleted pod: {}", pod.name);
                self.record(Severity::Normal, "SuccessfulDelete", "Delete", note);
            }
            Outcome::Failed { message } | Outcome::Unknown { message } => {
                let note = format!("Error deleting: {message}");
                self.record(Severity::Warning, "FailedDelete", "Delete", note);
            }
            Outcome::Gone
            | Outcome::Skipped
            | Outcome::Changed { .. }
            | Outcome::NamespaceTerminating
            | Outcome::CannotChange { .. }
            | Outcome::Begun { .. }
            | Outcome::ImagesPresent
            | Outcome::RevisionExists { .. } => {}
        }
    }

    /// Creates a revision. If its name is taken, reads the revision and the DaemonSet live, so that
    /// the core can compare them (C40, C43).
    async fn create_revision(&self, new: &NewRevision) -> Outcome {
        let template = self.raw.template();
        let body = patch::revision(&self.raw.owner(), &template, &self.raw.annotations, new);
        let path = request::collection(WatchedResource::Revision, &self.raw.key.namespace);
        match self.send(Method::POST, &path, Content::Json, body.into()).await {
            Ok(body) => answer::written(convert::meta(&body)),
            Err(error) if error.is_namespace_terminating() => Outcome::NamespaceTerminating,
            Err(error) if error.is_reason("AlreadyExists") => {
                self.existing_revision(new).await.unwrap_or_else(|error| Outcome::Failed {
                    message: format!("read revision {}: {error}", new.name),
                })
            }
            Err(error) => {
                Outcome::Failed { message: format!("create revision {}: {error}", new.name) }
            }
        }
    }

    async fn existing_revision(&self, new: &NewRevision) -> Result<Outcome, Error> {
        let path = request::revision(&self.raw.key.namespace, &new.name);
        let revision = self.executor.api.get(&path).await?;
        let daemon_set = self.executor.api.get(&request::daemon_set(&self.raw.key)).await?;
        let revision = convert::revision(&revision, &mut Interner::default());
        let daemon_set = convert::daemon_set(&daemon_set, None);
        Ok(match (revision, daemon_set) {
            (Ok(revision), Ok(daemon_set)) => Outcome::RevisionExists {
                revision: match revision {
                    RevisionObject::Revision { revision, .. } => Some(Box::new(revision)),
                    RevisionObject::Foreign { .. } => None,
                },
                collision_count: daemon_set.daemon_set.status.collision_count,
            },
            (Err(error), _) | (_, Err(error)) => Outcome::Failed { message: error.to_string() },
        })
    }

    /// Restores the template of the base, as it is stored (G20).
    async fn roll_back(
        &self,
        resource_version: &str,
        base: &RevisionReference,
        attempt: &str,
    ) -> Result<Outcome, Error> {
        let path = request::revision(&self.raw.key.namespace, &base.name);
        // `Gone` would mean the DaemonSet, whose deletion the core would then wait for.
        let failed = |problem: &str| Outcome::Failed {
            message: format!("roll back to {}: the revision {problem}", base.name),
        };
        let revision = match self.executor.api.get(&path).await {
            Err(error) if error.is_reason("NotFound") => return Ok(failed("is deleted")),
            result => result?,
        };
        let data = match serde_json::from_slice::<StoredRevision>(&revision) {
            Ok(StoredRevision { metadata, .. }) if metadata.uid != base.uid.to_string() => {
                return Ok(failed("is deleted, and another one has its name"));
            }
            Ok(StoredRevision { data, .. }) => data,
            Err(error) => return Ok(failed(&format!("cannot be read: {error}"))),
        };
        let body = patch::roll_back(&self.raw.uid, resource_version, &data, attempt).to_string();
        let path = request::daemon_set(&self.raw.key);
        let content = Content::StrategicMergePatch;
        let written = self.send(Method::PATCH, &path, content, body.into()).await?;
        Ok(answer::written(convert::meta(&written)))
    }

    /// Confirms with a live read that the DaemonSet still exists and is not being deleted (C21).
    async fn may_adopt(&self) -> Result<(), String> {
        let confirm = || async {
            let body = self.executor.api.get(&request::daemon_set(&self.raw.key)).await;
            let body = body.map_err(|error| format!("can't confirm the DaemonSet: {error}"))?;
            let live = convert::meta(&body).map_err(|error| error.to_string())?;
            match () {
                () if live.uid != self.raw.uid => Err("the DaemonSet has been replaced".to_owned()),
                () if live.terminating => Err("the DaemonSet has just been deleted".to_owned()),
                () => Ok(()),
            }
        };
        self.adoption.get_or_init(confirm).await.clone()
    }

    /// Sends a write that changes an existing object.
    async fn update(&self, write: &Write) -> Outcome {
        let Some(request) = Request::for_write(write, &self.raw.owner()) else {
            return Outcome::Failed {
                message: format!("{} does not update an object", write.verb()),
            };
        };
        let (outcome, is_fenced) = match self.send_request(&request).await {
            Ok(body) => match answer::written(convert::meta(&body)) {
                Outcome::Failed { message } => (unanswered(write, message), false),
                outcome => (outcome, false),
            },
            Err(error) => {
                let is_fenced = matches!(error, Error::Fenced);
                (self.resolve_failure(write, &request, error).await, is_fenced)
            }
        };
        if !is_fenced {
            self.record_deletion(write, &outcome);
        }
        outcome
    }

    /// Resolves a refused write: the object may be gone or replaced (C61).
    async fn resolve_failure(&self, write: &Write, request: &Request, error: Error) -> Outcome {
        match error.code() {
            Some(404) if error.is_reason("NotFound") => return Outcome::Gone,
            Some(409 | 422) => {}
            Some(_) | None if error.may_have_happened() => return unanswered(write, &error),
            Some(_) | None => return failed(write, &error),
        }
        let body = match self.executor.api.get(&request.object).await {
            Ok(body) => body,
            Err(error) if error.is_reason("NotFound") => return Outcome::Gone,
            // The pod may be gone, so its deletion must not be reported as failed.
            Err(error) => return unanswered(write, &error),
        };
        match convert::meta(&body) {
            Ok(live) if live.uid != request.uid => Outcome::Gone,
            Ok(live) => match request.repeated_on(&live.resource_version, &body) {
                Some(again) if error.code() == Some(409) => match self.send_request(&again).await {
                    Ok(body) => answer::written(convert::meta(&body)),
                    Err(error) => failed(write, &error),
                },
                Some(_) | None => failed(write, &error),
            },
            Err(error) => unanswered(write, error),
        }
    }

    async fn send_request(&self, request: &Request) -> Result<Bytes, Error> {
        let body = request.body.to_string().into();
        self.send(request.method.clone(), &request.path, request.content, body).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content: Content,
        body: Bytes,
    ) -> Result<Bytes, Error> {
        let verb = request::verb(&method);
        let result = self.executor.api.write(method, path, content, body).await;
        let labels = WriteLabels {
            verb,
            resource: request::resource(path),
            result: metrics::Outcome::from_result(&result),
        };
        self.executor.metrics.writes.get_or_create(&labels).inc();
        result
    }

    fn record(&self, severity: Severity, reason: &'static str, action: &'static str, note: String) {
        let regarding = regarding(&self.raw.key, &self.raw.uid);
        let (is_unique, backoff) = (false, None);
        let occurrence =
            Occurrence { regarding, severity, reason, action, note, is_unique, backoff };
        if !self.executor.recorder.record(occurrence) {
            self.executor.metrics.events_dropped.inc();
        }
    }
}

fn failed(write: &Write, cause: impl Display) -> Outcome {
    Outcome::Failed { message: format!("{write}: {cause}") }
}

/// The outcome of a write without a definite answer. A pod's deletion is repeated until its
/// outcome is known (C52), and nothing is decided by a record that may have been replaced (G9), so
/// these are [`Outcome::Unknown`]. Any other write can safely be planned again, so it is
/// [`Outcome::Failed`].
fn unanswered(write: &Write, cause: impl Display) -> Outcome {
    let message = format!("{write}: {cause}");
    match write {
        Write::DeletePod(_) | Write::WriteRecord { .. } => Outcome::Unknown { message },
        Write::CreatePod(_)
        | Write::AdoptPod(_)
        | Write::ReleasePod(_)
        | Write::RelabelPod { .. }
        | Write::AskForReplacement { .. }
        | Write::MarkReplaced { .. }
        | Write::ChangePod(_)
        | Write::FinishChange { .. }
        | Write::PullImages(_)
        | Write::DeletePuller(_)
        | Write::CopyConfigMap(_)
        | Write::DeleteCopy(_)
        | Write::CreateRevision(_)
        | Write::AdoptRevision(_)
        | Write::ReleaseRevision(_)
        | Write::LabelRevision { .. }
        | Write::RaiseRevision { .. }
        | Write::DeleteRevision(_)
        | Write::RaiseCollisionCount { .. }
        | Write::UpdateStatus { .. }
        | Write::UpdateConditions { .. }
        | Write::RollBack { .. } => Outcome::Failed { message },
    }
}

/// The DaemonSet as the object of a Kubernetes Event.
pub(crate) fn regarding(key: &DaemonSetKey, uid: &Uid) -> Regarding {
    Regarding {
        namespace: key.namespace.as_str().into(),
        name: key.name.as_str().into(),
        uid: uid.to_string().into(),
    }
}

#[cfg(test)]
mod tests;
