//! Creates pods so that a creation may be sent again: under a name of our own (C35).

use bytes::Bytes;
use everynode_core::api::{PodName, Uid};
use everynode_core::plan::{NewPod, Outcome};
use everynode_k8s::convert::{self, Interner, Meta, PodObject};
use http::Method;

use super::{Execution, answer, request};
use crate::api::{Content, Error, Server};
use crate::recorder::Severity;

/// Requests to create one pod, if the names that are drawn are taken. As an API server tries for `generateName`.
const ATTEMPTS_MAX: usize = 8;

/// Whose the pod is that has the name already.
enum Taken {
    /// It is the one that was to be created: a request before this one created it.
    Ours(Bytes),
    /// It is, and is being deleted: its successor waits for the name.
    Leaving,
    /// Another one.
    Others,
    /// It has just gone.
    Gone,
}

impl<S: Server> Execution<'_, S> {
    /// Draws a name if the write has none. The write keeps the name that was sent last.
    pub(super) async fn create_pod(&self, new: &mut NewPod) -> Outcome {
        let draw = || self.executor.names.draw(&self.raw.key.name);
        let mut name = new.name.clone().unwrap_or_else(draw);
        for _ in 0..ATTEMPTS_MAX {
            new.name = Some(name.clone());
            let error = match self.send_creation(new).await {
                Ok(body) => return self.created(new, convert::meta(&body)),
                Err(error) => error,
            };
            if !error.is_reason("AlreadyExists") {
                return self.not_created(new, &error);
            }
            match self.taken(new, &name).await {
                Ok(Taken::Ours(body)) => return self.created(new, convert::meta(&body)),
                Ok(Taken::Leaving) => {
                    return self.failed(new, format!("pod {name} is still being deleted"));
                }
                Ok(Taken::Others) => name = draw(),
                Ok(Taken::Gone) => {}
                Err(cause) => {
                    let message = format!("the name {name} is taken, and can't be read: {cause}");
                    return self.unknown(new, message);
                }
            }
        }
        self.failed(new, format!("{ATTEMPTS_MAX} names in a row are taken"))
    }

    async fn send_creation(&self, new: &NewPod) -> Result<Bytes, Error> {
        let path = request::collection(&self.raw.key.namespace, "pods");
        self.send(Method::POST, &path, Content::Json, self.raw.pod(new).into()).await
    }

    /// Reads who has the name.
    async fn taken(&self, new: &NewPod, name: &PodName) -> Result<Taken, Error> {
        let path = request::pod(&self.raw.key.namespace, name);
        let body = match self.executor.api.get(&path).await {
            Ok(body) => body,
            Err(error) if error.is_reason("NotFound") => return Ok(Taken::Gone),
            Err(error) => return Err(error),
        };
        let pod = match convert::pod(&body, &mut Interner::default()) {
            Ok(PodObject::Pod(pod)) => pod,
            Ok(PodObject::Foreign { .. }) => return Ok(Taken::Others),
            Err(error) => return Err(Error::Transport(error.to_string())),
        };
        let is_ours = pod.controller.as_ref() == Some(&self.raw.uid)
            && pod.target_node_name() == Some(&new.node);
        Ok(match (is_ours, pod.terminating) {
            (false, _) => Taken::Others,
            (true, true) => Taken::Leaving,
            (true, false) => Taken::Ours(body),
        })
    }

    fn created(&self, new: &NewPod, answer: Result<Meta, serde_json::Error>) -> Outcome {
        match answer {
            Ok(meta) if meta.uid != Uid::new("") => {
                let note = format!("Created pod: {}", meta.name);
                self.record(Severity::Normal, "SuccessfulCreate", "Create", note);
                answer::written(Ok(meta))
            }
            // Whether there is a pod, and which, it does not say.
            Ok(_) => self.unknown(new, "the answer has no UID".to_owned()),
            Err(error) => self.unknown(new, format!("the answer is no object: {error}")),
        }
    }

    fn not_created(&self, new: &NewPod, error: &Error) -> Outcome {
        match error {
            Error::Fenced => {
                // What is left to the next leader has not failed.
                Outcome::Unknown { message: format!("create pod on {}: {error}", new.node) }
            }
            error if error.is_namespace_terminating() => Outcome::NamespaceTerminating,
            error if error.may_have_happened() => self.unknown(new, error.to_string()),
            error => self.failed(new, error.to_string()),
        }
    }

    fn unknown(&self, new: &NewPod, cause: String) -> Outcome {
        Outcome::Unknown { message: self.tell_of_failure(new, cause) }
    }

    fn failed(&self, new: &NewPod, cause: String) -> Outcome {
        Outcome::Failed { message: self.tell_of_failure(new, cause) }
    }

    fn tell_of_failure(&self, new: &NewPod, cause: String) -> String {
        let message = format!("create pod on {}: {cause}", new.node);
        let note = format!("Error creating: {cause}");
        self.record(Severity::Warning, "FailedCreate", "Create", note);
        message
    }
}
