//! The rules of each kind.

use super::{NONE, Names, Row, several};
use crate::validation::{deployment, service};

const ADMISSION: &str = "admissionregistration.k8s.io";
const STORAGE: &str = "storage.k8s.io";

const PROTOCOLS: &[&str] = &["TCP", "UDP", "SCTP"];

const WEBHOOK_REQUIRED: &[(&str, &str)] = &[
    ("webhooks[].sideEffects", "must specify one of None, NoneOnDryRun"),
    ("webhooks[].admissionReviewVersions", "must specify one of v1, v1beta1"),
];

const WEBHOOK_CHOICES: &[(&str, &[&str])] = &[
    ("webhooks[].failurePolicy", &["Fail", "Ignore"]),
    ("webhooks[].matchPolicy", &["Equivalent", "Exact"]),
    ("webhooks[].rules[].scope", &["*", "Cluster", "Namespaced"]),
];

pub(super) static ROWS: &[Row] = &[
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
        more: several::claim,
        ..NONE
    },
    Row {
        kind: "PersistentVolume",
        required: &[("spec.accessModes", ""), ("spec.capacity", "")],
        choices: &[
            ("spec.persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"]),
            ("spec.volumeMode", &["Block", "Filesystem"]),
        ],
        more: several::volume,
        ..NONE
    },
    Row { kind: "PodTemplate", templates: &["template"], ..NONE },
    Row {
        kind: "ReplicationController",
        required: &[("spec.selector", "")],
        nonnegative: &["spec.replicas", "spec.minReadySeconds"],
        more: several::replication_controller,
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
        more: |object, causes| several::selector_and_labels(object, "deployment", causes),
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
        more: |object, causes| several::selector_and_labels(object, "statefulset", causes),
        on_update: several::stateful_set,
        ..NONE
    },
    Row {
        group: "autoscaling",
        kind: "HorizontalPodAutoscaler",
        required: &[("spec.scaleTargetRef.kind", ""), ("spec.scaleTargetRef.name", "")],
        more: several::autoscaler,
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
        more: |object, causes| {
            several::restart_policy(&object.child("spec").child("template"), causes)
        },
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
        more: several::schedule,
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
        more: several::ingress,
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
        more: several::network_policy,
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
        on_update: several::storage_class,
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
        more: several::priority_class,
        on_update: several::priority_class_on_update,
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
        more: several::webhooks,
        ..NONE
    },
    Row {
        group: ADMISSION,
        kind: "MutatingWebhookConfiguration",
        required: WEBHOOK_REQUIRED,
        choices: WEBHOOK_CHOICES,
        more: several::webhooks,
        ..NONE
    },
    Row {
        group: "apiregistration.k8s.io",
        kind: "APIService",
        names: Names::Segment,
        more: several::api_service,
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
