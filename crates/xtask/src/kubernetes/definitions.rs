//! The OpenAPI definitions of the types, as version 2 has them, which is where upstream publishes
//! them: under the names `io.k8s.api.core.v1.Pod`, with references `#/definitions/NAME`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::special::Special;
use super::types::{Field, Omitted, Root, Shape, Struct, StructForm, Topology, Types, table_name};

/// All definitions by name. There are none of structs that are only embedded.
pub(super) fn definitions(types: &Types) -> Map<String, Value> {
    let all = types.structs.values();
    let named = all.flat_map(Struct::fields).filter(|field| field.name.is_some());
    let used: BTreeSet<&str> = named.filter_map(|field| field.shape.struct_name()).collect();
    let is_used = |of: &&Struct| of.root.is_some() || used.contains(of.go_name.as_str());
    let structs = types.structs.values().filter(is_used).filter_map(|of| match &of.form {
        StructForm::Fields(_) => Some((definition_name(&of.go_name), struct_schema(types, of))),
        // Documents have the list in the place of its name.
        StructForm::Items(_) => None,
    });
    let special = types.special.iter().map(|(special, description)| {
        (definition_name(special.go_name), special_schema(special, description))
    });
    structs.chain(special).collect()
}

/// `io.k8s.api.core.v1.Pod` of `k8s.io/api/core/v1.Pod`.
fn definition_name(go_name: &str) -> String {
    go_name.replacen("k8s.io", "io.k8s", 1).replace('/', ".")
}

fn struct_schema(types: &Types, of: &Struct) -> Value {
    let fields = fields(types, of);
    let properties =
        fields.iter().map(|(name, field)| ((*name).to_owned(), property(types, field)));
    let properties: Map<String, Value> = properties.collect();
    let required = fields.iter().filter(|(_, field)| field.is_required);
    let mut required: Vec<&str> = required.map(|(name, _)| *name).collect();
    required.sort_unstable();
    let mut schema = json!({"type": "object"});
    if !of.description.is_empty() {
        schema["description"] = json!(of.description);
    }
    if !properties.is_empty() {
        schema["properties"] = json!(properties);
    }
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if of.is_atomic {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    if let Some(Root { group, version, kind }) = &of.root {
        schema["x-kubernetes-group-version-kind"] =
            json!([{"group": group, "version": version, "kind": kind}]);
    }
    schema
}

fn special_schema(special: &Special, description: &str) -> Value {
    let mut schema = json!({"description": description});
    if let Some(name) = special.openapi_type {
        schema["type"] = json!(name);
    }
    if let Some(format) = special.openapi_format {
        schema["format"] = json!(format);
    }
    schema
}

/// The fields in JSON by name, those of embedded structs included.
fn fields<'a>(types: &'a Types, of: &'a Struct) -> Vec<(&'a str, &'a Field)> {
    let mut all = Vec::new();
    for field in of.fields() {
        match (&field.name, &field.shape) {
            (Some(name), _) => all.push((name.as_str(), field)),
            (None, Shape::Struct(go_name)) => {
                all.extend(self::fields(types, &types.structs[&table_name(go_name)]));
            }
            (None, _) => {}
        }
    }
    all
}

fn property(types: &Types, field: &Field) -> Value {
    let mut schema = schema(types, &field.shape);
    if !field.description.is_empty() {
        schema["description"] = json!(field.description);
    }
    let is_list = matches!(field.shape, Shape::List(_) | Shape::Bytes);
    let kind = if is_list { "x-kubernetes-list-type" } else { "x-kubernetes-map-type" };
    match &field.topology {
        None => {}
        Some(Topology::Atomic) => schema[kind] = json!("atomic"),
        Some(Topology::Granular) => schema[kind] = json!("granular"),
        Some(Topology::Set) => schema[kind] = json!("set"),
        Some(Topology::Keyed(keys)) => {
            schema[kind] = json!("map");
            schema["x-kubernetes-list-map-keys"] = json!(keys);
        }
    }
    if let Some(strategy) = &field.patch_strategy {
        schema["x-kubernetes-patch-strategy"] = json!(strategy);
    }
    if let Some(key) = &field.patch_merge_key {
        schema["x-kubernetes-patch-merge-key"] = json!(key);
    }
    if let Some(default) = default(field) {
        schema["default"] = default;
    }
    schema
}

/// Scalars that Go always writes have their zero value, if they declare no default.
fn default(field: &Field) -> Option<Value> {
    if field.default.is_some() {
        return field.default.clone();
    }
    if field.omitted != Omitted::Never || field.is_pointer {
        return None;
    }
    match field.shape {
        Shape::Text(_) => Some(json!("")),
        Shape::Scalar("bool") => Some(json!(false)),
        Shape::Scalar(_) => Some(json!(0)),
        Shape::Struct(_) | Shape::Map(_) | Shape::List(_) | Shape::Bytes | Shape::Special(_) => {
            None
        }
    }
}

fn schema(types: &Types, shape: &Shape) -> Value {
    let reference =
        |go_name| json!({"$ref": format!("#/definitions/{}", definition_name(go_name))});
    let list = |item| json!({"type": "array", "items": schema(types, item)});
    match shape {
        Shape::Struct(go_name) => match &types.structs[&table_name(go_name)].form {
            StructForm::Fields(_) => reference(go_name),
            StructForm::Items(item) => list(item),
        },
        Shape::Special(special) => reference(special.go_name),
        Shape::Map(item) => json!({"type": "object", "additionalProperties": schema(types, item)}),
        Shape::List(item) => list(item),
        Shape::Text(_) => json!({"type": "string"}),
        Shape::Bytes => json!({"type": "string", "format": "byte"}),
        Shape::Scalar("bool") => json!({"type": "boolean"}),
        Shape::Scalar("double") => json!({"type": "number", "format": "double"}),
        Shape::Scalar(name) => json!({"type": "integer", "format": name}),
    }
}
