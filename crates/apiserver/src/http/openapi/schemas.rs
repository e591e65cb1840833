//! The schemas of all served types, under upstream's names.

use crate::json::{Map, Value, json};
use crate::kind::Kind;

/// The definitions that `roots` refer to, directly or indirectly, including `roots`.
pub(super) fn reachable(definitions: &Map, roots: Vec<String>) -> Map {
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

/// The names of the definitions of all kinds in a group and version.
pub(super) fn roots_of(definitions: &Map, group: &str, version: &str) -> Vec<String> {
    let belongs = |mark: &Value| mark["group"] == group && mark["version"] == version;
    let is_status = |mark: &Value| mark["group"] == "" && mark["kind"] == "Status";
    let is_root = |schema: &Value| {
        let mut marks = schema[GROUP_VERSION_KIND].as_array().into_iter().flatten();
        marks.any(|mark| belongs(mark) || is_status(mark))
    };
    let roots = definitions.iter().filter(|(_, schema)| is_root(schema));
    roots.map(|(name, _)| name.to_string()).collect()
}

const GROUP_VERSION_KIND: &str = "x-kubernetes-group-version-kind";

/// The definitions of a custom kind and of its lists; none for a built-in kind (S15).
pub(super) fn custom(kind: &Kind) -> Vec<(String, Value)> {
    let Some(custom) = kind.custom() else { return Vec::new() };
    let reference =
        |name: &str| format!("#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.{name}");
    let group: Vec<&str> = kind.group.rsplit('.').collect();
    let prefix = format!("{}.{}", group.join("."), kind.version);
    let name = format!("{prefix}.{}", kind.kind);
    let mark = |schema: &mut Value, kind_name: &str| {
        schema[GROUP_VERSION_KIND] =
            json!([{"group": kind.group, "version": kind.version, "kind": kind_name}]);
    };
    let mut schema = custom.document.clone();
    add_resource_fields(&mut schema, &reference("ObjectMeta"));
    mark(&mut schema, kind.kind);
    let (items, list_kind) = (json!({"$ref": format!("#/definitions/{name}")}), kind.list_kind());
    let mut list = json!({
        "description": format!("{list_kind} is a list of {}", kind.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "items": {
                "description": format!("List of {}.", kind.plural), "type": "array", "items": items,
            },
        },
    });
    add_resource_fields(&mut list, &reference("ListMeta"));
    mark(&mut list, &list_kind);
    vec![(format!("{prefix}.{list_kind}"), list), (name, schema)]
}

/// Adds the fields that each object has to the schema of a custom kind, and of resources in it.
fn add_resource_fields(schema: &mut Value, metadata: &str) {
    const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of \
        an object. Servers should convert recognized schemas to the latest internal value, and \
        may reject unrecognized values. More info: https://git.k8s.io/community/contributors/\
        devel/sig-architecture/api-conventions.md#resources";
    const KIND: &str = "Kind is a string value representing the REST resource this object \
        represents. Servers may infer this from the endpoint the client submits requests to. \
        Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/\
        devel/sig-architecture/api-conventions.md#types-kinds";
    const METADATA: &str = "Standard object's metadata. More info: https://git.k8s.io/community/\
        contributors/devel/sig-architecture/api-conventions.md#metadata";
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        let nested = properties.values_mut().filter(|property| {
            property.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true))
        });
        nested.for_each(|property| add_resource_fields(property, metadata));
    }
    schema["properties"]["apiVersion"] = json!({"description": API_VERSION, "type": "string"});
    schema["properties"]["kind"] = json!({"description": KIND, "type": "string"});
    schema["properties"]["metadata"] = json!({"description": METADATA, "$ref": metadata});
}

pub(super) fn references(schema: &Value, found: &mut Vec<String>) {
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
