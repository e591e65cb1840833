//! The JSON Schema of all documents.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{API_VERSION, Answer};
use crate::explain::{Explanation, NodeExplanation};
use crate::forecast::Forecast;
use crate::guarded::{GuardedRollout, RolloutChecks};
use crate::history::RevisionEntry;
use crate::revision_diff::RevisionDiff;
use crate::rollout::Rollout;

/// The JSON Schema (2020-12) of all documents: one definition for each kind, of which a document
/// matches one.
pub fn schema() -> Value {
    let mut kinds = Kinds {
        generator: SchemaSettings::draft2020_12().for_serialize().into_generator(),
        documents: Map::new(),
    };
    kinds.add_with_list::<Rollout>();
    kinds.add_with_list::<Explanation>();
    kinds.add_with_list::<NodeExplanation>();
    kinds.add_with_list::<Forecast>();
    kinds.add_with_list::<RevisionEntry>();
    kinds.add::<RevisionDiff>();
    kinds.add::<GuardedRollout>();
    kinds.add::<RolloutChecks>();
    let Kinds { mut generator, documents } = kinds;
    let any_document: Vec<Value> = documents.keys().map(|kind| reference(kind)).collect();
    let mut definitions = documents;
    for (name, definition) in generator.take_definitions(true) {
        let is_new = definitions.insert(name, definition).is_none();
        debug_assert!(is_new, "a kind has the name of a part");
    }
    definitions.values_mut().for_each(without_null);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": API_VERSION,
        "description": "What everynode prints with -o json and -o yaml",
        "oneOf": any_document,
        "$defs": definitions,
    })
}

struct Kinds {
    generator: SchemaGenerator,
    documents: Map<String, Value>,
}

impl Kinds {
    fn add<T: Answer>(&mut self) {
        let mut schema = T::json_schema(&mut self.generator).to_value();
        let own = [
            ("apiVersion", constant(API_VERSION, "The version of the document.")),
            ("kind", constant(T::KIND, "The kind of the document.")),
        ];
        let fields = schema["properties"].as_object_mut().expect("an answer is a struct");
        let answer = std::mem::take(fields);
        fields.extend(own.map(|(name, schema)| (name.to_owned(), schema)));
        fields.extend(answer);
        let required = schema["required"].as_array_mut().expect("an answer has fixed fields");
        required.splice(0..0, ["apiVersion", "kind"].map(Value::from));
        self.documents.insert(T::KIND.to_owned(), schema);
    }

    fn add_with_list<T: Answer>(&mut self) {
        self.add::<T>();
        let kind = format!("{}List", T::KIND);
        let schema = json!({
            "type": "object",
            "description": format!("Several documents of kind {}.", T::KIND),
            "properties": {
                "apiVersion": constant(API_VERSION, "The version of the document."),
                "kind": constant(&kind, "The kind of the document."),
                "items": {
                    "type": "array",
                    "description": "The documents.",
                    "items": reference(T::KIND),
                },
            },
            "required": ["apiVersion", "kind", "items"],
        });
        self.documents.insert(kind, schema);
    }
}

fn constant(value: &str, description: &str) -> Value {
    json!({ "type": "string", "const": value, "description": description })
}

fn reference(kind: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{kind}") })
}

/// Removes `null` from the types of fields that are absent instead.
fn without_null(definition: &mut Value) {
    let required = definition["required"].as_array().cloned().unwrap_or_default();
    let Some(fields) = definition.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (name, schema) in fields {
        if required.iter().any(|required| required == name) {
            continue;
        }
        if let Some(types) = schema.get_mut("type")
            && let Some(one) = types.as_array().and_then(|types| match types.as_slice() {
                [one, null] if null == "null" => Some(one.clone()),
                _ => None,
            })
        {
            *types = one;
        }
        if let Some(choices) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
            choices.retain(|choice| choice["type"] != "null");
        }
    }
}
