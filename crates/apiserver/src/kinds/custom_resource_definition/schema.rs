//! Validates that the schema of a definition is structural: it has a type for each value, and what
//! is in `allOf`, `anyOf`, `oneOf` and `not` only restricts values.

use crate::json::{Value, json};

use super::{default, rule};
use crate::custom::{CompiledPattern, Schema};
use crate::kind::rules::{Causes, Field, SMALL_PER_STEP};

/// Where a schema is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

pub(super) fn check(schema: &Field, has_status: bool, causes: &mut Causes) {
    if !schema.is_set() {
        return;
    }
    if has_status {
        check_root(schema, causes);
    }
    if schema.child("nullable").is_true() {
        causes.forbidden(&schema.child("nullable"), "nullable cannot be true at the root");
    }
    let mut structural = causes.part();
    invariants(schema, Level::Root, &mut structural);
    if structural.is_empty() {
        default::check(schema, &Schema::parse(schema.value()), &mut structural);
    }
    let is_structural = structural.is_empty();
    causes.append(structural.sorted());
    let inside = Inside { defaults: None, in_metadata: false };
    let mut found = causes.part();
    check_schema(schema, true, &inside, &mut found);
    if is_structural && found.is_empty() {
        rule::check(schema, &Schema::parse(schema.value()), None, &mut found);
    }
    causes.append(found);
}

/// With a status, the schema of the status must be apart from the rest.
fn check_root(schema: &Field, causes: &mut Causes) {
    const ALLOWED: &str = "Description Type Format Title Maximum ExclusiveMaximum Minimum \
        ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf \
        Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations";
    const FORBIDDEN: &[&str] = &[
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "additionalProperties",
        "enum",
        "default",
        "nullable",
        "maxProperties",
        "minProperties",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
    ];
    let of_type = schema.child("type");
    if !of_type.text().is_empty() && of_type.text() != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the \
                      status subresource is enabled";
        causes.invalid(&of_type, detail);
    } else if FORBIDDEN.iter().any(|name| schema.child(name).is_set()) {
        let detail = format!(
            "only [{ALLOWED}] fields are allowed at the root of the schema if the status \
             subresource is enabled"
        );
        causes.invalid(schema, &detail);
    }
}

/// Upstream's `validateStructuralInvariants`.
fn invariants(schema: &Field, level: Level, causes: &mut Causes) {
    let of_type = schema.child("type");
    let extension = |name: &str| schema.value().get(name) == Some(&Value::Bool(true));
    let embedded = extension("x-kubernetes-embedded-resource");
    let preserves = extension("x-kubernetes-preserve-unknown-fields");
    let int_or_string = extension("x-kubernetes-int-or-string");
    let items = schema.child("items");
    if of_type.text() == "array" && !items.is_set() {
        causes.required(&items, "must be specified");
    }
    if items.is_set() {
        invariants(&items, Level::Item, causes);
    }
    let properties = schema.child("properties");
    for (_, property) in properties.entries() {
        invariants(&property, Level::Field, causes);
    }
    let additional = schema.child("additionalProperties");
    if additional.is_set() && level == Level::Root {
        causes.forbidden(&additional, "must not be used at the root");
    }
    if additional.value().is_object() {
        invariants(&additional, Level::Field, causes);
    }
    if int_or_string && preserves {
        let field = schema.child("x-kubernetes-preserve-unknown-fields");
        causes.invalid(&field, "must be false if x-kubernetes-int-or-string is true");
    }
    if int_or_string && embedded {
        let field = schema.child("x-kubernetes-embedded-resource");
        causes.invalid(&field, "must be false if x-kubernetes-int-or-string is true");
    }
    value_validation(schema, level, causes);
    let must = "must be object if x-kubernetes-embedded-resource is true";
    if embedded && of_type.text() != "object" {
        if of_type.text().is_empty() {
            causes.required(&of_type, must);
        } else {
            causes.invalid(&of_type, must);
        }
    } else if of_type.text().is_empty() && !int_or_string && !preserves {
        causes.required(
            &of_type,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        );
    }
    if embedded && additional.is_set() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        causes.forbidden(&additional, detail);
    }
    if level == Level::Root && !of_type.text().is_empty() && of_type.text() != "object" {
        causes.invalid(&of_type, "must be object at the root");
    }
    if level == Level::Root || embedded {
        metadata(&properties, level, causes);
    }
    if embedded && !preserves && properties.is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        causes.required(&properties, detail);
    }
}

/// The schema of metadata can say nothing but what names are allowed.
fn metadata(properties: &Field, level: Level, causes: &mut Causes) {
    for (name, expected) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let property = properties.key(name);
        if property.is_set() && property.child("type").text() != expected {
            causes.invalid(&property.child("type"), &format!("must be {expected}"));
        }
    }
    let metadata = properties.key("metadata");
    if level == Level::Root && metadata.is_set() {
        let (fields, of_metadata) = (metadata.value().as_object(), metadata.child("properties"));
        let mut names = of_metadata.entries().map(|(name, _)| name);
        let mut keys = fields.into_iter().flatten().map(|(key, _)| key.as_str());
        if !names.all(|name| matches!(name, "name" | "generateName"))
            || !keys.all(|key| matches!(key, "type" | "properties" | "default"))
        {
            let detail = "must not specify anything other than name and generateName, but \
                          metadata is implicitly specified";
            causes.forbidden(&metadata, detail);
        }
    }
}

/// Upstream's `validateValueValidation`.
fn value_validation(schema: &Field, level: Level, causes: &mut Causes) {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let any_of = schema.child("anyOf");
    if *any_of.value() != either {
        for nested in any_of.items() {
            nested_validation(&nested, false, level, causes);
        }
    }
    for (index, nested) in schema.child("allOf").items().enumerate() {
        let skips = index == 0 && nested.value().get("anyOf") == Some(&either);
        nested_validation(&nested, skips, level, causes);
    }
    for nested in schema.child("oneOf").items() {
        nested_validation(&nested, false, level, causes);
    }
    if schema.child("not").is_set() {
        nested_validation(&schema.child("not"), false, level, causes);
    }
    let pattern = schema.child("pattern");
    if pattern.text().is_empty() || causes.steps.is_used_up() {
        return;
    }
    let compiled = CompiledPattern::of(pattern.text(), |steps| _ = causes.steps.spend(steps));
    if let Err(error) = compiled {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        causes.invalid(&pattern, &detail);
    }
}

/// Upstream's `validateNestedValueValidation`.
fn nested_validation(schema: &Field, skips_any_of: bool, level: Level, causes: &mut Causes) {
    if !skips_any_of {
        value_validation(schema, level, causes);
    }
    if schema.child("items").is_set() {
        nested_validation(&schema.child("items"), false, level, causes);
    }
    let properties = schema.child("properties");
    for (_, property) in properties.entries() {
        nested_validation(&property, false, Level::Field, causes);
    }
    for (name, detail) in [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
        ("x-kubernetes-embedded-resource", "must be false to be structural"),
        ("x-kubernetes-int-or-string", "must be false to be structural"),
        ("x-kubernetes-list-map-keys", "must be empty to be structural"),
        ("x-kubernetes-list-type", "must be undefined to be structural"),
        ("x-kubernetes-map-type", "must be undefined to be structural"),
        ("x-kubernetes-validations", "must be empty to be structural"),
    ] {
        let field = schema.child(name);
        if field.is_set() && *field.value() != Value::Bool(false) {
            causes.forbidden(&field, detail);
        }
    }
    if properties.key("metadata").is_set() {
        causes.forbidden(&properties.key("metadata"), "must not be specified in a nested context");
    }
}

/// Restrictions that a schema puts on those below it.
#[derive(Clone, Copy)]
struct Inside {
    /// Why there can be no defaults.
    defaults: Option<&'static str>,
    in_metadata: bool,
}

/// Upstream's `ValidateCustomResourceDefinitionOpenAPISchema`.
fn check_schema(schema: &Field, is_root: bool, inside: &Inside, causes: &mut Causes) {
    const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];
    let of_type = schema.child("type");
    if !of_type.text().is_empty() && !TYPES.contains(&of_type.text()) {
        causes.not_supported(&of_type, TYPES);
    }
    if schema.child("default").is_set()
        && let Some(reason) = inside.defaults
    {
        causes.forbidden(&schema.child("default"), &format!("must not be set {reason}"));
    }
    for name in
        ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"]
    {
        let field = schema.child(name);
        if field.is_set() {
            causes.forbidden(&field, &format!("{name} is not supported"));
        }
    }
    let items = schema.child("items");
    if items.value().is_array() {
        causes.forbidden(&items, "items must be a schema object and not an array");
    }
    if schema.child("uniqueItems").is_true() {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.forbidden(&schema.child("uniqueItems"), detail);
    }
    let (additional, properties) =
        (schema.child("additionalProperties"), schema.child("properties"));
    if additional.is_set() && !properties.is_empty() && !additional.is_true() {
        let detail = "additionalProperties and properties are mutual exclusive";
        causes.forbidden(&additional, detail);
    }
    if additional.value().is_object() {
        let mut below = *inside;
        if inside.in_metadata {
            below.defaults = Some("inside additionalProperties applying to object metadata");
        }
        check_schema(&additional, false, &below, causes);
    }
    let embedded = schema.child("x-kubernetes-embedded-resource").is_true();
    for (name, property) in properties.entries() {
        let mut below = *inside;
        if (is_root || embedded) && matches!(name, "metadata" | "kind" | "apiVersion") {
            below.in_metadata = true;
            if is_root {
                below.defaults = Some(match name {
                    "metadata" => "in top-level metadata",
                    "kind" => "in top-level kind",
                    _ => "in top-level apiVersion",
                });
            }
        }
        check_schema(&property, false, &below, causes);
    }
    for junctor in ["allOf", "oneOf", "anyOf"] {
        for nested in schema.child(junctor).items() {
            check_schema(&nested, false, inside, causes);
        }
    }
    if schema.child("not").is_set() {
        check_schema(&schema.child("not"), false, inside, causes);
    }
    if items.value().is_object() {
        check_schema(&items, false, inside, causes);
    }
    extensions(schema, &of_type, causes);
}

fn extensions(schema: &Field, of_type: &Field, causes: &mut Causes) {
    let preserves = schema.child("x-kubernetes-preserve-unknown-fields");
    if *preserves.value() == Value::Bool(false) {
        causes.invalid(&preserves, "must be true or undefined");
    }
    let map_type = schema.child("x-kubernetes-map-type");
    if map_type.is_set() {
        must_be(of_type, "object", "x-kubernetes-map-type", causes);
        causes.optional_choice(&map_type, &["atomic", "granular"]);
    }
    let list_type = schema.child("x-kubernetes-list-type");
    let (items, keys) = (schema.child("items"), schema.child("x-kubernetes-list-map-keys"));
    if list_type.is_set() {
        must_be(of_type, "array", "x-kubernetes-list-type", causes);
        if list_type.text() == "set" {
            set_items(&items, causes);
        }
        causes.optional_choice(&list_type, &["atomic", "set", "map"]);
    }
    if !keys.is_empty() && list_type.text() != "map" {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        if list_type.is_set() {
            causes.invalid(&list_type, detail);
        } else {
            causes.required(&list_type, detail);
        }
    }
    if list_type.text() == "map" {
        map_items(&items, &keys, causes);
    }
}

fn must_be(of_type: &Field, expected: &str, extension: &str, causes: &mut Causes) {
    let detail = format!("must be {expected} if {extension} is specified");
    if of_type.text().is_empty() {
        causes.required(of_type, &detail);
    } else if of_type.text() != expected {
        causes.invalid(of_type, &detail);
    }
}

/// The elements of a set are compared as a whole.
fn set_items(items: &Field, causes: &mut Causes) {
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let (list_type, map_type) =
        (items.child("x-kubernetes-list-type"), items.child("x-kubernetes-map-type"));
    match items.child("type").text() {
        "array" if list_type.is_set() && list_type.text() != "atomic" => {
            causes.invalid(&list_type, detail);
        }
        "object" if map_type.text() != "atomic" => {
            causes.invalid(&map_type, detail);
        }
        _ => {}
    }
    nullable(items, "set", causes);
}

/// The elements of a list with keys have the keys, which are scalars.
fn map_items(items: &Field, keys: &Field, causes: &mut Causes) {
    // Each key is compared with the other keys, and with the required fields.
    let compared = keys.len() * (keys.len() + items.child("required").len());
    if !causes.steps.spend(compared / SMALL_PER_STEP) {
        return;
    }
    if keys.is_empty() {
        causes.required(keys, "must not be empty if x-kubernetes-list-type is map");
    }
    if !items.is_set() {
        causes.required(items, "must have a schema if x-kubernetes-list-type is map");
        return;
    }
    let (of_type, properties) = (items.child("type"), items.child("properties"));
    if of_type.text() != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        causes.invalid(&of_type, detail);
        return;
    }
    for (index, key) in keys.items().enumerate() {
        let property = properties.key(key.text());
        if !property.is_set() {
            causes.invalid(keys, "entries must all be names of item properties");
        } else if matches!(property.child("type").text(), "array" | "object") {
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            causes.invalid(&property.child("type"), detail);
        }
        if keys.items().take(index).any(|other| other.text() == key.text()) {
            causes.invalid(keys, "must not contain duplicate entries");
        }
    }
    nullable(items, "map", causes);
    for key in keys.items() {
        let property = properties.key(key.text());
        let is_required =
            items.child("required").items().any(|required| required.text() == key.text());
        if property.is_set() && !is_required && !property.child("default").is_set() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a \
                          default or be a required property";
            causes.required(&property.child("default"), detail);
        }
        if property.child("nullable").is_true() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            causes.forbidden(&property.child("nullable"), detail);
        }
    }
}

fn nullable(items: &Field, list_type: &str, causes: &mut Causes) {
    if items.child("nullable").is_true() {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        causes.forbidden(&items.child("nullable"), &detail);
    }
}
