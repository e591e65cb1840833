//! The paths and operations of the OpenAPI documents.

use crate::json::{Map, Value, json};

use super::schemas;
use crate::http::discovery::{GroupVersion, git_version};
use crate::kind::{Kind, Subresource, Verb};
use crate::kinds::Kinds;

/// The OpenAPI v2 document: the types of the whole API, of which `definitions` contains the
/// built-in ones, and no paths, which only clients without v3 read.
pub(super) fn v2(kinds: &Kinds, definitions: &Map) -> Value {
    let mut definitions = definitions.clone();
    for kind in kinds.iter() {
        definitions.extend(schemas::custom(kind));
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": git_version()},
        "paths": {},
        "definitions": definitions,
    })
}

/// The OpenAPI v3 document of one group and version; `definitions` contains all built-in
/// types.
pub(super) fn v3(kinds: &Kinds, of: &GroupVersion, definitions: &Map) -> Value {
    let (mut paths, mut custom) = (Map::new(), Map::new());
    for kind in kinds.iter().filter(|kind| of.is_of(kind)) {
        add_paths(&mut paths, kind);
        custom.extend(schemas::custom(kind));
    }
    let mut roots = schemas::roots_of(definitions, of.group, of.version);
    custom.values().for_each(|schema| schemas::references(schema, &mut roots));
    let mut schemas = schemas::reachable(definitions, roots);
    schemas.extend(custom);
    for (name, schema) in schemas.iter_mut() {
        to_v3(schema);
        multiple_types(name, schema);
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": git_version()},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

fn add_paths(paths: &mut Map, kind: &Kind) {
    let root = if kind.group.is_empty() { "/api" } else { "/apis" };
    let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{root}/{}{scope}/{}", kind.api_version(), kind.plural);
    let item = format!("{collection}/{{name}}");
    for verb in kind.verbs {
        let (path, method) = match verb {
            Verb::List => (&collection, "get"),
            Verb::Create => (&collection, "post"),
            Verb::DeleteCollection => (&collection, "delete"),
            Verb::Get => (&item, "get"),
            Verb::Update => (&item, "put"),
            Verb::Patch => (&item, "patch"),
            Verb::Delete => (&item, "delete"),
            // A watch is a list with a parameter.
            Verb::Watch => continue,
        };
        let entry = paths.entry(path.clone()).or_insert_with(|| json!({}));
        entry[method] = operation(kind, *verb, None);
    }
    if kind.subresources.contains(&Subresource::Resize) {
        let resize = |verb| operation(kind, verb, Some(Subresource::Resize));
        let entry = json!({
            "get": resize(Verb::Get), "put": resize(Verb::Update), "patch": resize(Verb::Patch),
        });
        paths.insert(format!("{item}/{}", Subresource::Resize.name()), entry);
    }
}

const PATCH_TYPES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

fn operation(kind: &Kind, verb: Verb, of: Option<Subresource>) -> Value {
    let of = of.map(Subresource::name).unwrap_or_default();
    let mut operation = json!({
        "description": format!("{} {}", verb.name(), kind.kind),
        "operationId": format!("{}{}{}{of}", verb.name(), kind.group.replace('.', ""), kind.kind),
        "parameters": parameters(verb),
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action(verb),
        "x-kubernetes-group-version-kind":
            {"group": kind.group, "version": kind.version, "kind": kind.kind},
    });
    if verb == Verb::Patch {
        // There are no strategic merge patches of custom resources.
        let count = PATCH_TYPES.len() - usize::from(kind.custom.is_some());
        let content: Map = PATCH_TYPES[..count]
            .iter()
            .map(|name| ((*name).to_owned(), json!({"schema": {"type": "object"}})))
            .collect();
        operation["requestBody"] = json!({"content": content, "required": true});
    }
    operation
}

fn action(verb: Verb) -> &'static str {
    match verb {
        Verb::Create => "post",
        Verb::Update => "put",
        other => other.name(),
    }
}

/// The name and the type of a parameter.
type Parameter = (&'static str, &'static str);

const WRITE: &[Parameter] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const DELETE: &[Parameter] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const LIST: &[Parameter] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];

fn parameters(verb: Verb) -> Value {
    let parameters = match verb {
        Verb::Create | Verb::Update | Verb::Patch => WRITE,
        Verb::Delete | Verb::DeleteCollection => DELETE,
        Verb::List | Verb::Watch => LIST,
        Verb::Get => &[],
    };
    let document = |(name, type_name): &Parameter| {
        let schema = json!({ "type": type_name, "uniqueItems": true });
        json!({ "name": name, "in": "query", "schema": schema })
    };
    parameters.iter().map(document).collect()
}

/// In v3 a `$ref` has no sibling fields, so a reference with a description is wrapped in `allOf`.
fn to_v3(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                let reference = reference.replace("#/definitions/", "#/components/schemas/");
                if fields.len() == 1 {
                    fields.insert("$ref".to_owned(), reference.into());
                } else {
                    fields.remove("$ref");
                    fields.insert("allOf", json!([{"$ref": reference}]));
                }
                return;
            }
            fields.values_mut().for_each(to_v3);
        }
        Value::Array(items) => items.iter_mut().for_each(to_v3),
        _ => {}
    }
}

/// Replaces the types that v2 can only describe as strings.
fn multiple_types(name: &str, schema: &mut Value) {
    let other = match name {
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => "integer",
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => "number",
        _ => return,
    };
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("type");
        fields.insert("oneOf", json!([{"type": other}, {"type": "string"}]));
    }
}
