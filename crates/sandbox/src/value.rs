//! Reads a `serde_json::Value` tree the way Kubernetes' Go code reads its structs: what is absent, null or of another type
//! reads as the zero value. Paths are JSON pointers without escapes. Decides nothing and never writes.

use serde_json::{Map, Value};

/// The string at `path`, or "".
pub(crate) fn string<'a>(object: &'a Value, path: &str) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or("")
}

/// The string that a list of keys leads to, or "".
pub(crate) fn text<'a>(object: &'a Value, keys: &[&str]) -> &'a str {
    keys.iter().try_fold(object, |value, key| value.get(key)).and_then(Value::as_str).unwrap_or("")
}

/// The integer at `path`, or 0.
pub(crate) fn integer(object: &Value, path: &str) -> i64 {
    integer_maybe(object, path).unwrap_or(0)
}

/// The integer at `path`, if there is one.
pub(crate) fn integer_maybe(object: &Value, path: &str) -> Option<i64> {
    at(object, path).and_then(Value::as_i64)
}

/// The boolean at `path`, or false.
pub(crate) fn boolean(object: &Value, path: &str) -> bool {
    at(object, path).and_then(Value::as_bool).unwrap_or(false)
}

/// The elements of the array at `path`, or none.
pub(crate) fn array<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The object at `path`, if there is one (an empty one included).
pub(crate) fn map<'a>(object: &'a Value, path: &str) -> Option<&'a Map<String, Value>> {
    at(object, path).and_then(Value::as_object)
}

/// Whether something other than null is at `path`.
pub(crate) fn is_set(object: &Value, path: &str) -> bool {
    at(object, path).is_some_and(|value| !value.is_null())
}

/// The string entries of the map at `path`, ordered by key: labels, annotations, node selectors.
pub(crate) fn string_map<'a>(object: &'a Value, path: &str) -> Vec<(&'a str, &'a str)> {
    let mut entries: Vec<(&str, &str)> = map(object, path)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or("")))
        .collect();
    entries.sort_unstable();
    entries
}

/// The type in the words of Go's decoder.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// What `Value::pointer` finds, without a string made for each step: a table of pods takes hundreds of thousands.
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

    /// S4: what is absent, null or of another type reads as nothing.
    #[test]
    fn what_is_not_there_reads_as_zero() {
        let object = serde_json::json!({"a": {"b": [{"c": 7, "d": "x"}]}, "n": null, "t": true});
        assert_eq!((integer(&object, "/a/b/0/c"), string(&object, "/a/b/0/d")), (7, "x"));
        assert_eq!((integer(&object, "/a/b/1/c"), string(&object, "/a/b/x/d")), (0, ""));
        assert_eq!(
            (is_set(&object, "/n"), is_set(&object, "/t"), boolean(&object, "/t")),
            (false, true, true)
        );
        assert_eq!((array(&object, "/a/b").len(), array(&object, "/a").len()), (1, 0));
    }
}
