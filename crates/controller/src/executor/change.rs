//! Changes pods in place (G56).

use everynode_core::api::ResourceVersion;
use everynode_core::plan::{NewChange, Outcome};
use everynode_k8s::convert;
use everynode_k8s::in_place::Change;
use http::Method;
use serde_json::Value;

use super::{Execution, answer, request};
use crate::api::{Content, DRY_RUN, Error, Server};

/// The part of a refusal by which an API server says that a right is missing.
const NO_RIGHT: &str = " cannot patch resource ";

/// The message of an API server that has no such resource or subresource.
const NO_RESOURCE: &str = "could not find the requested resource";

/// How far a change was sent.
#[derive(Default)]
struct Progress {
    /// The version of the pod once it states the change.
    written: Option<ResourceVersion>,
    /// True if the request that lets it do so has no answer.
    is_in_doubt: bool,
}

impl<S: Server> Execution<'_, S> {
    /// Sends those requests of a change that have had no effect yet: first the images, labels and
    /// annotations, with the statement that the change is under way, then the resources. Whether
    /// the API server accepts these is asked before anything begins; its answer is the live pod,
    /// but for its resources, which is read only where there is none.
    pub(super) async fn change_pod(&self, new: &NewChange) -> Outcome {
        let path = request::pod(&self.raw.key.namespace, &new.pod.name);
        let mut progress = Progress::default();
        let error = match self.send_change(new, &path, &mut progress).await {
            Ok(outcome) => return outcome,
            Err(error) => error,
        };
        let message = format!("change pod {}: {error}", new.pod.name);
        match progress.written {
            _ if is_gone(&error) => Outcome::Gone,
            written if is_final(&error) => {
                Outcome::CannotChange { message: error.to_string(), written }
            }
            Some(resource_version) => Outcome::Begun { resource_version, message },
            None if progress.is_in_doubt && error.may_have_happened() => {
                Outcome::Unknown { message }
            }
            None => Outcome::Failed { message },
        }
    }

    async fn send_change(
        &self,
        new: &NewChange,
        path: &str,
        progress: &mut Progress,
    ) -> Result<Outcome, Error> {
        // Where another override is to count, the pod says which amounts the one before changed.
        let read = match new.changes_override() {
            true => match self.read_pod(path).await? {
                Ok(pod) => Some(pod),
                Err(cause) => return Ok(failed(new, &cause)),
            },
            false => None,
        };
        let change = match Change::new(new, read.as_ref()) {
            Ok(change) => change,
            Err(message) => return Ok(Outcome::CannotChange { message, written: None }),
        };
        let resize = change.resize_patch();
        let resize_path = format!("{path}/resize");
        let asked = match &resize {
            Some(resize) => Some(self.patch(&format!("{resize_path}{DRY_RUN}"), resize).await),
            None => None,
        };
        let (body, refusal) = match asked {
            Some(Ok(body)) => (body, None),
            refusal => match self.executor.api.get(path).await {
                // Whoever may not read a pod does not know whether it can be changed.
                Err(error) if !is_gone(&error) => return Ok(failed(new, &error)),
                result => (result?, refusal.and_then(Result::err)),
            },
        };
        let mut live = match convert::meta(&body) {
            Ok(live) if live.uid != new.pod.uid => return Ok(Outcome::Gone),
            Ok(live) => live,
            Err(error) => return Ok(failed(new, &error)),
        };
        let pod: Value = match serde_json::from_slice(&body) {
            Ok(pod) => pod,
            Err(error) => return Ok(failed(new, &error)),
        };
        let mut is_sent = change.has_begun(&pod);
        if !is_sent {
            let patch = match change.patch(&pod) {
                Ok(patch) => patch,
                Err(message) => return Ok(Outcome::CannotChange { message, written: None }),
            };
            if let Some(refusal) = refusal {
                return Err(refusal);
            }
            progress.is_in_doubt = true;
            let answer = self.patch(path, &patch).await?;
            progress.is_in_doubt = false;
            is_sent = convert::meta(&answer).map(|meta| live = meta).is_ok();
        }
        let version = || convert::resource_version(&live.resource_version);
        progress.written = is_sent.then(version);
        match &resize {
            Some(resize) => {
                let answer = self.patch(&resize_path, resize).await?;
                Ok(answer::written(convert::meta(&answer)))
            }
            None => Ok(Outcome::Written { uid: live.uid.clone(), resource_version: version() }),
        }
    }

    /// The live pod. Whoever may not read it does not know whether it can be changed.
    async fn read_pod(&self, path: &str) -> Result<Result<Value, String>, Error> {
        match self.executor.api.get(path).await {
            Err(error) if !is_gone(&error) => Ok(Err(error.to_string())),
            result => Ok(serde_json::from_slice(&result?).map_err(|error| error.to_string())),
        }
    }

    async fn patch(&self, path: &str, body: &Value) -> Result<bytes::Bytes, Error> {
        let content = Content::StrategicMergePatch;
        self.send(Method::PATCH, path, content, body.to_string().into()).await
    }
}

fn failed(new: &NewChange, cause: &impl ToString) -> Outcome {
    let cause = cause.to_string();
    Outcome::Failed { message: format!("change pod {}: {cause}", new.pod.name) }
}

/// True if there is no such pod. API servers also answer NotFound for a subresource that they lack.
fn is_gone(error: &Error) -> bool {
    let is_not_found = error.code() == Some(404) && error.is_reason("NotFound");
    is_not_found && !error.to_string().contains(NO_RESOURCE)
}

/// True if the API server refuses this change of this pod now and later. That the controller has no
/// right to it is a matter of the installation.
fn is_final(error: &Error) -> bool {
    match error.code() {
        Some(400 | 405 | 422) => true,
        Some(403) => !error.to_string().contains(NO_RIGHT),
        // An API server without the subresource.
        Some(404) => !is_gone(error),
        Some(_) | None => false,
    }
}
