//! What OpenAPI documents say of fields beyond their types, from which clients compute patches and
//! applies.

use crate::json::{Map, Value};

use super::{Field, MergeStrategy, Shape, Topology, of_definition};

/// Adds the extensions and the defaults of fields to the schema of a built-in definition.
pub(crate) fn annotate(definition: &str, schema: &mut Value) {
    let known = of_definition(definition).map(super::StructId::get);
    if known.is_some_and(|known| known.is_atomic) {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (name, schema) in properties.iter_mut() {
        let Some(schema) = schema.as_object_mut() else { continue };
        let items_of_list = name == "items" && definition.ends_with("List");
        if schema.get("type").is_some_and(|name| name == "array") && !items_of_list {
            schema.insert("x-kubernetes-list-type".to_owned(), "atomic".into());
        }
        if let Some(field) = known.and_then(|known| known.field(name)) {
            field.annotate(schema);
        }
    }
}

impl Field {
    fn annotate(&self, schema: &mut Map) {
        let mut set = |name: &str, value: Value| {
            schema.insert(format!("x-kubernetes-{name}"), value);
        };
        match (self.topology, &self.shape) {
            (Topology::Set, _) => set("list-type", "set".into()),
            (Topology::Keyed(_), _) => {
                set("list-type", "map".into());
                set("list-map-keys", self.topology.keys().collect());
            }
            (Topology::Atomic, Shape::Map(_) | Shape::Struct(_)) => {
                set("map-type", "atomic".into());
            }
            (Topology::Granular, _) => set("map-type", "granular".into()),
            // A list is atomic anyway, and raw JSON is by its type.
            (Topology::Default | Topology::Atomic, _) => {}
        }
        let strategy = match self.merge {
            MergeStrategy::Plain => None,
            MergeStrategy::Replace => Some("replace"),
            MergeStrategy::RetainKeys => Some("retainKeys"),
            MergeStrategy::MergeRetainKeysBy(_) => Some("merge,retainKeys"),
            MergeStrategy::MergeBy(_) | MergeStrategy::MergeSet => Some("merge"),
        };
        if let Some(strategy) = strategy {
            set("patch-strategy", strategy.into());
        }
        if let Some(key) = self.merge.key() {
            set("patch-merge-key", key.into());
        }
        if let Some(default) = self.default() {
            schema.insert("default", default);
        }
    }
}
