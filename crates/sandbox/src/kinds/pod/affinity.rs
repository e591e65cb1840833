//! Validates node affinity, pod affinity and pod anti-affinity.

use crate::format;
use crate::kind::rules::{Causes, Field, selector};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn affinity(affinity: &Field, causes: &mut Causes) {
    let node = affinity.child("nodeAffinity");
    let required = node.child(REQUIRED);
    if required.is_set() {
        node_selector(&required, causes);
    }
    for preferred in node.child(PREFERRED).items() {
        weight(&preferred.child("weight"), causes);
        node_selector_term(&preferred.child("preference"), causes);
    }
    for name in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.child(name);
        for term in pods.child(REQUIRED).items() {
            pod_affinity_term(&term, causes);
        }
        for preferred in pods.child(PREFERRED).items() {
            weight(&preferred.child("weight"), causes);
            pod_affinity_term(&preferred.child("podAffinityTerm"), causes);
        }
    }
}

fn node_selector(node_selector: &Field, causes: &mut Causes) {
    let terms = node_selector.child("nodeSelectorTerms");
    if terms.is_empty() {
        causes.required(&terms, "must have at least one node selector term");
    }
    for term in terms.items() {
        node_selector_term(&term, causes);
    }
}

fn node_selector_term(term: &Field, causes: &mut Causes) {
    for requirement in term.child("matchExpressions").items() {
        label_requirement(&requirement, causes);
    }
    for requirement in term.child("matchFields").items() {
        field_requirement(&requirement, causes);
    }
}

fn label_requirement(requirement: &Field, causes: &mut Causes) {
    let (operator, values) = (requirement.child("operator"), requirement.child("values"));
    if !selector::check_values(&operator, &values, causes) {
        match operator.text() {
            "Gt" | "Lt" if values.len() == 1 => {}
            "Gt" | "Lt" => causes.required(
                &values,
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            ),
            other => causes.invalid_text(&operator, other, "not a valid selector operator"),
        }
    }
    selector::label_key(&requirement.child("key"), causes);
    if ["In", "NotIn"].contains(&operator.text()) {
        for value in values.items() {
            causes.invalid_each(&value, format::label_value(value.text()));
        }
    }
}

fn field_requirement(requirement: &Field, causes: &mut Causes) {
    let [operator, values, key] = ["operator", "values", "key"].map(|name| requirement.child(name));
    match operator.text() {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => causes.required(
            &values,
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        ),
        other => causes.invalid_text(&operator, other, "not a valid selector operator"),
    }
    if key.text() != "metadata.name" {
        causes.invalid_text(&key, key.text(), "not a valid field selector key");
        return;
    }
    for value in values.items() {
        causes.invalid_each(&value, format::dns_subdomain(value.text()));
    }
}

fn pod_affinity_term(term: &Field, causes: &mut Causes) {
    selector::label_selector(&term.child("labelSelector"), causes);
    selector::label_selector(&term.child("namespaceSelector"), causes);
    let key = term.child("topologyKey");
    if key.text().is_empty() {
        causes.required(&key, "can not be empty");
    }
    selector::label_key(&key, causes);
}

fn weight(weight: &Field, causes: &mut Causes) {
    if !(1..=100).contains(&weight.int()) {
        causes.invalid_rendered(weight, weight.int().to_string(), "must be in the range 1-100");
    }
}
