//! Field selectors: `metadata.name=a,status.phase!=Running` (S6).

use std::borrow::Cow;

use crate::json::Value;

use super::SelectorError;
use crate::kind::{FieldLabels, Kind};
use crate::object::Object;
use crate::status::Status;

/// A field selector: fields that must or must not have a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    field: String,
    value: String,
    negated: bool,
}

impl FieldSelector {
    /// Parses terms separated by commas. In values, `\`, `,` and `=` are escaped with a backslash.
    ///
    /// # Errors
    ///
    /// The text is not a field selector; the message is upstream's.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for part in split(text) {
            if part.is_empty() {
                continue;
            }
            terms.push(term(part).ok_or_else(|| {
                SelectorError(format!("invalid selector: '{text}'; can't understand '{part}'"))
            })??);
        }
        Ok(Self { terms })
    }

    /// The number of terms.
    pub fn len(&self) -> usize {
        self.terms.len()
    }

    /// True if the selector matches everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The required value of a field, if there is one.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.terms
            .iter()
            .find(|term| term.field == field && !term.negated)
            .map(|term| term.value.as_str())
    }

    /// Checks that the kind supports the fields of the selector.
    ///
    /// # Errors
    ///
    /// 400 for an unsupported field, with upstream's message.
    pub fn check(&self, kind: &Kind) -> Result<(), Status> {
        for Term { field, .. } in &self.terms {
            if matches!(field.as_str(), "metadata.name" | "metadata.namespace") {
                continue;
            }
            return Err(Status::bad_request(match kind.field_labels {
                FieldLabels::Listed(listed) if listed.contains(&field.as_str()) => continue,
                FieldLabels::Listed(_) => format!("field label not supported: {field}"),
                FieldLabels::Metadata => format!(
                    "\"{field}\" is not a known field selector: only \"metadata.name\", \
                     \"metadata.namespace\""
                ),
            }));
        }
        Ok(())
    }

    /// True if an object of a kind matches.
    pub fn matches(&self, kind: &Kind, object: &Object) -> bool {
        let mut terms = self.terms.iter();
        terms.all(|term| (field(kind, object, &term.field) == term.value) != term.negated)
    }
}

/// The value of a field as text; empty if it is absent.
fn field<'a>(kind: &Kind, object: &'a Object, name: &str) -> Cow<'a, str> {
    match name {
        "metadata.name" | "name" => object.name().into(),
        "metadata.namespace" => object.namespace().into(),
        "spec.nodeName" => object.node_name().into(),
        _ => in_tree(kind, &object.read(), name).into(),
    }
}

fn in_tree(kind: &Kind, value: &Value, name: &str) -> String {
    if let Some((_, of)) = kind.field_values.iter().find(|(field, _)| *field == name) {
        return of(value);
    }
    match name.split('.').try_fold(value, |value, key| value.get(key)) {
        Some(Value::String(text)) => text.to_string(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

/// Splits at commas that are not escaped.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Parses a term; `None` if it has no operator.
fn term(part: &str) -> Option<Result<Term, SelectorError>> {
    let (index, operator) = part.char_indices().find_map(|(index, _)| {
        ["!=", "==", "="]
            .into_iter()
            .find(|operator| part[index..].starts_with(operator))
            .map(|operator| (index, operator))
    })?;
    let value = unescape(&part[index + operator.len()..]);
    Some(value.map(|value| Term {
        field: part[..index].to_string(),
        value,
        negated: operator == "!=",
    }))
}

fn unescape(text: &str) -> Result<String, SelectorError> {
    let mut value = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => value.push(escaped),
                Some(other) => {
                    return Err(SelectorError(format!(
                        "invalid field selector: invalid escape sequence: \\{other}"
                    )));
                }
                None => {
                    return Err(SelectorError(
                        "invalid field selector: invalid escape sequence: \\".to_string(),
                    ));
                }
            },
            ',' | '=' => {
                return Err(SelectorError(format!(
                    "invalid field selector: unescaped character in value: {character}"
                )));
            }
            other => value.push(other),
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use crate::managed_fields::ManagedFields;
    use proptest::prelude::*;

    use super::*;
    use crate::json::json;
    use crate::kind::test_kinds::{DAEMON_SET, POD};

    /// S6: fields are compared as text, absent ones as empty text; values are escaped with a
    /// backslash.
    #[test]
    fn fields_are_compared_as_text() {
        let object = json!({
            "metadata": {"name": "a", "namespace": "n"},
            "spec": {"nodeName": "x=y,z", "hostNetwork": true},
            "status": {"phase": "Running"},
        });
        let object = Object::new(object, ManagedFields::default());
        for (selector, expected) in [
            ("", true),
            ("metadata.name=a,metadata.namespace=n", true),
            ("metadata.name==a", true),
            ("metadata.name!=a", false),
            (r"spec.nodeName=x\=y\,z", true),
            ("spec.hostNetwork=true,spec.unschedulable=", true),
            ("status.phase!=Succeeded,status.phase!=Failed", true),
            ("status.podIP=", true),
            (",,", true),
        ] {
            let parsed = FieldSelector::parse(selector).expect("it parses");
            assert_eq!(parsed.matches(&POD, &object), expected, "{selector}");
        }
    }

    /// S6, S12: malformed selectors and unsupported fields are refused with upstream's messages.
    #[test]
    fn bad_field_selectors_are_refused_in_upstreams_words() {
        for (selector, problem) in [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'"),
            (r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
            (r"a=b\", r"invalid field selector: invalid escape sequence: \"),
            ("a=b=c", "invalid field selector: unescaped character in value: ="),
        ] {
            assert_eq!(FieldSelector::parse(selector), Err(SelectorError(problem.to_string())));
        }
        let unknown = FieldSelector::parse("spec.color=red").expect("it parses");
        let refused = |kind| unknown.check(kind).expect_err("it is unknown").message.clone();
        assert_eq!(
            refused(&DAEMON_SET),
            "\"spec.color\" is not a known field selector: only \"metadata.name\", \
             \"metadata.namespace\""
        );
        assert_eq!(refused(&POD), "field label not supported: spec.color");
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// S6, S12: no text makes the parser panic.
        #[test]
        fn any_text_is_parsed_or_refused(text in r"[a-c=!,\\.é ]{0,24}|\PC{0,40}") {
            let _ = FieldSelector::parse(&text);
        }
    }
}
