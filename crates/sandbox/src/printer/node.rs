//! Tables of Nodes.

use std::collections::BTreeSet;

use everynode_core::api::Timestamp;

use super::{AGE, Column, NAME, Printer, age, name, or_none};
use crate::json::Value;
use crate::value::{array, boolean, string, string_map};

pub(super) const PRINTER: Printer = Printer {
    columns: &[
        NAME,
        Column::new("Status", "The status of the node"),
        Column::new("Roles", "The roles of the node"),
        AGE,
        Column::new("Version", "The version that the kubelet reports"),
        Column::new("Internal-IP", "The address of the node within the cluster").wide(),
        Column::new("External-IP", "The address of the node from outside").wide(),
        Column::new("OS-Image", "The operating system that the node reports").wide(),
        Column::new("Kernel-Version", "The kernel version that the node reports").wide(),
        Column::new("Container-Runtime", "The container runtime that the node reports").wide(),
    ],
    cells,
};

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let info = |field: &str| match string(object, &format!("/status/nodeInfo/{field}")) {
        "" => "<unknown>",
        text => text,
    };
    vec![
        name(object).into(),
        status(object).into(),
        or_none(&roles(object)).into(),
        age(object, now).into(),
        string(object, "/status/nodeInfo/kubeletVersion").into(),
        or_none(address(object, "InternalIP")).into(),
        or_none(address(object, "ExternalIP")).into(),
        info("osImage").into(),
        info("kernelVersion").into(),
        info("containerRuntimeVersion").into(),
    ]
}

fn status(object: &Value) -> String {
    let ready = array(object, "/status/conditions")
        .iter()
        .rev()
        .find(|condition| string(condition, "/type") == "Ready");
    let ready = match ready.map(|condition| string(condition, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if boolean(object, "/spec/unschedulable") {
        format!("{ready},SchedulingDisabled")
    } else {
        ready.to_owned()
    }
}

/// The roles in `node-role.kubernetes.io/ROLE` labels and in the value of `kubernetes.io/role`.
fn roles(object: &Value) -> String {
    let labels = string_map(object, "/metadata/labels");
    let roles: BTreeSet<&str> = labels
        .iter()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None => (*key == "kubernetes.io/role").then_some(*value),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.into_iter().collect::<Vec<_>>().join(",")
}

fn address<'a>(object: &'a Value, address_type: &str) -> &'a str {
    array(object, "/status/addresses")
        .iter()
        .find(|address| string(address, "/type") == address_type)
        .map_or("", |address| string(address, "/address"))
}
