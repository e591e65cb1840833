//! Defaults of pods and pod templates.

use std::sync::LazyLock;

use regex::Regex;

use crate::json::{Value, json};
use crate::kind::defaults::{
    Fields, changed_struct, condition_times, default, first_of_many, optional_struct, struct_at,
    structs_in, text,
};
use everynode_k8s::quantity::Quantity;

/// The defaults that a pod has and its template has not: host ports, service links, and requests
/// that equal the limits.
pub(super) fn pod(fields: &mut Fields, stored: &Value) {
    if let Some(pod_spec) = changed_struct(fields, stored, "spec") {
        spec_of_pod(pod_spec);
    }
    if let Some(status) = changed_struct(fields, stored, "status") {
        default(status, "phase", "Pending");
        first_of_many(status, "podIP", "podIPs", |ip| json!({"ip": ip}), |first| &first["ip"]);
        condition_times(status, &["lastProbeTime", "lastTransitionTime"]);
    }
}

fn spec_of_pod(pod_spec: &mut Fields) {
    spec(pod_spec);
    default(pod_spec, "enableServiceLinks", true);
    let host_network = pod_spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        for container in structs_in(pod_spec, list) {
            requests_from_limits(container);
            if host_network {
                host_ports(container);
            }
        }
    }
}

pub(super) fn spec(spec: &mut Fields) {
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "restartPolicy", "Always");
    default(spec, "schedulerName", "default-scheduler");
    default(spec, "terminationGracePeriodSeconds", 30);
    struct_at(spec, "securityContext");
    service_account(spec);
    for volume in structs_in(spec, "volumes") {
        self::volume(volume);
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in structs_in(spec, list) {
            self::container(container);
        }
    }
}

/// Synchronises serviceAccountName with its deprecated alias serviceAccount.
fn service_account(spec: &mut Fields) {
    let name = match (text(spec, "serviceAccountName"), text(spec, "serviceAccount")) {
        ("", "") => return,
        ("", older) => older.to_owned(),
        (name, _) => name.to_owned(),
    };
    spec.insert("serviceAccount", name.as_str().into());
    spec.insert("serviceAccountName", name.into());
}

fn container(container: &mut Fields) {
    default_pull_policy(container, "imagePullPolicy", "image");
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    let resources = struct_at(container, "resources");
    for list in ["limits", "requests"] {
        round_to_thousandths(resources, list);
    }
    for port in structs_in(container, "ports") {
        default(port, "protocol", "TCP");
    }
    for variable in structs_in(container, "env") {
        if let Some(source) = optional_struct(variable, "valueFrom") {
            downward_reference(source);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = optional_struct(container, name) {
            self::probe(probe);
        }
    }
    if let Some(lifecycle) = optional_struct(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(hook) = optional_struct(lifecycle, name) {
                http_get(hook);
            }
        }
    }
}

/// The names that an image can have: the grammar of the `reference` package of Docker's
/// distribution.
static IMAGE: LazyLock<Regex> = LazyLock::new(|| {
    const LABEL: &str = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
    const COMPONENT: &str = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
    let domain = format!(r"(?:{LABEL}(?:\.{LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?");
    let tag = r"[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}";
    let digest = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}";
    let name = format!("(?:{domain}/)?{COMPONENT}(?:/{COMPONENT})*");
    Regex::new(&format!("^{name}(?::(?<tag>{tag}))?(?<digest>@{digest})?$"))
        .expect("the pattern is valid")
});

fn default_pull_policy(fields: &mut Fields, name: &str, image: &str) {
    if !fields.contains_key(name) {
        fields.insert(name.to_owned(), pull_policy(text(fields, image)).into());
    }
}

/// The default imagePullPolicy: Always for an image without a tag or with the tag `latest`. As
/// upstream, an image without a valid name has no tag.
fn pull_policy(image: &str) -> &'static str {
    let Some(found) = IMAGE.captures(image) else { return "IfNotPresent" };
    let is_latest = match found.name("tag") {
        Some(tag) => tag.as_str() == "latest",
        None => found.name("digest").is_none(),
    };
    if is_latest { "Always" } else { "IfNotPresent" }
}

fn probe(probe: &mut Fields) {
    default(probe, "timeoutSeconds", 1);
    default(probe, "periodSeconds", 10);
    default(probe, "successThreshold", 1);
    default(probe, "failureThreshold", 3);
    http_get(probe);
    if let Some(grpc) = optional_struct(probe, "grpc") {
        default(grpc, "service", "");
    }
}

fn http_get(handler: &mut Fields) {
    if let Some(action) = optional_struct(handler, "httpGet") {
        default(action, "path", "/");
        default(action, "scheme", "HTTP");
    }
}

/// A fieldRef or resourceFieldRef.
fn downward_reference(source: &mut Fields) {
    if let Some(reference) = optional_struct(source, "fieldRef") {
        default(reference, "apiVersion", "v1");
    }
    if let Some(reference) = optional_struct(source, "resourceFieldRef") {
        default(reference, "divisor", "0");
    }
}

fn volume(volume: &mut Fields) {
    if volume.keys().all(|name| name == "name") {
        struct_at(volume, "emptyDir");
    }
    for name in ["configMap", "downwardAPI", "projected", "secret"] {
        if let Some(source) = optional_struct(volume, name) {
            default(source, "defaultMode", 0o644);
        }
    }
    if let Some(source) = optional_struct(volume, "hostPath") {
        default(source, "type", "");
    }
    if let Some(source) = optional_struct(volume, "image") {
        default_pull_policy(source, "pullPolicy", "reference");
    }
    if let Some(source) = optional_struct(volume, "iscsi") {
        default(source, "iscsiInterface", "default");
    }
    if let Some(source) = optional_struct(volume, "downwardAPI") {
        structs_in(source, "items").for_each(downward_reference);
    }
    if let Some(source) = optional_struct(volume, "projected") {
        structs_in(source, "sources").for_each(projection);
    }
    if let Some(source) = optional_struct(volume, "ephemeral")
        && let Some(template) = optional_struct(source, "volumeClaimTemplate")
    {
        struct_at(template, "metadata");
        default(struct_at(template, "spec"), "volumeMode", "Filesystem");
    }
}

fn projection(source: &mut Fields) {
    if let Some(token) = optional_struct(source, "serviceAccountToken") {
        default(token, "expirationSeconds", 3600);
    }
    if let Some(downward) = optional_struct(source, "downwardAPI") {
        structs_in(downward, "items").for_each(downward_reference);
    }
}

fn requests_from_limits(container: &mut Fields) {
    let resources = struct_at(container, "resources");
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let requests = struct_at(resources, "requests");
    for (resource, limit) in limits {
        default(requests, &resource, limit);
    }
}

/// With host networking, a container port defaults to the same port of the host.
fn host_ports(container: &mut Fields) {
    for port in structs_in(container, "ports") {
        if let Some(number) = port.get("containerPort").cloned() {
            default(port, "hostPort", number);
        }
    }
}

/// Rounds quantities up to thousandths.
fn round_to_thousandths(resources: &mut Fields, list: &str) {
    let Some(amounts) = optional_struct(resources, list) else { return };
    for amount in amounts.values_mut() {
        let Some(Ok(quantity)) = amount.as_str().map(str::parse::<Quantity>) else { continue };
        if !quantity.is_zero() && quantity.is_finer_than_milli() {
            *amount = json!(
                format!("{}m", quantity.milli_value())
                    .parse::<Quantity>()
                    .map_or_else(|_| quantity.to_string(), |rounded| rounded.to_string())
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S9: an image is pulled always if its tag is `latest` or absent, but not if its name is
    /// invalid, as that of a template that was not filled in.
    #[test]
    fn the_pull_policy_follows_the_tag() {
        let digest = format!("@sha256:{}", "0123456789abcdef".repeat(4));
        for (image, expected) in [
            ("agent", "Always"),
            ("agent:latest", "Always"),
            ("agent:1.0", "IfNotPresent"),
            ("Registry.example.com:5000/team/agent", "Always"),
            ("registry.example.com:5000/team/agent:1.0", "IfNotPresent"),
            ("[::1]:5000/agent", "Always"),
            (&format!("agent{digest}"), "IfNotPresent"),
            (&format!("agent:latest{digest}"), "Always"),
            (&format!("agent:1.0{digest}"), "IfNotPresent"),
            ("agentImage", "IfNotPresent"),
            ("registry.example.com/agentImage", "IfNotPresent"),
            ("{{ .Values.image }}", "IfNotPresent"),
            ("$(IMAGE)", "IfNotPresent"),
            ("ko://example.com/cmd/agent", "IfNotPresent"),
            ("", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), expected, "{image}");
        }
    }
}
