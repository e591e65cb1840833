//! Defaults of a schema, and nulls that mean that a field is absent (upstream's `defaulting`).

use crate::json::{SmolStr, Value};

use super::schema::Schema;

/// True if a value lacks a default.
pub(super) fn is_incomplete(schema: &Schema, value: &Value) -> bool {
    if !schema.has_defaults() {
        return false;
    }
    match value {
        Value::Object(fields) => {
            let lacks = |name: &str, of: &Schema| {
                of.default.is_some()
                    && fields.get(name).is_none_or(|value| value.is_null() && !of.nullable)
            };
            let is_incomplete = |(name, value): (&SmolStr, &Value)| {
                schema.field(name).is_some_and(|schema| is_incomplete(schema, value))
            };
            schema.properties.iter().any(|(name, of)| lacks(name, of))
                || fields.iter().any(is_incomplete)
        }
        Value::Array(items) => schema
            .items
            .as_deref()
            .is_some_and(|schema| items.iter().any(|item| is_incomplete(schema, item))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Removes the nulls of fields that are not nullable and have no default.
pub(super) fn remove_nulls(schema: &Schema, value: &mut Value) {
    let is_absent = |schema: &Schema| !schema.nullable && schema.default.is_none();
    if let Value::Object(fields) = value {
        fields.retain(|name, value| !value.is_null() || !schema.field(name).is_some_and(is_absent));
    }
    for_each_child(schema, value, &mut remove_nulls);
}

/// Sets the defaults of absent fields, until they have a number of bytes in JSON: what is larger is
/// refused anyway.
pub(super) fn set(schema: &Schema, value: &mut Value, bytes_left: &mut usize) {
    if !schema.has_defaults() || *bytes_left == 0 {
        return;
    }
    if let Value::Object(fields) = value {
        for (name, of_field) in &schema.properties {
            let Some(default) = &of_field.default else { continue };
            let found = fields.get(name);
            if found.is_none_or(|value| value.is_null() && !of_field.nullable) {
                *bytes_left = bytes_left.saturating_sub(default.size().json);
                fields.insert((**name).to_owned(), default.clone());
            }
        }
    }
    for_each_child(schema, value, &mut |schema, value| {
        if value.is_null()
            && !schema.nullable
            && let Some(default) = &schema.default
        {
            *bytes_left = bytes_left.saturating_sub(default.size().json);
            *value = default.clone();
        }
        set(schema, value, bytes_left);
    });
}

/// Visits the values in a value that have a schema.
fn for_each_child(schema: &Schema, value: &mut Value, visit: &mut dyn FnMut(&Schema, &mut Value)) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if let Some(of_field) = schema.field(name) {
                    visit(of_field, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(of_items) = &schema.items {
                items.iter_mut().for_each(|item| visit(of_items, item));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    /// S15: defaults are set where the object around them exists, also in the defaults themselves,
    /// and instead of nulls.
    #[test]
    fn defaults_are_set_where_their_parents_are() {
        let schema = Schema::parse(&json!({"type": "object", "properties": {
            "a": {"type": "integer", "default": 1},
            "b": {"type": "object", "default": {}, "properties": {
                "c": {"type": "string", "default": "x"},
            }},
            "d": {"type": "object", "properties": {"e": {"type": "string", "default": "y"}}},
            "f": {"type": "array", "items": {"type": "object", "properties": {
                "g": {"type": "boolean", "default": true},
            }}},
            "h": {"type": "string", "nullable": true, "default": "z"},
            "i": {"type": "string"},
        }}));
        let mut object = json!({"a": null, "f": [{}, {"g": false}], "h": null, "i": null});
        remove_nulls(&schema, &mut object);
        let mut bytes_left = 30;
        set(&schema, &mut object, &mut bytes_left);
        assert!(bytes_left > 0);
        assert_eq!(
            object,
            json!({"a": 1, "b": {"c": "x"}, "f": [{"g": true}, {"g": false}], "h": null})
        );
    }

    /// S12: a large default in each of many items does not fill the memory: no more is set than an
    /// object can have.
    #[test]
    fn defaults_end_where_the_object_is_too_large() {
        let large = "x".repeat(1000);
        let schema = Schema::parse(&json!({"type": "array", "items": {
            "type": "object", "properties": {"a": {"type": "string", "default": large}},
        }}));
        let mut object = Value::Array(vec![json!({}); 1000].into());
        let mut bytes_left = 10_000;
        set(&schema, &mut object, &mut bytes_left);
        assert_eq!(bytes_left, 0);
        assert!((10_000..20_000).contains(&object.size().json), "{}", object.size().json);
    }
}
