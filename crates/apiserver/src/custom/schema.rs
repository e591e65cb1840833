//! A structural schema: which fields an object has, and what their values must be.

pub(super) mod rule;

use std::collections::BTreeMap;

use crate::json::Value;

use crate::format;
use rule::Rule;

/// The schema of a value.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    /// `type`.
    pub type_name: Option<TypeName>,
    /// `properties`.
    pub properties: BTreeMap<Box<str>, Schema>,
    /// `additionalProperties`.
    pub additional: Additional,
    /// `items`.
    pub items: Option<Box<Schema>>,
    /// `nullable`.
    pub nullable: bool,
    /// `default`.
    pub default: Option<Value>,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserves: bool,
    /// `x-kubernetes-embedded-resource`: the value has metadata of its own.
    pub embedded: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `x-kubernetes-list-type`.
    pub list_type: ListType,
    /// `x-kubernetes-list-map-keys`.
    pub map_keys: Vec<Box<str>>,
    /// `x-kubernetes-map-type: atomic`.
    pub is_atomic_map: bool,
    /// `x-kubernetes-validations`.
    pub rules: Vec<Rule>,
    /// True if the schema or one in it has rules.
    has_rules: bool,
    /// True if the schema or one in it has a default.
    has_defaults: bool,
    /// The keywords that only validation reads.
    pub checks: Checks,
}

/// The fields of a map that are no properties.
#[derive(Debug, Default)]
pub(crate) enum Additional {
    /// The schema says nothing of them.
    #[default]
    Unsaid,
    /// There are none.
    None,
    /// They have any value.
    Any,
    /// They have this schema.
    Of(Box<Schema>),
}

/// The keyword `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeName {
    /// `object`.
    Object,
    /// `array`.
    Array,
    /// `string`.
    String,
    /// `integer`.
    Integer,
    /// `number`.
    Number,
    /// `boolean`.
    Boolean,
}

/// The keyword `x-kubernetes-list-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    /// `atomic`.
    #[default]
    Atomic,
    /// `set`.
    Set,
    /// `map`.
    Map,
}

/// Constraints on the value, besides its type.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// `format`.
    pub format: Option<Box<str>>,
    /// `enum`.
    pub choices: Option<Vec<Value>>,
    /// `minimum`.
    pub minimum: Option<f64>,
    /// `maximum`.
    pub maximum: Option<f64>,
    /// `exclusiveMinimum`.
    pub exclusive_minimum: bool,
    /// `exclusiveMaximum`.
    pub exclusive_maximum: bool,
    /// `multipleOf`.
    pub multiple_of: Option<f64>,
    /// `minLength`.
    pub min_length: Option<usize>,
    /// `maxLength`.
    pub max_length: Option<usize>,
    /// `pattern`.
    pub pattern: Option<Box<str>>,
    /// `minItems`.
    pub min_items: Option<usize>,
    /// `maxItems`.
    pub max_items: Option<usize>,
    /// `minProperties`.
    pub min_properties: Option<usize>,
    /// `maxProperties`.
    pub max_properties: Option<usize>,
    /// `required`.
    pub required: Vec<Box<str>>,
    /// `allOf`.
    pub all_of: Vec<Schema>,
    /// `anyOf`.
    pub any_of: Vec<Schema>,
    /// `oneOf`.
    pub one_of: Vec<Schema>,
    /// `not`.
    pub not: Option<Box<Schema>>,
}

impl Schema {
    /// The schema in a document, whose form was checked with that of its definition. What is
    /// malformed is left out.
    pub(crate) fn parse(document: &Value) -> Self {
        let flag = |name: &str| document.get(name) == Some(&Value::Bool(true));
        let extension = |name: &str| flag(&format!("x-kubernetes-{name}"));
        let properties = document.get("properties").and_then(Value::as_object);
        let properties = properties.into_iter().flatten();
        let keys = document.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
        let mut schema = Self {
            type_name: document.get("type").and_then(Value::as_str).and_then(TypeName::parse),
            properties: properties
                .map(|(name, schema)| (name.as_str().into(), Self::parse(schema)))
                .collect(),
            additional: match document.get("additionalProperties") {
                Some(Value::Bool(true)) => Additional::Any,
                Some(schema @ Value::Object(_)) => Additional::Of(Box::new(Self::parse(schema))),
                Some(Value::Bool(false)) => Additional::None,
                _ => Additional::Unsaid,
            },
            items: document.get("items").map(|items| Box::new(Self::parse(items))),
            nullable: flag("nullable"),
            default: document.get("default").filter(|default| !default.is_null()).cloned(),
            preserves: extension("preserve-unknown-fields"),
            embedded: extension("embedded-resource"),
            int_or_string: extension("int-or-string"),
            list_type: match document.get("x-kubernetes-list-type").and_then(Value::as_str) {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map,
                _ => ListType::Atomic,
            },
            map_keys: texts(keys),
            is_atomic_map: document.get("x-kubernetes-map-type") == Some(&"atomic".into()),
            rules: Rule::of_schema(document),
            has_rules: false,
            has_defaults: false,
            checks: Checks::parse(document),
        };
        schema.has_defaults = schema.default.is_some() || schema.nested().any(Self::has_defaults);
        schema.has_rules = !schema.rules.is_empty() || schema.nested().any(Self::has_rules);
        schema
    }

    /// True if the schema or one in it has rules.
    pub(crate) fn has_rules(&self) -> bool {
        self.has_rules
    }

    /// True if the schema or one in it has a default.
    pub(crate) fn has_defaults(&self) -> bool {
        self.has_defaults
    }

    /// The format, if it means something for the type.
    pub(crate) fn known_format(&self) -> Option<&str> {
        let format = self.checks.format.as_deref()?;
        let is_known = match self.type_name {
            None | Some(TypeName::String) => format::is_known(format),
            Some(TypeName::Integer) => matches!(format, "int32" | "int64"),
            Some(TypeName::Number) => matches!(format, "float" | "double"),
            Some(TypeName::Array | TypeName::Boolean | TypeName::Object) => false,
        };
        is_known.then_some(format)
    }

    /// The schemas of the values in a value, and those that restrict it.
    pub(crate) fn nested(&self) -> impl Iterator<Item = &Self> {
        let additional = match &self.additional {
            Additional::Of(schema) => Some(&**schema),
            Additional::Unsaid | Additional::None | Additional::Any => None,
        };
        let items = self.items.as_deref();
        let fields = self.properties.values().chain(additional).chain(items);
        fields.chain(&self.checks.all_of)
    }

    /// All schemas in this one.
    pub(crate) fn all_nested(&self) -> impl Iterator<Item = &Self> {
        let checks = &self.checks;
        let not = checks.not.as_deref();
        self.nested().chain(&checks.any_of).chain(&checks.one_of).chain(not)
    }

    /// The schema of a field; `None` if the schema does not say.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        match (self.properties.get(name), &self.additional) {
            (Some(known), _) => Some(known),
            (None, Additional::Of(schema)) => Some(schema),
            (None, Additional::Unsaid | Additional::None | Additional::Any) => None,
        }
    }
}

impl Checks {
    fn parse(document: &Value) -> Self {
        let number = |name: &str| document.get(name).and_then(Value::as_f64);
        let count = |name: &str| {
            let count = document.get(name).and_then(Value::as_u64)?;
            usize::try_from(count).ok()
        };
        let flag = |name: &str| document.get(name) == Some(&Value::Bool(true));
        let text = |name: &str| document.get(name).and_then(Value::as_str);
        let list = |name: &str| document.get(name).and_then(Value::as_array);
        let schemas = |name: &str| list(name).into_iter().flatten().map(Schema::parse).collect();
        Self {
            format: text("format").filter(|format| !format.is_empty()).map(Into::into),
            choices: list("enum").cloned(),
            minimum: number("minimum"),
            maximum: number("maximum"),
            exclusive_minimum: flag("exclusiveMinimum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            pattern: text("pattern").filter(|pattern| !pattern.is_empty()).map(Into::into),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            required: texts(list("required")),
            all_of: schemas("allOf"),
            any_of: schemas("anyOf"),
            one_of: schemas("oneOf"),
            not: document.get("not").map(|not| Box::new(Schema::parse(not))),
        }
    }
}

impl TypeName {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    /// The name in schemas and messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

fn texts(list: Option<&Vec<Value>>) -> Vec<Box<str>> {
    list.into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
}
