//! The rules that depend on several fields, or need more than a table.

use super::each;
use crate::validation::field::{Causes, Field, go_json, go_quote};
use crate::validation::{format, metadata, pod, selector};

const ACCESS_MODES: &[&str] =
    &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(super) fn selector_and_labels(object: &Field, kind: &str, causes: &mut Causes) {
    let spec = object.child("spec");
    let label_selector = spec.child("selector");
    if !label_selector.is_set() {
        causes.required(&label_selector, "");
    } else if selector::is_empty(&label_selector) {
        let detail = format!("empty selector is invalid for {kind}");
        causes.invalid_rendered(&label_selector, "{}".to_owned(), &detail);
    }
    selector::label_selector(&label_selector, causes);
    let template = spec.child("template");
    let metadata = template.child("metadata");
    let labels = metadata.child("labels");
    if selector::mismatches(&label_selector, &labels) {
        causes.invalid(&labels, "`selector` does not match template `labels`");
    }
    let pod_spec = template.child("spec");
    let restart_policy = pod_spec.child("restartPolicy");
    if restart_policy.text() != "Always" {
        causes.not_supported(&restart_policy, &["Always"]);
    }
}

pub(super) fn stateful_set(object: &Field, old: &Field, causes: &mut Causes) {
    const CHANGEABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |object: &Field| {
        let mut spec = object.child("spec").value().clone();
        if let Some(fields) = spec.as_object_mut() {
            CHANGEABLE.iter().for_each(|name| drop(fields.remove(name)));
        }
        spec
    };
    if fixed(object) != fixed(old) {
        causes.forbidden(
            &object.child("spec"),
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
             'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
             'minReadySeconds' are forbidden",
        );
    }
}

/// The pods of a Job end, so their containers are not always restarted.
pub(super) fn restart_policy(template: &Field, causes: &mut Causes) {
    let spec = template.child("spec");
    let policy = spec.child("restartPolicy");
    match policy.text() {
        "Never" | "OnFailure" => {}
        "Always" | "" => causes.required(&policy, r#"valid values: "OnFailure", "Never""#),
        _ => causes.not_supported(&policy, &["OnFailure", "Never"]),
    }
}

/// At least one of the modes of access, and no other.
pub(super) fn access_modes(object: &Field, causes: &mut Causes) {
    let spec = object.child("spec");
    let modes = spec.child("accessModes");
    for mode in modes.items() {
        if !ACCESS_MODES.contains(&mode.text()) {
            causes.not_supported(&modes.with_value(mode.value()), ACCESS_MODES);
        }
    }
}

pub(super) fn volume(object: &Field, causes: &mut Causes) {
    access_modes(object, causes);
    const NO_SOURCES: &[&str] = &[
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    ];
    let spec = object.child("spec");
    let capacity = spec.child("capacity");
    if !capacity.key("storage").is_set() {
        let value = if capacity.is_set() { go_json(capacity.value()) } else { "null".to_owned() };
        causes.not_supported_rendered(&capacity, value, &["storage"]);
    }
    let mut names = spec.entries().map(|(name, _)| name);
    if names.all(|name| NO_SOURCES.contains(&name)) {
        causes.required(&spec, "must specify a volume type");
    }
}

pub(super) fn ingress(object: &Field, causes: &mut Causes) {
    let spec = object.child("spec");
    if spec.child("rules").is_empty() && !spec.child("defaultBackend").is_set() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        causes.invalid_rendered(&spec, "null".to_owned(), detail);
    }
}

pub(super) fn network_policy(object: &Field, causes: &mut Causes) {
    for direction in ["ingress", "egress"] {
        each(object, &format!("spec.{direction}[].ports[].port"), &mut |port| match (
            port.is_set(),
            port.value().as_str(),
        ) {
            (false, _) => {}
            (true, Some(name)) => causes.invalid_each(port, format::port_name(name)),
            (true, None) => causes.invalid_each(port, format::port_number(port.int())),
        });
    }
}

/// Five fields, or a name such as `@daily`.
pub(super) fn schedule(object: &Field, causes: &mut Causes) {
    let spec = object.child("spec");
    let field = spec.child("schedule");
    let fields: Vec<&str> = field.text().split_whitespace().collect();
    if !field.text().is_empty() && !field.text().starts_with('@') && fields.len() != 5 {
        let count = fields.len();
        let detail = format!("expected exactly 5 fields, found {count}: [{}]", fields.join(" "));
        causes.invalid(&field, &detail);
    }
    restart_policy(&spec.child("jobTemplate").child("spec").child("template"), causes);
}

pub(super) fn replication_controller(object: &Field, causes: &mut Causes) {
    let spec = object.child("spec");
    let template = spec.child("template");
    if template.child("spec").child("containers").is_empty() {
        causes.required(&template, "");
    } else {
        pod::template(&template, causes);
    }
}

pub(super) fn claim(object: &Field, causes: &mut Causes) {
    access_modes(object, causes);
    let spec = object.child("spec");
    let resources = spec.child("resources");
    if !resources.child("requests").key("storage").is_set() {
        causes.required(&resources.key("storage"), "");
    }
    selector::label_selector(&spec.child("selector"), causes);
}

pub(super) fn autoscaler(object: &Field, causes: &mut Causes) {
    let spec = object.child("spec");
    let (min, max) = (spec.child("minReplicas"), spec.child("maxReplicas"));
    if min.is_set() && min.int() < 1 {
        causes.invalid(&min, "must be greater than or equal to 1");
    }
    match max.int() {
        0 => causes.required(&max, "must be set and greater than 0"),
        count if count < 0 => causes.invalid(&max, "must be greater than 0"),
        _ => {}
    }
    if max.int() < min.int() {
        let detail = "must be greater than or equal to `minReplicas`";
        causes.invalid_rendered(&max, max.int().to_string(), detail);
    }
}

pub(super) fn storage_class(object: &Field, old: &Field, causes: &mut Causes) {
    for name in ["parameters", "provisioner", "reclaimPolicy"] {
        let field = object.child(name);
        if field.value() != old.child(name).value() {
            causes.forbidden(&field, &format!("updates to {name} are forbidden."));
        }
    }
}

/// The highest priority of a class that is not the system's.
const USER_PRIORITY_MAX: i64 = 1_000_000_000;

pub(super) fn priority_class(object: &Field, causes: &mut Causes) {
    let metadata = object.child("metadata");
    let (name, value) = (metadata.child("name"), object.child("value"));
    let system = match name.text() {
        "system-node-critical" => Some(2_000_001_000),
        "system-cluster-critical" => Some(2_000_000_000),
        _ => None,
    };
    if name.text().starts_with("system-") {
        let cause = match system {
            None => format!("{} is not a known system priority class", name.text()),
            Some(known) if known != value.int() => {
                format!("value of {} PriorityClass must be {known}", name.text())
            }
            Some(_) => return,
        };
        causes.forbidden(
            &name,
            &format!(
                "priority class names with 'system-' prefix are reserved for system use only. \
                 error: {cause}"
            ),
        );
    } else if value.int() > USER_PRIORITY_MAX {
        causes.forbidden(
            &value,
            &format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}"),
        );
    }
}

pub(super) fn priority_class_on_update(object: &Field, old: &Field, causes: &mut Causes) {
    let value = object.child("value");
    if value.int() != old.child("value").int() {
        causes.forbidden(&value, "may not be changed in an update.");
    }
    metadata::immutable(&object.child("preemptionPolicy"), &old.child("preemptionPolicy"), causes);
}

pub(super) fn webhooks(object: &Field, causes: &mut Causes) {
    for webhook in object.child("webhooks").items() {
        let name = webhook.child("name");
        if name.text().is_empty() {
            causes.required(&name, "");
        } else if name.text().split('.').count() < 3 {
            let detail = "should be a domain with at least three segments separated by dots";
            causes.invalid(&name, detail);
        } else {
            causes.invalid_each(&name, format::dns_subdomain(name.text()));
        }
        let seconds = webhook.child("timeoutSeconds");
        if seconds.int() < 1 || seconds.int() > 30 {
            let detail = "the timeout value must be between 1 and 30 seconds";
            causes.invalid(&seconds, detail);
        }
        let client = webhook.child("clientConfig");
        if client.child("service").is_set() == client.child("url").is_set() {
            causes.required(&client, "exactly one of url or service is required");
        }
        for name in ["namespaceSelector", "objectSelector"] {
            selector::label_selector(&webhook.child(name), causes);
        }
    }
}

pub(super) fn api_service(object: &Field, causes: &mut Causes) {
    let (metadata, spec) = (object.child("metadata"), object.child("spec"));
    let name = metadata.child("name");
    let expected = format!("{}.{}", spec.child("version").text(), spec.child("group").text());
    if name.text() != expected {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {}", go_quote(&expected));
        causes.invalid(&name, &detail);
    }
    for field in ["groupPriorityMinimum", "versionPriority"] {
        let (field, max) =
            (spec.child(field), if field == "versionPriority" { 1_000 } else { 20_000 });
        if !(1..=max).contains(&field.int()) {
            let detail = format!("must be positive and less than {max}");
            causes.invalid_rendered(&field, field.int().to_string(), &detail);
        }
    }
}
