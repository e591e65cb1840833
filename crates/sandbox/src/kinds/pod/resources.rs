//! Validates resource requirements: names, quantities, and requests within limits.

use std::collections::HashSet;

use crate::format;
use crate::kind::rules::{Causes, Field};
use everynode_k8s::quantity::Quantity;

const STANDARD_RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// The requirements of a container or of a pod.
pub(super) fn requirements(requirements: &Field, claims: &Field, causes: &mut Causes) {
    let (limits, requests) = (requirements.child("limits"), requirements.child("requests"));
    for (resource, limit) in limits.entries() {
        container_resource_name(resource, &limit, causes);
        quantity_of_resource(resource, &limit, causes);
        huge_page_multiple(resource, &limit, causes);
    }
    for (resource, request) in requests.entries() {
        container_resource_name(resource, &request, causes);
        quantity_of_resource(resource, &request, causes);
        request_within_limit(resource, &request, &limits, &requests, causes);
        huge_page_multiple(resource, &request, causes);
    }
    let names: Vec<&str> =
        limits.entries().chain(requests.entries()).map(|(resource, _)| resource).collect();
    let has_huge_pages = names.iter().any(|name| is_huge_page(name));
    if has_huge_pages && !names.iter().any(|name| ["cpu", "memory"].contains(name)) {
        causes.forbidden(requirements, "HugePages require cpu or memory");
    }
    claim_names(&requirements.child("claims"), claims, causes);
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
        if !known && !is_standard_elsewhere(name) {
            causes.invalid_text(field, name, "must be a standard resource type or fully qualified");
        }
        if !known {
            causes.invalid_text(field, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        causes.invalid_text(field, name, "doesn't follow extended resource name standard");
    }
}

/// Resources for quotas, which containers can't use.
fn is_standard_elsewhere(name: &str) -> bool {
    [
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "storage",
        "requests.storage",
        "services.nodeports",
        "services.loadbalancers",
    ]
    .contains(&name)
        || name.starts_with("requests.hugepages-")
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

fn huge_page_multiple(resource: &str, field: &Field, causes: &mut Causes) {
    let Some(size) = resource.strip_prefix("hugepages-") else { return };
    let (Ok(size), Some(quantity)) = (size.parse::<Quantity>(), quantity(field)) else { return };
    if size.value() != 0 && quantity.value() % size.value() != 0 {
        let detail = format!("{quantity} is not positive integer multiple of {resource}");
        causes.invalid_text(field, &quantity.to_string(), &detail);
    }
}

fn claim_names(claims: &Field, pod_claims: &Field, causes: &mut Causes) {
    let mut known: Vec<&str> = pod_claims
        .items()
        .map(|claim| claim.value().get("name").and_then(crate::json::Value::as_str).unwrap_or(""))
        .filter(|name| !name.is_empty())
        .collect();
    known.sort_unstable();
    let mut seen: HashSet<String> = HashSet::new();
    let is_known: HashSet<&str> = known.iter().copied().collect();
    for claim in claims.items() {
        let name = claim.child("name").text().to_owned();
        let named = crate::json::Value::from(name.as_str());
        let field = claim.with_value(&named);
        if name.is_empty() {
            causes.required(&claim, "");
            continue;
        }
        if seen.contains(&name) {
            causes.duplicate(&field);
        }
        if !is_known.contains(name.as_str()) && !causes.is_full() {
            let rest = if known.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", known.join(", "))
            };
            causes.not_found(
                &field,
                &format!("must be one of the names in pod.spec.resourceClaims{rest}"),
            );
        }
        seen.insert(name);
    }
}
