//! Reads values as Kubernetes' Go code reads its structs: absent and null values and values of
//! another type are the zero value. Paths are JSON pointers without escapes.

use crate::json::{Map, Value};

/// Maximum nesting of an object. Parsers have a limit of 128.
pub const DEPTH_MAX: usize = 100;

/// The string at `path`; empty if there is none.
#[inline]
pub fn string<'a>(object: &'a Value, path: &str) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or("")
}

/// The string that a list of keys leads to; empty if there is none.
#[inline]
pub fn text<'a>(object: &'a Value, keys: &[&str]) -> &'a str {
    keys.iter().try_fold(object, |value, key| value.get(key)).and_then(Value::as_str).unwrap_or("")
}

/// The integer at `path`; 0 if there is none.
#[inline]
pub fn integer(object: &Value, path: &str) -> i64 {
    integer_maybe(object, path).unwrap_or(0)
}

/// The integer at `path`; `None` if there is none.
#[inline]
pub fn integer_maybe(object: &Value, path: &str) -> Option<i64> {
    at(object, path).and_then(Value::as_i64)
}

/// The boolean at `path`; false if there is none.
#[inline]
pub fn boolean(object: &Value, path: &str) -> bool {
    at(object, path).and_then(Value::as_bool).unwrap_or(false)
}

/// The elements of the array at `path`; empty if there is none.
#[inline]
pub fn array<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The object at `path`, even if it is empty; `None` if there is none.
#[inline]
pub fn map<'a>(object: &'a Value, path: &str) -> Option<&'a Map> {
    at(object, path).and_then(Value::as_object)
}

/// True if there is a value other than null at `path`.
#[inline]
pub fn is_set(object: &Value, path: &str) -> bool {
    at(object, path).is_some_and(|value| !value.is_null())
}

/// The string entries of the map at `path`, ordered by key.
pub fn string_map<'a>(object: &'a Value, path: &str) -> Vec<(&'a str, &'a str)> {
    let mut entries: Vec<(&str, &str)> = map(object, path)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or("")))
        .collect();
    entries.sort_unstable();
    entries
}

/// The name of the type in the messages of Go's decoder.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Go's name of the type of a decoded JSON value, in the format of its `%T`.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Like `Value::pointer`, but without an allocation for each element of the path: a table of pods
/// calls it hundreds of thousands of times.
#[inline]
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('/').skip(1).try_fold(object, |value, step| match value {
        Value::Object(fields) => fields.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S4: absent and null values and values of another type are the zero value.
    #[test]
    fn absent_values_are_zero() {
        let object = crate::json::json!({"a": {"b": [{"c": 7, "d": "x"}]}, "n": null, "t": true});
        assert_eq!((integer(&object, "/a/b/0/c"), string(&object, "/a/b/0/d")), (7, "x"));
        assert_eq!((integer(&object, "/a/b/1/c"), string(&object, "/a/b/x/d")), (0, ""));
        assert_eq!(
            (is_set(&object, "/n"), is_set(&object, "/t"), boolean(&object, "/t")),
            (false, true, true)
        );
        assert_eq!((array(&object, "/a/b").len(), array(&object, "/a").len()), (1, 0));
    }
}
