//! Ingresses.

use crate::json::Value;
use crate::kind::columns::{AGE, Cell, Column, NAME, of, text_or};
use crate::kind::rules::Rules;
use crate::kind::{Kind, STATUS, kept};
use crate::value::{array, string};

/// Ingresses.
pub(super) static INGRESS: Kind = Kind {
    short_names: &["ing"],
    subresources: STATUS,
    counts_generations: true,
    columns: &[
        NAME,
        text_or("Class", "/spec/ingressClassName", "<none>"),
        of("Hosts", hosts),
        Column::new("Address", Cell::Constant("")),
        of("Ports", |ingress| {
            if array(ingress, "/spec/tls").is_empty() { "80" } else { "80, 443" }.into()
        }),
        AGE,
    ],
    rules: Rules {
        required: &[("spec.rules[].http.paths[].pathType", "pathType must be specified")],
        choices: &[(
            "spec.rules[].http.paths[].pathType",
            &["Exact", "ImplementationSpecific", "Prefix"],
        )],
        ..Rules::NONE
    },
    ..kept("networking.k8s.io", "Ingress", "ingresses", "ingress")
};

fn hosts(ingress: &Value) -> Value {
    let rules = array(ingress, "/spec/rules").iter();
    let hosts: Vec<&str> =
        rules.map(|rule| string(rule, "/host")).filter(|host| !host.is_empty()).collect();
    match hosts.as_slice() {
        [] => "*".into(),
        [first, second, third, rest @ ..] if !rest.is_empty() => {
            format!("{first},{second},{third} + {} more...", rest.len()).into()
        }
        all => all.join(",").into(),
    }
}
