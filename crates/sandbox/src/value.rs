//! Reads a `serde_json::Value` as Kubernetes' Go code reads its structs: absent and null values and
//! values of another type are the zero value. Paths are JSON pointers without escapes.

use serde_json::{Map, Number, Value};

/// Maximum nesting of an object. Parsers have a limit of 128.
pub(crate) const DEPTH_MAX: usize = 100;

/// The string at `path`; empty if there is none.
pub(crate) fn string<'a>(object: &'a Value, path: &str) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or("")
}

/// The string that a list of keys leads to; empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, keys: &[&str]) -> &'a str {
    keys.iter().try_fold(object, |value, key| value.get(key)).and_then(Value::as_str).unwrap_or("")
}

/// The integer at `path`; 0 if there is none.
pub(crate) fn integer(object: &Value, path: &str) -> i64 {
    integer_maybe(object, path).unwrap_or(0)
}

/// The integer at `path`; `None` if there is none.
pub(crate) fn integer_maybe(object: &Value, path: &str) -> Option<i64> {
    at(object, path).and_then(Value::as_i64)
}

/// The boolean at `path`; false if there is none.
pub(crate) fn boolean(object: &Value, path: &str) -> bool {
    at(object, path).and_then(Value::as_bool).unwrap_or(false)
}

/// The elements of the array at `path`; empty if there is none.
pub(crate) fn array<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The object at `path`, even if it is empty; `None` if there is none.
pub(crate) fn map<'a>(object: &'a Value, path: &str) -> Option<&'a Map<String, Value>> {
    at(object, path).and_then(Value::as_object)
}

/// Whether there is a value other than null at `path`.
pub(crate) fn is_set(object: &Value, path: &str) -> bool {
    at(object, path).is_some_and(|value| !value.is_null())
}

/// The string entries of the map at `path`, ordered by key.
pub(crate) fn string_map<'a>(object: &'a Value, path: &str) -> Vec<(&'a str, &'a str)> {
    let mut entries: Vec<(&str, &str)> = map(object, path)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or("")))
        .collect();
    entries.sort_unstable();
    entries
}

/// The name of the type in the messages of Go's decoder.
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

/// The sizes of a value: in bytes, and its nesting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// As JSON text.
    pub json: usize,
    /// As a tree in memory, roughly.
    pub tree: usize,
    /// The nesting: 1 for a value that is neither an array nor an object.
    pub depth: usize,
}

/// The sizes of a value, without making its text.
pub(crate) fn size(value: &Value) -> Size {
    /// A node of the map type, which has room for eleven entries and at least six.
    const NODE_BYTES: usize = 640;
    const ENTRIES_PER_NODE: usize = 8;
    let tree = size_of::<Value>();
    let scalar = |json: usize| Size { json, tree, depth: 1 };
    match value {
        Value::Null => scalar(4),
        Value::Bool(_) => scalar(5),
        Value::Number(number) => scalar(number_bytes(number)),
        Value::String(text) => Size { json: json_bytes(text), tree: tree + text.len(), depth: 1 },
        Value::Array(items) => {
            let own = Size { json: 1 + items.len().max(1), tree, depth: 0 };
            items.iter().map(size).fold(own, Size::and).nested()
        }
        Value::Object(fields) => {
            let nodes = fields.len().div_ceil(ENTRIES_PER_NODE) * NODE_BYTES;
            let own = Size { json: 1 + fields.len().max(1), tree: tree + nodes, depth: 0 };
            let entry = |(key, value): (&String, &Value)| {
                // The node has the room for the value itself.
                let key = Size { json: json_bytes(key) + 1, tree: key.len(), depth: 0 };
                key.and(size(value))
            };
            fields.iter().map(entry).fold(own, Size::and).nested()
        }
    }
}

/// Whether the JSON text of a value has at most this number of bytes. Looks at the bytes of strings
/// only if the answer depends on them.
pub(crate) fn is_json_within(value: &Value, bytes_max: usize) -> bool {
    json_bound(value) <= bytes_max || size(value).json <= bytes_max
}

/// An upper bound of the JSON text's size, as if all bytes of strings were escaped.
fn json_bound(value: &Value) -> usize {
    let of_text = |text: &str| 2 + 6 * text.len();
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(number) => number_bytes(number),
        Value::String(text) => of_text(text),
        Value::Array(items) => 2 + items.iter().map(|item| json_bound(item) + 1).sum::<usize>(),
        Value::Object(fields) => {
            let entry = |(key, value): (&String, &Value)| of_text(key) + json_bound(value) + 2;
            2 + fields.iter().map(entry).sum::<usize>()
        }
    }
}

impl Size {
    fn and(self, other: Self) -> Self {
        Self {
            json: self.json + other.json,
            tree: self.tree + other.tree,
            depth: self.depth.max(other.depth),
        }
    }

    fn nested(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }
}

/// The length of a number in JSON.
fn number_bytes(number: &Number) -> usize {
    match number.as_u64() {
        Some(number) => 1 + number.checked_ilog10().unwrap_or(0) as usize,
        None => number.to_string().len(),
    }
}

/// The length of a string in JSON.
fn json_bytes(text: &str) -> usize {
    // Hardly any string has them, and the processor compares many bytes at a time.
    let is_escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    if !text.bytes().fold(false, |any, byte| any | is_escaped(byte)) {
        return 2 + text.len();
    }
    let more = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 1,
        0..0x20 => 5,
        _ => 0,
    });
    2 + text.len() + more.sum::<usize>()
}

/// Like `Value::pointer`, but without an allocation for each element of the path: a table of pods
/// calls it hundreds of thousands of times.
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

    /// S8: each array and object is one level.
    #[test]
    fn a_depth_is_the_nesting() {
        for (value, depth) in [
            (serde_json::json!("a"), 1),
            (serde_json::json!([]), 1),
            (serde_json::json!({"a": 1, "b": [{}, 2]}), 3),
            (serde_json::json!([[[0]]]), 4),
        ] {
            assert_eq!(size(&value).depth, depth, "{value}");
        }
    }

    /// S8: the size of a value is the length of its text.
    #[test]
    fn a_size_is_the_length_of_the_text() {
        for value in [
            serde_json::json!({"a": {"b": [1, -2, 0.5, "x\"\\\n\u{1}é"]}, "n": null, "t": true}),
            serde_json::json!([[], {}, [[]], "", {"": {}}]),
        ] {
            // `false` has one letter more than `true`.
            let spare = value.to_string().matches("true").count();
            let bytes = size(&value).json;
            assert_eq!(bytes - spare, value.to_string().len(), "{value}");
            assert!(json_bound(&value) >= bytes, "{value}");
            assert!(is_json_within(&value, bytes) && !is_json_within(&value, bytes - 1));
        }
    }

    /// S4: absent and null values and values of another type are the zero value.
    #[test]
    fn absent_values_are_zero() {
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
