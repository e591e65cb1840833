//! Validates environment variables and their sources.

use crate::format;
use crate::kind::rules::{Causes, Field};

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
pub(super) const VOLUME_FIELD_PATHS: [&str; 5] = [
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

/// Validates a fieldRef. Labels and annotations are named with their keys.
pub(super) fn field_reference(reference: &Field, supported: &[&str], causes: &mut Causes) {
    let path = reference.child("fieldPath");
    let has_key = ["metadata.annotations['", "metadata.labels['"]
        .iter()
        .any(|prefix| path.text().starts_with(prefix));
    if path.text().is_empty() {
        causes.required(&path, "");
    } else if !has_key && !supported.contains(&path.text()) {
        causes.not_supported(&path, supported);
    }
}

/// Validates a resourceFieldRef.
pub(super) fn resource_reference(reference: &Field, causes: &mut Causes) {
    let resource = reference.child("resource");
    let name = resource.text();
    let huge_pages =
        name.starts_with("requests.hugepages-") || name.starts_with("limits.hugepages-");
    if name.is_empty() {
        causes.required(&resource, "");
    } else if !RESOURCES.contains(&name) && !huge_pages {
        causes.not_supported(&resource, &RESOURCES);
    }
}

fn value_from(source: &Field, has_value: bool, causes: &mut Causes) {
    let [field, resource, config_map, secret, file] =
        ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"]
            .map(|name| source.child(name));
    if field.is_set() {
        field_reference(&field, &FIELD_PATHS, causes);
    }
    if resource.is_set() {
        resource_reference(&resource, causes);
    }
    for reference in [&config_map, &secret] {
        if reference.is_set() {
            key_reference(reference, causes);
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
