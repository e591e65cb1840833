//! Admission of resizes of pods (S10).

use super::refuse_pod;
use crate::json::Value;
use crate::kinds::NODE;
use crate::status::{Status, StatusCause};
use crate::store::Store;
use crate::value::text;
use everynode_k8s::resources::{Resources, pod_requests};

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
    details.causes.push(StatusCause::new(reason, "", ""));
    status.with_details(details)
}
