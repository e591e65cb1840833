//! Validates Services and PodDisruptionBudgets (upstream's `ValidateService` and
//! `ValidatePodDisruptionBudget`).

use std::collections::BTreeSet;

use super::daemon_set::{at_most_100_percent, int_or_percent};
use super::field::{Causes, Field, go_json};
use super::metadata;
use super::{format, selector};

pub(super) fn spec(object: &Field, causes: &mut Causes) {
    let spec = object.child("spec");
    let (name, ports) = (spec.child("type"), spec.child("ports"));
    let is_headless = spec.child("clusterIP").text() == "None";
    match name.text() {
        "ExternalName" if spec.child("externalName").text().is_empty() => {
            causes.required(&spec.child("externalName"), "");
        }
        "ClusterIP" if is_headless => {}
        "ClusterIP" | "NodePort" | "LoadBalancer" if ports.is_empty() => {
            causes.required(&ports, "")
        }
        "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName" => {}
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
    let affinity = spec.child("sessionAffinity");
    if !["ClientIP", "None"].contains(&affinity.text()) {
        causes.not_supported(&affinity, &["ClientIP", "None"]);
    }
    metadata::labels(&spec.child("selector"), causes);
    const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !TYPES.contains(&name.text()) {
        causes.not_supported(&name, &TYPES);
    }
    if matches!(name.text(), "ClusterIP" | "ExternalName") {
        for port in ports.items().filter(|port| port.child("nodePort").int() != 0) {
            let detail = format!("may not be used when `type` is '{}'", name.text());
            causes.forbidden(&port.child("nodePort"), &detail);
        }
    }
}

/// The address of a Service can't be changed, except by its type.
pub(super) fn on_update(object: &Field, old: &Field, causes: &mut Causes) {
    let (spec, before) = (object.child("spec"), old.child("spec"));
    if spec.child("type").text() != before.child("type").text() {
        return;
    }
    let (address, before) = (spec.child("clusterIPs"), before.child("clusterIPs"));
    let given = spec.child("clusterIP");
    let is_changed = address.is_set() && address.value() != before.value();
    let is_other = given.is_set() && Some(given.value()) != before.value().get(0);
    if before.is_set() && (is_changed || is_other) {
        let value = if is_other {
            go_json(&crate::json::json!([given.text()]))
        } else {
            go_json(address.value())
        };
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
    let protocol = port.child("protocol");
    if !["SCTP", "TCP", "UDP"].contains(&protocol.text()) {
        causes.not_supported(&protocol, &["SCTP", "TCP", "UDP"]);
    }
    let target = port.child("targetPort");
    match target.value().as_str() {
        Some(name) => causes.invalid_each(&target, format::port_name(name)),
        None => causes.invalid_each(&target, format::port_number(target.int())),
    }
}

pub(super) fn budget(object: &Field, causes: &mut Causes) {
    let spec = object.child("spec");
    let (available, unavailable) = (spec.child("minAvailable"), spec.child("maxUnavailable"));
    if available.is_set() && unavailable.is_set() {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        // Upstream prints the internal Go struct, which has no JSON names.
        let json = |name: &str| go_json(spec.child(name).value());
        let value = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\
             \"UnhealthyPodEvictionPolicy\":{}}}",
            json("minAvailable"),
            json("selector"),
            json("maxUnavailable"),
            json("unhealthyPodEvictionPolicy")
        );
        causes.invalid_rendered(&spec, value, detail);
    }
    for field in [&available, &unavailable] {
        int_or_percent(field, causes);
        at_most_100_percent(field, causes);
    }
    selector::label_selector(&spec.child("selector"), causes);
    let policy = spec.child("unhealthyPodEvictionPolicy");
    if policy.is_set() && !["AlwaysAllow", "IfHealthyBudget"].contains(&policy.text()) {
        causes.not_supported(&policy, &["AlwaysAllow", "IfHealthyBudget"]);
    }
}
