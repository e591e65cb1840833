//! NetworkPolicies.

use crate::json::{Value, json};
use crate::kind::columns::{AGE, Cell, Column, NAME};
use crate::kind::defaults::Literal::Text;
use crate::kind::defaults::{Defaults, Fields, default, struct_at};
use crate::kind::rules::Rules;
use crate::kind::{Kind, kept};

const PROTOCOLS: &[&str] = &["TCP", "UDP", "SCTP"];

/// NetworkPolicies.
pub(super) static NETWORK_POLICY: Kind = Kind {
    short_names: &["netpol"],
    counts_generations: true,
    columns: &[
        NAME,
        Column::new("Pod-Selector", Cell::Labels("/spec/podSelector/matchLabels")),
        AGE,
    ],
    defaults: Defaults {
        values: &[
            ("spec.ingress[].ports[].protocol", Text("TCP")),
            ("spec.egress[].ports[].protocol", Text("TCP")),
        ],
        more: policy_types,
        ..Defaults::KEPT
    },
    rules: Rules {
        choices: &[
            ("spec.ingress[].ports[].protocol", PROTOCOLS),
            ("spec.egress[].ports[].protocol", PROTOCOLS),
            ("spec.policyTypes[]", &["Ingress", "Egress"]),
        ],
        ..Rules::NONE
    },
    ..kept("networking.k8s.io", "NetworkPolicy", "networkpolicies", "networkpolicy")
};

fn policy_types(fields: &mut Fields, _: &Value) {
    let spec = struct_at(fields, "spec");
    let egress = spec.get("egress").is_some_and(Value::is_array);
    let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    default(spec, "policyTypes", types);
}
