//! Converts OpenAPI schemas to [`MergeSchema`]s, as upstream's `schemaconv` does: those of custom
//! kinds (S15), and in tests the served documents, to compare the table of types with them.

use std::collections::{BTreeMap, HashMap};

use crate::json::{Map, Value};

use super::{ListRelation, ListType, MapType, MergeSchema, ScalarType, Type, TypeId};

/// Converts definitions that refer to each other by `#/definitions/NAME`. Returns the types of the
/// definitions by their names.
#[cfg(test)]
pub(crate) fn convert(definitions: &Map) -> (MergeSchema, BTreeMap<String, TypeId>) {
    let mut schema = MergeSchema::default();
    let mut names = BTreeMap::new();
    for name in definitions.keys() {
        names.insert(name.to_string(), schema.add(Type::default()));
    }
    let overridden = HashMap::new();
    let mut converter = Converter { schema, names, definitions, overridden, metadata: None };
    for (name, definition) in definitions {
        let converted = converter.definition(name, definition);
        let id = converter.names[name.as_str()];
        converter.schema.types[id.0] = converted;
    }
    while let Some((id, name, atomic)) = converter.next_override() {
        let mut copy = converter.schema.get(converter.names[&name]).clone();
        if let Some(map) = &mut copy.map {
            map.atomic = atomic;
        }
        converter.schema.types[id.0] = copy;
    }
    (converter.schema, converter.names)
}

/// Adds the type of a custom kind to a schema that has the type of metadata.
pub(crate) fn add_custom(
    schema: MergeSchema,
    metadata: TypeId,
    document: &Value,
) -> (MergeSchema, TypeId) {
    let (names, definitions, overridden) = (BTreeMap::new(), Map::new(), HashMap::new());
    let metadata = Some(metadata);
    let mut converter =
        Converter { schema, names, definitions: &definitions, overridden, metadata };
    let mut root = converter.inline(document, false);
    converter.add_resource_fields(root.map.get_or_insert_default());
    let root = converter.schema.add(root);
    (converter.schema, root)
}

struct Converter<'a> {
    schema: MergeSchema,
    names: BTreeMap<String, TypeId>,
    definitions: &'a Map,
    /// The definitions of which a field changes whether they are atomic.
    overridden: HashMap<(String, bool), TypeId>,
    /// The type of the metadata of embedded resources.
    metadata: Option<TypeId>,
}

impl Converter<'_> {
    #[cfg(test)]
    fn next_override(&mut self) -> Option<(TypeId, String, bool)> {
        let key = self.overridden.keys().next()?.clone();
        let id = self.overridden.remove(&key)?;
        Some((id, key.0, key.1))
    }

    #[cfg(test)]
    fn definition(&mut self, name: &str, definition: &Value) -> Type {
        match name.rsplit('.').next() {
            // Upstream has these two in its code, too.
            Some("Quantity") => scalar(ScalarType::Any),
            Some("RawExtension") => self.schema.get(TypeId::ATOMIC).clone(),
            _ => self.inline(definition, false),
        }
    }

    /// The type of a field, of the elements of a map, or of the items of a list.
    fn reference(&mut self, schema: &Value, preserves: bool) -> TypeId {
        let target = schema.get("$ref").or_else(|| schema.get("allOf")?.get(0)?.get("$ref"));
        let Some(target) = target.and_then(Value::as_str) else {
            let inline = self.inline(schema, preserves);
            return self.schema.add(inline);
        };
        let name = target.rsplit('/').next().unwrap_or(target);
        let Some(id) = self.names.get(name).copied() else { return TypeId::ATOMIC };
        match map_relation(schema) {
            Some(atomic) if map_relation(&self.definitions[name]) != Some(atomic) => {
                if let Some(id) = self.overridden.get(&(name.to_owned(), atomic)) {
                    return *id;
                }
                let id = self.schema.add(Type::default());
                self.overridden.insert((name.to_owned(), atomic), id);
                id
            }
            _ => id,
        }
    }

    fn inline(&mut self, schema: &Value, preserves: bool) -> Type {
        let flag = |name: &str| schema.get(name) == Some(&Value::Bool(true));
        let preserves = preserves || flag("x-kubernetes-preserve-unknown-fields");
        if flag("x-kubernetes-int-or-string") {
            return scalar(ScalarType::Any);
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => Type { map: Some(self.map(schema, preserves)), ..Type::default() },
            Some("array") => Type { list: Some(self.list(schema, preserves)), ..Type::default() },
            Some("integer" | "number") => scalar(ScalarType::Number),
            Some("boolean") => scalar(ScalarType::Boolean),
            Some("string") => match schema.get("format").and_then(Value::as_str) {
                None | Some("" | "byte") => scalar(ScalarType::Text),
                Some(_) => scalar(ScalarType::Any),
            },
            Some(_) => scalar(ScalarType::Any),
            None => Type {
                map: Some(self.map(schema, preserves)),
                scalar: Some(ScalarType::Any),
                list: Some(self.list(schema, preserves)),
            },
        }
    }

    fn map(&mut self, schema: &Value, preserves: bool) -> MapType {
        let properties = schema.get("properties").and_then(Value::as_object);
        let fields: BTreeMap<Box<str>, TypeId> = properties
            .into_iter()
            .flatten()
            .map(|(name, field)| (name.as_str().into(), self.reference(field, preserves)))
            .collect();
        let elements = match schema.get("additionalProperties") {
            Some(Value::Bool(false)) => None,
            Some(Value::Bool(true)) => Some(TypeId::DEDUCED),
            Some(elements) => Some(self.reference(elements, preserves)),
            None if preserves || fields.is_empty() => Some(TypeId::DEDUCED),
            None => None,
        };
        let mut map = MapType { fields, elements, atomic: map_relation(schema) == Some(true) };
        if schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
            self.add_resource_fields(&mut map);
        }
        map
    }

    fn add_resource_fields(&mut self, map: &mut MapType) {
        let Some(metadata) = self.metadata else { return };
        for name in ["apiVersion", "kind"] {
            map.fields.insert(name.into(), self.schema.add(scalar(ScalarType::Text)));
        }
        map.fields.insert("metadata".into(), metadata);
    }

    fn list(&mut self, schema: &Value, preserves: bool) -> ListType {
        let items = schema.get("items");
        let elements = items.map_or(TypeId::ATOMIC, |items| self.reference(items, preserves));
        let text = |name: &str| schema.get(name).and_then(Value::as_str);
        let merges =
            matches!(text("x-kubernetes-patch-strategy"), Some("merge" | "merge,retainKeys"));
        let relation = match text("x-kubernetes-list-type") {
            Some("set") => ListRelation::Set,
            Some("map") => {
                let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                let keys = keys.into_iter().flatten().filter_map(Value::as_str).collect();
                self.keyed(items, keys)
            }
            None if merges => match text("x-kubernetes-patch-merge-key") {
                Some(key) => self.keyed(items, vec![key]),
                None => ListRelation::Set,
            },
            Some(_) | None => ListRelation::Atomic,
        };
        ListType { elements, relation }
    }

    fn keyed(&self, items: Option<&Value>, keys: Vec<&str>) -> ListRelation {
        let target = items.and_then(|items| items.get("$ref")).and_then(Value::as_str);
        let name = target.and_then(|target| target.rsplit('/').next());
        let element = name.and_then(|name| self.definitions.get(name)).or(items);
        let default = |key: &str| {
            element.and_then(|element| element.get("properties")?.get(key)?.get("default")).cloned()
        };
        ListRelation::Keyed(keys.into_iter().map(|key| (key.into(), default(key))).collect())
    }
}

fn scalar(of: ScalarType) -> Type {
    Type { scalar: Some(of), ..Type::default() }
}

/// Whether a schema says that a map is atomic or granular.
fn map_relation(schema: &Value) -> Option<bool> {
    match schema.get("x-kubernetes-map-type").and_then(Value::as_str) {
        Some("atomic") => Some(true),
        Some("granular") => Some(false),
        _ => None,
    }
}
