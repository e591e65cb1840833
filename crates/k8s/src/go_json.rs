//! JSON as Go's `encoding/json` writes it, byte for byte (C41).
//!
//! kube-controller-manager encodes the data of a revision from a Go map: keys are sorted, numbers
//! are `float64`, and `<`, `>`, `&`, U+2028 and U+2029 are escaped. A DaemonSet can move between
//! two controllers without a restart of its pods only if both write the same bytes.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Encodes a value as Go's `json.Marshal` does after `json.Unmarshal` into an `any`.
pub fn encode(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value);
    out
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (i, (key, member)) in members.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(out, key);
                out.push(':');
                write_value(out, member);
            }
            out.push('}');
        }
    }
}

/// Converts every number to `float64`, as Go does: integers above 2^53 must lose the same digits.
fn write_number(out: &mut String, number: &Number) {
    let Some(float) = number.as_f64() else {
        out.push_str(&number.to_string());
        return;
    };
    let magnitude = float.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{float:e}");
        let (mantissa, exponent) = text.split_once('e').expect("exponents are printed");
        let sign = if exponent.starts_with('-') { "" } else { "+" };
        write!(out, "{mantissa}e{sign}{exponent}").expect("writing to a string never fails");
    } else {
        write!(out, "{float}").expect("writing to a string never fails");
    }
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                write!(out, "\\u{:04x}", u32::from(character))
                    .expect("writing to a string never fails");
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// Parses JSON as Go does: each byte that is not valid UTF-8 becomes U+FFFD.
///
/// # Errors
/// If the JSON is malformed.
pub fn parse(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&text(bytes))
}

/// JSON as text, in which each byte that is not valid UTF-8 is replaced by U+FFFD. Checking all
/// bytes at once is faster than checking each string while parsing.
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(replace_invalid_utf8(bytes)),
    }
}

/// Go replaces each invalid byte by U+FFFD; `String::from_utf8_lossy` replaces whole sequences.
fn replace_invalid_utf8(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: &str) {
        let value = parse(input.as_bytes()).unwrap();
        assert_eq!(encode(&value), expected, "of {input}");
    }

    /// C41: strings are byte for byte those of Go's encoder.
    #[test]
    fn strings_are_escaped_as_go_escapes_them() {
        check(r#""a<b>&c""#, r#""a\u003cb\u003e\u0026c""#);
        check("\"\u{2028}\u{2029}\"", r#""\u2028\u2029""#);
        check(r#""\u0008\u000c\n\r\t\"\\\/""#, r#""\b\f\n\r\t\"\\/""#);
        check(r#""\u0000\u001f\u007f""#, "\"\\u0000\\u001f\u{7f}\"");
        check("\"grüße 🦀\"", "\"grüße 🦀\"");
        check(r#""\ud83e\udd80""#, "\"🦀\"");
    }

    /// C41: numbers are converted to float64, as in Go.
    #[test]
    fn numbers_are_written_as_go_writes_float64() {
        check("[0,-0,1,-7,30,8080]", "[0,-0,1,-7,30,8080]");
        check("[1.0,1.50,0.1]", "[1,1.5,0.1]");
        check("[9007199254740993]", "[9007199254740992]");
        check("[9223372036854775807]", "[9223372036854776000]");
        check("[1e20,1e21,1.5e300]", "[100000000000000000000,1e+21,1.5e+300]");
        check("[0.000001,0.0000001,-1.25e-9]", "[0.000001,1e-7,-1.25e-9]");
    }

    /// C41: keys are sorted by their bytes, and there is no white space.
    #[test]
    fn keys_are_sorted_by_bytes() {
        check(
            "{ \"b\" : [ ] , \"a\" : { } , \"B\" : null, \"é\": true, \"$patch\": \"replace\" }",
            "{\"$patch\":\"replace\",\"B\":null,\"a\":{},\"b\":[],\"é\":true}",
        );
    }

    /// C41: each byte that is not valid UTF-8 becomes U+FFFD.
    #[test]
    fn invalid_utf8_becomes_replacement_characters() {
        let value = parse(b"{\"a\":\"x\xff\xe2\x80y\"}").unwrap();
        assert_eq!(encode(&value), "{\"a\":\"x\u{fffd}\u{fffd}\u{fffd}y\"}");
        assert!(parse(b"{\"a\":").is_err());
    }
}
