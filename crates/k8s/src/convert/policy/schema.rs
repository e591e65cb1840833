//! The schema of a type, as the definitions of policies have it.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// The schema of a type: structural, without references, alternatives and `null`.
pub(in crate::convert) fn schema_of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_deserialize();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let settings = settings.with_transform(RecursiveTransform(make_structural));
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

fn make_structural(schema: &mut Schema) {
    unite_variants(schema);
    // An optional field is absent rather than null.
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        let only = types.pop().unwrap_or_default();
        schema.insert("type".to_owned(), only);
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    // The size of an integer in Rust is no property of the field.
    let format = schema.get("format").and_then(Value::as_str);
    if format.is_some_and(|format| format.starts_with("uint")) {
        schema.remove("format");
    }
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    require_no_defaults(schema);
}

/// A field with a default is not required.
fn require_no_defaults(schema: &mut Schema) {
    let Some(Value::Array(mut required)) = schema.remove("required") else { return };
    let fields = schema.get("properties");
    let field = |name: &Value| fields?.get(name.as_str()?);
    required.retain(|name| field(name).is_none_or(|field| field.get("default").is_none()));
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
}

/// Makes the variants of an enum fields beside the others. A rule says that exactly one is set.
fn unite_variants(schema: &mut Schema) {
    let Some(Value::Array(variants)) = schema.remove("oneOf") else { return };
    schema.insert("type".to_owned(), "object".into());
    let fields = schema
        .ensure_object()
        .entry("properties")
        .or_insert_with(|| Value::Object(Default::default()));
    for mut variant in variants {
        let Value::Object(field) = variant["properties"].take() else { continue };
        for (name, mut field) in field {
            for key in ["description", "x-kubernetes-validations"] {
                if let Some(value) = variant.get_mut(key) {
                    field[key] = value.take();
                }
            }
            fields[name] = field;
        }
    }
}
