//! The events of containers, with the messages of upstream's kubelet (S22).

use super::container::{ContainerEvent, ContainerRole};
use super::run::{PodEvent, PodRun};
use crate::cluster::component_context::ComponentContext;
use crate::cluster::event::EventSubject;
use crate::object::Object;

/// Records the event of a container as upstream's kubelet does.
pub(super) fn report_event(
    context: &mut ComponentContext<'_>,
    node: &str,
    pod: &Object,
    run: &PodRun,
    event: &PodEvent,
) {
    let container = &run.containers[event.container];
    let list = if container.role == ContainerRole::Main { "containers" } else { "initContainers" };
    let name = &container.name;
    let image = &container.image;
    let subject = || EventSubject::pod(pod).at(format!("spec.{list}{{{name}}}"));
    let mut record = |is_warning: bool, reason: &str, message: &str| {
        context.event(subject(), node, is_warning, reason, message);
    };
    match &event.event {
        ContainerEvent::Pulling => record(false, "Pulling", &format!("Pulling image \"{image}\"")),
        ContainerEvent::Pulled { took_ms } => {
            let took = go_duration(*took_ms);
            let message = format!(
                "Successfully pulled image \"{image}\" in {took} ({took} including waiting). \
                 Image size: 52428800 bytes."
            );
            record(false, "Pulled", &message);
        }
        ContainerEvent::AlreadyPresent => {
            let message = format!(
                "Container image \"{image}\" already present on machine and can be accessed by the \
                 pod"
            );
            record(false, "Pulled", &message);
        }
        ContainerEvent::PullFailed { message } => {
            record(true, "Failed", &format!("Failed to pull image \"{image}\": {message}"));
            record(true, "Failed", "Error: ErrImagePull");
        }
        ContainerEvent::BackingOffPull => {
            record(false, "BackOff", &format!("Back-off pulling image \"{image}\""));
            record(true, "Failed", "Error: ImagePullBackOff");
        }
        ContainerEvent::Created => record(false, "Created", "Container created"),
        ContainerEvent::Started => record(false, "Started", "Container started"),
        ContainerEvent::StartFailed { message } => {
            record(true, "Failed", &format!("Error: {message}"))
        }
        ContainerEvent::BackingOffRestart => {
            let (name, namespace, uid) = (pod.name(), pod.namespace(), pod.uid());
            let container = &container.name;
            let message = format!(
                "Back-off restarting failed container {container} in pod {name}_{namespace}({uid})"
            );
            record(true, "BackOff", &message);
        }
        ContainerEvent::ImageChanged => {
            let message = format!("Container {name} definition changed, will be restarted");
            record(false, "Killing", &message);
        }
        ContainerEvent::ResizeRequiresRestart => {
            record(false, "Killing", &format!("Container {name} resize requires restart"));
        }
        ContainerEvent::Killing => record(false, "Killing", &format!("Stopping container {name}")),
    }
}

/// A duration in Go's format: `63ms`, `1.5s`.
fn go_duration(ms: i64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "rounded for people to read")]
    let seconds = ms as f64 / 1000.0;
    if ms < 1000 { format!("{ms}ms") } else { format!("{seconds}s") }
}
