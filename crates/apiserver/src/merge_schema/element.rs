//! One step of the path to a field: a name, or what identifies an element of a list.

use std::cmp::Ordering;
use std::fmt;

use crate::json::{Number, Value};

/// A step of a path. The order is that of upstream's `fieldpath.PathElement`: names, keys, values,
/// indexes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathElement {
    /// A field of a struct, or an entry of a map.
    Field(Box<str>),
    /// The element of a list whose key fields have these values, ordered by name.
    Key(Box<[(Box<str>, Scalar)]>),
    /// The element of a set with this value.
    Value(Scalar),
    /// The element of a list at this position.
    Index(i64),
}

/// A value in a path. Integers and floating-point numbers are compared by their values.
#[derive(Clone, Debug)]
pub(crate) struct Scalar(pub Value);

/// A text that is no path element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ElementError {
    /// An element of a later version, which readers skip.
    UnknownType,
    /// The text is malformed.
    Malformed(String),
}

impl PathElement {
    /// The element for a field.
    pub(crate) fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// The form in FieldsV1: `f:name`, `k:{"name":"a"}`, `v:"a"`, `i:0`.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let field = |(name, value): &(Box<str>, Scalar)| {
                    format!("{}:{}", Value::from(&**name), value.0)
                };
                format!("k:{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
            }
            Self::Value(value) => format!("v:{}", value.0),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Parses the form in FieldsV1.
    pub(crate) fn parse(text: &str) -> Result<Self, ElementError> {
        let malformed = |message: String| ElementError::Malformed(message);
        if text.len() < 2 {
            return Err(malformed("key must be 2 characters long:".to_owned()));
        }
        if text.as_bytes()[1] != b':' {
            return Err(malformed(format!("missing colon: {text}")));
        }
        let (kind, rest) = (text.as_bytes()[0], &text[2..]);
        let json = |rest: &str| {
            serde_json::from_str::<Value>(rest).map_err(|error| malformed(error.to_string()))
        };
        match kind {
            b'f' => Ok(Self::field(rest)),
            b'v' => Ok(Self::Value(Scalar(json(rest)?))),
            b'k' => match json(rest)? {
                Value::Object(fields) => Ok(Self::Key(
                    fields
                        .into_iter()
                        .map(|(name, value)| (name.as_str().into(), Scalar(value)))
                        .collect(),
                )),
                other => Err(malformed(format!("expected a map of keys, got {other}"))),
            },
            b'i' => rest
                .parse()
                .map(Self::Index)
                .map_err(|_| malformed(format!("strconv.Atoi: parsing {rest:?}: invalid syntax"))),
            _ => Err(ElementError::UnknownType),
        }
    }
}

/// The form in messages: `.name`, `[name="a"]`, `[="a"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(formatter, ".{name}"),
            Self::Key(fields) => {
                let field = |(name, value): &(Box<str>, Scalar)| format!("{name}={value}");
                let fields: Vec<String> = fields.iter().map(field).collect();
                write!(formatter, "[{}]", fields.join(","))
            }
            Self::Value(value) => write!(formatter, "[={value}]"),
            Self::Index(index) => write!(formatter, "[{index}]"),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Value::String(text) => write!(formatter, "{text:?}"),
            other => write!(formatter, "{other}"),
        }
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        compare(&self.0, &other.0) == Ordering::Equal
    }
}

impl Eq for Scalar {}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0)
    }
}

/// The order of upstream's `value.Compare`.
pub(crate) fn compare(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => numbers(one, other),
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (Value::Array(one), Value::Array(other)) => sequences(one.iter(), other.iter(), compare),
        (Value::Object(one), Value::Object(other)) => {
            sequences(one.iter(), other.iter(), |(name, one), (other_name, other)| {
                name.cmp(other_name).then_with(|| compare(one, other))
            })
        }
        _ => rank(one).cmp(&rank(other)),
    }
}

fn sequences<T>(
    mut one: impl Iterator<Item = T>,
    mut other: impl Iterator<Item = T>,
    compare: impl Fn(T, T) -> Ordering,
) -> Ordering {
    loop {
        match (one.next(), other.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(one), Some(other)) => match compare(one, other) {
                Ordering::Equal => {}
                unequal => return unequal,
            },
        }
    }
}

fn numbers(one: &Number, other: &Number) -> Ordering {
    match (one.as_i64(), other.as_i64()) {
        (Some(one), Some(other)) => one.cmp(&other),
        _ => {
            let float = |number: &Number| number.as_f64().unwrap_or_default();
            float(one).total_cmp(&float(other))
        }
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    /// S14: path elements have upstream's forms in FieldsV1 and in messages.
    #[test]
    fn elements_have_the_forms_of_upstream() {
        for (text, message) in [
            ("f:data", ".data"),
            ("f:", "."),
            ("f:a.b/c", ".a.b/c"),
            (r#"k:{"containerPort":80,"protocol":"TCP"}"#, r#"[containerPort=80,protocol="TCP"]"#),
            (r#"v:"a b""#, r#"[="a b"]"#),
            ("v:1.5", "[=1.5]"),
            ("v:true", "[=true]"),
            ("i:3", "[3]"),
        ] {
            let element = PathElement::parse(text).expect(text);
            assert_eq!(
                (element.text(), element.to_string()),
                (text.to_owned(), message.to_owned())
            );
        }
        assert_eq!(PathElement::parse("x:1"), Err(ElementError::UnknownType));
        for malformed in ["f", "", "fa", "k:1", "k:{", "v:", "i:a"] {
            let parsed = PathElement::parse(malformed);
            assert!(matches!(parsed, Err(ElementError::Malformed(_))), "{malformed}: {parsed:?}");
        }
    }

    /// S14: elements are ordered as upstream orders them, numbers by their values.
    #[test]
    fn elements_are_ordered_as_upstream() {
        let ordered = [
            "f:a",
            "f:b",
            r#"k:{"a":9}"#,
            r#"k:{"a":80}"#,
            r#"k:{"a":80,"b":"x"}"#,
            r#"k:{"a":80,"c":"x"}"#,
            r#"k:{"a":"1"}"#,
            "v:1",
            "v:1.5",
            "v:2",
            r#"v:"a""#,
            "v:false",
            "v:true",
            "v:null",
            "i:2",
            "i:10",
        ];
        let elements = ordered.map(|text| PathElement::parse(text).expect(text));
        assert!(elements.is_sorted(), "{elements:?}");
        assert_eq!(Scalar(json!(80)), Scalar(json!(80.0)));
    }
}
