//! Pods that pull images (G55): how far one is, by the status of its containers.

use bytes::Bytes;
use everynode_core::api::{
    ImagePuller, PULLS_FOR_LABEL, PULLS_OF_LABEL, PodTrouble, PullState, Timestamp,
};
use prost::Message;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Interner;
use super::wire::{Metadata, Text, Time, text};
use crate::json_path::read_first;
use crate::protobuf;

/// The reasons for which a container waits after its image was pulled. Its command does not exist.
const AFTER_PULL: [&str; 4] =
    ["CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff"];

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireStatus<'a> {
    #[serde(borrow)]
    phase: Option<Text<'a>>,
    #[serde(borrow)]
    container_statuses: Option<Vec<WireContainerStatus<'a>>>,
}

#[derive(Deserialize)]
struct WireContainerStatus<'a> {
    #[serde(borrow)]
    state: Option<WireState<'a>>,
    #[serde(borrow, rename = "imageID")]
    image_id: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct WireState<'a> {
    #[serde(borrow)]
    waiting: Option<WireWaiting<'a>>,
    running: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct WireWaiting<'a> {
    #[serde(borrow)]
    reason: Option<Text<'a>>,
}

/// The puller in this JSON, whose metadata is known; `None` if the pod pulls no images.
pub(super) fn puller(
    json: &str,
    metadata: &Metadata<'_>,
    interner: &mut Interner,
) -> Option<ImagePuller> {
    let node: Option<Option<Text>> = read_first(json, &["spec", "nodeName"]).ok()?;
    let status: Option<Option<WireStatus>> = read_first(json, &["status"]).ok()?;
    let status = status.flatten().unwrap_or_default();
    new(metadata, text(node.flatten().as_ref()), &status, interner)
}

/// The same of the protobuf message of its spec, and of its status.
pub(super) fn puller_of_protobuf(
    metadata: &Metadata<'_>,
    spec: Bytes,
    status: Bytes,
    interner: &mut Interner,
) -> Result<Option<ImagePuller>, prost::DecodeError> {
    let spec = protobuf::PodSpec::decode(spec)?;
    let status = protobuf::PullerStatus::decode(status)?;
    let node = String::from_utf8_lossy(&spec.node_name);
    Ok(new(metadata, &node, &(&status).into(), interner))
}

fn new(
    metadata: &Metadata<'_>,
    node: &str,
    status: &WireStatus<'_>,
    interner: &mut Interner,
) -> Option<ImagePuller> {
    let labels = metadata.labels.as_ref()?;
    let created = metadata.creation_timestamp.as_ref().and_then(Time::timestamp);
    Some(ImagePuller {
        namespace: interner.text(text(metadata.namespace.as_ref())).into(),
        name: metadata.name().ok()?.into(),
        uid: metadata.uid(),
        daemon_set: labels.get(PULLS_FOR_LABEL)?.into(),
        revision: labels.get(PULLS_OF_LABEL)?.into(),
        node: interner.text(node).into(),
        creation_timestamp: created.unwrap_or(Timestamp(i64::MAX)),
        terminating: metadata.deletion_timestamp.is_some(),
        state: status.pull_state(),
    })
}

impl WireStatus<'_> {
    fn pull_state(&self) -> PullState {
        let containers = self.container_statuses.as_deref().unwrap_or_default();
        let trouble = |it: &WireContainerStatus<'_>| PodTrouble::from_reason(it.waits_for());
        if !containers.is_empty() && containers.iter().all(WireContainerStatus::has_image) {
            PullState::Pulled
        } else if matches!(text(self.phase.as_ref()), "Succeeded" | "Failed") {
            PullState::Ended
        } else {
            let lacking = containers.iter().filter(|it| !it.has_image());
            lacking.filter_map(trouble).max().map_or(PullState::Pulling, PullState::Troubled)
        }
    }
}

impl WireContainerStatus<'_> {
    /// True if the kubelet states the image that it pulled, or a reason that comes after the pull.
    /// A container that runs all the same has its image.
    fn has_image(&self) -> bool {
        let runs = self.state.as_ref().is_some_and(|state| state.running.is_some());
        runs || !text(self.image_id.as_ref()).is_empty() || AFTER_PULL.contains(&self.waits_for())
    }

    /// The reason for which it waits; empty if it does not.
    fn waits_for(&self) -> &str {
        let waiting = self.state.as_ref().and_then(|state| state.waiting.as_ref());
        waiting.map_or("", |waiting| text(waiting.reason.as_ref()))
    }
}

impl<'a> From<&'a protobuf::PullerStatus> for WireStatus<'a> {
    fn from(message: &'a protobuf::PullerStatus) -> Self {
        let container = |it: &'a protobuf::PullerContainerStatus| {
            let state = it.state.as_ref();
            let waiting = state.and_then(|state| state.waiting.as_ref());
            let waiting = waiting.map(|it| WireWaiting { reason: Text::of_field(&it.reason) });
            let running = state.and_then(|state| state.running.as_ref()).map(|_| IgnoredAny);
            let state = Some(WireState { waiting, running });
            WireContainerStatus { state, image_id: Text::of_field(&it.image_id) }
        };
        Self {
            phase: Text::of_field(&message.phase),
            container_statuses: Some(message.container_statuses.iter().map(container).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::{PodObject, pod};
    use serde_json::{Value, json};

    fn state(status: &Value) -> PullState {
        let json = json!({
            "metadata": {
                "namespace": "ns", "name": "agent-1-a", "uid": "u",
                "labels": { PULLS_FOR_LABEL: "ds", PULLS_OF_LABEL: "h" },
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ControllerRevision", "name": "agent-1",
                    "uid": "r", "controller": true,
                }],
            },
            "spec": { "nodeName": "a" },
            "status": status,
        });
        match pod(json.to_string().as_bytes(), &mut Interner::default()) {
            Ok(PodObject::Puller(puller)) => {
                assert_eq!((puller.node.as_str(), puller.revision.as_str()), ("a", "h"));
                puller.state
            }
            other => panic!("{other:?}"),
        }
    }

    /// G55: an image is there once the kubelet states its ID, or a reason that comes after the
    /// pull; a container that ended without either tells nothing.
    #[test]
    fn the_status_of_containers_says_how_far_a_puller_is() {
        use PodTrouble::{ErrImagePull, ImagePullBackOff};
        let waits = |reason: &str| json!({ "state": { "waiting": { "reason": reason } } });
        let ended = |id: &str| json!({ "state": { "terminated": {} }, "imageID": id });
        for (phase, containers, expected) in [
            ("Pending", vec![], PullState::Pulling),
            ("Pending", vec![waits("ContainerCreating")], PullState::Pulling),
            ("Failed", vec![ended("sha256:1"), ended("sha256:2")], PullState::Pulled),
            ("Pending", vec![ended("sha256:1"), waits("ContainerCreating")], PullState::Pulling),
            ("Pending", vec![waits("CreateContainerError")], PullState::Pulled),
            ("Pending", vec![waits("RunContainerError"), ended("sha256:1")], PullState::Pulled),
            ("Pending", vec![waits("ErrImagePull")], PullState::Troubled(ErrImagePull)),
            (
                "Pending",
                vec![ended("sha256:1"), waits("ErrImagePull"), waits("ImagePullBackOff")],
                PullState::Troubled(ImagePullBackOff),
            ),
            ("Running", vec![json!({ "state": { "running": {} } })], PullState::Pulled),
            ("Failed", vec![ended("")], PullState::Ended),
            ("Failed", vec![], PullState::Ended),
        ] {
            let status = json!({ "phase": phase, "containerStatuses": containers });
            assert_eq!(state(&status), expected, "{status}");
        }
    }
}
