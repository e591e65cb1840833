//! Which types and ranges of numbers values have (S15), as upstream's validator of OpenAPI schemas
//! determines them.

use crate::json::Value;

use crate::custom::{Schema, TypeName};
use crate::value;

/// The expected type in messages; `None` if the schema does not say.
pub(super) fn expected(schema: &Schema) -> Option<&'static str> {
    if schema.int_or_string {
        return Some("integer,string");
    }
    schema.type_name.map(TypeName::name)
}

/// The expected type and that of a value that has another one. As upstream, a format that the type
/// of the schema knows takes the place of the type, unless the value is a string or a list; and
/// where a string with a format is expected, a list passes.
pub(super) fn mismatch<'s>(schema: &'s Schema, value: &Value) -> Option<(&'s str, &'static str)> {
    if has_type(schema, value) {
        return None;
    }
    let expected = self::expected(schema)?;
    let found = json_type(value);
    let Some(format) = schema.known_format() else { return Some((expected, found)) };
    let is_numeric = matches!(schema.type_name, Some(TypeName::Integer | TypeName::Number));
    match value {
        Value::Array(_) if !is_numeric => None,
        Value::String(_) | Value::Array(_) => Some((expected, found)),
        Value::Number(number) => Some((format, if number.is_f64() { "float64" } else { "int64" })),
        Value::Bool(_) | Value::Object(_) | Value::Null => Some((format, "")),
    }
}

/// The type and format in messages, if a number is out of their range.
pub(super) fn out_of_range(schema: &Schema, value: &Value) -> Option<String> {
    if schema.type_name != Some(TypeName::Integer) {
        return None;
    }
    let format = schema.known_format();
    let exact = || value.as_f64().filter(|_| is_integer(value)).map(|number| number as i64);
    let fits = value
        .as_i64()
        .or_else(exact)
        .is_some_and(|number| format != Some("int32") || i32::try_from(number).is_ok());
    (!fits).then(|| match format {
        Some(format) => format!("integer with format {format}"),
        None => "integer (default format)".to_owned(),
    })
}

fn has_type(schema: &Schema, value: &Value) -> bool {
    if schema.int_or_string {
        return value.is_string() || is_integer(value);
    }
    match schema.type_name {
        None => true,
        Some(TypeName::Object) => value.is_object(),
        Some(TypeName::Array) => value.is_array(),
        Some(TypeName::String) => value.is_string(),
        Some(TypeName::Integer) => is_integer(value),
        Some(TypeName::Number) => value.is_number(),
        Some(TypeName::Boolean) => value.is_boolean(),
    }
}

/// As upstream, what is no `int64` is an integer only up to the largest that is exact.
fn is_integer(value: &Value) -> bool {
    const EXACT_MAX: f64 = 9_007_199_254_740_991.0;
    let is_exact = |number: f64| number.fract() == 0.0 && number.abs() <= EXACT_MAX;
    value.is_i64() || value.as_f64().is_some_and(is_exact)
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_integer(value) => "integer",
        other => value::json_type(other),
    }
}
