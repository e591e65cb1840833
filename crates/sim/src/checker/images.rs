//! Nodes have the images of the target before their old pods go (G55).
//!
//! What counts is the effect: the images that the kubelet has when a pod is deleted.

use everynode_core::api::PULLS_FOR_LABEL;
use everynode_core::plan::Write;
use everynode_sandbox::json::Value;
use everynode_sandbox::kinds::POD;
use http::Method;

use super::judged_plan::Deletion;
use super::model::Policy;
use super::situation::Situation;
use super::stage::Stage;
use super::{PendingWrite, Property, Violation, violation};
use crate::view::View;

/// The command of its containers, which it has whatever admission does to its labels.
const COMMAND: &str = "/dev/null/everynode-only-pulls-the-image";

/// True if the write creates a pod that only pulls images, or deletes one, which may be gone.
pub(super) fn is_of_puller(write: &PendingWrite, view: &View) -> bool {
    let is_puller = |pod: &Value| pod["metadata"]["labels"][PULLS_FOR_LABEL].is_string();
    let was_puller = |pod: &Value| pod["spec"]["containers"][0]["command"][0] == COMMAND;
    let is_planned = |planned: &Write| match planned {
        Write::DeletePuller(pod) => write.uid_precondition() == Some(&*pod.uid.to_string()),
        // One that is none any more keeps its name from the next one.
        Write::PullImages(_) => write.request.method == Method::DELETE,
        _ => false,
    };
    write.target.kind.kind == POD.kind
        && match write.request.method {
            Method::POST => is_puller(write.body),
            _ => {
                view.writes.iter().any(is_planned)
                    && write.object().is_none_or(|pod| was_puller(pod.value()))
            }
        }
}

/// Checks a write of a puller: no more of them pull than the policy says, and each is of the newest
/// revision that the replica had seen.
pub(super) fn check_puller(write: &PendingWrite, situation: &Situation) -> Option<Violation> {
    if write.request.method != Method::POST || write.arrives_late || write.is_of_former_leader {
        return None;
    }
    let uid = &situation.ds.metadata.uid;
    let Some(parallel) = situation.ds.policy.valid().and_then(Policy::parallel_pulls) else {
        let problem = "images are pulled, which no policy asks for";
        return Some(situation.violation(Property::Gate, problem));
    };
    let pods = write.store.iter(&POD, None).map(|pod| pod.value());
    let pulling = pods.filter(|pod| {
        pod["metadata"]["labels"][PULLS_FOR_LABEL] == uid.as_str()
            && pod["metadata"]["deletionTimestamp"].is_null()
            && pod["status"]["phase"] == "Pending"
    });
    let pulling = pulling.count();
    if pulling >= parallel {
        let problem = format!("{pulling} nodes pull already");
        return Some(situation.violation(Property::Budget, problem));
    }
    None
}

/// Checks the deletion of an available pod for the target: its node has the images.
pub(super) fn check_deletion(
    write: &PendingWrite,
    reason: Deletion,
    situation: &Situation,
) -> Option<Violation> {
    if write.arrives_late {
        return None;
    }
    let missing = missing(write, reason, situation, &situation.ds.template)?;
    let name = &write.target.name;
    violation(Property::Gate, format!("pod {name} goes, and {missing}"))
}

/// The image of a template, or of a change of a pod, that the node of a pod lacks, although it must
/// have it before an available pod goes. A node that is gone or was replaced meanwhile has none.
pub(super) fn missing(
    write: &PendingWrite,
    reason: Deletion,
    situation: &Situation,
    template: &Value,
) -> Option<String> {
    let pod = write.object()?.value();
    let node = pod["spec"]["nodeName"].as_str()?;
    let created =
        |object: &Value| object["metadata"]["creationTimestamp"].as_str().map(str::to_owned);
    let machine = write.store.find(&everynode_sandbox::kinds::NODE, "", node)?.value();
    if created(machine) > created(pod) {
        return None;
    }
    let is_required = situation.ds.policy.valid()?.requires_images();
    let Stage::Moving(record) = &situation.stage else { return None };
    let is_wanted = is_required && record.is_under_way() && !record.is_promoted_in_full();
    let containers = template["spec"]["containers"].as_array().into_iter().flatten();
    let mut images = containers.filter_map(|container| container["image"].as_str());
    let image = images.find(|image| {
        is_wanted && reason == Deletion::WithinBudget && !(write.has_image)(node, image)
    })?;
    Some(format!("{node} lacks the image {image}"))
}
