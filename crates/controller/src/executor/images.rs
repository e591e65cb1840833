//! Creates pods that pull images (G55).

use everynode_core::api::NodeName;
use everynode_core::plan::{NewPuller, Outcome};
use everynode_k8s::convert::{self, Interner, PodObject};
use everynode_k8s::{image_puller, patch};
use http::Method;
use serde_json::Value;

use super::{Execution, answer, request};
use crate::api::{Content, Error, Server};
use crate::observation::WatchedResource;

impl<S: Server> Execution<'_, S> {
    /// Creates a puller, unless its node lists the images.
    pub(super) async fn pull_images(&self, new: &NewPuller) -> Outcome {
        match self.node(&new.node).await {
            Ok(node)
                if image_puller::are_images_present(
                    &self.raw.template_of(new.r#override.as_deref()),
                    &node,
                ) =>
            {
                return Outcome::ImagesPresent;
            }
            Ok(_) => {}
            // Then its kubelet looks for them.
            Err(error) => tracing::debug!("the images of node {}: {error}", new.node),
        }
        let path = request::collection(WatchedResource::Pod, &self.raw.key.namespace);
        let body = self.raw.puller(new).into();
        let message = |error: &Error| format!("create a pod that pulls images: {error}");
        match self.send(Method::POST, &path, Content::Json, body).await {
            Ok(body) => match self.delete_former_puller(&body).await {
                Some(message) => Outcome::Failed { message },
                None => answer::written(convert::meta(&body)),
            },
            Err(error) if error.is_namespace_terminating() => Outcome::NamespaceTerminating,
            Err(error) if error.is_reason("AlreadyExists") => {
                let name = image_puller::puller_name(&self.raw.owner(), new).into();
                let path = request::pod(&self.raw.key.namespace, &name);
                let found = match self.executor.api.get(&path).await {
                    Ok(body) => self.delete_former_puller(&body).await,
                    Err(unread) => {
                        Some(format!("{}; it cannot be read: {unread}", message(&error)))
                    }
                };
                Outcome::Failed { message: found.unwrap_or_else(|| message(&error)) }
            }
            Err(error) if error.may_have_happened() => {
                Outcome::Unknown { message: message(&error) }
            }
            Err(error) => Outcome::Failed { message: message(&error) },
        }
    }

    /// Deletes a pod that was made to pull images, and that no watch shows as one of this
    /// DaemonSet, because admission or somebody has taken its labels or its owner: it would keep
    /// its name from the next one. Returns what to report.
    async fn delete_former_puller(&self, pod: &[u8]) -> Option<String> {
        let shown = convert::pod(pod, &mut Interner::default());
        let is_shown = matches!(&shown, Ok(PodObject::Puller(it)) if it.daemon_set == self.raw.uid);
        let json: Value = serde_json::from_slice(pod).ok()?;
        if is_shown || !image_puller::was_puller(&json) {
            return None;
        }
        let meta = convert::meta(pod).ok()?;
        let path = request::pod(&self.raw.key.namespace, &meta.name.as_str().into());
        let options = patch::delete_options(&meta.uid).to_string().into();
        let outcome = match self.send(Method::DELETE, &path, Content::Json, options).await {
            Ok(_) => "it is deleted, and created again".to_owned(),
            Err(error) => format!("it cannot be deleted: {error}"),
        };
        let name = meta.name;
        Some(format!(
            "create a pod that pulls images: {name} has lost its labels or its owner, as by \
             admission; {outcome}"
        ))
    }

    /// The node, of a list: the controller has no right to get one.
    async fn node(&self, name: &NodeName) -> Result<Value, Error> {
        let nodes = WatchedResource::Node.path(None);
        let path = format!("{nodes}?fieldSelector=metadata.name%3D{name}");
        let body = self.executor.api.get(&path).await?;
        let list: Value =
            serde_json::from_slice(&body).map_err(|error| Error::Transport(error.to_string()))?;
        Ok(list.pointer("/items/0").cloned().unwrap_or_default())
    }
}
