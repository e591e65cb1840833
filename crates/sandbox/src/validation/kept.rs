//! Validates the kinds that are kept (S13): upstream's most common rules, as a table. What depends on
//! several fields is code.
//!
//! In a path `[]` stands for each element of a list, and for absent structs nothing is checked.

use serde_json::Value;

use super::field::{Causes, Field, go_json, go_quote};
use super::metadata::{self, nonnegative};
use super::{deployment, format, pod, selector, service};
use crate::kind::Kind;

/// The rules of a kind.
pub(super) struct Row {
    group: &'static str,
    kind: &'static str,
    names: Names,
    /// The paths to its pod templates.
    templates: &'static [&'static str],
    /// Fields that must not be empty, and the detail of the message.
    required: &'static [(&'static str, &'static str)],
    choices: &'static [(&'static str, &'static [&'static str])],
    nonnegative: &'static [&'static str],
    immutable: &'static [&'static str],
    more: fn(&Field, &mut Causes),
    on_update: fn(&Field, &Field, &mut Causes),
}

/// The form of the names of a kind.
#[derive(Clone, Copy)]
enum Names {
    Subdomain,
    /// A label: a name without dots.
    Label,
    /// Anything that is valid in a URL.
    Segment,
}

const NONE: Row = Row {
    group: "",
    kind: "",
    names: Names::Subdomain,
    templates: &[],
    required: &[],
    choices: &[],
    nonnegative: &[],
    immutable: &[],
    more: |_, _| {},
    on_update: |_, _, _| {},
};

const ADMISSION: &str = "admissionregistration.k8s.io";
const STORAGE: &str = "storage.k8s.io";

const PROTOCOLS: &[&str] = &["TCP", "UDP", "SCTP"];

const ACCESS_MODES: &[&str] =
    &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

const WEBHOOK_REQUIRED: &[(&str, &str)] = &[
    ("webhooks[].sideEffects", "must specify one of None, NoneOnDryRun"),
    ("webhooks[].admissionReviewVersions", "must specify one of v1, v1beta1"),
];

const WEBHOOK_CHOICES: &[(&str, &[&str])] = &[
    ("webhooks[].failurePolicy", &["Fail", "Ignore"]),
    ("webhooks[].matchPolicy", &["Equivalent", "Exact"]),
    ("webhooks[].rules[].scope", &["*", "Cluster", "Namespaced"]),
];

static ROWS: &[Row] = &[
    Row {
        kind: "Service",
        names: Names::Label,
        more: service::spec,
        on_update: service::on_update,
        ..NONE
    },
    Row {
        kind: "PersistentVolumeClaim",
        required: &[("spec.accessModes", "at least 1 access mode is required")],
        choices: &[("spec.volumeMode", &["Block", "Filesystem"])],
        more: claim,
        ..NONE
    },
    Row {
        kind: "PersistentVolume",
        required: &[("spec.accessModes", ""), ("spec.capacity", "")],
        choices: &[
            ("spec.persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"]),
            ("spec.volumeMode", &["Block", "Filesystem"]),
        ],
        more: volume,
        ..NONE
    },
    Row { kind: "PodTemplate", templates: &["template"], ..NONE },
    Row {
        kind: "ReplicationController",
        required: &[("spec.selector", "")],
        nonnegative: &["spec.replicas", "spec.minReadySeconds"],
        more: replication_controller,
        ..NONE
    },
    Row {
        group: "apps",
        kind: "Deployment",
        more: deployment::spec,
        immutable: &["spec.selector"],
        ..NONE
    },
    Row {
        group: "apps",
        kind: "ReplicaSet",
        templates: &["spec.template"],
        nonnegative: &["spec.replicas", "spec.minReadySeconds"],
        immutable: &["spec.selector"],
        more: |object, causes| selector_and_labels(object, "deployment", causes),
        ..NONE
    },
    Row {
        group: "apps",
        kind: "StatefulSet",
        choices: &[
            ("spec.podManagementPolicy", &["OrderedReady", "Parallel"]),
            ("spec.updateStrategy.type", &["OnDelete", "RollingUpdate"]),
        ],
        nonnegative: &["spec.replicas", "spec.minReadySeconds", "spec.revisionHistoryLimit"],
        more: |object, causes| selector_and_labels(object, "statefulset", causes),
        on_update: stateful_set,
        ..NONE
    },
    Row {
        group: "autoscaling",
        kind: "HorizontalPodAutoscaler",
        required: &[("spec.scaleTargetRef.kind", ""), ("spec.scaleTargetRef.name", "")],
        more: autoscaler,
        ..NONE
    },
    Row {
        group: "batch",
        kind: "Job",
        templates: &["spec.template"],
        choices: &[("spec.completionMode", &["Indexed", "NonIndexed"])],
        nonnegative: &[
            "spec.parallelism",
            "spec.completions",
            "spec.activeDeadlineSeconds",
            "spec.backoffLimit",
            "spec.ttlSecondsAfterFinished",
        ],
        immutable: &["spec.selector", "spec.template", "spec.completionMode"],
        more: |object, causes| restart_policy(&object.child("spec").child("template"), causes),
        ..NONE
    },
    Row {
        group: "batch",
        kind: "CronJob",
        templates: &["spec.jobTemplate.spec.template"],
        required: &[("spec.schedule", "")],
        choices: &[("spec.concurrencyPolicy", &["Allow", "Forbid", "Replace"])],
        nonnegative: &[
            "spec.startingDeadlineSeconds",
            "spec.successfulJobsHistoryLimit",
            "spec.failedJobsHistoryLimit",
        ],
        more: schedule,
        ..NONE
    },
    Row {
        group: "networking.k8s.io",
        kind: "Ingress",
        required: &[("spec.rules[].http.paths[].pathType", "pathType must be specified")],
        choices: &[(
            "spec.rules[].http.paths[].pathType",
            &["Exact", "ImplementationSpecific", "Prefix"],
        )],
        more: ingress,
        ..NONE
    },
    Row {
        group: "networking.k8s.io",
        kind: "NetworkPolicy",
        choices: &[
            ("spec.ingress[].ports[].protocol", PROTOCOLS),
            ("spec.egress[].ports[].protocol", PROTOCOLS),
            ("spec.policyTypes[]", &["Ingress", "Egress"]),
        ],
        more: network_policy,
        ..NONE
    },
    Row {
        group: STORAGE,
        kind: "StorageClass",
        required: &[("provisioner", "")],
        choices: &[
            ("reclaimPolicy", &["Delete", "Retain"]),
            ("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]),
        ],
        immutable: &["volumeBindingMode"],
        on_update: storage_class,
        ..NONE
    },
    Row {
        group: STORAGE,
        kind: "CSIDriver",
        choices: &[
            ("spec.fsGroupPolicy", &["File", "None", "ReadWriteOnceWithFSType"]),
            ("spec.volumeLifecycleModes[]", &["Ephemeral", "Persistent"]),
        ],
        immutable: &["spec.attachRequired", "spec.volumeLifecycleModes"],
        ..NONE
    },
    Row { group: "policy", kind: "PodDisruptionBudget", more: service::budget, ..NONE },
    Row {
        group: "scheduling.k8s.io",
        kind: "PriorityClass",
        choices: &[("preemptionPolicy", &["PreemptLowerPriority", "Never"])],
        more: priority_class,
        on_update: priority_class_on_update,
        ..NONE
    },
    Row {
        group: "node.k8s.io",
        kind: "RuntimeClass",
        required: &[("handler", "")],
        immutable: &["handler"],
        ..NONE
    },
    Row {
        group: ADMISSION,
        kind: "ValidatingWebhookConfiguration",
        required: WEBHOOK_REQUIRED,
        choices: WEBHOOK_CHOICES,
        more: webhooks,
        ..NONE
    },
    Row {
        group: ADMISSION,
        kind: "MutatingWebhookConfiguration",
        required: WEBHOOK_REQUIRED,
        choices: WEBHOOK_CHOICES,
        more: webhooks,
        ..NONE
    },
    Row {
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        required: &[("spec.group", ""), ("spec.names.plural", ""), ("spec.names.kind", "")],
        choices: &[("spec.scope", &["Cluster", "Namespaced"])],
        more: definition,
        ..NONE
    },
    Row {
        group: "apiregistration.k8s.io",
        kind: "APIService",
        names: Names::Segment,
        more: api_service,
        ..NONE
    },
    Row { group: "networking.k8s.io", kind: "IPAddress", names: Names::Segment, ..NONE },
    Row {
        group: "flowcontrol.apiserver.k8s.io",
        kind: "FlowSchema",
        names: Names::Segment,
        ..NONE
    },
    Row {
        group: "certificates.k8s.io",
        kind: "CertificateSigningRequest",
        names: Names::Segment,
        ..NONE
    },
];

pub(super) fn row_of(kind: &Kind) -> Option<&'static Row> {
    ROWS.iter().find(|row| (row.group, row.kind) == (kind.group, kind.kind))
}

impl Row {
    pub(super) fn on_create(&self, kind: &Kind, object: &Field, causes: &mut Causes) {
        let rules = match (self.names, kind.namespaced) {
            (Names::Subdomain, _) => metadata::rules_of(kind),
            (Names::Label, true) => metadata::LABEL_NAMESPACED,
            (Names::Label, false) => metadata::NAMESPACE,
            (Names::Segment, true) => metadata::RBAC_NAMESPACED,
            (Names::Segment, false) => metadata::RBAC_CLUSTER_SCOPED,
        };
        metadata::on_create(object, rules, causes);
        self.check(object, causes);
    }

    pub(super) fn on_update(&self, object: &Field, old: &Field, causes: &mut Causes) {
        metadata::on_update(object, old, causes);
        self.check(object, causes);
        for path in self.immutable {
            let (mut new_values, mut old_values) = (Vec::new(), Vec::new());
            each(object, path, &mut |field| new_values.push(field.value().clone()));
            each(old, path, &mut |field| old_values.push(field.value().clone()));
            if new_values != old_values {
                each(object, path, &mut |field| {
                    causes.invalid_rendered(field, go_json(field.value()), "field is immutable");
                });
            }
        }
        (self.on_update)(object, old, causes);
    }

    /// The paths to the pod templates that are warned about as pods are. Those of Deployments are
    /// validated elsewhere, and those of StatefulSets not at all, as upstream.
    pub(super) fn templates(&self) -> &'static [&'static str] {
        if matches!(self.kind, "Deployment" | "ReplicationController" | "StatefulSet") {
            &["spec.template"]
        } else {
            self.templates
        }
    }

    fn check(&self, object: &Field, causes: &mut Causes) {
        for (path, detail) in self.required {
            each(object, path, &mut |field| {
                if is_unset(field) {
                    causes.required(field, detail);
                }
            });
        }
        (self.more)(object, causes);
        for (path, values) in self.choices {
            each(object, path, &mut |field| {
                if field.is_set() && !values.contains(&field.text()) {
                    causes.not_supported(field, values);
                }
            });
        }
        for path in self.nonnegative {
            each(object, path, &mut |field| nonnegative(field, causes));
        }
        for path in self.templates {
            each(object, path, &mut |template| pod::template(template, causes));
        }
    }
}

/// Whether Go's zero value is all that a field has.
fn is_unset(field: &Field) -> bool {
    match field.value() {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Calls `visit` with each field at a path.
fn each(field: &Field, path: &str, visit: &mut dyn FnMut(&Field)) {
    let (step, rest) = path.split_once('.').unwrap_or((path, ""));
    let (name, is_list) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
    let child = field.child(name);
    if is_list {
        for item in child.items() {
            if rest.is_empty() { visit(&item) } else { each(&item, rest, visit) }
        }
    } else if rest.is_empty() {
        visit(&child);
    } else if child.is_set() {
        each(&child, rest, visit);
    }
}

fn selector_and_labels(object: &Field, kind: &str, causes: &mut Causes) {
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

fn stateful_set(object: &Field, old: &Field, causes: &mut Causes) {
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
            CHANGEABLE.iter().for_each(|name| drop(fields.remove(*name)));
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
fn restart_policy(template: &Field, causes: &mut Causes) {
    let spec = template.child("spec");
    let policy = spec.child("restartPolicy");
    match policy.text() {
        "Never" | "OnFailure" => {}
        "Always" | "" => causes.required(&policy, r#"valid values: "OnFailure", "Never""#),
        _ => causes.not_supported(&policy, &["OnFailure", "Never"]),
    }
}

/// At least one of the modes of access, and no other.
fn access_modes(object: &Field, causes: &mut Causes) {
    let spec = object.child("spec");
    let modes = spec.child("accessModes");
    for mode in modes.items() {
        if !ACCESS_MODES.contains(&mode.text()) {
            causes.not_supported(&modes.with_value(mode.value()), ACCESS_MODES);
        }
    }
}

fn volume(object: &Field, causes: &mut Causes) {
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

fn ingress(object: &Field, causes: &mut Causes) {
    let spec = object.child("spec");
    if spec.child("rules").is_empty() && !spec.child("defaultBackend").is_set() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        causes.invalid_rendered(&spec, "null".to_owned(), detail);
    }
}

fn network_policy(object: &Field, causes: &mut Causes) {
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
fn schedule(object: &Field, causes: &mut Causes) {
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

fn replication_controller(object: &Field, causes: &mut Causes) {
    let spec = object.child("spec");
    let template = spec.child("template");
    if template.child("spec").child("containers").is_empty() {
        causes.required(&template, "");
    } else {
        pod::template(&template, causes);
    }
}

fn claim(object: &Field, causes: &mut Causes) {
    access_modes(object, causes);
    let spec = object.child("spec");
    let resources = spec.child("resources");
    if !resources.child("requests").key("storage").is_set() {
        causes.required(&resources.key("storage"), "");
    }
    selector::label_selector(&spec.child("selector"), causes);
}

fn autoscaler(object: &Field, causes: &mut Causes) {
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

fn storage_class(object: &Field, old: &Field, causes: &mut Causes) {
    for name in ["parameters", "provisioner", "reclaimPolicy"] {
        let field = object.child(name);
        if field.value() != old.child(name).value() {
            causes.forbidden(&field, &format!("updates to {name} are forbidden."));
        }
    }
}

/// The highest priority of a class that is not the system's.
const USER_PRIORITY_MAX: i64 = 1_000_000_000;

fn priority_class(object: &Field, causes: &mut Causes) {
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

fn priority_class_on_update(object: &Field, old: &Field, causes: &mut Causes) {
    let value = object.child("value");
    if value.int() != old.child("value").int() {
        causes.forbidden(&value, "may not be changed in an update.");
    }
    metadata::immutable(&object.child("preemptionPolicy"), &old.child("preemptionPolicy"), causes);
}

fn webhooks(object: &Field, causes: &mut Causes) {
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

fn definition(object: &Field, causes: &mut Causes) {
    let (metadata, spec) = (object.child("metadata"), object.child("spec"));
    let (name, names) = (metadata.child("name"), spec.child("names"));
    let expected = format!("{}.{}", names.child("plural").text(), spec.child("group").text());
    if name.text() != expected {
        causes.invalid(&name, r#"must be spec.names.plural+"."+spec.group"#);
    }
    let versions = spec.child("versions");
    for version in versions.items() {
        let schema = version.child("schema");
        if !schema.child("openAPIV3Schema").is_set() {
            causes.required(&schema.child("openAPIV3Schema"), "");
        }
    }
    let stored = versions.items().filter(|version| version.child("storage").is_true()).count();
    if stored != 1 {
        let detail = "must have exactly one version marked as storage version";
        causes.invalid_rendered(&versions, go_json(versions.value()), detail);
    }
}

fn api_service(object: &Field, causes: &mut Causes) {
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
