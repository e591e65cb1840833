//! The check that a value has the form of its type, in upstream's words.

use std::collections::BTreeSet;
use std::fmt;

use crate::excerpt::Excerpt;
use crate::json::Value;

use crate::merge_schema::{Form, ListType, MapType, PathElement, ScalarType, Type};
use crate::patch::go_text;
use crate::value::go_type;

/// The errors in a value, each with its path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings(Vec<String>);

impl fmt::Display for Findings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [only] => formatter.write_str(only),
            many => {
                formatter.write_str("errors:")?;
                many.iter().try_for_each(|finding| write!(formatter, "\n  {finding}"))
            }
        }
    }
}

/// Checks that a value has a type and that no two elements of a list are the same. The object of an
/// apply has no other fields than those of its type.
///
/// # Errors
/// The findings, in the order of the value; of very many, the first.
pub(crate) fn validate(of: Type<'_>, value: &Value) -> Result<(), Findings> {
    let mut walk = Walk::default();
    walk.value(of, value);
    if walk.findings.is_empty() { Ok(()) } else { Err(Findings(walk.findings.into_vec())) }
}

#[derive(Default)]
struct Walk {
    path: String,
    findings: Excerpt,
}

impl Walk {
    fn value(&mut self, of: Type<'_>, value: &Value) {
        match of.form(Some(value)) {
            _ if value.is_null() => {}
            Form::Map(map) => match value {
                Value::Object(fields) => {
                    // As upstream, the first field that is not declared is the last one checked.
                    let _all = fields.iter().all(|(name, value)| self.field(map, name, value));
                }
                other => self.find(format!("expected map, got &{{{}}}", go_text(other))),
            },
            Form::List(list) => match value {
                Value::Array(items) => self.items(list, items),
                other => self.find(format!("expected list, got &{{{}}}", go_text(other))),
            },
            Form::Scalar(scalar) => {
                if let Some(message) = mismatch(scalar, value) {
                    self.find(message);
                }
            }
        }
    }

    /// Checks a field; returns whether it is declared.
    fn field(&mut self, map: MapType<'_>, name: &str, value: &Value) -> bool {
        let length = self.path.len();
        self.path.push_str(&format!(".{name}"));
        let declared = map.declared(name);
        match declared {
            Some(of) => self.value(of, value),
            None => self.find("field not declared in schema".to_owned()),
        }
        self.path.truncate(length);
        declared.is_some()
    }

    fn items(&mut self, list: ListType<'_>, items: &[Value]) {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let element = if list.is_atomic() {
                PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX))
            } else {
                match list.element(item) {
                    Ok(element) => element,
                    // Without a path element, upstream stops here.
                    Err(message) => return self.find(format!("element {index}: {message}")),
                }
            };
            if !list.is_atomic() && !seen.insert(element.clone()) {
                self.find(format!("duplicate entries for key {element}"));
            }
            let length = self.path.len();
            self.path.push_str(&element.to_string());
            self.value(list.elements, item);
            self.path.truncate(length);
        }
    }

    fn find(&mut self, message: String) {
        let path = &self.path;
        self.findings.add(|| match path.as_str() {
            "" => message,
            path => format!("{path}: {message}"),
        });
    }
}

/// Why a value is not a scalar of a type, as Go's `%T`, `%#v` and `%v` print it.
fn mismatch(scalar: ScalarType, value: &Value) -> Option<String> {
    match (scalar, value) {
        (ScalarType::Number, Value::Number(_))
        | (ScalarType::Text, Value::String(_))
        | (ScalarType::Boolean, Value::Bool(_))
        | (ScalarType::Any, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
        (ScalarType::Number, other) => {
            Some(format!("expected numeric (int or float), got {}", go_type(other)))
        }
        (ScalarType::Text, other) => {
            let text = go_text(other);
            Some(format!("expected string, got &value.valueUnstructured{{Value:{text}}}"))
        }
        (ScalarType::Boolean, other) => {
            Some(format!("expected boolean, got &{{{}}}", go_text(other)))
        }
        (ScalarType::Any, other) => {
            Some(format!("expected any scalar, got &{{{}}}", go_text(other)))
        }
    }
}
