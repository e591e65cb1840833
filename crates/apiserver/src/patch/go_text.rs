//! JSON values in the format of Go's `%v`, in which upstream's messages about strategic merge
//! patches quote them.

use crate::json::Value;
use crate::value::go_type;

/// `map[a:1 b:[x y]]`, with sorted keys and unquoted strings.
pub(crate) fn value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_string(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.to_string(),
        Value::Array(items) => list(items),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(key, field)| format!("{key}:{}", self::value(field))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

pub(super) fn list(items: &[Value]) -> String {
    let items: Vec<String> = items.iter().map(value).collect();
    format!("[{}]", items.join(" "))
}

/// The Go type to which upstream decodes a JSON value.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        other => go_type(other),
    }
}
