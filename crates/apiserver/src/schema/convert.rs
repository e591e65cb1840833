//! Errors of Go's converter from untyped trees, which the server applies to the result of a
//! strategic merge patch. Its messages differ from those of the JSON decoder.

use crate::json::Value;

use super::decode::{DecodePath, check, go_type, walk};
use super::{Shape, root_of};
use crate::kind::Kind;
use crate::value;

/// Checks that every value has the type of its field. Skips what is shared with `stored`, the
/// object before the patch.
pub(crate) fn convert(kind: &Kind, object: &Value, stored: &Value) -> Result<(), String> {
    let Some(root) = root_of(kind) else { return Ok(()) };
    walk(&Shape::Struct(root), object, stored, &mut DecodePath::default(), &check_leaf)?;
    (kind.strategy.check_conversion)(object)
}

fn check_leaf<'a>(
    shape: &Shape,
    value: &'a Value,
    stored: &Value,
    path: &mut DecodePath<'a>,
) -> Result<(), String> {
    match (shape, value) {
        (Shape::Any | Shape::Either(_), _) => Ok(()),
        (Shape::Struct(_), other) => Err(format!("cannot restore struct from: {}", go_kind(other))),
        (Shape::Map(_), other) => Err(format!("cannot restore map from {}", go_kind(other))),
        (Shape::List(_), other) => Err(format!("cannot restore slice from {}", go_kind(other))),
        (Shape::Bytes, other) if !other.is_string() => {
            Err(format!("cannot restore slice from {}", go_kind(other)))
        }
        (Shape::Bytes, _) => check(shape, value, stored, path)
            .map_err(|error| format!("error decoding from json: {error}")),
        // These types have decoders that the converter uses as well.
        (Shape::Quantity | Shape::IntOrString | Shape::Time | Shape::MicroTime, _) => {
            check(shape, value, stored, path)
        }
        (Shape::Text(_) | Shape::Integer { .. } | Shape::Float | Shape::Boolean, _) => {
            check(shape, value, stored, path).map_err(|_| scalar(shape, value))
        }
    }
}

/// The error for a scalar. Go converts numbers to each other and to text on demand, and nothing
/// else.
fn scalar(shape: &Shape, value: &Value) -> String {
    let (from, to) = (go_kind(value), go_type(shape));
    match (shape, from) {
        (Shape::Text(_), "int64") | (Shape::Integer { .. } | Shape::Float, "int64" | "float64") => {
            format!("cannot convert {from} to {to}")
        }
        (Shape::Text(_), _) => "unrecognized type: string".to_owned(),
        _ => format!("unrecognized type: {to}"),
    }
}

/// The Go kind of a decoded JSON value.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
        scalar => value::go_type(scalar),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;
    use crate::kind::test_kinds::{DAEMON_SET, NODE};

    /// S5, S8: values of a wrong type in a strategic merge patch have the messages of upstream's
    /// converter.
    #[test]
    fn values_of_a_wrong_type_have_the_messages_of_upstream() {
        for (spec, expected) in [
            (json!({"minReadySeconds": "x"}), "unrecognized type: int32"),
            (json!({"minReadySeconds": 1.5}), "cannot convert float64 to int32"),
            (json!({"minReadySeconds": true}), "unrecognized type: int32"),
            (json!({"template": 7}), "cannot restore struct from: int64"),
            (json!({"template": {"metadata": {"labels": []}}}), "cannot restore map from slice"),
            (
                json!({"template": {"metadata": {"labels": {"a": 1}}}}),
                "cannot convert int64 to string",
            ),
            (json!({"template": {"spec": {"containers": {}}}}), "cannot restore slice from map"),
            (json!({"template": {"spec": {"hostNetwork": "yes"}}}), "unrecognized type: bool"),
            (
                json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": true}}}),
                "json: cannot unmarshal bool into Go value of type int32",
            ),
        ] {
            let object = json!({"spec": spec});
            assert_eq!(
                convert(&DAEMON_SET, &object, &Value::Null),
                Err(expected.to_owned()),
                "{object}"
            );
        }
        let node = json!({"spec": {"taints": [{"key": "a", "effect": null, "more": 1}]}});
        assert_eq!(convert(&NODE, &node, &Value::Null), Ok(()));
    }
}
