//! The kinds on which something in the sandbox acts, or that the API server itself reads.

use super::{FieldLabels, Kind, Strategy, Subresource, Verb};

pub(super) const ALL: &[Verb] = &[
    Verb::Create,
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Get,
    Verb::List,
    Verb::Patch,
    Verb::Update,
    Verb::Watch,
];

const NO_COLLECTION: &[Verb] =
    &[Verb::Create, Verb::Delete, Verb::Get, Verb::List, Verb::Patch, Verb::Update, Verb::Watch];

pub(super) const PLAIN: Kind = Kind {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    singular: "",
    short_names: &[],
    categories: &[],
    namespaced: true,
    verbs: ALL,
    subresources: &[],
    field_labels: FieldLabels::Metadata,
    strategy: Strategy::Plain,
    deprecation: None,
    counts_generations: false,
    stored_as: None,
    custom: None,
};

/// CustomResourceDefinitions, whose kinds are served.
pub static DEFINITION: Kind = Kind {
    group: "apiextensions.k8s.io",
    kind: "CustomResourceDefinition",
    plural: "customresourcedefinitions",
    singular: "customresourcedefinition",
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    namespaced: false,
    subresources: &[Subresource::Status],
    counts_generations: true,
    strategy: Strategy::Definition,
    ..PLAIN
};

const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

/// ConfigMaps.
pub static CONFIG_MAP: Kind = Kind {
    kind: "ConfigMap",
    plural: "configmaps",
    singular: "configmap",
    short_names: &["cm"],
    ..PLAIN
};

/// Events of the core group.
pub static EVENT: Kind = Kind {
    kind: "Event",
    plural: "events",
    singular: "event",
    short_names: &["ev"],
    field_labels: FieldLabels::Listed(EVENT_FIELDS),
    ..PLAIN
};

/// Namespaces.
pub static NAMESPACE: Kind = Kind {
    kind: "Namespace",
    plural: "namespaces",
    singular: "namespace",
    short_names: &["ns"],
    namespaced: false,
    verbs: NO_COLLECTION,
    subresources: &[Subresource::Finalize, Subresource::Status],
    field_labels: FieldLabels::Listed(&["status.phase", "name"]),
    strategy: Strategy::Namespace,
    ..PLAIN
};

/// Nodes.
pub static NODE: Kind = Kind {
    kind: "Node",
    plural: "nodes",
    singular: "node",
    short_names: &["no"],
    namespaced: false,
    subresources: &[Subresource::Status],
    field_labels: FieldLabels::Listed(&["spec.unschedulable"]),
    strategy: Strategy::Node,
    ..PLAIN
};

/// Pods.
pub static POD: Kind = Kind {
    kind: "Pod",
    plural: "pods",
    singular: "pod",
    short_names: &["po"],
    categories: &["all"],
    subresources: &[
        Subresource::Binding,
        Subresource::Eviction,
        Subresource::Resize,
        Subresource::Status,
    ],
    field_labels: FieldLabels::Listed(&[
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ]),
    counts_generations: true,
    strategy: Strategy::Pod,
    ..PLAIN
};

/// Secrets.
pub static SECRET: Kind = Kind {
    kind: "Secret",
    plural: "secrets",
    singular: "secret",
    field_labels: FieldLabels::Listed(&["type"]),
    ..PLAIN
};

/// ServiceAccounts.
pub static SERVICE_ACCOUNT: Kind = Kind {
    kind: "ServiceAccount",
    plural: "serviceaccounts",
    singular: "serviceaccount",
    short_names: &["sa"],
    subresources: &[Subresource::Token],
    ..PLAIN
};

/// ControllerRevisions.
pub static CONTROLLER_REVISION: Kind = Kind {
    group: "apps",
    kind: "ControllerRevision",
    plural: "controllerrevisions",
    singular: "controllerrevision",
    ..PLAIN
};

/// DaemonSets.
pub static DAEMON_SET: Kind = Kind {
    group: "apps",
    kind: "DaemonSet",
    plural: "daemonsets",
    singular: "daemonset",
    short_names: &["ds"],
    categories: &["all"],
    subresources: &[Subresource::Status],
    counts_generations: true,
    strategy: Strategy::DaemonSet,
    ..PLAIN
};

/// Leases.
pub static LEASE: Kind = Kind {
    group: "coordination.k8s.io",
    kind: "Lease",
    plural: "leases",
    singular: "lease",
    ..PLAIN
};

/// Events of events.k8s.io: a newer form of the same objects as [`EVENT`].
pub static EVENTS_EVENT: Kind = Kind {
    group: "events.k8s.io",
    kind: "Event",
    plural: "events",
    singular: "event",
    short_names: &["ev"],
    field_labels: FieldLabels::Listed(&[
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
        "regarding.apiVersion",
        "regarding.resourceVersion",
        "regarding.fieldPath",
        "reason",
        "reportingController",
        "type",
    ]),
    stored_as: Some(&EVENT),
    ..PLAIN
};

/// PodDisruptionBudgets, which evictions honour.
pub static POD_DISRUPTION_BUDGET: Kind = Kind {
    group: "policy",
    kind: "PodDisruptionBudget",
    plural: "poddisruptionbudgets",
    singular: "poddisruptionbudget",
    short_names: &["pdb"],
    subresources: &[Subresource::Status],
    counts_generations: true,
    ..PLAIN
};

/// The common columns of the RBAC kinds, which `crate::authorization` evaluates.
const RBAC: Kind = Kind { group: "rbac.authorization.k8s.io", ..PLAIN };

/// ClusterRoleBindings.
pub static CLUSTER_ROLE_BINDING: Kind = Kind {
    kind: "ClusterRoleBinding",
    plural: "clusterrolebindings",
    singular: "clusterrolebinding",
    namespaced: false,
    ..RBAC
};

/// ClusterRoles.
pub static CLUSTER_ROLE: Kind = Kind {
    kind: "ClusterRole",
    plural: "clusterroles",
    singular: "clusterrole",
    namespaced: false,
    ..RBAC
};

/// RoleBindings.
pub static ROLE_BINDING: Kind =
    Kind { kind: "RoleBinding", plural: "rolebindings", singular: "rolebinding", ..RBAC };

/// Roles.
pub static ROLE: Kind = Kind { kind: "Role", plural: "roles", singular: "role", ..RBAC };

/// PriorityClasses, which admission and the scheduler apply.
pub static PRIORITY_CLASS: Kind = Kind {
    group: "scheduling.k8s.io",
    kind: "PriorityClass",
    plural: "priorityclasses",
    singular: "priorityclass",
    short_names: &["pc"],
    namespaced: false,
    counts_generations: true,
    ..PLAIN
};

/// The rows of this file.
pub(super) static ROWS: &[&Kind] = &[
    &CONFIG_MAP,
    &DEFINITION,
    &EVENT,
    &NAMESPACE,
    &NODE,
    &POD,
    &SECRET,
    &SERVICE_ACCOUNT,
    &CONTROLLER_REVISION,
    &DAEMON_SET,
    &LEASE,
    &EVENTS_EVENT,
    &POD_DISRUPTION_BUDGET,
    &CLUSTER_ROLE_BINDING,
    &CLUSTER_ROLE,
    &ROLE_BINDING,
    &ROLE,
    &PRIORITY_CLASS,
];
