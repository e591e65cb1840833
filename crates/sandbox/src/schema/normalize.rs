//! The form in which Go writes an object back after it has read it: nulls, empty lists and maps and the zero values of plain
//! fields are gone, quantities are canonical. Unknown fields stay; pruning them is the server's choice (`prune`).

use serde_json::Value;

use super::{STRUCTS, Shape, root_of, short_name};
use crate::kind::Kind;
use crate::quantity::Quantity;

/// Brings `object` into the form in which the server serves it, defaults aside.
pub(crate) fn normalize(kind: &Kind, object: &mut Value) {
    if let Some(root) = root_of(kind) {
        walk(&root, object);
    }
}

fn walk(shape: &Shape, value: &mut Value) {
    match (shape, value) {
        (Shape::Struct(name), Value::Object(fields)) => {
            let Some(known) = STRUCTS.get(name) else { return };
            fields.retain(|field, value| match known.fields.get(field) {
                Some(shape) => {
                    walk(shape, value);
                    !is_dropped(short_name(name), field, shape, value)
                }
                None => true,
            });
        }
        (Shape::Map(inner), Value::Object(entries)) => {
            entries.values_mut().for_each(|value| walk(inner, value))
        }
        (Shape::List(inner), Value::Array(items)) => {
            items.iter_mut().for_each(|value| walk(inner, value))
        }
        (Shape::Quantity, value) => canonical_quantity(value),
        _ => {}
    }
}

fn canonical_quantity(value: &mut Value) {
    if !value.is_string() && !value.is_number() {
        return;
    }
    if let Ok(quantity) = Quantity::of_json(value) {
        *value = Value::String(quantity.to_string());
    }
}

/// Whether Go leaves the field out: it has `omitempty` and is empty.
fn is_dropped(owner: &str, field: &str, shape: &Shape, value: &Value) -> bool {
    match value {
        Value::Null => !is_raw(owner, field),
        Value::Array(items) => items.is_empty() && !is_always_written(owner, field),
        Value::Object(entries) => matches!(shape, Shape::Map(_)) && entries.is_empty(),
        Value::String(text) => text.is_empty() && is_plain(owner, field),
        Value::Bool(value) => !value && is_plain(owner, field),
        Value::Number(number) => number.as_i64() == Some(0) && is_plain(owner, field),
    }
}

/// Raw JSON may be null.
fn is_raw(owner: &str, field: &str) -> bool {
    owner == "ControllerRevision" && field == "data"
}

/// Lists without `omitempty`.
fn is_always_written(owner: &str, field: &str) -> bool {
    matches!((owner, field), ("PodSpec", "containers") | ("NodeSelector", "nodeSelectorTerms"))
}

/// Whether a field is no pointer in Go and has `omitempty`: its zero value can't be told from its absence.
fn is_plain(owner: &str, field: &str) -> bool {
    PLAIN_FIELDS.iter().any(|(name, fields)| *name == owner && fields.contains(&field))
}

/// The plain fields of each struct.
const PLAIN_FIELDS: &[(&str, &[&str])] = &[
    (
        "ObjectMeta",
        &["generateName", "generation", "name", "namespace", "resourceVersion", "selfLink", "uid"],
    ),
    (
        "PodSpec",
        &[
            "dnsPolicy",
            "hostIPC",
            "hostNetwork",
            "hostPID",
            "hostname",
            "nodeName",
            "priorityClassName",
            "restartPolicy",
            "schedulerName",
            "serviceAccount",
            "serviceAccountName",
            "subdomain",
        ],
    ),
    (
        "Container",
        &[
            "image",
            "imagePullPolicy",
            "stdin",
            "stdinOnce",
            "terminationMessagePath",
            "terminationMessagePolicy",
            "tty",
            "workingDir",
        ],
    ),
    (
        "EphemeralContainer",
        &[
            "image",
            "imagePullPolicy",
            "stdin",
            "stdinOnce",
            "terminationMessagePath",
            "terminationMessagePolicy",
            "tty",
            "workingDir",
        ],
    ),
    ("ContainerPort", &["hostIP", "hostPort", "name", "protocol"]),
    ("EnvVar", &["value"]),
    ("EnvFromSource", &["prefix"]),
    ("VolumeMount", &["readOnly", "subPath", "subPathExpr"]),
    (
        "Probe",
        &[
            "failureThreshold",
            "initialDelaySeconds",
            "periodSeconds",
            "successThreshold",
            "timeoutSeconds",
        ],
    ),
    ("HTTPGetAction", &["host", "path", "scheme"]),
    ("TCPSocketAction", &["host"]),
    ("Toleration", &["effect", "key", "operator", "value"]),
    ("Taint", &["value"]),
    ("EmptyDirVolumeSource", &["medium"]),
    ("SecretVolumeSource", &["secretName"]),
    ("PersistentVolumeClaimVolumeSource", &["readOnly"]),
    ("NFSVolumeSource", &["readOnly"]),
    ("ServiceAccountTokenProjection", &["audience"]),
    ("ObjectFieldSelector", &["apiVersion"]),
    ("ResourceFieldSelector", &["containerName"]),
    ("LocalObjectReference", &["name"]),
    ("ConfigMapProjection", &["name"]),
    ("ConfigMapVolumeSource", &["name"]),
    ("DaemonSetSpec", &["minReadySeconds"]),
    ("DaemonSetUpdateStrategy", &["type"]),
    (
        "DaemonSetStatus",
        &["numberAvailable", "numberUnavailable", "observedGeneration", "updatedNumberScheduled"],
    ),
    ("NodeSpec", &["externalID", "podCIDR", "providerID", "unschedulable"]),
    ("NodeCondition", &["message", "reason"]),
    ("PodCondition", &["message", "reason"]),
    ("Secret", &["type"]),
    ("Event", &["action", "count", "message", "reason", "type", "note", "deprecatedCount"]),
];
