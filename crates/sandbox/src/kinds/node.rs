//! Nodes: taints, quantities, addresses and immutable fields.

use std::collections::{BTreeSet, HashSet};

use super::pod::resources::quantity_of_resource;
use super::pod::scheduling;
use crate::format;
use crate::json::Value;
use crate::kind::columns::{self, AGE, NAME, or_none};
use crate::kind::defaults::{
    Defaults, Fields, changed_struct, condition_times, default, first_of_many,
};
use crate::kind::rules::{Causes, Field, Rules, go_json, go_quote, metadata, selector};
use crate::kind::strategy::{InitialStatus, Strategy};
use crate::kind::{FieldLabels, Kind, STATUS, named};
use crate::value::{array, boolean, string, string_map};

/// Nodes.
pub static NODE: Kind = Kind {
    short_names: &["no"],
    namespaced: false,
    subresources: STATUS,
    field_labels: FieldLabels::Listed(&["spec.unschedulable"]),
    field_values: &[("spec.unschedulable", |node| {
        boolean(node, "/spec/unschedulable").to_string()
    })],
    columns: &[
        NAME,
        columns::of("Status", status).about("The status of the node"),
        columns::of("Roles", roles).about("The roles of the node"),
        AGE,
        columns::text("Version", "/status/nodeInfo/kubeletVersion")
            .about("The version that the kubelet reports"),
        columns::of("Internal-IP", |node| address(node, "InternalIP"))
            .about("The address of the node within the cluster")
            .wide(),
        columns::of("External-IP", |node| address(node, "ExternalIP"))
            .about("The address of the node from outside")
            .wide(),
        columns::text_or("OS-Image", "/status/nodeInfo/osImage", "<unknown>")
            .about("The operating system that the node reports")
            .wide(),
        columns::text_or("Kernel-Version", "/status/nodeInfo/kernelVersion", "<unknown>")
            .about("The kernel version that the node reports")
            .wide(),
        columns::text_or(
            "Container-Runtime",
            "/status/nodeInfo/containerRuntimeVersion",
            "<unknown>",
        )
        .about("The container runtime that the node reports")
        .wide(),
    ],
    defaults: Defaults { more: defaults, ..Defaults::NONE },
    rules: Rules { on_create, on_update, on_status_update: on_update, ..Rules::NONE },
    strategy: Strategy {
        initial_status: InitialStatus::Given,
        directory: Some("minions"),
        ..Strategy::PLAIN
    },
    ..named("", "Node", "nodes", "node")
};

fn status(node: &Value) -> Value {
    let conditions = array(node, "/status/conditions").iter();
    let ready = conditions.rev().find(|condition| string(condition, "/type") == "Ready");
    let ready = match ready.map(|condition| string(condition, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if boolean(node, "/spec/unschedulable") {
        format!("{ready},SchedulingDisabled").into()
    } else {
        ready.into()
    }
}

/// The roles in `node-role.kubernetes.io/ROLE` labels and in the value of `kubernetes.io/role`.
fn roles(node: &Value) -> Value {
    let labels = string_map(node, "/metadata/labels");
    let roles: BTreeSet<&str> = labels
        .iter()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None => (*key == "kubernetes.io/role").then_some(*value),
        })
        .filter(|role| !role.is_empty())
        .collect();
    or_none(&roles.into_iter().collect::<Vec<_>>().join(",")).into()
}

fn address(node: &Value, address_type: &str) -> Value {
    let mut addresses = array(node, "/status/addresses").iter();
    let found = addresses.find(|address| string(address, "/type") == address_type);
    or_none(found.map_or("", |address| string(address, "/address"))).into()
}

fn defaults(fields: &mut Fields, stored: &Value) {
    if let Some(spec) = changed_struct(fields, stored, "spec") {
        first_of_many(spec, "podCIDR", "podCIDRs", |cidr| cidr, |first| first);
    }
    let Some(status) = changed_struct(fields, stored, "status") else { return };
    if let Some(capacity) = status.get("capacity").cloned() {
        default(status, "allocatable", capacity);
    }
    condition_times(status, &["lastHeartbeatTime", "lastTransitionTime"]);
}

fn on_create(kind: &Kind, object: &Field, causes: &mut Causes) {
    metadata::on_create(kind, object, causes);
    taints(object, causes);
    quantities(object, causes);
}

fn on_update(_: &Kind, object: &Field, old: &Field, causes: &mut Causes) {
    metadata::on_update(object, old, causes);
    quantities(object, causes);
    let (spec, old_spec) = (object.child("spec"), old.child("spec"));
    let (cidrs, old_cidrs) = (spec.child("podCIDRs"), old_spec.child("podCIDRs"));
    if !old_cidrs.is_empty() && cidrs.value() != old_cidrs.value() {
        causes.forbidden(&cidrs, "node updates may not change podCIDR except from \"\" to valid");
    }
    let (provider, old_provider) = (spec.child("providerID"), old_spec.child("providerID"));
    if !old_provider.text().is_empty() && provider.text() != old_provider.text() {
        causes.forbidden(
            &provider,
            "node updates may not change providerID except from \"\" to valid",
        );
    }
    taints(object, causes);
}

/// Upstream reports `spec.taints` as `metadata.taints`.
fn taints(object: &Field, causes: &mut Causes) {
    let spec = object.child("spec");
    let metadata = object.child("metadata");
    let path = metadata.child("taints");
    let taints = path.with_value(spec.child("taints").value());
    let mut seen: HashSet<(String, String)> = HashSet::new();
    for taint in taints.items() {
        selector::label_key(&taint.child("key"), causes);
        let value = taint.child("value");
        let wrong = format::label_value(value.text());
        if !wrong.is_empty() {
            causes.invalid(&value, &wrong.join(";"));
        }
        let effect = taint.child("effect");
        causes.required_choice(&effect, &scheduling::EFFECTS);
        let identity = (taint.child("key").text().to_owned(), effect.text().to_owned());
        if !seen.insert(identity) {
            causes.duplicate_rendered(
                &taint,
                rendered(&taint),
                "taints must be unique by key and effect pair",
            );
        }
    }
}

/// A taint as upstream prints the Go struct, without JSON names.
fn rendered(taint: &Field) -> String {
    let time_added = match taint.child("timeAdded") {
        set if set.is_set() => go_json(set.value()),
        _ => "null".to_owned(),
    };
    format!(
        "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{time_added}}}",
        go_quote(taint.child("key").text()),
        go_quote(taint.child("value").text()),
        go_quote(taint.child("effect").text()),
    )
}

fn quantities(object: &Field, causes: &mut Causes) {
    let status = object.child("status");
    for name in ["capacity", "allocatable"] {
        let resources = status.child(name);
        for (resource, entry) in resources.entries() {
            // Upstream reports these keys like fields.
            let field = resources.child(resource);
            quantity_of_resource(resource, &field.with_value(entry.value()), causes);
        }
    }
}
