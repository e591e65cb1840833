//! The schemas of all served types: their fields with types. They are compiled once from the
//! schemas that `k8s-openapi` generates from Kubernetes' API definition.
//!
//! Decoding, unknown fields, and the form in which Go encodes objects depend on them.

mod convert;
mod decode;
mod extensions;
mod normalize;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::api::{
    apps::v1 as apps, coordination::v1 as coordination, core::v1 as core, events::v1 as events,
    policy::v1 as policy, rbac::v1 as rbac,
};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

use crate::kind::Kind;

pub(crate) use convert::convert;
pub(crate) use decode::new_unknown_fields;
pub use decode::{DecodeError, decode, unknown_fields};
pub(crate) use extensions::{PatchStrategy, annotate};
use normalize::EncodeRule;
pub(crate) use normalize::normalize;

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Struct(StructId),
    Map(Box<Self>),
    List(Box<Self>),
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
    /// Any JSON.
    Any,
}

/// The index of a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StructId(usize);

/// A struct of the API.
#[derive(Debug)]
struct Struct {
    /// The name in the API definition (`io.k8s.api.core.v1.PodSpec`).
    name: String,
    fields: BTreeMap<String, Field>,
}

#[derive(Debug)]
struct Field {
    shape: Shape,
    encoded: EncodeRule,
    patch: PatchStrategy,
}

/// All structs, ordered by name.
struct Structs(Vec<Struct>);

static STRUCTS: LazyLock<Structs> = LazyLock::new(Structs::compile);

/// The type of a kind's objects; `None` for a kind that was defined at run time.
fn root_of(kind: &Kind) -> Option<Shape> {
    root_struct(kind).map(Shape::Struct)
}

/// The struct of a kind's objects; `None` for a kind that was defined at run time.
pub(crate) fn root_struct(kind: &Kind) -> Option<StructId> {
    let name = definition_name(kind);
    STRUCTS.0.binary_search_by(|known| known.name.cmp(&name)).ok().map(StructId)
}

/// The name of the definition of a built-in kind: `io.k8s.api.apps.v1.DaemonSet`.
pub(crate) fn definition_name(kind: &Kind) -> String {
    let package = match kind.group {
        "" => "core",
        group => group.split('.').next().unwrap_or(group),
    };
    format!("io.k8s.api.{package}.{}.{}", kind.version, kind.kind)
}

/// The empty object of a kind, with the structs that Go always writes. Those of a kind that was
/// defined at run time has none.
pub(crate) fn empty_object(kind: &Kind) -> Value {
    let mut object = Map::new();
    let Some(root) = root_struct(kind) else { return Value::Object(object) };
    let common: [&[&str]; 3] = [&["metadata"], &["spec"], &["status"]];
    let common = common.into_iter().filter(|path| root.field(path[0]).is_some());
    for path in common.chain(extensions::embedded(&definition_name(kind))) {
        let mut inner = &mut object;
        for field in path {
            let next = inner.entry(*field).or_insert_with(|| Value::Object(Map::new()));
            inner = next.as_object_mut().expect("only objects are inserted here");
        }
    }
    Value::Object(object)
}

impl StructId {
    /// The struct in a field or in its elements, if there is one, and how a strategic merge patch
    /// treats the field. `None` for a field that the struct does not have.
    pub(crate) fn field(self, name: &str) -> Option<(Option<Self>, PatchStrategy)> {
        let field = STRUCTS.get(self).fields.get(name)?;
        let inner = match &field.shape {
            Shape::List(inner) | Shape::Map(inner) => inner,
            shape => shape,
        };
        let inner = if let Shape::Struct(id) = inner { Some(*id) } else { None };
        Some((inner, field.patch))
    }
}

impl Struct {
    /// The name of the Go type.
    fn short_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }
}

/// The OpenAPI definitions of all built-in kinds by name, with their extensions. References have
/// the form `#/definitions/NAME`.
pub(crate) fn definitions() -> Map<String, Value> {
    let mut generator = SchemaGenerator::new(SchemaSettings::draft07());
    add::<core::Pod>(&mut generator);
    add::<core::Node>(&mut generator);
    add::<core::Namespace>(&mut generator);
    add::<core::Event>(&mut generator);
    add::<core::ConfigMap>(&mut generator);
    add::<core::Secret>(&mut generator);
    add::<core::Service>(&mut generator);
    add::<core::ServiceAccount>(&mut generator);
    add::<apps::DaemonSet>(&mut generator);
    add::<apps::Deployment>(&mut generator);
    add::<apps::ControllerRevision>(&mut generator);
    add::<coordination::Lease>(&mut generator);
    add::<events::Event>(&mut generator);
    add::<policy::PodDisruptionBudget>(&mut generator);
    add::<rbac::ClusterRole>(&mut generator);
    add::<rbac::ClusterRoleBinding>(&mut generator);
    add::<rbac::Role>(&mut generator);
    add::<rbac::RoleBinding>(&mut generator);
    let mut definitions = generator.take_definitions(true);
    definitions.iter_mut().for_each(|(name, schema)| annotate(name, schema));
    definitions
}

impl Structs {
    fn compile() -> Self {
        let definitions = definitions();
        // A definition with properties is a struct. The others are scalars, which references
        // identify by name.
        let structs: Vec<(&String, &Map<String, Value>)> = definitions
            .iter()
            .filter_map(|(name, schema)| Some((name, schema.get("properties")?.as_object()?)))
            .collect();
        let names: Vec<&str> = structs.iter().map(|(name, _)| name.as_str()).collect();
        let compile = |(name, properties): &(&String, &Map<String, Value>)| {
            compile_struct(name, properties, &names)
        };
        Self(structs.iter().map(compile).collect())
    }

    fn get(&self, id: StructId) -> &Struct {
        &self.0[id.0]
    }
}

fn add<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

fn compile_struct(name: &str, properties: &Map<String, Value>, names: &[&str]) -> Struct {
    let short_name = name.rsplit('.').next().unwrap_or(name);
    let compile = |(field, schema): (&String, &Value)| {
        (
            field.clone(),
            Field {
                shape: compile_shape(schema, names),
                encoded: EncodeRule::of(short_name, field),
                patch: extensions::patch_strategy(name, field),
            },
        )
    };
    Struct { name: name.to_owned(), fields: properties.iter().map(compile).collect() }
}

fn compile_shape(schema: &Value, names: &[&str]) -> Shape {
    if let Some(reference) = reference(schema) {
        return referred(reference.rsplit('/').next().unwrap_or(reference), names);
    }
    let format = schema.get("format").and_then(Value::as_str);
    match (schema.get("type").and_then(Value::as_str), format) {
        (Some("object"), _) => match schema.get("additionalProperties") {
            Some(values @ Value::Object(_)) => Shape::Map(Box::new(compile_shape(values, names))),
            _ => Shape::Any,
        },
        (Some("array"), _) => Shape::List(Box::new(
            schema.get("items").map_or(Shape::Any, |items| compile_shape(items, names)),
        )),
        (Some("string"), Some("byte")) => Shape::Bytes,
        (Some("string"), _) => Shape::Text,
        (Some("integer"), Some("int32")) => Shape::Integer { bits: 32 },
        (Some("integer"), _) => Shape::Integer { bits: 64 },
        (Some("number"), _) => Shape::Float,
        (Some("boolean"), _) => Shape::Boolean,
        _ => Shape::Any,
    }
}

/// The target of a `$ref`, which may be wrapped in `allOf` with a description.
fn reference(schema: &Value) -> Option<&str> {
    schema.get("$ref").or_else(|| schema.get("allOf")?.get(0)?.get("$ref"))?.as_str()
}

fn referred(name: &str, names: &[&str]) -> Shape {
    match (name.rsplit('.').next(), names.binary_search(&name)) {
        (Some("Quantity"), _) => Shape::Quantity,
        (Some("IntOrString"), _) => Shape::IntOrString,
        (Some("Time" | "MicroTime"), _) => Shape::Time,
        (_, Ok(index)) => Shape::Struct(StructId(index)),
        (_, Err(_)) => Shape::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S9: every built-in kind has a schema, and only raw JSON has no type.
    #[test]
    fn every_kind_has_a_complete_shape() {
        for kind in crate::kind::BUILT_IN {
            assert!(root_of(kind).is_some(), "{}", kind.group_kind());
        }
        let raw: Vec<String> = STRUCTS
            .0
            .iter()
            .flat_map(|known| {
                known.fields.iter().map(move |(field, compiled)| (known, field, compiled))
            })
            .filter(|(_, _, compiled)| compiled.shape == Shape::Any)
            .map(|(known, field, _)| format!("{}.{field}", known.short_name()))
            .collect();
        assert_eq!(raw, ["ControllerRevision.data", "ManagedFieldsEntry.fieldsV1"]);
    }
}
