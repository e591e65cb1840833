//! Creates pods under names that the executor generates, so that a creation can be repeated (C35).

use bytes::Bytes;
use everynode_core::admission;
use everynode_core::api::{PodName, Uid};
use everynode_core::plan::{NewPod, Outcome};
use everynode_k8s::convert::{self, Interner, PodObject, RawDaemonSet, resource_version};
use http::Method;

use super::{Execution, request};
use crate::api::{Content, Error, Server};
use crate::observation::WatchedResource;
use crate::recorder::Severity;

/// Maximum number of requests to create one pod while the generated names are taken, as in an API
/// server for `generateName`.
const ATTEMPTS_MAX: usize = 8;

/// The owner of a pod name that is taken.
enum NameOwner {
    /// The pod that was to be created: an earlier request created it.
    CreatedBefore(Bytes),
    /// That pod, which is being deleted; its successor waits for the name.
    Terminating,
    /// Another pod.
    OtherPod,
    /// The pod is gone, and the name is free again.
    NotFound,
}

impl<S: Server> Execution<'_, S> {
    /// Creates a pod. Generates a name if the write has none; the write keeps the last name sent.
    pub(super) async fn create_pod(&self, new: &mut NewPod) -> Outcome {
        let generate = || self.executor.names.generate(&self.raw.key.name);
        let mut name = new.name.clone().unwrap_or_else(generate);
        for _ in 0..ATTEMPTS_MAX {
            new.name = Some(name.clone());
            let error = match self.send_creation(new).await {
                Ok(body) => return self.created(new, &body),
                Err(error) => error,
            };
            if !error.is_reason("AlreadyExists") {
                return self.creation_failed(new, &error);
            }
            match self.name_owner(new, &name).await {
                Ok(NameOwner::CreatedBefore(body)) => return self.created(new, &body),
                Ok(NameOwner::Terminating) => {
                    return self.failed(new, format!("pod {name} is still being deleted"));
                }
                Ok(NameOwner::OtherPod) => name = generate(),
                Ok(NameOwner::NotFound) => {}
                Err(cause) => {
                    let message =
                        format!("the name {name} is taken, and its pod can't be read: {cause}");
                    return self.unknown(new, message);
                }
            }
        }
        self.failed(new, format!("{ATTEMPTS_MAX} names in a row are taken"))
    }

    async fn send_creation(&self, new: &NewPod) -> Result<Bytes, Error> {
        let path = request::collection(WatchedResource::Pod, &self.raw.key.namespace);
        self.send(Method::POST, &path, Content::Json, self.raw.pod(new).into()).await
    }

    /// Reads the pod that has the name.
    async fn name_owner(&self, new: &NewPod, name: &PodName) -> Result<NameOwner, Error> {
        let path = request::pod(&self.raw.key.namespace, name);
        let body = match self.executor.api.get(&path).await {
            Ok(body) => body,
            Err(error) if error.is_reason("NotFound") => return Ok(NameOwner::NotFound),
            Err(error) => return Err(error),
        };
        let pod = match convert::pod(&body, &mut Interner::default()) {
            Ok(PodObject::Pod(pod)) => pod,
            Ok(PodObject::Puller(_) | PodObject::Foreign { .. }) => {
                return Ok(NameOwner::OtherPod);
            }
            Err(error) => return Err(Error::Transport(error.to_string())),
        };
        let is_ours = pod.controller.as_ref() == Some(&self.raw.uid)
            && pod.target_node_name() == Some(&new.node);
        Ok(match (is_ours, pod.terminating) {
            (false, _) => NameOwner::OtherPod,
            (true, true) => NameOwner::Terminating,
            (true, false) => NameOwner::CreatedBefore(body),
        })
    }

    /// The outcome of a creation that the server answered with an object.
    fn created(&self, new: &NewPod, answer: &[u8]) -> Outcome {
        let meta = match convert::meta(answer) {
            Ok(meta) if meta.uid != Uid::new("") => meta,
            // The answer does not show whether a pod was created, and which.
            Ok(_) => return self.unknown(new, "the answer has no UID".to_owned()),
            Err(error) => {
                return self.unknown(new, format!("the answer is not an object: {error}"));
            }
        };
        let pod = match convert::pod(answer, &mut Interner::default()) {
            Ok(PodObject::Pod(pod)) => Some(pod),
            Ok(PodObject::Puller(_) | PodObject::Foreign { .. }) => None,
            Err(error) => return self.unknown(new, format!("the answer is not a pod: {error}")),
        };
        let note = format!("Created pod: {}", meta.name);
        self.record(Severity::Normal, "SuccessfulCreate", "Create", note);
        let (uid, resource_version) = (meta.uid, resource_version(&meta.resource_version));
        let RawDaemonSet { uid: owner, selector, .. } = self.raw;
        match admission::change(new, pod.as_deref(), owner, selector.as_ref()) {
            None => Outcome::Written { uid, resource_version },
            Some(change) => Outcome::Changed { uid, resource_version, change },
        }
    }

    fn creation_failed(&self, new: &NewPod, error: &Error) -> Outcome {
        match error {
            Error::Fenced => {
                // No Event reports a failure: the next leader takes over.
                Outcome::Unknown { message: format!("create pod on {}: {error}", new.node) }
            }
            error if error.is_namespace_terminating() => Outcome::NamespaceTerminating,
            error if error.may_have_happened() => self.unknown(new, error.to_string()),
            error => self.failed(new, error.to_string()),
        }
    }

    fn unknown(&self, new: &NewPod, cause: String) -> Outcome {
        Outcome::Unknown { message: self.record_failure(new, cause) }
    }

    fn failed(&self, new: &NewPod, cause: String) -> Outcome {
        Outcome::Failed { message: self.record_failure(new, cause) }
    }

    fn record_failure(&self, new: &NewPod, cause: String) -> String {
        let message = format!("create pod on {}: {cause}", new.node);
        let note = format!("Error creating: {cause}");
        self.record(Severity::Warning, "FailedCreate", "Create", note);
        message
    }
}
