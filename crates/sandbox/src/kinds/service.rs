//! Services. The registry gives them addresses.

use crate::format;
use crate::json::{Value, json};
use crate::kind::columns::{AGE, Cell, Column, NAME, joined, of, or_none, text, text_or};
use crate::kind::defaults::Literal::{Struct, Text};
use crate::kind::defaults::{Defaults, Fields, default, struct_at, structs_in};
use crate::kind::rules::Rules;
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
    rules: Rules {
        names: format::label_name,
        choices: &[
            ("spec.type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]),
            ("spec.sessionAffinity", &["ClientIP", "None"]),
            ("spec.ports[].protocol", &["SCTP", "TCP", "UDP"]),
        ],
        each: &[("spec.ports[].port", |port, causes| {
            causes.invalid_each(port, format::port_number(port.int()));
        })],
        ..Rules::NONE
    },
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
