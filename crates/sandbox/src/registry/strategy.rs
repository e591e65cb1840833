//! The fields that the endpoints of each kind may change (S9).

use everynode_core::api::TEMPLATE_GENERATION_ANNOTATION;

use crate::json::{Value, json};

use super::metadata::{bump_generation, metadata_mut};
use crate::defaults;
use crate::kind::{Kind, Strategy};
use crate::value::text;
use everynode_k8s::resources::qos_class;

/// The part of an object that a request may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// All but the status.
    Main,
    /// The status.
    Status,
    /// The number of replicas.
    Scale,
    /// CPU and memory of the containers of a pod.
    Resize,
}

pub(super) fn prepare_create(kind: &Kind, object: &mut Value) {
    match kind.strategy {
        // A kubelet creates its node with a status.
        Strategy::Node => {}
        Strategy::Plain | Strategy::Kept | Strategy::Service | Strategy::Definition => {
            if kind.has_status() {
                fields_of(object).remove("status");
                defaults::apply(kind, object);
            }
            if kind.counts_generations {
                object["metadata"]["generation"] = Value::from(1);
            }
        }
        Strategy::Namespace => {
            object["status"] = json!({"phase": "Active"});
            let name = object["metadata"]["name"].clone();
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
            let finalizers = &mut object["spec"]["finalizers"];
            let kubernetes = Value::from("kubernetes");
            match finalizers.as_array_mut() {
                Some(finalizers) if finalizers.contains(&kubernetes) => {}
                Some(finalizers) => finalizers.push(kubernetes),
                None => *finalizers = json!([kubernetes]),
            }
        }
        Strategy::Pod => {
            object["metadata"]["generation"] = Value::from(1);
            object["status"] = json!({"phase": "Pending", "qosClass": qos_class(object)});
        }
        Strategy::DaemonSet => {
            object["metadata"]["generation"] = Value::from(1);
            object["status"] = json!({
                "currentNumberScheduled": 0,
                "desiredNumberScheduled": 0,
                "numberMisscheduled": 0,
                "numberReady": 0,
            });
            let given = template_generation(object);
            set_template_generation(object, given.max(1));
        }
    }
}

/// An update through the main endpoint: restores the status and counts changes of the spec.
pub(super) fn prepare_update(kind: &Kind, object: &mut Value, current: &Value) {
    match kind.strategy {
        Strategy::Plain | Strategy::Kept | Strategy::Service | Strategy::Definition => {
            if kind.has_status() {
                keep(object, current, "status");
            }
            if kind.counts_generations && is_new_generation(kind, object, current) {
                bump_generation(object, current);
            }
            if kind.strategy == Strategy::Definition {
                add_stored_version(object);
            }
        }
        Strategy::Node => keep(object, current, "status"),
        Strategy::Namespace => {
            keep(object, current, "status");
            keep(object, current, "spec");
        }
        Strategy::Pod => {
            keep(object, current, "status");
            if object.get("spec") != current.get("spec") {
                bump_generation(object, current);
            }
        }
        Strategy::DaemonSet => {
            keep(object, current, "status");
            let template_changed = object["spec"]["template"] != current["spec"]["template"];
            let generation = template_generation(current) + i64::from(template_changed);
            set_template_generation(object, generation);
            if object.get("spec") != current.get("spec") {
                bump_generation(object, current);
            }
        }
    }
}

/// An update through the status endpoint: restores the spec.
pub(super) fn prepare_status_update(kind: &Kind, object: &mut Value, current: &Value) {
    if kind.custom.is_some() {
        // Only the status changes, whatever other fields there are.
        let status = object.get("status").cloned();
        object.clone_from(current);
        match status {
            Some(status) => object["status"] = status,
            None => drop(fields_of(object).remove("status")),
        }
        return;
    }
    keep(object, current, "spec");
    match kind.strategy {
        Strategy::Pod if object["metadata"].is_shared_with(&current["metadata"]) => {}
        Strategy::Pod => {
            let owners = current["metadata"].get("ownerReferences").cloned();
            let metadata = metadata_mut(object);
            match owners {
                Some(owners) => metadata.insert("ownerReferences", owners),
                None => metadata.remove("ownerReferences"),
            };
        }
        Strategy::DaemonSet => set_template_generation(object, template_generation(current)),
        Strategy::Plain
        | Strategy::Node
        | Strategy::Namespace
        | Strategy::Kept
        | Strategy::Service
        | Strategy::Definition => {}
    }
}

/// The fields that an endpoint leaves unchanged, whatever a request contains (`GetResetFields`).
pub(super) fn unchanged_fields(
    kind: &Kind,
    endpoint: Endpoint,
) -> &'static [&'static [&'static str]] {
    match (endpoint, kind.group, kind.kind) {
        (Endpoint::Main | Endpoint::Scale, _, _) if kind.has_status() => &[&["status"]],
        (Endpoint::Main | Endpoint::Scale, _, _) => &[],
        (Endpoint::Status, _, _) if kind.custom.is_some() => &[&["metadata"], &["spec"]],
        (Endpoint::Status, "", "Pod") => {
            &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]
        }
        (Endpoint::Status, "apps", "Deployment") => &[&["spec"], &["metadata", "labels"]],
        (Endpoint::Status, _, _) => &[&["spec"]],
        // Its writers own nothing but `resize::FIELDS`.
        (Endpoint::Resize, _, _) => &[],
    }
}

/// Sets what upstream's conversion to the served version always writes. So the writer of the object
/// owns it.
pub(super) fn convert(kind: &Kind, object: &mut Value) {
    if kind.strategy == Strategy::DaemonSet {
        let generation = template_generation(object);
        set_template_generation(object, generation);
    }
}

/// Whether a PUT of an absent object creates it, as upstream allows for a few kinds.
pub(super) fn allows_create_on_update(kind: &Kind) -> bool {
    matches!(
        (kind.group, kind.kind),
        ("coordination.k8s.io", "Lease")
            | ("" | "events.k8s.io", "Event")
            | ("", "Endpoints" | "LimitRange" | "Service")
            | ("node.k8s.io", _)
            | ("rbac.authorization.k8s.io", _)
    )
}

/// Whether a PUT without a resourceVersion overwrites the object.
pub(super) fn allows_unconditional_update(kind: &Kind) -> bool {
    kind.custom.is_none()
        && !matches!(
            (kind.group, kind.kind),
            (
                "coordination.k8s.io"
                    | "node.k8s.io"
                    | "policy"
                    | "admissionregistration.k8s.io"
                    | "apiextensions.k8s.io"
                    | "apiregistration.k8s.io",
                _
            ) | (
                "storage.k8s.io",
                "CSIDriver" | "CSINode" | "CSIStorageCapacity" | "VolumeAttachment"
            )
        )
}

/// Whether a change counts: any of the fields but metadata and status, and for Deployments of the
/// annotations as well.
fn is_new_generation(kind: &Kind, object: &Value, current: &Value) -> bool {
    let rest = |object: &Value| {
        let fields = object.as_object().into_iter().flatten();
        fields
            .filter(|(name, _)| *name != "metadata" && !(*name == "status" && kind.has_status()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect::<Vec<_>>()
    };
    let is_deployment = (kind.group, kind.kind) == ("apps", "Deployment");
    let annotations = |object: &Value| object["metadata"].get("annotations").cloned();
    rest(object) != rest(current) || (is_deployment && annotations(object) != annotations(current))
}

/// Adds the storage version of a definition to those of which objects may be stored.
fn add_stored_version(object: &mut Value) {
    let versions = object["spec"]["versions"].as_array().into_iter().flatten();
    let stored = versions.filter(|version| version["storage"] == true);
    let names: Vec<Value> = stored.map(|version| version["name"].clone()).collect();
    if let Some(known) = object["status"]["storedVersions"].as_array_mut() {
        known.extend(names.into_iter().filter(|name| !known.contains(name)).collect::<Vec<_>>());
    }
}

fn fields_of(object: &mut Value) -> &mut crate::json::Map {
    object.as_object_mut().expect("its shape was checked")
}

fn keep(object: &mut Value, current: &Value, field: &str) {
    match current.get(field) {
        // Most writers don't change it, and a comparison is cheaper than a copy.
        Some(value) if object.get(field) == Some(value) => {}
        Some(value) => object[field] = value.clone(),
        None => {
            if let Some(fields) = object.as_object_mut() {
                fields.remove(field);
            }
        }
    }
}

fn template_generation(object: &Value) -> i64 {
    text(object, &["metadata", "annotations", TEMPLATE_GENERATION_ANNOTATION]).parse().unwrap_or(0)
}

fn set_template_generation(object: &mut Value, generation: i64) {
    if !object["metadata"]["annotations"].is_object() {
        object["metadata"]["annotations"] = json!({});
    }
    object["metadata"]["annotations"][TEMPLATE_GENERATION_ANNOTATION] =
        Value::from(generation.to_string());
}
