//! The types of expressions, and what schemas say of them (upstream's `SchemaDeclType`).

use std::fmt;
use std::sync::Arc;

use super::values::is_named;
use crate::custom::schema::{Additional, Schema, TypeName};

/// The type of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type<'s> {
    /// Known only when the expression is evaluated.
    Dyn,
    /// The type of the elements of `[]`, which is any.
    Unknown,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    /// A type as a value: `type(self.a) == int`.
    Kind,
    /// A type of Kubernetes' own: `net.IP`.
    Opaque(&'static str),
    List(Arc<Type<'s>>),
    Map(Arc<Type<'s>>, Arc<Type<'s>>),
    Optional(Arc<Type<'s>>),
    Object(Object<'s>),
    /// A parameter of a function's type.
    Parameter(char),
}

/// The type of a value with fields.
#[derive(Clone, Copy, Debug)]
pub(super) enum Object<'s> {
    Schema {
        schema: &'s Schema,
        /// True if it has `apiVersion`, `kind` and `metadata` in any case.
        is_resource: bool,
    },
    Metadata,
}

/// Each schema is a type of its own.
impl PartialEq for Object<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Metadata, Self::Metadata) => true,
            (Self::Schema { schema, .. }, Self::Schema { schema: other, .. }) => {
                std::ptr::eq(*schema, *other)
            }
            (Self::Metadata | Self::Schema { .. }, _) => false,
        }
    }
}

/// The size of the largest request, by which values without a limit are limited.
pub(crate) const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;

impl<'s> Type<'s> {
    /// The type of a schema's values; `None` if expressions can't see them.
    pub(super) fn of_schema(schema: &'s Schema, is_resource: bool) -> Option<Self> {
        if schema.int_or_string {
            return Some(Self::Dyn);
        }
        Some(match schema.type_name? {
            TypeName::Array => {
                let of_items = schema.items.as_deref()?;
                Self::List(Arc::new(Self::of_schema(of_items, of_items.embedded)?))
            }
            TypeName::Object => match &schema.additional {
                Additional::Of(of_values) => {
                    let of_values = Self::of_schema(of_values, of_values.embedded)?;
                    Self::Map(Arc::new(Self::Text), Arc::new(of_values))
                }
                Additional::Unsaid | Additional::None | Additional::Any => {
                    Self::Object(Object::Schema { schema, is_resource })
                }
            },
            TypeName::String => match schema.checks.format.as_deref() {
                Some("byte") => Self::Bytes,
                Some("duration") => Self::Duration,
                Some("date" | "date-time") => Self::Timestamp,
                Some(_) | None => Self::Text,
            },
            TypeName::Boolean => Self::Bool,
            TypeName::Number => Self::Double,
            TypeName::Integer => Self::Int,
        })
    }

    /// True if values have a fixed size, as the cost of operations counts it.
    pub(super) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool
            | Self::Double
            | Self::Duration
            | Self::Int
            | Self::Timestamp
            | Self::Uint => true,
            Self::Optional(of) => of.is_scalar(),
            Self::Dyn
            | Self::Unknown
            | Self::Null
            | Self::Text
            | Self::Bytes
            | Self::Kind
            | Self::Opaque(_)
            | Self::List(_)
            | Self::Map(..)
            | Self::Object(_)
            | Self::Parameter(_) => false,
        }
    }
}

impl<'s> Object<'s> {
    /// The type of a field; `None` if there is none.
    pub(super) fn field(self, name: &str) -> Option<Type<'s>> {
        let (schema, is_resource) = match self {
            Self::Metadata => {
                return matches!(name, "name" | "generateName").then_some(Type::Text);
            }
            Self::Schema { schema, is_resource } => (schema, is_resource),
        };
        if is_resource {
            match name {
                "apiVersion" | "kind" => return Some(Type::Text),
                "metadata" => return Some(Type::Object(Self::Metadata)),
                _ => {}
            }
        }
        let of_field = property(schema, name)?;
        Type::of_schema(of_field, of_field.embedded)
    }
}

/// A property by its name in expressions.
pub(super) fn property<'s>(schema: &'s Schema, name: &str) -> Option<&'s Schema> {
    let same = schema.properties.get(name).filter(|_| is_named(name, name));
    let mut others = schema.properties.iter();
    same.or_else(|| others.find(|(known, _)| is_named(known, name)).map(|(_, of)| of))
}

/// The types as messages name them.
impl fmt::Display for Type<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Dyn | Self::Unknown => "dyn",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::Text => "string",
            Self::Bytes => "bytes",
            Self::Duration => "duration",
            Self::Timestamp => "timestamp",
            Self::Kind => "type",
            Self::Opaque(name) => name,
            Self::Object(_) => "object",
            Self::List(of) => return write!(formatter, "list({of})"),
            Self::Map(key, of) => return write!(formatter, "map({key}, {of})"),
            Self::Optional(of) => return write!(formatter, "optional_type({of})"),
            Self::Parameter(name) => return write!(formatter, "{name}"),
        })
    }
}

/// The minimum size in bytes of a value in JSON.
pub(crate) fn min_bytes(schema: &Schema) -> u64 {
    if schema.int_or_string {
        return 1;
    }
    match schema.type_name {
        None => 1,
        Some(TypeName::Boolean) => 4,
        Some(TypeName::Integer | TypeName::Number) => 1,
        Some(TypeName::String) => match schema.checks.format.as_deref() {
            Some("duration") => 3,
            Some("date") => 12,
            Some("date-time") => 21,
            Some(_) | None => 2,
        },
        Some(TypeName::Array) => 2,
        Some(TypeName::Object) if matches!(schema.additional, Additional::Of(_)) => 2,
        Some(TypeName::Object) => {
            let fields = schema.properties.iter().filter(|(name, of)| {
                let is_required = schema.checks.required.contains(name);
                is_required && of.default.is_none() && Type::of_schema(of, of.embedded).is_some()
            });
            2 + fields.map(|(name, of)| name.len() as u64 + min_bytes(of) + 4).sum::<u64>()
        }
    }
}

/// The maximum number of elements, entries or characters of a value.
pub(super) fn max_elements(schema: &Schema) -> u64 {
    let checks = &schema.checks;
    let length = checks.max_length.map(|length| length as u64);
    if schema.int_or_string {
        return length.map_or(REQUEST_BYTES_MAX - 2, |length| length.saturating_mul(4));
    }
    match schema.type_name {
        Some(TypeName::Array) => match (checks.max_items, &schema.items) {
            (Some(max), _) => max as u64,
            (None, Some(items)) => (REQUEST_BYTES_MAX - 2) / (min_bytes(items) + 1),
            (None, None) => 0,
        },
        Some(TypeName::Object) => match (checks.max_properties, &schema.additional) {
            (Some(max), Additional::Of(_)) => max as u64,
            (None, Additional::Of(values)) => (REQUEST_BYTES_MAX - 2) / (min_bytes(values) + 6),
            (_, Additional::Unsaid | Additional::None | Additional::Any) => 0,
        },
        Some(TypeName::String) => match checks.format.as_deref() {
            Some("duration" | "date-time") => 32,
            Some("date") => 12,
            Some("byte") => length.unwrap_or(REQUEST_BYTES_MAX - 2),
            Some(_) | None => match (length, &checks.choices) {
                (Some(length), _) => length.saturating_mul(4),
                (None, Some(choices)) if !choices.is_empty() => {
                    let texts = choices.iter().filter_map(|choice| choice.as_str());
                    texts.map(|text| text.len() as u64).max().unwrap_or(0)
                }
                (None, _) => REQUEST_BYTES_MAX - 2,
            },
        },
        Some(TypeName::Boolean | TypeName::Integer | TypeName::Number) | None => 0,
    }
}
