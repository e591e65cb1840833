//! The CustomResourceDefinitions of policies.

use everynode_k8s::convert::policy_schemas;
use serde_json::{Value, json};

use super::default_text;

/// Keywords of a schema that definitions do not have.
const HIDDEN: [&str; 6] =
    ["default", "propertyNames", "title", "x-at-least", "x-forms", "x-reason"];

/// The kinds of policies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Namespaced,
    Cluster,
}

impl Kind {
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Namespaced => "deploy/policies/rollout-policies.yaml",
            Self::Cluster => "deploy/policies/cluster-rollout-policies.yaml",
        }
    }

    pub(super) const fn comment(self) -> &'static str {
        match self {
            Self::Namespaced => "# Guarded rollouts of DaemonSets: docs/rollouts.md.",
            Self::Cluster => {
                "# Guarded rollouts of DaemonSets in many namespaces: docs/rollouts.md."
            }
        }
    }
}

/// The definition of a kind.
pub(super) fn yaml(kind: Kind) -> String {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&definition(kind), options).expect("it is a value")
}

fn definition(kind: Kind) -> Value {
    let (scope, name, short_name) = match kind {
        Kind::Namespaced => ("Namespaced", "RolloutPolicy", "rp"),
        Kind::Cluster => ("Cluster", "ClusterRolloutPolicy", "crp"),
    };
    let singular = name.to_lowercase();
    let plural = singular.replace("policy", "policies");
    let condition = |name: &str, r#type: &str, field: &str| {
        column(name, "string", &format!(".status.conditions[?(@.type==\"{type}\")].{field}"))
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.everynode.dev") },
        "spec": {
            "group": "everynode.dev",
            "scope": scope,
            "names": {
                "kind": name,
                "listKind": format!("{name}List"),
                "plural": plural,
                "singular": singular,
                "shortNames": [short_name],
                "categories": ["everynode"],
            },
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "additionalPrinterColumns": [
                    condition("Ready", "Ready", "status"),
                    condition("Stalled", "Stalled", "status"),
                    condition("Reason", "Ready", "reason"),
                    column("DaemonSets", "integer", ".status.daemonSetCount"),
                    column("Age", "date", ".metadata.creationTimestamp"),
                ],
                "schema": { "openAPIV3Schema": schema(kind) },
            }],
        },
    })
}

fn column(name: &str, r#type: &str, path: &str) -> Value {
    json!({ "name": name, "type": r#type, "jsonPath": path })
}

fn schema(kind: Kind) -> Value {
    let [mut spec, mut status] = policy_schemas(kind == Kind::Namespaced);
    hide(&mut spec);
    hide(&mut status);
    let description = spec.as_object_mut().and_then(|spec| spec.remove("description"));
    json!({
        "type": "object",
        "description": description,
        "required": ["spec"],
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": { "type": "object" },
            "spec": spec,
            "status": status,
        },
    })
}

/// Leaves out what definitions do not have: the shortest durations are rules in CEL, and defaults
/// are part of the description.
fn hide(schema: &mut Value) {
    let Some(keywords) = schema.as_object_mut() else { return };
    if let Some(Value::String(least)) = keywords.get("x-at-least") {
        let rule = format!("duration(self) >= duration('{least}')");
        let rule = json!({ "rule": rule, "message": format!("must be at least {least}") });
        keywords.insert("x-kubernetes-validations".to_owned(), json!([rule]));
    }
    if let (Some(Value::String(text)), Some(default)) =
        (keywords.get("description"), default_text(keywords.get("default")))
    {
        let text = format!("{text} By default {default}.");
        keywords.insert("description".to_owned(), text.into());
    }
    keywords.retain(|key, _| !HIDDEN.contains(&key.as_str()));
    for (key, value) in keywords.iter_mut() {
        match (key.as_str(), value) {
            ("properties", Value::Object(fields)) => fields.values_mut().for_each(hide),
            ("items" | "additionalProperties", schema) => hide(schema),
            _ => {}
        }
    }
    if let Some(Value::Array(rules)) = keywords.get_mut("x-kubernetes-validations") {
        rules.retain(|rule| rule.get("rule").is_some());
        if rules.is_empty() {
            keywords.remove("x-kubernetes-validations");
        }
    }
}
