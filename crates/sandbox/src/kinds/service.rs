//! Services (upstream's `ValidateService`). The registry allocates their addresses and ports.

use std::collections::BTreeSet;

use crate::format;
use crate::json::{Value, json};
use crate::kind::columns::{AGE, Cell, Column, NAME, joined, of, or_none, text, text_or};
use crate::kind::defaults::Literal::{Struct, Text};
use crate::kind::defaults::{Defaults, Fields, default, struct_at, structs_in};
use crate::kind::rules::{self, Causes, Field, Rules, go_json, metadata};
use crate::kind::strategy::Strategy;
use crate::kind::{FieldLabels, Kind, STATUS, defaults, kept};
use crate::value::{array, integer, string};

/// Services.
pub static SERVICE: Kind = Kind {
    short_names: &["svc"],
    categories: &["all"],
    subresources: STATUS,
    field_labels: FieldLabels::Listed(&["spec.clusterIP", "spec.type"]),
    columns: &[
        NAME,
        text("Type", "/spec/type"),
        text_or("Cluster-IP", "/spec/clusterIP", "<none>"),
        of("External-IP", external_ip),
        of("Port(s)", ports),
        AGE,
        Column::new("Selector", Cell::Labels("/spec/selector")).wide(),
    ],
    defaults: Defaults {
        values: &[
            ("spec.type", Text("ClusterIP")),
            ("spec.sessionAffinity", Text("None")),
            ("spec.ports[].protocol", Text("TCP")),
            ("status.loadBalancer", Struct),
        ],
        more: complete,
        ..Defaults::KEPT
    },
    rules: Rules { names: format::label_name, each: &[("spec", spec)], on_update, ..Rules::NONE },
    strategy: Strategy {
        is_created_by_update: true,
        returns_deleted_object: true,
        ..Strategy::PLAIN
    },
    ..kept("", "Service", "services", "service")
};

fn external_ip(service: &Value) -> Value {
    let own = joined(service, "/spec/externalIPs", "", "");
    match string(service, "/spec/type") {
        "ExternalName" => string(service, "/spec/externalName").into(),
        _ if !own.is_empty() => own.into(),
        "LoadBalancer" => {
            joined(service, "/status/loadBalancer/ingress", "/ip", "<pending>").into()
        }
        _ => "<none>".into(),
    }
}

fn ports(service: &Value) -> Value {
    let port = |port: &Value| {
        let (number, protocol) = (integer(port, "/port"), string(port, "/protocol"));
        match integer(port, "/nodePort") {
            0 => format!("{number}/{protocol}"),
            node_port => format!("{number}:{node_port}/{protocol}"),
        }
    };
    let ports: Vec<String> = array(service, "/spec/ports").iter().map(port).collect();
    or_none(&ports.join(",")).into()
}

fn complete(fields: &mut Fields, _: &Value) {
    let spec = struct_at(fields, "spec");
    let type_name = defaults::text(spec, "type").to_owned();
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
    if defaults::text(spec, "sessionAffinity") == "ClientIP" {
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

fn spec(spec: &Field, causes: &mut Causes) {
    let (name, ports) = (spec.child("type"), spec.child("ports"));
    let is_headless = spec.child("clusterIP").text() == "None";
    match name.text() {
        "ExternalName" => causes.required_text(&spec.child("externalName")),
        "ClusterIP" if is_headless => {}
        "ClusterIP" | "NodePort" | "LoadBalancer" if ports.is_empty() => {
            causes.required(&ports, "")
        }
        _ => {}
    }
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for port in ports.items() {
        self::port(&port, ports.len() > 1, causes);
        let name = port.child("name");
        if !name.text().is_empty() && !names.insert(name.text().to_owned()) {
            causes.duplicate(&name);
        }
        let (protocol, number) = (port.child("protocol").text(), port.child("port").int());
        if !numbers.insert((protocol.to_owned(), number)) {
            causes.duplicate_rendered(&port, go_json(port.value()), "");
        }
    }
    causes.choice(&spec.child("sessionAffinity"), &["ClientIP", "None"]);
    metadata::labels(&spec.child("selector"), causes);
    causes.choice(&name, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    if matches!(name.text(), "ClusterIP" | "ExternalName") {
        for port in ports.items().filter(|port| port.child("nodePort").int() != 0) {
            let detail = format!("may not be used when `type` is '{}'", name.text());
            causes.forbidden(&port.child("nodePort"), &detail);
        }
    }
}

/// The address of a Service can't be changed, except by its type.
fn on_update(kind: &Kind, object: &Field, old: &Field, causes: &mut Causes) {
    rules::on_update(kind, object, old, causes);
    let (spec, before) = (object.child("spec"), old.child("spec"));
    if spec.child("type").text() != before.child("type").text() {
        return;
    }
    let (address, before) = (spec.child("clusterIPs"), before.child("clusterIPs"));
    let given = spec.child("clusterIP");
    let is_changed = address.is_set() && address.value() != before.value();
    let is_other = given.is_set() && Some(given.value()) != before.value().get(0);
    if before.is_set() && (is_changed || is_other) {
        let value =
            if is_other { go_json(&json!([given.text()])) } else { go_json(address.value()) };
        let first = address.index(0);
        causes.invalid_rendered(&first, value, "may not change once set");
    }
}

fn port(port: &Field, needs_name: bool, causes: &mut Causes) {
    let (name, number) = (port.child("name"), port.child("port"));
    match name.text() {
        "" if needs_name => causes.required(&name, ""),
        "" => {}
        text => causes.invalid_each(&name, format::dns_label(text)),
    }
    causes.invalid_each(&number, format::port_number(number.int()));
    causes.choice(&port.child("protocol"), &["SCTP", "TCP", "UDP"]);
    let target = port.child("targetPort");
    match target.value().as_str() {
        Some(name) => causes.invalid_each(&target, format::port_name(name)),
        None => causes.invalid_each(&target, format::port_number(target.int())),
    }
}
