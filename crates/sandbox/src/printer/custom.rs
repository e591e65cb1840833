//! Tables of custom kinds (S15), with the columns of their definitions.

use everynode_core::api::Timestamp;

use super::{NAME, duration, name};
use crate::custom::{Column, CustomType};
use crate::json::Value;

pub(super) fn headers(custom: &CustomType) -> Vec<Value> {
    let more = custom.columns.iter().map(|column| column.header.clone());
    std::iter::once(NAME.to_json()).chain(more).collect()
}

pub(super) fn cells(custom: &CustomType, object: &Value, now: Timestamp) -> Vec<Value> {
    let more = custom.columns.iter().map(|column| cell(column, object, now));
    std::iter::once(name(object).into()).chain(more).collect()
}

/// A cell; null where the object has no value of the column's type.
fn cell(column: &Column, object: &Value, now: Timestamp) -> Value {
    let Some(value) = column.path.first(object) else { return Value::Null };
    match (column.type_name(), value) {
        ("string", Value::Null) => Value::Null,
        ("string", Value::String(text)) => text.as_str().into(),
        ("string", other) => other.to_string().into(),
        ("integer", Value::Number(number)) => match number.as_f64() {
            // As Go converts it: without the fraction.
            Some(fraction) if number.is_f64() => (fraction.trunc() as i64).into(),
            _ => value.clone(),
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match text.parse::<jiff::Timestamp>() {
            Ok(_) => duration::since(text, now).into(),
            Err(_) => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}
