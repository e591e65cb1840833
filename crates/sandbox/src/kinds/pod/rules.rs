//! Validates pods and pod templates. The rules of both are in `spec`; here are the differences,
//! and the fields of a pod that may change.

use std::collections::HashSet;

use crate::json::{SmolStr, Value};

use super::{scheduling, spec};
use crate::format;
use crate::kind::Kind;
use crate::kind::rules::{Causes, Field, go_json, metadata};

pub(super) const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";
const DELETION_COST_ANNOTATION: &str = "controller.kubernetes.io/pod-deletion-cost";
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
    mirror_annotation_unchanged(object, old, causes);
    let (spec, old_spec) = (object.child("spec"), old.child("spec"));
    for name in ["containers", "initContainers"] {
        let (containers, old_containers) = (spec.child(name), old_spec.child(name));
        if containers.len() != old_containers.len() {
            causes.forbidden(&containers, "pod updates may not add or remove containers");
            return;
        }
        images(&containers, causes);
    }
    if !active_deadline_update(&spec, &old_spec, causes) {
        return;
    }
    scheduling::only_added_tolerations(
        &spec.child("tolerations"),
        &old_spec.child("tolerations"),
        causes,
    );
    only_removed_gates(&spec.child("schedulingGates"), &old_spec.child("schedulingGates"), causes);
    unchanged_otherwise(&spec, &old_spec, causes);
}

pub(super) fn on_status_update(_: &Kind, object: &Field, old: &Field, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    mirror_annotation_unchanged(object, old, causes);
    let status = object.child("status");
    for condition in status.child("conditions").items() {
        if !["PodScheduled", "Ready", "Initialized"].contains(&condition.child("type").text()) {
            condition_type(object, &condition, causes);
        }
    }
    if object.child("spec").child("nodeName").text() != old.child("spec").child("nodeName").text() {
        causes.forbidden(&status.child("nodeName"), "may not be changed directly");
    }
    let restart_policy = old.child("spec").child("restartPolicy").text().to_owned();
    container_transitions(&status, &old.child("status"), &restart_policy, causes);
    for pod_ip in status.child("podIPs").items() {
        causes.text_format(&pod_ip, pod_ip.child("ip").text(), format::ip);
    }
}

pub(super) fn metadata_and_spec(kind: &Kind, object: &Field, causes: &mut Causes) {
    metadata::on_create(kind, object, causes);
    let (metadata, spec) = (object.child("metadata"), object.child("spec"));
    pod_annotations(&metadata.child("annotations"), &spec, causes);
    spec::pod_spec(&spec, true, causes);
    if spec.child("serviceAccountName").text().is_empty() {
        no_account_tokens(&spec.child("volumes"), causes);
    }
    for name in ["containers", "initContainers"] {
        for container in spec.child(name).items() {
            no_padding(&container.child("image"), causes);
        }
    }
}

pub(super) fn pod_annotations(annotations: &Field, spec: &Field, causes: &mut Causes) {
    let mirror = annotations.key(MIRROR_ANNOTATION);
    if mirror.is_set() && spec.child("nodeName").text().is_empty() {
        causes.invalid(&mirror, "must set spec.nodeName if mirror pod annotation is set");
    }
    let cost = annotations.key(DELETION_COST_ANNOTATION);
    if cost.is_set() && cost.text().parse::<i32>().is_err() {
        causes.invalid(&cost, "must be a 32bit integer");
    }
}

fn no_account_tokens(volumes: &Field, causes: &mut Causes) {
    for volume in volumes.items() {
        let projected = volume.child("projected");
        for source in projected.child("sources").items() {
            let token = source.child("serviceAccountToken");
            if token.is_set() {
                causes
                    .forbidden(&token, "must not be specified when serviceAccountName is not set");
            }
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

fn mirror_annotation_unchanged(object: &Field, old: &Field, causes: &mut Causes) {
    let (metadata, old_metadata) = (object.child("metadata"), old.child("metadata"));
    let (annotations, old_annotations) =
        (metadata.child("annotations"), old_metadata.child("annotations"));
    let (mirror, old_mirror) =
        (annotations.key(MIRROR_ANNOTATION), old_annotations.key(MIRROR_ANNOTATION));
    match (mirror.is_set(), old_mirror.is_set()) {
        (true, false) => causes.forbidden(&mirror, "may not add mirror pod annotation"),
        (_, true) if mirror.value() != old_mirror.value() => {
            causes.forbidden(&mirror, "may not remove or update mirror pod annotation");
        }
        _ => {}
    }
}

/// The deadline may be added or shortened. Returns false after an error with which upstream stops
/// the validation.
fn active_deadline_update(spec: &Field, old_spec: &Field, causes: &mut Causes) -> bool {
    let (deadline, old_deadline) =
        (spec.child("activeDeadlineSeconds"), old_spec.child("activeDeadlineSeconds"));
    if !deadline.is_set() {
        if old_deadline.is_set() {
            causes.invalid(&deadline, "must not update from a positive integer to nil value");
        }
        return true;
    }
    let out_of_range = format::unix_id(deadline.int());
    if !out_of_range.is_empty() {
        causes.invalid_each(&deadline, out_of_range);
        return false;
    }
    if old_deadline.is_set() && old_deadline.int() < deadline.int() {
        causes.invalid(&deadline, "must be less than or equal to previous value");
        return false;
    }
    true
}

fn only_removed_gates(gates: &Field, old_gates: &Field, causes: &mut Causes) {
    let old_names: HashSet<String> =
        old_gates.items().map(|old| old.child("name").text().to_owned()).collect();
    for gate in gates.items() {
        let name = gate.child("name");
        if !old_names.contains(name.text()) {
            let detail = format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                name.text()
            );
            causes.forbidden(&name, &detail);
        }
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

/// Upstream reports the types of conditions under `metadata.conditions`.
fn condition_type(object: &Field, condition: &Field, causes: &mut Causes) {
    if causes.is_full() {
        return;
    }
    let status = object.child("status");
    let conditions = status.child("conditions");
    let Some(index) =
        conditions.items().position(|other| std::ptr::eq(other.value(), condition.value()))
    else {
        return;
    };
    let metadata = object.child("metadata");
    let path = metadata.child("conditions");
    let path = path.index(index);
    let path = path.child("Type");
    causes.text_format(&path, condition.child("type").text(), format::label_key);
}

/// A terminated container that will not restart must stay terminated.
fn container_transitions(
    status: &Field,
    old_status: &Field,
    restart_policy: &str,
    causes: &mut Causes,
) {
    if restart_policy == "Always" {
        return;
    }
    for name in ["containerStatuses", "initContainerStatuses"] {
        let (new, old) = (status.child(name), old_status.child(name));
        let running: HashSet<String> = new
            .items()
            .filter(|is| !is.child("state").child("terminated").is_set())
            .map(|is| is.child("name").text().to_owned())
            .collect();
        for (index, was) in old.items().enumerate() {
            let terminated = was.child("state").child("terminated").value().clone();
            let failed = terminated["exitCode"].as_i64().unwrap_or(0) != 0;
            if terminated.is_null() || (failed && restart_policy == "OnFailure") {
                continue;
            }
            if running.contains(was.child("name").text()) {
                let path = new.index(index);
                causes.forbidden(
                    &path.child("state"),
                    "may not be transitioned to non-terminated state",
                );
            }
        }
    }
}
