//! Validates resource requirements: names, quantities, and requests within limits.

use crate::format;
use crate::kind::rules::{Causes, Field};
use everynode_k8s::quantity::Quantity;

const STANDARD_RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// The requirements of a container.
pub(super) fn requirements(requirements: &Field, causes: &mut Causes) {
    let (limits, requests) = (requirements.child("limits"), requirements.child("requests"));
    for (resource, limit) in limits.entries() {
        container_resource_name(resource, &limit, causes);
        quantity_of_resource(resource, &limit, causes);
    }
    for (resource, request) in requests.entries() {
        container_resource_name(resource, &request, causes);
        quantity_of_resource(resource, &request, causes);
        request_within_limit(resource, &request, &limits, &requests, causes);
    }
}

/// True if a running container can get another amount of a resource.
pub(super) fn is_resizable(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory")
}

/// A quantity must not be negative, and must be an integer for some resources.
pub(in crate::kinds) fn quantity_of_resource(resource: &str, field: &Field, causes: &mut Causes) {
    let Some(quantity) = quantity(field) else { return };
    if quantity.is_negative() {
        causes.invalid_text(field, &quantity.to_string(), "must be greater than or equal to 0");
    }
    let whole =
        ["pods", "services", "secrets", "configmaps"].contains(&resource) || is_extended(resource);
    if whole && quantity.milli_value() % 1000 != 0 {
        causes.invalid_text(field, &quantity.to_string(), "must be an integer");
    }
}

/// The quantity in a field; `None` if it is absent. Decoding has refused malformed ones.
pub(super) fn quantity(field: &Field) -> Option<Quantity> {
    Quantity::of_json(field.value()).ok()
}

fn container_resource_name(name: &str, field: &Field, causes: &mut Causes) {
    if !format::label_key(name).is_empty() {
        return causes.text_format(field, name, format::label_key);
    }
    let known = STANDARD_RESOURCES.contains(&name) || is_huge_page(name);
    if !name.contains('/') {
        if !known {
            causes.invalid_text(field, name, "must be a standard resource type or fully qualified");
            causes.invalid_text(field, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        causes.invalid_text(field, name, "doesn't follow extended resource name standard");
    }
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// A resource of Kubernetes itself: without a domain, or in kubernetes.io.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// A resource that a device plugin or an operator defines: `nvidia.com/gpu`.
fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && format::label_key(&format!("requests.{name}")).is_empty()
}

fn request_within_limit(
    resource: &str,
    request: &Field,
    limits: &Field,
    requests: &Field,
    causes: &mut Causes,
) {
    let overcommits = is_native(resource) && !is_huge_page(resource);
    let limit = limits.key(resource);
    match (quantity(request), quantity(&limit)) {
        (Some(request), Some(limit)) if request != limit && !overcommits => causes.invalid_text(
            requests,
            &request.to_string(),
            &format!("must be equal to {resource} limit of {limit}"),
        ),
        (Some(request), Some(limit)) if request > limit => causes.invalid_text(
            requests,
            &request.to_string(),
            &format!("must be less than or equal to {resource} limit of {limit}"),
        ),
        (Some(_), None) if !overcommits => {
            causes.required(limits, "Limit must be set for non overcommitable resources");
        }
        _ => {}
    }
}
