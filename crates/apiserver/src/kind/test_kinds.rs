//! Kinds for tests: types of the table, with nothing of their own but names.

use super::{FieldLabels, Kind, named};

pub(crate) static POD: Kind = Kind {
    field_labels: FieldLabels::Listed(&["spec.nodeName"]),
    ..named("", "Pod", "pods", "pod")
};
pub(crate) static NODE: Kind = named("", "Node", "nodes", "node");
pub(crate) static NAMESPACE: Kind = named("", "Namespace", "namespaces", "namespace");
pub(crate) static DAEMON_SET: Kind = named("apps", "DaemonSet", "daemonsets", "daemonset");
pub(crate) static CONFIG_MAP: Kind = named("", "ConfigMap", "configmaps", "configmap");

pub(crate) static ALL: &[&Kind] = &[
    &POD,
    &NODE,
    &DAEMON_SET,
    &CONFIG_MAP,
    &named("apps", "Deployment", "deployments", "deployment"),
    &NAMESPACE,
    &named("", "Secret", "secrets", "secret"),
    &named("", "ServiceAccount", "serviceaccounts", "serviceaccount"),
];
