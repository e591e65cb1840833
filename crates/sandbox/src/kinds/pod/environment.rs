//! Validates environment variables and their sources.

use super::resources;
use crate::format;
use crate::kind::rules::{Causes, Field};
use everynode_k8s::quantity::Quantity;

const FIELD_PATHS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const VOLUME_FIELD_PATHS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
/// The field labels that a downward API reference may use.
const CONVERTIBLE: [&str; 13] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
];

pub(super) fn env(variables: &Field, causes: &mut Causes) {
    for variable in variables.items() {
        causes.required_format(&variable.child("name"), format::env_var_name);
        let source = variable.child("valueFrom");
        if source.is_set() {
            value_from(&source, !variable.child("value").text().is_empty(), causes);
        }
    }
}

pub(super) fn env_from(sources: &Field, causes: &mut Causes) {
    for source in sources.items() {
        causes.optional_format(&source.child("prefix"), format::env_var_name);
        let mut count = 0;
        for name in ["configMapRef", "secretRef"] {
            let reference = source.child(name);
            if reference.is_set() {
                count += 1;
                let format = |name: &str| format::subdomain_name(name, true);
                causes.required_format(&reference.child("name"), format);
            }
        }
        match count {
            0 => causes.invalid_text(
                sources,
                "",
                "must specify one of: `configMapRef` or `secretRef`",
            ),
            1 => {}
            _ => causes.invalid_text(
                sources,
                "",
                "may not have more than one field specified at a time",
            ),
        }
    }
}

/// Validates a fieldRef, of a variable or, if `volume` is set, of a file in a downward API volume.
pub(super) fn field_reference(reference: &Field, volume: bool, causes: &mut Causes) {
    let (version, path) = (reference.child("apiVersion"), reference.child("fieldPath"));
    if version.text().is_empty() {
        return causes.required(&version, "");
    }
    if path.text().is_empty() {
        return causes.required(&path, "");
    }
    let (base, subscript) =
        match path.text().strip_suffix("']").and_then(|text| text.split_once("['")) {
            Some((base, subscript)) => (base, Some(subscript)),
            None => (path.text(), None),
        };
    if !CONVERTIBLE.contains(&base) && base != "status.podIPs" {
        let detail =
            format!("error converting fieldPath: field label not supported: {}", path.text());
        return causes.invalid(&path, &detail);
    }
    let supported: &[&str] = if volume { &VOLUME_FIELD_PATHS } else { &FIELD_PATHS };
    match (base, subscript) {
        ("metadata.annotations", Some(key)) => key_of(reference, &key.to_lowercase(), causes),
        ("metadata.labels", Some(key)) => key_of(reference, key, causes),
        (_, Some(_)) => causes.invalid_text(reference, base, "does not support subscript"),
        (_, None) if supported.contains(&base) => {}
        (_, None) => causes.not_supported(&path, supported),
    }
}

/// Validates a resourceFieldRef, of a variable or of a file.
pub(super) fn resource_reference(reference: &Field, volume: bool, causes: &mut Causes) {
    let (container, resource) = (reference.child("containerName"), reference.child("resource"));
    let name = resource.text();
    let huge_pages =
        name.starts_with("requests.hugepages-") || name.starts_with("limits.hugepages-");
    if volume && container.text().is_empty() {
        causes.required(&container, "");
    } else if name.is_empty() {
        causes.required(&resource, "");
    } else if !RESOURCES.contains(&name) && !huge_pages {
        causes.not_supported(&resource, &RESOURCES);
    }
    divisor(&reference.child("divisor"), name, causes);
}

fn value_from(source: &Field, has_value: bool, causes: &mut Causes) {
    let [field, resource, config_map, secret, file] =
        ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"]
            .map(|name| source.child(name));
    if field.is_set() {
        field_reference(&field, false, causes);
    }
    if resource.is_set() {
        resource_reference(&resource, false, causes);
    }
    for reference in [&config_map, &secret] {
        if reference.is_set() {
            key_reference(reference, causes);
        }
    }
    if file.is_set() {
        for name in ["key", "path", "volumeName"] {
            causes.required_text(&file.child(name));
        }
    }
    let count = [&field, &resource, &config_map, &secret, &file]
        .iter()
        .filter(|field| field.is_set())
        .count();
    let wrong = match count {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
             `secretKeyRef` or `fileKeyRef`"
        }
        _ if has_value => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    causes.invalid_text(source, "", wrong);
}

fn key_reference(reference: &Field, causes: &mut Causes) {
    let name = reference.child("name");
    causes.text_format(&name, name.text(), format::dns_subdomain);
    causes.required_format(&reference.child("key"), format::config_map_key);
}

fn key_of(reference: &Field, key: &str, causes: &mut Causes) {
    causes.text_format(reference, key, format::label_key);
}

fn divisor(divisor: &Field, resource: &str, causes: &mut Causes) {
    let Some(amount) = resources::quantity(divisor).filter(|amount| !amount.is_zero()) else {
        return;
    };
    let sizes = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let is_one_of = |supported: &[&str]| supported.contains(&Quantity::to_string(&amount).as_str());
    let what = match resource {
        "limits.cpu" | "requests.cpu" => {
            if !is_one_of(&["1m", "1"]) {
                let detail = "only divisor's values 1m and 1 are supported with the cpu resource";
                causes.invalid_text(divisor, resource, detail);
            }
            return;
        }
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        _ if resource.contains(".hugepages-") => "hugepages",
        _ => return,
    };
    if !is_one_of(&sizes) {
        let detail = format!(
            "only divisor's values {} are supported with the {what} resource",
            sizes.join(", ")
        );
        causes.invalid_text(divisor, resource, &detail);
    }
}
