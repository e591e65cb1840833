//! Questions about a pod.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// The label of pods and revisions that names the revision.
pub(crate) const HASH_LABEL: &str = "controller-revision-hash";

/// The label of pods that counts the templates of their DaemonSet, and the annotation with the
/// current count (C45).
pub(crate) const GENERATION_LABEL: &str = "pod-template-generation";
pub(crate) const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

/// True if the pod is not terminating and has been ready for this number of seconds, by the clock
/// of the tests.
pub(crate) fn is_available(pod: &Pod, min_ready_seconds: i32) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|found| found.type_ == "Ready" && found.status == "True");
    let is_long_enough = |since: jiff::Timestamp| {
        let age = jiff::Timestamp::now().duration_since(since);
        age.as_secs() >= i64::from(min_ready_seconds)
    };
    !is_terminating(pod)
        && ready.any(|condition| {
            let since = condition.last_transition_time.as_ref();
            min_ready_seconds == 0 || since.is_some_and(|since| is_long_enough(since.0))
        })
}

pub(crate) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// True if all containers have ended for good.
pub(crate) fn is_terminal(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

/// The node that the pod is on or requests.
pub(crate) fn node_of(pod: &Pod) -> String {
    let pinned = || {
        let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
        let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
        let fields = required.node_selector_terms.first()?.match_fields.as_ref()?;
        fields.first()?.values.as_ref()?.first().cloned()
    };
    let bound = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    bound.filter(|name| !name.is_empty()).or_else(pinned).unwrap_or_default()
}

pub(crate) fn name_of(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap_or_default()
}

pub(crate) fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

pub(crate) fn label<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

/// The UID of the pod's controller.
pub(crate) fn controller_of(pod: &Pod) -> Option<&str> {
    controller_uid(pod.metadata.owner_references.as_ref())
}

/// The UID of the controller among the owners.
pub(crate) fn controller_uid(owners: Option<&Vec<OwnerReference>>) -> Option<&str> {
    let controller = owners?.iter().find(|owner| owner.controller == Some(true));
    controller.map(|owner| owner.uid.as_str())
}
