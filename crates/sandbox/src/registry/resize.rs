//! Resizes of pods: `pods/resize` (S4, S10).

use super::refusal::refuse_pod;
use crate::json::Value;
use crate::kind::strategy::bump_generation;
use crate::kinds::NODE;
use crate::status::{Status, StatusCause};
use crate::store::Store;
use crate::value::text;
use everynode_k8s::resources::qos_class;
use everynode_k8s::resources::{Resources, pod_requests};

/// The fields that a resize can change, so that its writer owns them.
pub(super) const FIELDS: &[&[&str]] = &[
    &["spec", "containers", "*", "resources"],
    &["spec", "containers", "*", "resizePolicy"],
    &["spec", "initContainers", "*", "resources"],
    &["spec", "initContainers", "*", "resizePolicy"],
];

/// Restores all but resources and resize policies, and counts a change. Containers that were added,
/// removed or renamed stay, for validation to refuse. Upstream: `podResizeStrategy`.
pub(super) fn prepare(object: &mut Value, current: &Value) {
    let mut spec = current["spec"].clone();
    let sent = &object["spec"];
    if !["containers", "initContainers"].iter().all(|list| take_list(&mut spec, sent, list)) {
        return;
    }
    copy_field(&mut spec, sent, "resources");
    object["spec"] = spec;
    for field in ["metadata", "status"] {
        copy_field(object, current, field);
    }
    if object["spec"] != current["spec"] {
        bump_generation(object, current);
    }
}

/// Takes what a resize can change; false for other containers.
fn take_list(spec: &mut Value, sent: &Value, list: &str) -> bool {
    let none = Vec::new();
    let sent = sent[list].as_array().unwrap_or(&none);
    let Some(known) = spec.get_mut(list).and_then(Value::as_array_mut) else {
        return sent.is_empty();
    };
    if sent.len() != known.len()
        || sent.iter().zip(&*known).any(|(it, was)| it["name"] != was["name"])
    {
        return false;
    }
    for (container, sent) in known.iter_mut().zip(sent) {
        copy_field(container, sent, "resources");
        copy_field(container, sent, "resizePolicy");
    }
    true
}

fn copy_field(to: &mut Value, from: &Value, field: &str) {
    let Some(fields) = to.as_object_mut() else { return };
    match from.get(field) {
        Some(value) => fields.insert(field, value.clone()),
        None => fields.remove(field),
    };
}

/// Whether the pod stays in its QoS class.
pub(super) fn keeps_class(object: &Value, current: &Value) -> bool {
    let class = match text(current, &["status", "qosClass"]) {
        "" => qos_class(current),
        class => class,
    };
    class == qos_class(object)
}

/// Refuses requests that the node of the pod could not grant even if it had no other pods.
/// Upstream: the admission plugin `PodResizeValidator`.
pub(super) fn admit(store: &Store, object: &Value, current: &Value) -> Result<(), Status> {
    let node_name = text(object, &["spec", "nodeName"]);
    if node_name.is_empty() || object["metadata"]["generation"] == current["metadata"]["generation"]
    {
        return Ok(());
    }
    let Some(node) = store.find_with_tree(&NODE, "", node_name) else {
        return Err(refuse_pod(object, &format!("node \"{node_name}\" not found")));
    };
    let system = node.label("kubernetes.io/os").unwrap_or("linux");
    if system != "linux" {
        let cause = format!(
            "pod resize is only supported on linux nodes, node \"{node_name}\" is \"{system}\""
        );
        return Err(with_cause(refuse_pod(object, &cause), "UnsupportedPlatform"));
    }
    let allocatable = Resources::of_list(&node.value()["status"]["allocatable"]);
    let requests = pod_requests(&object["spec"]);
    let short = ["cpu", "memory"].map(|resource| {
        let (requested, allocatable) = (requests.amount(resource), allocatable.amount(resource));
        (requested > allocatable)
            .then(|| format!("{resource}, requested: {requested}, allocatable: {allocatable}"))
    });
    let short: Vec<String> = short.into_iter().flatten().collect();
    if short.is_empty() {
        return Ok(());
    }
    let cause = format!("node didn't have enough allocatable resources: {}", short.join("; "));
    Err(with_cause(refuse_pod(object, &cause), "NodeCapacity"))
}

fn with_cause(status: Status, reason: &str) -> Status {
    let mut details = status.details.clone().unwrap_or_default();
    let (field, message) = (String::new(), String::new());
    details.causes.push(StatusCause { reason: reason.to_owned(), field, message });
    status.with_details(details)
}
