//! Decodes request bodies into JSON trees and finds duplicate fields. The parsers limit the depth,
//! so that a deeply nested body is an error and not a stack overflow.

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess};

use super::negotiate::Syntax;
use super::protobuf;
use crate::json::{Map, ReadNested, Unambiguous, Value, ValueVisitor};
use crate::value::DEPTH_MAX;

/// A decoded body and the findings of strict decoding.
#[derive(Debug, PartialEq)]
pub(crate) struct Decoded {
    pub value: Value,
    /// Duplicate fields in the order of the body, in upstream's words:
    /// `duplicate field "spec.selector"`.
    pub duplicates: Vec<String>,
}

/// Decodes a body. The error is that of the parser, with its position.
pub(crate) fn decode(bytes: &[u8], syntax: Syntax) -> Result<Decoded, String> {
    let mut found = Found::default();
    let value = match syntax {
        Syntax::Json => json(bytes, &mut found)?,
        Syntax::Yaml => yaml(bytes)?,
        Syntax::Protobuf => protobuf::decode(bytes, VALUES_MAX)?,
    };
    if nests_deeper(&value, DEPTH_MAX) {
        return Err(format!("exceeded max depth {DEPTH_MAX}"));
    }
    Ok(Decoded { value, duplicates: found.duplicates })
}

/// True if a value nests deeper than a number of levels.
fn nests_deeper(value: &Value, levels: usize) -> bool {
    let inner = |value| match levels.checked_sub(1) {
        Some(levels) => nests_deeper(value, levels),
        None => true,
    };
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(inner),
        Value::Object(fields) => levels == 0 || fields.values().any(inner),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The findings of the JSON decoder so far.
#[derive(Default)]
struct Found {
    /// The number of values.
    values: usize,
    duplicates: Vec<String>,
    /// The size of their texts.
    duplicates_bytes: usize,
}

impl Found {
    /// Counts a value.
    fn value<E: serde::de::Error>(&mut self) -> Result<(), E> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(E::custom(format!("the body has more than {VALUES_MAX} values")));
        }
        Ok(())
    }

    fn duplicate(&mut self, path: &str) {
        if self.duplicates.len() < DUPLICATES_MAX && self.duplicates_bytes < DUPLICATES_BYTES_MAX {
            let text = format!("duplicate field {path:?}");
            self.duplicates_bytes += text.len();
            self.duplicates.push(text);
        }
    }
}

/// Maximum number of values in a body. In memory each needs up to a hundred times the space of
/// its text, and an object of 1.5 MiB that has so many would consist of almost nothing else.
const VALUES_MAX: usize = 200_000;

/// Maximum size of a body that can't have too many values.
const SMALL_BYTES: usize = 64 * 1024;

fn json(bytes: &[u8], found: &mut Found) -> Result<Value, String> {
    // Hardly any body has duplicate fields or errors, and finding none needs no paths.
    if bytes.len() <= SMALL_BYTES
        && let Ok(Unambiguous(value)) = serde_json::from_slice(bytes)
    {
        return Ok(value);
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let seed = Seed { path: &mut String::new(), found };
    let value = seed.deserialize(&mut deserializer).map_err(|error| go_message(bytes, &error))?;
    deserializer.end().map_err(|error| go_message(bytes, &error))?;
    Ok(value)
}

/// The message of Go's decoder for a syntax error: the unexpected character and its context. For
/// other errors, such as bad numbers and escapes, the message of our parser.
fn go_message(bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let message = error.to_string();
    let line = bytes.split(|byte| *byte == b'\n').nth(error.line().saturating_sub(1));
    let stopped_at = line.and_then(|line| line.get(error.column().checked_sub(1)?));
    let Some(stopped_at) = stopped_at.filter(|byte| byte.is_ascii_graphic()) else {
        return message;
    };
    let position = match message.split(" at line ").next().unwrap_or_default() {
        "expected value" => "looking for beginning of value",
        "expected `,` or `]`" => "after array element",
        "expected `,` or `}`" => "after object key:value pair",
        "expected `:`" => "after object key",
        "key must be a string" => "looking for beginning of object key string",
        "trailing comma" if *stopped_at == b'}' => "looking for beginning of object key string",
        "trailing comma" => "looking for beginning of value",
        "trailing characters" => "after top-level value",
        _ => return message,
    };
    let quoted = match stopped_at {
        b'\'' => "\\'".to_owned(),
        other => char::from(*other).to_string(),
    };
    format!("invalid character '{quoted}' {position}")
}

/// The YAML parser itself refuses duplicate keys, as upstream's strict decoder does.
fn yaml(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    crate::yaml::document(text).map_err(|error| error.to_string())
}

/// Maximum number of duplicate fields that are reported.
const DUPLICATES_MAX: usize = 100;
/// Size of the reported duplicate fields above which no other one is reported.
const DUPLICATES_BYTES_MAX: usize = 64 * 1024;

struct Seed<'a> {
    path: &'a mut String,
    found: &'a mut Found,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.found.value()?;
        deserializer.deserialize_any(ValueVisitor(self))
    }
}

impl<'de> ReadNested<'de> for Seed<'_> {
    fn array<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        let length = self.path.len();
        loop {
            self.path.push_str(&format!("[{}]", array.len()));
            let seed = Seed { path: &mut *self.path, found: &mut *self.found };
            let item = items.next_element_seed(seed);
            self.path.truncate(length);
            match item? {
                Some(item) => array.push(item),
                None => return Ok(array.into()),
            }
        }
    }

    fn object<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        let length = self.path.len();
        while let Some(key) = fields.next_key::<String>()? {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&key);
            if object.contains_key(&key) {
                self.found.duplicate(self.path);
            }
            let seed = Seed { path: &mut *self.path, found: &mut *self.found };
            let value = fields.next_value_seed(seed);
            self.path.truncate(length);
            object.insert(key, value?);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::json;

    /// S4: a duplicate field is found at any depth; the last value counts.
    #[test]
    fn duplicate_fields_are_found_with_their_path() {
        let body = br#"{"a":1,"b":[{"c":1,"c":2}],"a":3,"d":{"e":null,"e":[]}}"#;
        let decoded = decode(body, Syntax::Json).expect("valid JSON");
        assert_eq!(decoded.value, json!({"a": 3, "b": [{"c": 2}], "d": {"e": []}}));
        assert_eq!(
            decoded.duplicates,
            ["duplicate field \"b[0].c\"", "duplicate field \"a\"", "duplicate field \"d.e\"",]
        );
    }

    /// S12: bodies that are nested too deep, truncated or not text are errors.
    #[test]
    fn hostile_bodies_are_errors() {
        let deep_json = "[".repeat(100_000);
        let deep_object = "{\"a\":".repeat(100_000);
        let deep_yaml = "[".repeat(50_000);
        for (body, syntax) in [
            (deep_json.as_bytes(), Syntax::Json),
            (deep_object.as_bytes(), Syntax::Json),
            (deep_yaml.as_bytes(), Syntax::Yaml),
            (b"{\"a\":" as &[u8], Syntax::Json),
            (b"{} {}", Syntax::Json),
            (b"\"\xff\xfe\"", Syntax::Json),
            (b"a: \xff", Syntax::Yaml),
            (b"", Syntax::Json),
        ] {
            assert!(decode(body, syntax).is_err(), "{syntax:?}");
        }
    }

    /// S8: syntax errors have the messages of Go's decoder.
    #[test]
    fn json_errors_have_the_messages_of_go() {
        for (body, expected) in [
            ("{\"a\":", "unexpected end of JSON input"),
            ("a: 1", "invalid character 'a' looking for beginning of value"),
            ("{\"a\":\n [1,]}", "invalid character ']' looking for beginning of value"),
            ("[1 2]", "invalid character '2' after array element"),
            ("{\"a\":1 \"b\":2}", "invalid character '\"' after object key:value pair"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{a: 1}", "invalid character 'a' looking for beginning of object key string"),
            ("{'a': 1}", "invalid character '\\'' looking for beginning of object key string"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            ("{}\n{}", "invalid character '{' after top-level value"),
        ] {
            assert_eq!(decode(body.as_bytes(), Syntax::Json), Err(expected.to_owned()), "{body}");
        }
    }

    /// S4: a body may be YAML.
    #[test]
    fn yaml_parses_as_json() {
        let decoded = decode(b"a: 1\nb:\n- c: \"2\"\n- true\n", Syntax::Yaml).expect("valid YAML");
        assert_eq!(decoded.value, json!({"a": 1, "b": [{"c": "2"}, true]}));
    }

    proptest! {
        #[test]
        fn the_decoder_agrees_with_serde_json(text in "[\\[\\]{}:,\"a-c0-9. ]{0,60}") {
            let ours = decode(text.as_bytes(), Syntax::Json).ok().map(|decoded| decoded.value);
            let theirs: Option<Value> = serde_json::from_str(&text).ok();
            prop_assert_eq!(ours, theirs);
        }
    }
}
