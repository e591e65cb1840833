//! What happens to containers, in the words of upstream's kubelet (S22).

use super::container::{Happening, Role};
use super::run::{Note, PodRun};
use crate::cluster::component_context::ComponentContext;
use crate::cluster::event::About;
use crate::object::Object;

/// One container's happening as the event that upstream's kubelet records.
pub fn report_event(
    context: &mut ComponentContext<'_>,
    node: &str,
    pod: &Object,
    run: &PodRun,
    note: &Note,
) {
    let container = &run.containers[note.container];
    let list = if container.role == Role::Main { "containers" } else { "initContainers" };
    let name = &container.name;
    let image = &container.image;
    let about = || About::pod(pod).at(format!("spec.{list}{{{name}}}"));
    let mut say = |warns: bool, reason: &str, message: &str| {
        context.event(about(), node, warns, reason, message);
    };
    match &note.happening {
        Happening::Pulling => say(false, "Pulling", &format!("Pulling image \"{image}\"")),
        Happening::Pulled { took_ms } => {
            let took = go_duration(*took_ms);
            let message = format!(
                "Successfully pulled image \"{image}\" in {took} ({took} including waiting). \
                 Image size: 52428800 bytes."
            );
            say(false, "Pulled", &message);
        }
        Happening::AlreadyPresent => {
            let message = format!(
                "Container image \"{image}\" already present on machine and can be accessed by the pod"
            );
            say(false, "Pulled", &message);
        }
        Happening::PullFailed { message } => {
            say(true, "Failed", &format!("Failed to pull image \"{image}\": {message}"));
            say(true, "Failed", "Error: ErrImagePull");
        }
        Happening::BackingOffPull => {
            say(false, "BackOff", &format!("Back-off pulling image \"{image}\""));
            say(true, "Failed", "Error: ImagePullBackOff");
        }
        Happening::Created => say(false, "Created", "Container created"),
        Happening::Started => say(false, "Started", "Container started"),
        Happening::StartFailed { message } => say(true, "Failed", &format!("Error: {message}")),
        Happening::BackingOffRestart => {
            let (name, namespace, uid) = (pod.name(), pod.namespace(), pod.uid());
            let container = &container.name;
            let message = format!(
                "Back-off restarting failed container {container} in pod {name}_{namespace}({uid})"
            );
            say(true, "BackOff", &message);
        }
        Happening::ImageChanged => {
            let message = format!("Container {name} definition changed, will be restarted");
            say(false, "Killing", &message);
        }
        Happening::Killing => say(false, "Killing", &format!("Stopping container {name}")),
    }
}

/// As Go prints it: `63ms`, `1.5s`.
fn go_duration(ms: i64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "for people to read")]
    let seconds = ms as f64 / 1000.0;
    if ms < 1000 { format!("{ms}ms") } else { format!("{seconds}s") }
}
