//! Compares the table of types with the OpenAPI definitions, which are written with it.

use std::collections::BTreeMap;

use crate::json::{Map, Value};

use super::*;

/// S9: the rows are in order and have protobuf numbers, and each list key is a field.
#[test]
fn each_type_has_a_complete_row() {
    for id in (0..STRUCTS.rows.len()).map(StructId) {
        let known = id.get();
        assert_eq!(StructId::find(known.name), Some(id), "{} is in order", known.name);
        for (number, field) in &known.wire {
            assert!(*number > 0, "{} {:?}", known.name, field.name);
        }
        for (name, field) in &known.fields {
            let Some(key) = field.merge.key() else { continue };
            let element = field.element().map(|element| element.fields.contains_key(key));
            assert_eq!(element, Some(true), "{key} of {} {name}", known.name);
        }
    }
}

/// S9: the table, as it is read here, and the OpenAPI definitions have the same fields, of the same
/// types.
#[test]
fn the_table_agrees_with_the_definitions() {
    let definitions = definitions();
    let mut compared = 0;
    for (name, schema) in &definitions {
        let (Some(id), Some(properties)) = (of_definition(name), schema["properties"].as_object())
        else {
            continue;
        };
        let expected: BTreeMap<&str, String> =
            properties.iter().map(|(field, schema)| (field.as_str(), type_of(schema))).collect();
        let known = id.get();
        let found: BTreeMap<&str, String> =
            known.fields.iter().map(|(field, row)| (*field, row.shape.in_openapi())).collect();
        if found != expected {
            let only = |a: &BTreeMap<&str, String>, b: &BTreeMap<&str, String>| {
                let differs = |(name, _): &(&&str, &String)| a.get(**name) != b.get(**name);
                a.iter()
                    .filter(differs)
                    .map(|(name, of)| format!("{name} {of}"))
                    .collect::<Vec<_>>()
            };
            panic!("{name}: {:?}, not {:?}", only(&found, &expected), only(&expected, &found));
        }
        compared += 1;
    }
    assert!(compared > 300, "{compared} types");
}

impl Shape {
    fn in_openapi(&self) -> String {
        match self {
            Self::Struct(id) if id.is_extra_value() => "list of string".to_owned(),
            Self::Struct(id) => id.get().short_name().to_owned(),
            Self::Map(item) => format!("map of {}", item.in_openapi()),
            Self::List(item) => format!("list of {}", item.in_openapi()),
            Self::Text(_) => "string".to_owned(),
            Self::Integer { bits } => format!("integer {bits}"),
            Self::Float => "number".to_owned(),
            Self::Boolean => "boolean".to_owned(),
            Self::Quantity => "Quantity".to_owned(),
            Self::IntOrString => "IntOrString".to_owned(),
            Self::Time => "Time".to_owned(),
            Self::MicroTime => "MicroTime".to_owned(),
            Self::Bytes => "bytes".to_owned(),
            Self::Either(_) | Self::Any => "any".to_owned(),
        }
    }
}

fn type_of(schema: &Value) -> String {
    let target = schema.get("$ref").or_else(|| schema.get("allOf")?.get(0)?.get("$ref"));
    if let Some(name) = target.and_then(Value::as_str).and_then(|name| name.rsplit('.').next()) {
        return match name {
            "RawExtension" | "FieldsV1" | "JSON" => "any".to_owned(),
            name if name.starts_with("JSONSchemaPropsOr") => "any".to_owned(),
            name => name.to_owned(),
        };
    }
    let format = schema.get("format").and_then(Value::as_str);
    match (schema.get("type").and_then(Value::as_str), format) {
        (Some("object"), _) => match schema.get("additionalProperties") {
            Some(values @ Value::Object(_)) => format!("map of {}", type_of(values)),
            _ => "any".to_owned(),
        },
        (Some("array"), _) => {
            format!(
                "list of {}",
                type_of(schema.get("items").unwrap_or(&Value::Object(Map::new())))
            )
        }
        (Some("string"), Some("byte")) => "bytes".to_owned(),
        (Some("integer"), Some("int32")) => "integer 32".to_owned(),
        (Some("integer"), _) => "integer 64".to_owned(),
        (Some(other), _) => other.to_owned(),
        (None, _) => "any".to_owned(),
    }
}
