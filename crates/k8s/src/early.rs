//! Reading the beginning of a JSON text. Go writes an object's `kind`, `apiVersion` and `metadata` before all else,
//! so what identifies an object costs little, however long the object is.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

/// The value at a path of keys; `None` if there is none. What stands behind it is not read, wherever it is not needed
/// for finding it.
///
/// # Errors
/// If what is read is no JSON, or the value is not of its type, or something on the way to it is no object.
pub fn early<'de, T: Deserialize<'de>>(
    json: &'de str,
    path: &[&str],
) -> Result<Option<T>, serde_json::Error> {
    let mut found = None;
    let descent = Descent { path, found: &mut found };
    let read = descent.deserialize(&mut serde_json::Deserializer::from_str(json));
    match found {
        // The parser calls what it was not asked to read an error, which it is not.
        Some(value) => Ok(Some(value)),
        None => read.map(|()| None),
    }
}

/// Goes down one key after the other, and stops where the last one leads.
struct Descent<'p, T> {
    path: &'p [&'p str],
    found: &'p mut Option<T>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Descent<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.path.is_empty() {
            *self.found = Some(T::deserialize(deserializer)?);
            return Ok(());
        }
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Descent<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((first, rest)) = self.path.split_first() else { return Ok(()) };
        while let Some(Key(key)) = map.next_key()? {
            if key == *first {
                // Fails where it has found the value, because the parser is then stopped half-way.
                map.next_value_seed(Descent { path: rest, found: self.found })?;
                if self.found.is_some() {
                    return Ok(());
                }
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Borrowed unless it has escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn name(json: &str) -> Result<Option<String>, String> {
        early(json, &["metadata", "name"]).map_err(|error| error.to_string())
    }

    /// C3, C80: a value is found wherever it stands, and nothing behind it is read.
    #[test]
    fn a_value_is_read_and_nothing_behind_it() {
        let found = Ok(Some("n".to_owned()));
        assert_eq!(name(r#"{"kind":"K","metadata":{"uid":"u","name":"n","labels":"#), found);
        assert_eq!(name(r#"{"spec":{"name":[1]},"met\u0061data":{"name":"n"}}"#), found);
    }

    /// C4: what is missing is told apart from what can't be read.
    #[test]
    fn what_is_missing_is_none_and_what_is_malformed_an_error() {
        for missing in ["{}", r#"{"metadata":{}}"#, r#"{"metadata":{"uid":"u"},"spec":{}}"#] {
            assert_eq!(name(missing), Ok(None), "{missing}");
        }
        for malformed in [
            "",
            "[]",
            r#"{"metadata":null}"#,
            r#"{"metadata":{"name":7}}"#,
            r#"{"spec":"#,
            r#"{"metadata":{"uid":"u"}"#,
        ] {
            assert!(name(malformed).is_err(), "{malformed}");
        }
    }
}
