//! Copies ConfigMaps (G58).

use everynode_core::api::{ConfigMap, CopyOrigin, copy_hash};
use everynode_core::plan::{NewCopy, Outcome};
use everynode_k8s::convert;
use everynode_k8s::patch;
use http::Method;
use serde_json::Value;

use super::{Execution, answer, request};
use crate::api::{Content, Error, Server};
use crate::config_maps;
use crate::recorder::Severity;

impl<S: Server> Execution<'_, S> {
    /// Copies a ConfigMap, if it still has the content whose hash the copy has.
    pub(super) async fn copy_config_map(&self, new: &NewCopy) -> Outcome {
        let outcome = match self.try_to_copy(new).await {
            Ok(outcome) => outcome,
            // It is planned again if the watch does not show it.
            Err(error) => Outcome::Failed { message: error.to_string() },
        };
        if let Outcome::Failed { message } = &outcome {
            let note = format!("Error copying ConfigMap {}: {message}", new.source);
            self.record(Severity::Warning, "FailedCopy", "Copy", note);
        }
        outcome
    }

    async fn try_to_copy(&self, new: &NewCopy) -> Result<Outcome, Error> {
        let namespace = &self.raw.key.namespace;
        let source = match self.executor.api.get(&request::config_map(namespace, &new.source)).await
        {
            Err(error) if error.is_reason("NotFound") => return Ok(Outcome::Skipped),
            source => source?,
        };
        let digest = parsed(&source)?.digest;
        if copy_hash(self.raw.key.name.as_str(), &digest) != new.hash {
            return Ok(Outcome::Skipped);
        }
        let unreadable = |error: serde_json::Error| Error::Transport(error.to_string());
        let live: Value = serde_json::from_slice(&source).map_err(unreadable)?;
        let body = patch::config_copy(&self.raw.owner(), &live, new).to_string().into();
        let path = config_maps::path(namespace);
        match self.send(Method::POST, &path, Content::Json, body).await {
            Ok(body) => Ok(answer::written(convert::meta(&body))),
            Err(error) if error.is_namespace_terminating() => Ok(Outcome::NamespaceTerminating),
            Err(error) if error.is_reason("AlreadyExists") => {
                self.existing_copy(new, &digest).await
            }
            Err(error) => Err(error),
        }
    }

    /// The outcome if an object has the name of the copy: the copy itself, or one that nobody may
    /// take for it.
    async fn existing_copy(&self, new: &NewCopy, digest: &str) -> Result<Outcome, Error> {
        let path = request::config_map(&self.raw.key.namespace, &new.name());
        let body = self.executor.api.get(&path).await?;
        let map = parsed(&body)?;
        let is_own = map.copy_of.is_some_and(|CopyOrigin { owner, source }| {
            owner.is_none_or(|owner| owner == self.raw.uid) && source == new.source
        });
        if is_own && *map.digest == *digest {
            return Ok(answer::written(convert::meta(&body)));
        }
        let message = format!(
            "another ConfigMap is named {}: it is no copy of {} that belongs to this DaemonSet",
            new.name(),
            new.source
        );
        Ok(Outcome::Failed { message })
    }
}

fn parsed(json: &[u8]) -> Result<ConfigMap, Error> {
    convert::config_map(json).map_err(|error| Error::Transport(error.to_string()))
}
