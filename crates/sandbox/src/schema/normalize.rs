//! The form in which Go encodes an object: without nulls, empty lists and maps, and zero values of
//! plain fields, and with canonical quantities. Unknown fields stay.

use serde_json::Value;

use super::{STRUCTS, Shape, root_of};
use crate::kind::Kind;
use everynode_k8s::quantity::Quantity;

/// Converts `object` to the form in which the server returns it, without defaults.
pub(crate) fn normalize(kind: &Kind, object: &mut Value) {
    if let Some(root) = root_of(kind) {
        walk(&root, object);
    }
}

fn walk(shape: &Shape, value: &mut Value) {
    match (shape, value) {
        (Shape::Struct(id), Value::Object(fields)) => {
            let known = STRUCTS.get(*id);
            fields.retain(|name, value| match known.fields.get(name) {
                Some(field) => {
                    walk(&field.shape, value);
                    !field.encoded.omits(&field.shape, value)
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

/// When Go's encoder writes a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EncodeRule {
    Always,
    /// Unless it is null or an empty list or map: pointers, lists and maps with `omitempty`.
    IfPresent,
    /// Unless it is the zero value: plain fields with `omitempty`.
    IfNotZero,
}

impl EncodeRule {
    pub(super) fn of(owner: &str, field: &str) -> Self {
        match (owner, field) {
            ("ControllerRevision", "data")
            | ("PodSpec", "containers")
            | ("NodeSelector", "nodeSelectorTerms")
            | ("ClusterRole" | "Role", "rules")
            | ("PolicyRule", "verbs") => Self::Always,
            _ if PLAIN_FIELDS
                .iter()
                .any(|(name, fields)| *name == owner && fields.contains(&field)) =>
            {
                Self::IfNotZero
            }
            _ => Self::IfPresent,
        }
    }

    fn omits(self, shape: &Shape, value: &Value) -> bool {
        let zero = match value {
            Value::Null => return self != Self::Always,
            Value::Array(items) => return items.is_empty() && self != Self::Always,
            Value::Object(entries) => return matches!(shape, Shape::Map(_)) && entries.is_empty(),
            Value::String(text) => text.is_empty(),
            Value::Bool(value) => !value,
            Value::Number(number) => number.as_i64() == Some(0),
        };
        zero && self == Self::IfNotZero
    }
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
    ("Subject", &["apiGroup", "namespace"]),
    ("Event", &["action", "count", "message", "reason", "type", "note", "deprecatedCount"]),
];
