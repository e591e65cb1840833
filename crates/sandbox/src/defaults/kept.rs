//! Defaults of the kinds that are kept (S13), as a table: a path and the value of a field that is
//! absent. What depends on other fields is code.
//!
//! In a path `[]` stands for each element of a list. Absent structs on the way are created, unless
//! they are marked with `?`.

use crate::json::{Value, json};

use super::{Fields, default, pod, struct_at, structs_in, text};
use crate::kind::Kind;
use crate::schema;

/// The defaults of a kind.
struct Row {
    group: &'static str,
    kind: &'static str,
    /// The paths to its pod templates.
    templates: &'static [&'static str],
    /// Paths, and values as JSON.
    values: &'static [(&'static str, &'static str)],
    /// The defaults that depend on other fields.
    more: fn(&mut Fields),
}

const NONE: Row = Row { group: "", kind: "", templates: &[], values: &[], more: |_| {} };

const WEBHOOK: &[(&str, &str)] = &[
    ("webhooks[].failurePolicy", r#""Fail""#),
    ("webhooks[].matchPolicy", r#""Equivalent""#),
    ("webhooks[].namespaceSelector", "{}"),
    ("webhooks[].objectSelector", "{}"),
    ("webhooks[].timeoutSeconds", "10"),
    ("webhooks[].rules[].scope", r#""*""#),
    ("webhooks[].clientConfig.service?.port", "443"),
];

const MUTATING_WEBHOOK: &[(&str, &str)] = &[
    ("webhooks[].failurePolicy", r#""Fail""#),
    ("webhooks[].matchPolicy", r#""Equivalent""#),
    ("webhooks[].namespaceSelector", "{}"),
    ("webhooks[].objectSelector", "{}"),
    ("webhooks[].timeoutSeconds", "10"),
    ("webhooks[].rules[].scope", r#""*""#),
    ("webhooks[].clientConfig.service?.port", "443"),
    ("webhooks[].reinvocationPolicy", r#""Never""#),
];

const POLICY: &[(&str, &str)] = &[
    ("spec.failurePolicy", r#""Fail""#),
    ("spec.matchConstraints?.namespaceSelector", "{}"),
    ("spec.matchConstraints?.objectSelector", "{}"),
    ("spec.matchConstraints?.matchPolicy", r#""Equivalent""#),
    ("spec.matchConstraints?.resourceRules[].scope", r#""*""#),
    ("spec.matchConstraints?.excludeResourceRules[].scope", r#""*""#),
];

const BINDING: &[(&str, &str)] = &[
    ("spec.matchResources?.namespaceSelector", "{}"),
    ("spec.matchResources?.objectSelector", "{}"),
    ("spec.matchResources?.matchPolicy", r#""Equivalent""#),
    ("spec.matchResources?.resourceRules[].scope", r#""*""#),
    ("spec.matchResources?.excludeResourceRules[].scope", r#""*""#),
];

const ADMISSION: &str = "admissionregistration.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";

static ROWS: &[Row] = &[
    Row {
        kind: "Service",
        values: &[
            ("spec.type", r#""ClusterIP""#),
            ("spec.sessionAffinity", r#""None""#),
            ("spec.ports[].protocol", r#""TCP""#),
            ("status.loadBalancer", "{}"),
        ],
        more: service,
        ..NONE
    },
    Row { kind: "Endpoints", values: &[("subsets[].ports[].protocol", r#""TCP""#)], ..NONE },
    Row {
        kind: "PersistentVolume",
        values: &[
            ("spec.persistentVolumeReclaimPolicy", r#""Retain""#),
            ("spec.volumeMode", r#""Filesystem""#),
            ("spec.hostPath?.type", r#""""#),
            ("status.phase", r#""Pending""#),
        ],
        ..NONE
    },
    Row {
        kind: "PersistentVolumeClaim",
        values: &[("spec.volumeMode", r#""Filesystem""#), ("status.phase", r#""Pending""#)],
        ..NONE
    },
    Row { kind: "PodTemplate", templates: &["template"], ..NONE },
    Row {
        kind: "ReplicationController",
        templates: &["spec.template"],
        values: &[("spec.replicas", "1")],
        more: replication_controller,
        ..NONE
    },
    Row {
        group: "apps",
        kind: "Deployment",
        templates: &["spec.template"],
        values: &[
            ("spec.replicas", "1"),
            ("spec.strategy.type", r#""RollingUpdate""#),
            ("spec.revisionHistoryLimit", "10"),
            ("spec.progressDeadlineSeconds", "600"),
        ],
        more: deployment,
    },
    Row {
        group: "apps",
        kind: "ReplicaSet",
        templates: &["spec.template"],
        values: &[("spec.replicas", "1")],
        ..NONE
    },
    Row {
        group: "apps",
        kind: "StatefulSet",
        templates: &["spec.template"],
        values: &[
            ("spec.replicas", "1"),
            ("spec.podManagementPolicy", r#""OrderedReady""#),
            ("spec.updateStrategy.type", r#""RollingUpdate""#),
            ("spec.revisionHistoryLimit", "10"),
            ("spec.persistentVolumeClaimRetentionPolicy.whenDeleted", r#""Retain""#),
            ("spec.persistentVolumeClaimRetentionPolicy.whenScaled", r#""Retain""#),
            ("spec.volumeClaimTemplates[].apiVersion", r#""v1""#),
            ("spec.volumeClaimTemplates[].kind", r#""PersistentVolumeClaim""#),
            ("spec.volumeClaimTemplates[].spec.volumeMode", r#""Filesystem""#),
            ("spec.volumeClaimTemplates[].status.phase", r#""Pending""#),
            ("status.replicas", "0"),
            ("status.availableReplicas", "0"),
        ],
        more: stateful_set,
    },
    Row {
        group: "autoscaling",
        kind: "HorizontalPodAutoscaler",
        values: &[
            ("spec.minReplicas", "1"),
            (
                "spec.metrics",
                r#"[{"type": "Resource", "resource": {"name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 80}}}]"#,
            ),
        ],
        ..NONE
    },
    Row {
        group: "batch",
        kind: "Job",
        templates: &["spec.template"],
        values: &[
            ("spec.backoffLimit", "6"),
            ("spec.completionMode", r#""NonIndexed""#),
            ("spec.suspend", "false"),
            ("spec.manualSelector", "false"),
        ],
        more: job,
    },
    Row {
        group: "batch",
        kind: "CronJob",
        templates: &["spec.jobTemplate.spec.template"],
        values: &[
            ("spec.concurrencyPolicy", r#""Allow""#),
            ("spec.suspend", "false"),
            ("spec.successfulJobsHistoryLimit", "3"),
            ("spec.failedJobsHistoryLimit", "1"),
        ],
        ..NONE
    },
    Row {
        group: "networking.k8s.io",
        kind: "NetworkPolicy",
        values: &[
            ("spec.ingress[].ports[].protocol", r#""TCP""#),
            ("spec.egress[].ports[].protocol", r#""TCP""#),
        ],
        more: network_policy,
        ..NONE
    },
    Row {
        group: "networking.k8s.io",
        kind: "IngressClass",
        values: &[("spec.parameters?.scope", r#""Cluster""#)],
        ..NONE
    },
    Row {
        group: STORAGE,
        kind: "StorageClass",
        values: &[("reclaimPolicy", r#""Delete""#), ("volumeBindingMode", r#""Immediate""#)],
        ..NONE
    },
    Row {
        group: STORAGE,
        kind: "CSIDriver",
        values: &[
            ("spec.attachRequired", "true"),
            ("spec.podInfoOnMount", "false"),
            ("spec.storageCapacity", "false"),
            ("spec.requiresRepublish", "false"),
            ("spec.seLinuxMount", "false"),
            ("spec.fsGroupPolicy", r#""ReadWriteOnceWithFSType""#),
            ("spec.volumeLifecycleModes", r#"["Persistent"]"#),
        ],
        ..NONE
    },
    Row {
        group: "scheduling.k8s.io",
        kind: "PriorityClass",
        values: &[("preemptionPolicy", r#""PreemptLowerPriority""#)],
        ..NONE
    },
    Row {
        group: "discovery.k8s.io",
        kind: "EndpointSlice",
        values: &[("ports[].name", r#""""#), ("ports[].protocol", r#""TCP""#)],
        ..NONE
    },
    Row { group: ADMISSION, kind: "ValidatingWebhookConfiguration", values: WEBHOOK, ..NONE },
    Row {
        group: ADMISSION,
        kind: "MutatingWebhookConfiguration",
        values: MUTATING_WEBHOOK,
        ..NONE
    },
    Row { group: ADMISSION, kind: "ValidatingAdmissionPolicy", values: POLICY, ..NONE },
    Row { group: ADMISSION, kind: "MutatingAdmissionPolicy", values: POLICY, ..NONE },
    Row { group: ADMISSION, kind: "ValidatingAdmissionPolicyBinding", values: BINDING, ..NONE },
    Row { group: ADMISSION, kind: "MutatingAdmissionPolicyBinding", values: BINDING, ..NONE },
    Row {
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        values: &[
            ("spec.conversion.strategy", r#""None""#),
            ("spec.conversion.webhook?.clientConfig.service?.port", "443"),
            ("status.conditions", "[]"),
        ],
        more: definition,
        ..NONE
    },
    Row {
        group: "apiregistration.k8s.io",
        kind: "APIService",
        values: &[("spec.service?.port", "443")],
        ..NONE
    },
    Row {
        group: FLOW_CONTROL,
        kind: "FlowSchema",
        values: &[("spec.matchingPrecedence", "1000")],
        ..NONE
    },
    Row {
        group: FLOW_CONTROL,
        kind: "PriorityLevelConfiguration",
        values: &[
            ("spec.limited?.nominalConcurrencyShares", "30"),
            ("spec.limited?.lendablePercent", "0"),
            ("spec.limited?.limitResponse.queuing?.queues", "64"),
            ("spec.limited?.limitResponse.queuing?.handSize", "8"),
            ("spec.limited?.limitResponse.queuing?.queueLengthLimit", "50"),
            ("spec.exempt?.nominalConcurrencyShares", "0"),
            ("spec.exempt?.lendablePercent", "0"),
        ],
        ..NONE
    },
    Row {
        group: "resource.k8s.io",
        kind: "ResourceClaim",
        values: &[("spec.devices?.requests[].exactly?.allocationMode", r#""ExactCount""#)],
        ..NONE
    },
    Row {
        group: "resource.k8s.io",
        kind: "ResourceClaimTemplate",
        values: &[("spec.spec?.devices?.requests[].exactly?.allocationMode", r#""ExactCount""#)],
        ..NONE
    },
];

/// Sets the defaults of a kind whose fields Go's encoder completes. Returns false for the kinds
/// whose defaults are elsewhere and for those without a schema.
pub(super) fn apply(kind: &Kind, fields: &mut Fields) -> bool {
    if let Some(row) = ROWS.iter().find(|row| (row.group, row.kind) == (kind.group, kind.kind)) {
        for path in row.templates {
            at(fields, path, &mut |template| {
                struct_at(template, "metadata");
                pod::spec(struct_at(template, "spec"));
            });
        }
        for (path, value) in row.values {
            set(fields, path, value);
        }
        (row.more)(fields);
        return true;
    }
    is_completed(kind)
}

/// Whether the table lists no defaults because the kind has none.
fn is_completed(kind: &Kind) -> bool {
    use crate::kind::Strategy;
    let is_kept =
        matches!(kind.strategy, Strategy::Kept | Strategy::Service | Strategy::Definition);
    (is_kept || kind.group == "policy") && schema::root_of(kind).is_some()
}

/// Sets the field at the end of a path wherever it is absent.
fn set(fields: &mut Fields, path: &str, value: &str) {
    let (parents, name) = path.rsplit_once('.').unwrap_or(("", path));
    at(fields, parents, &mut |parent| {
        if parent.get(name).is_none_or(Value::is_null) {
            let value: Value = serde_json::from_str(value).expect("the table is JSON");
            parent.insert(name.to_owned(), value);
        }
    });
}

/// Calls `change` with each struct at a path.
fn at(fields: &mut Fields, path: &str, change: &mut dyn FnMut(&mut Fields)) {
    if path.is_empty() {
        return change(fields);
    }
    let (step, rest) = path.split_once('.').unwrap_or((path, ""));
    if let Some(list) = step.strip_suffix("[]") {
        structs_in(fields, list).for_each(|item| at(item, rest, change));
    } else if let Some(name) = step.strip_suffix('?') {
        if let Some(found) = super::optional_struct(fields, name) {
            at(found, rest, change);
        }
    } else {
        at(struct_at(fields, step), rest, change);
    }
}

fn service(fields: &mut Fields) {
    let spec = struct_at(fields, "spec");
    let type_name = text(spec, "type").to_owned();
    let has_external = spec.get("externalIPs").and_then(Value::as_array).is_some();
    if matches!(type_name.as_str(), "NodePort" | "LoadBalancer") || has_external {
        default(spec, "externalTrafficPolicy", "Cluster");
    }
    if type_name == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
    }
    if type_name != "ExternalName" {
        default(spec, "internalTrafficPolicy", "Cluster");
    }
    if text(spec, "sessionAffinity") == "ClientIP" {
        let client_ip = struct_at(struct_at(spec, "sessionAffinityConfig"), "clientIP");
        default(client_ip, "timeoutSeconds", 10_800);
    }
    for port in structs_in(spec, "ports") {
        let is_absent = |target: &Value| *target == json!(0) || *target == json!("");
        if let Some(number) = port.get("port").cloned()
            && port.get("targetPort").is_none_or(is_absent)
        {
            port.insert("targetPort", number);
        }
    }
}

/// The selector and the labels are those of the template.
fn replication_controller(fields: &mut Fields) {
    let template = fields.get("spec").map(|spec| spec["template"]["metadata"]["labels"].clone());
    let Some(labels @ Value::Object(_)) = template else { return };
    default(struct_at(fields, "spec"), "selector", labels.clone());
    default(struct_at(fields, "metadata"), "labels", labels);
}

fn deployment(fields: &mut Fields) {
    let strategy = struct_at(struct_at(fields, "spec"), "strategy");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling_update = struct_at(strategy, "rollingUpdate");
        default(rolling_update, "maxUnavailable", "25%");
        default(rolling_update, "maxSurge", "25%");
    }
}

fn stateful_set(fields: &mut Fields) {
    let strategy = struct_at(struct_at(fields, "spec"), "updateStrategy");
    if text(strategy, "type") == "RollingUpdate" {
        default(struct_at(strategy, "rollingUpdate"), "partition", 0);
    }
}

/// A Job without numbers runs one pod to completion.
fn job(fields: &mut Fields) {
    let template = fields.get("spec").map(|spec| spec["template"]["metadata"]["labels"].clone());
    if let Some(labels @ Value::Object(_)) = template {
        default(struct_at(fields, "metadata"), "labels", labels);
    }
    let spec = struct_at(fields, "spec");
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        spec.insert("completions", 1.into());
    }
    default(spec, "parallelism", 1);
    let policy =
        if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    default(spec, "podReplacementPolicy", policy);
}

fn network_policy(fields: &mut Fields) {
    let spec = struct_at(fields, "spec");
    let egress = spec.get("egress").is_some_and(Value::is_array);
    let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    default(spec, "policyTypes", types);
}

fn definition(fields: &mut Fields) {
    let spec = struct_at(fields, "spec");
    let stored: Vec<Value> = structs_in(spec, "versions")
        .filter(|version| version.get("storage") == Some(&Value::Bool(true)))
        .filter_map(|version| version.get("name").cloned())
        .collect();
    let names = struct_at(spec, "names");
    let kind = text(names, "kind").to_owned();
    if !kind.is_empty() {
        default(names, "singular", kind.to_lowercase());
        default(names, "listKind", format!("{kind}List"));
    }
    let status = struct_at(fields, "status");
    default(status, "storedVersions", stored);
}
