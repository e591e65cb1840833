//! The shape of every served type: which fields a struct has, and of what type each is. Compiled once, from the schemas that
//! `k8s-openapi` generates from Kubernetes' own API definition, so it is complete and names no field by hand.
//!
//! From it come decoding errors, unknown fields, and the normal form in which Go would write an object back.

mod decode;
mod normalize;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::api::{
    apps::v1 as apps, coordination::v1 as coordination, core::v1 as core, events::v1 as events,
};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::Value;

use crate::kind::Kind;

pub use decode::{DecodeError, decode, unknown_fields};
pub(crate) use normalize::normalize;

/// What a value must be.
#[derive(Clone, Debug, PartialEq)]
enum Shape {
    /// A struct, by its name in the API definition (`io.k8s.api.core.v1.PodSpec`).
    Struct(String),
    Map(Box<Shape>),
    List(Box<Shape>),
    Text,
    Integer {
        bits: u8,
    },
    Float,
    Boolean,
    Quantity,
    IntOrString,
    Time,
    Bytes,
    /// Anything: raw JSON.
    Any,
}

/// The fields of a struct.
#[derive(Debug, Default)]
struct Struct {
    fields: BTreeMap<String, Shape>,
}

/// All structs by their names in the API definition.
struct Structs(BTreeMap<String, Struct>);

static STRUCTS: LazyLock<Structs> = LazyLock::new(Structs::compile);

/// The root shape of a kind; none if the kind was defined at run time.
fn root_of(kind: &Kind) -> Option<Shape> {
    let name = match (kind.group, kind.kind) {
        ("", name) => format!("io.k8s.api.core.{}.{name}", kind.version),
        (group, name) => {
            let short = group.split('.').next().unwrap_or(group);
            format!("io.k8s.api.{short}.{}.{name}", kind.version)
        }
    };
    STRUCTS.get(&name).map(|_| Shape::Struct(name))
}

impl Structs {
    fn compile() -> Structs {
        let mut generator = SchemaGenerator::new(SchemaSettings::draft07());
        add::<core::Pod>(&mut generator);
        add::<core::Node>(&mut generator);
        add::<core::Namespace>(&mut generator);
        add::<core::Event>(&mut generator);
        add::<core::ConfigMap>(&mut generator);
        add::<core::Secret>(&mut generator);
        add::<core::ServiceAccount>(&mut generator);
        add::<core::Binding>(&mut generator);
        add::<apps::DaemonSet>(&mut generator);
        add::<apps::ControllerRevision>(&mut generator);
        add::<coordination::Lease>(&mut generator);
        add::<events::Event>(&mut generator);
        add::<k8s_openapi::api::policy::v1::Eviction>(&mut generator);
        let definitions = generator.take_definitions(true);
        Structs(
            definitions
                .iter()
                .filter_map(|(name, schema)| Some((name.clone(), compile_struct(schema)?)))
                .collect(),
        )
    }

    fn get(&self, name: &str) -> Option<&Struct> {
        self.0.get(name)
    }
}

fn add<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

/// A definition with properties is a struct; the others are scalars, recognised by name where they are referred to.
fn compile_struct(schema: &Value) -> Option<Struct> {
    let properties = schema.get("properties")?.as_object()?;
    Some(Struct {
        fields: properties
            .iter()
            .map(|(name, schema)| (name.clone(), compile_shape(schema)))
            .collect(),
    })
}

fn compile_shape(schema: &Value) -> Shape {
    if let Some(reference) = reference(schema) {
        return referred(reference.rsplit('/').next().unwrap_or(reference));
    }
    let format = schema.get("format").and_then(Value::as_str);
    match (schema.get("type").and_then(Value::as_str), format) {
        (Some("object"), _) => match schema.get("additionalProperties") {
            Some(values @ Value::Object(_)) => Shape::Map(Box::new(compile_shape(values))),
            _ => Shape::Any,
        },
        (Some("array"), _) => {
            Shape::List(Box::new(schema.get("items").map_or(Shape::Any, compile_shape)))
        }
        (Some("string"), Some("byte")) => Shape::Bytes,
        (Some("string"), _) => Shape::Text,
        (Some("integer"), Some("int32")) => Shape::Integer { bits: 32 },
        (Some("integer"), _) => Shape::Integer { bits: 64 },
        (Some("number"), _) => Shape::Float,
        (Some("boolean"), _) => Shape::Boolean,
        _ => Shape::Any,
    }
}

/// A `$ref`, by itself or wrapped to carry a description.
fn reference(schema: &Value) -> Option<&str> {
    schema.get("$ref").or_else(|| schema.get("allOf")?.get(0)?.get("$ref"))?.as_str()
}

fn referred(name: &str) -> Shape {
    match name.rsplit('.').next() {
        Some("Quantity") => Shape::Quantity,
        Some("IntOrString") => Shape::IntOrString,
        Some("Time" | "MicroTime") => Shape::Time,
        Some("RawExtension" | "FieldsV1" | "JSON") => Shape::Any,
        _ => Shape::Struct(name.to_owned()),
    }
}

/// The last part of a struct's name: what Go calls the type.
fn short_name(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S9: every built-in kind has a shape, and every struct that a shape names is known.
    #[test]
    fn every_kind_has_a_complete_shape() {
        for kind in crate::kind::BUILT_IN {
            assert!(root_of(kind).is_some(), "{}", kind.group_kind());
        }
        for (name, compiled) in &STRUCTS.0 {
            for (field, shape) in &compiled.fields {
                let mut shape = shape;
                while let Shape::Map(inner) | Shape::List(inner) = shape {
                    shape = inner;
                }
                if let Shape::Struct(inner) = shape {
                    assert!(
                        STRUCTS.get(inner).is_some(),
                        "{name}.{field} is of an unknown type {inner}"
                    );
                }
            }
        }
    }
}
