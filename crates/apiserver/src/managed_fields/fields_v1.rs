//! FieldsV1: the JSON form of a set of fields.
//!
//! Each path element is a key, whose value has the elements below it. An empty object marks a path
//! in the set; a path in the set with others below it has the key `.` as well.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::set::Set;
use crate::json::Value;
use crate::merge_schema::{ElementError, PathElement};

/// The JSON text of a set, in upstream's order.
pub(crate) fn text(set: &Set) -> String {
    let mut text = String::new();
    write(set, false, &mut text);
    text
}

/// Parses a JSON text.
///
/// # Errors
/// A text that is not FieldsV1. Elements of unknown types are skipped, as upstream does.
pub(crate) fn parse(text: &str) -> Result<Set, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let (set, _) = Node.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(set.unwrap_or_default())
}

fn write(set: &Set, is_member: bool, text: &mut String) {
    let mut separator = "{";
    let mut key = |element: &str, text: &mut String| {
        text.push_str(separator);
        separator = ",";
        push_quoted(element, text);
        text.push(':');
    };
    let (mut members, mut children) = (set.members(), set.children());
    if is_member && !(members.is_empty() && children.is_empty()) {
        key(".", text);
        text.push_str("{}");
    }
    loop {
        match (members, children) {
            ([], []) => break,
            ([member, rest @ ..], [(child, _), ..]) if member < child => {
                key(&member.text(), text);
                text.push_str("{}");
                members = rest;
            }
            ([member, rest @ ..], []) => {
                key(&member.text(), text);
                text.push_str("{}");
                members = rest;
            }
            (_, [(child, set), rest @ ..]) => {
                let is_member = members.first() == Some(child);
                key(&child.text(), text);
                write(set, is_member, text);
                children = rest;
                members = &members[usize::from(is_member)..];
            }
        }
    }
    text.push_str(if separator == "{" { "{}" } else { "}" });
}

/// Appends a JSON string. Few have a character that JSON escapes.
fn push_quoted(element: &str, text: &mut String) {
    if element.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        text.push('"');
        text.push_str(element);
        text.push('"');
    } else {
        text.push_str(&Value::from(element).to_string());
    }
}

/// Reads a node: the set below it, if there is one, and whether the node itself is in the set.
struct Node;

impl<'de> DeserializeSeed<'de> for Node {
    type Value = (Option<Set>, bool);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node {
    type Value = (Option<Set>, bool);

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a map of path elements")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok((None, true))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let (mut members, mut children, mut is_member) = (Vec::new(), Vec::new(), false);
        while let Some(key) = entries.next_key::<String>()? {
            if key == "." {
                is_member = true;
                entries.next_value::<IgnoredAny>()?;
                continue;
            }
            let element = match PathElement::parse(&key) {
                Ok(element) => element,
                Err(ElementError::UnknownType) => {
                    entries.next_value::<IgnoredAny>()?;
                    continue;
                }
                Err(ElementError::Malformed(message)) => {
                    return Err(A::Error::custom(format!(
                        "parsing key as path element: {message}"
                    )));
                }
            };
            let (below, is_element) = entries.next_value_seed(Node)?;
            if is_element {
                members.push(element.clone());
            }
            children.extend(below.map(|below| (element, below)));
        }
        let is_leaf = members.is_empty() && children.is_empty();
        let below = (!is_leaf).then(|| Set::of_parts(members, children));
        Ok((below, is_member || is_leaf))
    }
}
