//! The schemas of all served types, from k8s-openapi, under upstream's names.

use k8s_openapi::api::{
    apps::v1 as apps, authentication::v1 as authentication, authorization::v1 as authorization,
    coordination::v1 as coordination, core::v1 as core, events::v1 as events, policy::v1 as policy,
    rbac::v1 as rbac,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::patch;

/// A type that is served, or that bodies and answers are of, with its place in the API.
struct Root {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    add: fn(&mut SchemaGenerator),
}

macro_rules! root {
    ($group:literal, $version:literal, $module:ident :: $kind:ident) => {
        Root {
            group: $group,
            version: $version,
            kind: stringify!($kind),
            add: |generator| {
                generator.subschema_for::<$module::$kind>();
            },
        }
    };
}

static ROOTS: &[Root] = &[
    root!("", "v1", core::Binding),
    root!("", "v1", core::ConfigMap),
    root!("", "v1", core::Event),
    root!("", "v1", core::Namespace),
    root!("", "v1", core::Node),
    root!("", "v1", core::Pod),
    root!("", "v1", core::Secret),
    root!("", "v1", core::Service),
    root!("", "v1", core::ServiceAccount),
    root!("", "v1", meta::Status),
    root!("", "v1", meta::DeleteOptions),
    root!("apps", "v1", apps::ControllerRevision),
    root!("apps", "v1", apps::DaemonSet),
    root!("apps", "v1", apps::Deployment),
    root!("authentication.k8s.io", "v1", authentication::SelfSubjectReview),
    root!("authentication.k8s.io", "v1", authentication::TokenRequest),
    root!("authorization.k8s.io", "v1", authorization::SelfSubjectAccessReview),
    root!("authorization.k8s.io", "v1", authorization::SelfSubjectRulesReview),
    root!("coordination.k8s.io", "v1", coordination::Lease),
    root!("events.k8s.io", "v1", events::Event),
    root!("policy", "v1", policy::Eviction),
    root!("policy", "v1", policy::PodDisruptionBudget),
    root!("rbac.authorization.k8s.io", "v1", rbac::ClusterRole),
    root!("rbac.authorization.k8s.io", "v1", rbac::ClusterRoleBinding),
    root!("rbac.authorization.k8s.io", "v1", rbac::Role),
    root!("rbac.authorization.k8s.io", "v1", rbac::RoleBinding),
];

/// All definitions by name, with references of the form `#/definitions/NAME`.
pub(super) fn definitions() -> Map<String, Value> {
    let mut settings = SchemaSettings::draft07();
    settings.transforms.clear();
    let mut generator = settings.into_generator();
    for root in ROOTS {
        (root.add)(&mut generator);
    }
    let mut definitions = generator.take_definitions(false);
    for (name, schema) in &mut definitions {
        finish(name, schema);
    }
    for root in ROOTS {
        mark(&mut definitions, root);
    }
    definitions
}

/// The definitions that `roots` reach, themselves included.
pub(super) fn reachable(
    definitions: &Map<String, Value>,
    roots: Vec<String>,
) -> Map<String, Value> {
    let mut reached = Map::new();
    let mut pending = roots;
    while let Some(name) = pending.pop() {
        let Some(schema) = definitions.get(&name) else { continue };
        if reached.insert(name, schema.clone()).is_none() {
            references(schema, &mut pending);
        }
    }
    reached
}

/// The names of the definitions of a group and version's kinds.
pub(super) fn roots_of(
    definitions: &Map<String, Value>,
    group: &str,
    version: &str,
) -> Vec<String> {
    ROOTS
        .iter()
        .filter(|root| root.group == group && root.version == version)
        .filter_map(|root| name_of(definitions, root.group, root.version, root.kind))
        .chain(name_of(definitions, "", "v1", "Status"))
        .collect()
}

/// The name of the definition of a kind.
pub(super) fn name_of(
    definitions: &Map<String, Value>,
    group: &str,
    version: &str,
    kind: &str,
) -> Option<String> {
    let wanted = json!({"group": group, "version": version, "kind": kind});
    let is_wanted = |schema: &&Value| {
        let marks = schema[GROUP_VERSION_KIND].as_array();
        marks.is_some_and(|marks| marks.contains(&wanted))
    };
    definitions.iter().find(|(_, schema)| is_wanted(schema)).map(|(name, _)| name.clone())
}

const GROUP_VERSION_KIND: &str = "x-kubernetes-group-version-kind";

/// Says of a definition which kind it is. Several roots never share one definition.
fn mark(definitions: &mut Map<String, Value>, root: &Root) {
    let package = match root.group {
        "" => "core",
        "authentication.k8s.io" => "authentication",
        "authorization.k8s.io" => "authorization",
        "coordination.k8s.io" => "coordination",
        "events.k8s.io" => "events",
        "rbac.authorization.k8s.io" => "rbac",
        group => group,
    };
    let names = [
        format!("io.k8s.api.{package}.{}.{}", root.version, root.kind),
        format!("io.k8s.apimachinery.pkg.apis.meta.{}.{}", root.version, root.kind),
    ];
    for name in names {
        if let Some(schema) = definitions.get_mut(&name) {
            schema[GROUP_VERSION_KIND] =
                json!([{"group": root.group, "version": root.version, "kind": root.kind}]);
        }
    }
}

/// Puts right where a Rust type says more, or less, than upstream's schema.
fn finish(name: &str, schema: &mut Value) {
    if schema["properties"].get("apiVersion").is_some()
        && let Some(required) = schema["required"].as_array_mut()
    {
        // Upstream requires metadata of no kind.
        required.retain(|field| field != "metadata");
        if required.is_empty()
            && let Some(fields) = schema.as_object_mut()
        {
            fields.remove("required");
        }
    }
    match name {
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => {
            replace_type(schema, json!("string"), Some("int-or-string"));
        }
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => {
            replace_type(schema, json!("string"), None);
        }
        _ => {}
    }
    patch_strategies(name, schema);
}

fn replace_type(schema: &mut Value, type_name: Value, format: Option<&str>) {
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("x-kubernetes-int-or-string");
        fields.insert("type".to_owned(), type_name);
        if let Some(format) = format {
            fields.insert("format".to_owned(), format.into());
        }
    }
}

/// How strategic merge patches treat a definition's lists: clients make such patches by it.
fn patch_strategies(name: &str, schema: &mut Value) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (field, schema) in properties {
        let Some(meta) = patch::merge_key(name, field) else { continue };
        schema["x-kubernetes-patch-strategy"] = meta.strategy.into();
        if let Some(key) = meta.merge_key {
            schema["x-kubernetes-patch-merge-key"] = key.into();
        }
    }
}

fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            let reference = fields.get("$ref").and_then(Value::as_str);
            let name = reference.and_then(|text| text.strip_prefix("#/definitions/"));
            found.extend(name.map(str::to_owned));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}
