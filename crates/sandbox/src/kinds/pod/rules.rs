//! Validates pods and pod templates. The rules of both are in `spec`; here are the differences,
//! and the fields of a pod that may change.

use crate::json::{SmolStr, Value};

use super::{scheduling, spec};
use crate::format;
use crate::kind::Kind;
use crate::kind::rules::{Causes, Field, go_json, metadata};

pub(super) const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";
const UPDATABLE_FIELDS: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,\
    `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn on_create(kind: &Kind, object: &Field, causes: &mut Causes) {
    metadata_and_spec(kind, object, causes);
    let spec = object.child("spec");
    let ephemeral = spec.child("ephemeralContainers");
    if !ephemeral.is_empty() {
        causes.forbidden(&ephemeral, "cannot be set on create");
    }
    let node_name = spec.child("nodeName");
    if !node_name.text().is_empty() && !spec.child("schedulingGates").is_empty() {
        causes.forbidden(&node_name, "cannot be set until all schedulingGates have been cleared");
    }
}

pub(super) fn on_update(kind: &Kind, object: &Field, old: &Field, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    metadata_and_spec(kind, object, causes);
    let (spec, old_spec) = (object.child("spec"), old.child("spec"));
    for name in ["containers", "initContainers"] {
        let (containers, old_containers) = (spec.child(name), old_spec.child(name));
        if containers.len() != old_containers.len() {
            causes.forbidden(&containers, "pod updates may not add or remove containers");
            return;
        }
        images(&containers, causes);
    }
    scheduling::only_added_tolerations(
        &spec.child("tolerations"),
        &old_spec.child("tolerations"),
        causes,
    );
    unchanged_otherwise(&spec, &old_spec, causes);
}

pub(super) fn on_status_update(_: &Kind, object: &Field, old: &Field, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    let status = object.child("status");
    if object.child("spec").child("nodeName").text() != old.child("spec").child("nodeName").text() {
        causes.forbidden(&status.child("nodeName"), "may not be changed directly");
    }
    for pod_ip in status.child("podIPs").items() {
        causes.text_format(&pod_ip, pod_ip.child("ip").text(), format::ip);
    }
}

pub(super) fn metadata_and_spec(kind: &Kind, object: &Field, causes: &mut Causes) {
    metadata::on_create(kind, object, causes);
    let spec = object.child("spec");
    spec::pod_spec(&spec, true, causes);
    for name in ["containers", "initContainers"] {
        for container in spec.child(name).items() {
            no_padding(&container.child("image"), causes);
        }
    }
}

fn no_padding(image: &Field, causes: &mut Causes) {
    if image.text().trim() != image.text() {
        causes.invalid(image, "must not have leading or trailing whitespace");
    }
}

fn images(containers: &Field, causes: &mut Causes) {
    for container in containers.items() {
        let image = container.child("image");
        causes.required_text(&image);
        no_padding(&image, causes);
    }
}

/// All fields except for the updatable ones must be unchanged.
fn unchanged_otherwise(spec: &Field, old_spec: &Field, causes: &mut Causes) {
    if spec.value() == old_spec.value() {
        return;
    }
    let (new, old) = (without_updatable(spec.value(), old_spec.value()), old_spec.value());
    if &new != old {
        // Upstream appends a diff of Go structs; the changed fields have the same information.
        let detail = format!(
            "pod updates may not change fields other than {UPDATABLE_FIELDS}\n{}",
            difference(&new, old)
        );
        causes.forbidden(spec, &detail);
    }
}

/// The new spec with the old values of the updatable fields.
fn without_updatable(new: &Value, old: &Value) -> Value {
    let mut munged = new.clone();
    for name in ["containers", "initContainers"] {
        let Some(containers) = munged.get_mut(name).and_then(Value::as_array_mut) else { continue };
        for (index, container) in containers.iter_mut().enumerate() {
            if let (Some(container), Some(image)) =
                (container.as_object_mut(), old[name][index].get("image"))
            {
                container.insert("image", image.clone());
            }
        }
    }
    let Some(fields) = munged.as_object_mut() else { return munged };
    let grace_period_repaired =
        old["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0)
            && new["terminationGracePeriodSeconds"].as_i64() == Some(1);
    let mut restored = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    if grace_period_repaired {
        restored.push("terminationGracePeriodSeconds");
    }
    if !old["schedulingGates"].is_null() {
        restored.push("nodeSelector");
    }
    for name in restored {
        match old.get(name) {
            Some(value) => fields.insert(name.to_owned(), value.clone()),
            None => fields.remove(name),
        };
    }
    munged
}

/// The fields that differ between two specs, with both values.
fn difference(new: &Value, old: &Value) -> String {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return String::new() };
    let mut names: Vec<&SmolStr> = new.keys().chain(old.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let shown = |value: Option<&Value>| value.map_or("null".to_owned(), go_json);
    names
        .into_iter()
        .filter(|name| new.get(name) != old.get(name))
        .map(|name| {
            format!("- {name}: {}\n+ {name}: {}", shown(old.get(name)), shown(new.get(name)))
        })
        .collect::<Vec<_>>()
        .join("\n")
}
