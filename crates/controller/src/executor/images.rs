//! Creates pods that pull images (G55).

use everynode_core::api::NodeName;
use everynode_core::plan::{NewPuller, Outcome};
use everynode_k8s::{convert, image_puller};
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
            Ok(body) => answer::written(convert::meta(&body)),
            Err(error) if error.is_namespace_terminating() => Outcome::NamespaceTerminating,
            Err(error) if error.may_have_happened() => {
                Outcome::Unknown { message: message(&error) }
            }
            Err(error) => Outcome::Failed { message: message(&error) },
        }
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
